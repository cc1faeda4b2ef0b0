"""Beliefs about a victim's secret: of the learner, of the attacker, of random worlds."""
