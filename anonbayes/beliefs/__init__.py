"""Beliefs about a secret: of a learner, of an attacker, and under random worlds."""
