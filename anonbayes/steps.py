"""PyMC step methods for released tables, to be used in ``pm.sample(step=[...])``.

Horizontal tables only need `HorizontalStep`. For a vertical table, `vertical_steps` returns all
steps of its model; use the single steps in models of your own. They take the table in the compact
form that ``layout_of(table)`` returns.
"""

from anonbayes.inference.dirichlet_step import DirichletStep, HorizontalStep
from anonbayes.inference.vertical.group_layout import layout_of
from anonbayes.inference.vertical.group_steps import (
    AssignmentCounts,
    VerticalBlockStep,
    VerticalCollapsedStep,
    VerticalPermuteStep,
    VerticalSequentialStep,
    VerticalSubBlockStep,
    VerticalSwapStep,
    VerticalTemperedStep,
    vertical_steps,
)

__all__ = [
    "AssignmentCounts",
    "DirichletStep",
    "HorizontalStep",
    "VerticalBlockStep",
    "VerticalCollapsedStep",
    "VerticalPermuteStep",
    "VerticalSequentialStep",
    "VerticalSubBlockStep",
    "VerticalSwapStep",
    "VerticalTemperedStep",
    "layout_of",
    "vertical_steps",
]
