"""Beliefs about a person's secret: of a learner, of an attacker, and under random worlds."""
