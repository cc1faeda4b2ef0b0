"""A trusted agent: answers queries about a secret and keeps account of what they give away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from anonbayes.errors import ChannelError
from anonbayes.guarantees.nonstochastic.boxes import Box
from anonbayes.guarantees.nonstochastic.combined import JointPolicy, joint
from anonbayes.guarantees.nonstochastic.optimal import optimal_policy
from anonbayes.guarantees.nonstochastic.policies import Policy

__all__ = ["Answer", "TrustedAgent"]


@dataclass(frozen=True)
class Answer:
    """A released answer with its guarantee.

    Attributes
    ----------
    value : float
        The answer.
    largest_error : float
        The true value of the query is at most this far away.
    maximin_information, leakage : float
        What the answer can give away, in nats; ``leakage`` is None when the possible secrets are
        not known.
    joint_leakage : float, optional
        What all answers so far can give away together.
    """

    value: float
    largest_error: float
    maximin_information: float
    leakage: float | None = None
    joint_leakage: float | None = None

    def __float__(self) -> float:
        return self.value


class TrustedAgent:
    """Holder of a secret who answers queries and keeps account of what they give away together.

    Parameters
    ----------
    data : array_like of float
        The secret, a point of the box.
    box : Box
        Where the secret can be, as far as everyone knows.
    budget : float, optional
        Largest joint leakage in nats. A query that would exceed it is refused; the refusal depends
        on the queries only, never on the secret. With three coordinates or more and queries that
        are not linear, the joint leakage is an estimate from below (see `joint`): leave a margin.

    Examples
    --------
    >>> import anonbayes as ab
    >>> ns = ab.nonstochastic
    >>> agent = ns.TrustedAgent([0.3, 1.1], ns.Box.cube(-2, 2, 2), budget=2.5)
    >>> reply = agent.answer([0.5, 0.5], gamma=2)
    >>> reply.value, reply.largest_error, round(reply.joint_leakage, 4)
    (0.5, 0.5, 2.0794)
    >>> agent.answer([0.5, 0.5], gamma=2).joint_leakage == reply.joint_leakage   # nothing new
    True
    >>> agent.answer([0.5, -0.5], gamma=2)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    anonbayes.errors.ChannelError: The answers so far and this one could leak 2.773 nats, ...
    """

    def __init__(self, data: npt.ArrayLike, box: Box, *, budget: float | None = None) -> None:
        self._data = np.asarray(data, dtype=float)
        if self._data.shape != (box.dimension,) or not box.contains(self._data):
            raise ChannelError(
                f"The secret must be one point of the box with {box.dimension} coordinates, each "
                "inside its interval."
            )
        if budget is not None and not budget >= 0:
            raise ChannelError(f"budget={budget!r} must not be negative.")
        self.box = box
        self.budget = budget
        self.policies: list[Policy] = []

    @property
    def joint(self) -> JointPolicy | None:
        """All answers so far together; None before the first."""
        return joint(self.policies) if self.policies else None

    @property
    def leakage(self) -> float:
        """Joint leakage of all answers so far, in nats."""
        together = self.joint
        return 0.0 if together is None else together.leakage

    def answer(
        self, query: Any, gamma: float, *, metric: str = "maximin", **settings: Any
    ) -> Answer:
        """Answer `query` with quality `gamma` by the optimal policy (see `optimal_policy`)."""
        policy = optimal_policy(query, self.box, gamma, metric=metric, **settings)
        asked = [*self.policies]
        if not any(_same(policy, earlier) for earlier in asked):
            asked.append(policy)
        together = joint(asked)
        if self.budget is not None and together.leakage > self.budget * (1 + 1e-9):
            raise ChannelError(
                f"The answers so far and this one could leak {together.leakage:.4g} nats, more "
                f"than the budget of {self.budget:.4g}. Ask for less quality (a smaller gamma) or "
                "raise the budget."
            )
        self.policies = asked
        return Answer(
            value=policy.answer(self._data),
            largest_error=1 / policy.quality,
            maximin_information=policy.maximin_information,
            leakage=policy.leakage,
            joint_leakage=together.leakage,
        )

    def __repr__(self) -> str:  # never the secret
        return f"TrustedAgent({self.box}, {len(self.policies)} queries answered)"


def _same(a: Policy, b: Policy) -> bool:
    return a.query == b.query and np.array_equal(a.edges, b.edges)
