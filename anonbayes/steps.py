"""PyMC step methods for released tables: use them in ``pm.sample(step=[...])``.

Horizontal tables need `HorizontalStep` only. For vertical tables `vertical_steps` puts the steps of
a table's model together; the single steps are here for models of one's own. They take the table as
a plain layout, ``layout_of(table)``.
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
