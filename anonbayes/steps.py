"""PyMC step methods for released tables: use them in ``pm.sample(step=[...])``."""

from anonbayes.inference.horizontal.steps import HorizontalStep

__all__ = ["HorizontalStep"]
