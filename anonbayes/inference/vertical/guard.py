"""Keeps PyMC from choosing a sampler of its own for who owns which values."""

from __future__ import annotations

from typing import Any

from pymc.step_methods import STEP_METHODS
from pymc.step_methods.compound import BlockedStep, Competence

from anonbayes.errors import ModelError

__all__ = ["HIDDEN", "guard_assignments"]

HIDDEN = "HiddenAssignment"
"""Name of the distribution of an assignment."""


class AssignmentGuard(BlockedStep):
    """What PyMC picks for an assignment without a step: an error that says how to go on.

    PyMC would take Metropolis on integers, which never proposes a permutation, and the chains
    would stay where they started.
    """

    name = "assignment_guard"

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Ideal for assignments, incompatible with everything else."""
        hidden = getattr(var.owner.op, "name", None) == HIDDEN
        return Competence.IDEAL if hidden else Competence.INCOMPATIBLE

    def __new__(cls, vars: Any, **kwargs: Any) -> AssignmentGuard:  # type: ignore[misc]
        """Refuse."""
        raise ModelError(
            f"The hidden {', '.join(v.name for v in vars)} of a vertical table needs a step of its "
            "own: pm.sample(step=ab.steps.vertical_steps(table))."
        )


def guard_assignments() -> None:
    """Make the guard one of the step methods from which PyMC chooses."""
    if AssignmentGuard not in STEP_METHODS:
        STEP_METHODS.append(AssignmentGuard)
