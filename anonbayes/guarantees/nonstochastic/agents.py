"""Several answers about one secret: what they give away together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.errors import ChannelError
from anonbayes.guarantees.nonstochastic import measures
from anonbayes.guarantees.nonstochastic.boxes import Box
from anonbayes.guarantees.nonstochastic.lines import Cells
from anonbayes.guarantees.nonstochastic.outlines import enclosing_balls
from anonbayes.guarantees.nonstochastic.policies import Policy, optimal_policy
from anonbayes.guarantees.nonstochastic.volumes import cell_volumes

__all__ = ["Answer", "JointPolicy", "TrustedAgent", "joint"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class JointPolicy:
    """Several quantized queries answered about the same secret.

    Attributes
    ----------
    policies : tuple of Policy
        The single queries.
    answers : array, shape (n_cells, n_policies)
        The combinations of answers that can occur.
    conditional_log_measures : array, shape (n_cells,)
        Log-volume of the secrets that give each combination.
    errors : array, shape (n_cells,)
        Errors of the volumes, as in `Region`.
    method : str
        How the volumes were found.
    """

    policies: tuple[Policy, ...]
    answers: Floats
    conditional_log_measures: Floats
    errors: Floats
    method: str

    @property
    def box(self) -> Box:
        """Where the secret can be."""
        return self.policies[0].box

    @property
    def dimension(self) -> int:
        """Dimension of the secret."""
        return self.box.dimension

    @property
    def log_measure(self) -> float:
        """Entropy ``h0(X)`` of the secret."""
        return self.box.log_measure

    @property
    def n_components(self) -> int:
        """Number of combinations of answers that can occur."""
        return len(self.answers)

    @property
    def leakage(self) -> float:
        """Joint leakage ``L0(X; Y_1, ..., Y_m)`` in nats."""
        return measures.leakage(self)

    @property
    def maximin_information(self) -> float:
        """Joint maximin information in nats."""
        return measures.maximin_information(self)

    @cached_property
    def radii(self) -> Floats:
        """Radius of the smallest ball around the secrets of each combination."""
        cells = _cells(self.policies)
        bins = [
            np.searchsorted(policy.edges[1:-1], column, side="right")
            for policy, column in zip(self.policies, self.answers.T, strict=True)
        ]
        codes = np.ravel_multi_index(tuple(bins), cells.shape)
        found = enclosing_balls(cells, self.box, codes)
        return np.array([found[c][1] if c in found else np.nan for c in codes.tolist()])

    @property
    def adversary_error(self) -> float:
        """Smallest worst-case error over the combinations, ``d_min`` of Quantize (7)."""
        return float(np.nanmin(self.radii))

    def summary(self) -> pd.DataFrame:
        """One row per combination of answers, the most telling first."""
        frame = pd.DataFrame(
            self.answers, columns=[f"answer {i + 1}" for i in range(len(self.policies))]
        )
        frame["measure"] = np.exp(self.conditional_log_measures)
        frame["error"] = self.errors
        frame["leakage"] = self.log_measure - self.conditional_log_measures
        return frame.sort_values("measure", ignore_index=True)

    def __repr__(self) -> str:
        return (
            f"JointPolicy({len(self.policies)} queries, {self.n_components} combinations, leakage "
            f"{self.leakage:.4g} nats, maximin information {self.maximin_information:.4g} nats, "
            f"{self.method})"
        )


def joint(
    policies: Sequence[Policy],
    *,
    tolerance: float = 1e-10,
    n_lines: int = 8192,
    seed: int | np.random.Generator | None = 0,
) -> JointPolicy:
    """Several policies about the same secret, taken together.

    Leakages do not simply add: two answers can cut the box into corners much smaller than either
    region. The volume of every combination is computed instead.

    Parameters
    ----------
    policies : sequence of Policy
        On the same box.
    tolerance, n_lines, seed
        As in `optimal_policy`.

    Examples
    --------
    Each mean alone leaks log 8; the mean and the difference together more:

    >>> import anonbayes as ab
    >>> ns = ab.nonstochastic
    >>> box = ns.Box.cube(-2, 2, 2)
    >>> mean = ns.optimal_policy([0.5, 0.5], box, gamma=2)
    >>> difference = ns.optimal_policy([0.5, -0.5], box, gamma=2)
    >>> both = ns.joint([mean, difference])
    >>> both.n_components, round(both.leakage, 6)          # log 16: 12 combinations, area 1 or 2
    (12, 2.772589)
    """
    if not policies:
        raise ChannelError("Give at least one policy.")
    box = policies[0].box
    for i, policy in enumerate(policies):
        if policy.box != box:
            raise ChannelError(
                f"Policy {i} is about {policy.box}, the first about {box}; a joint leakage needs "
                "the same secret."
            )
    if len(policies) == 1:
        only = policies[0]
        errors = np.array([region.error for region in only.regions])
        return JointPolicy(
            (only,), only.levels[:, None], only.conditional_log_measures, errors, only.method
        )
    cells = _cells(policies)
    volumes, errors, method = cell_volumes(
        cells, box, tolerance=tolerance, n_lines=n_lines, seed=seed
    )
    # Combinations without volume do not occur; quadrature sees them as slivers of rounding.
    kept = np.flatnonzero(volumes > 1e-13 * box.volume)
    bins = np.unravel_index(kept, cells.shape)
    answers = np.stack(
        [
            ((policy.edges[:-1] + policy.edges[1:]) / 2)[codes]
            for policy, codes in zip(policies, bins, strict=True)
        ],
        axis=1,
    )
    return JointPolicy(tuple(policies), answers, np.log(volumes[kept]), errors[kept], method)


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
        on the queries only, never on the secret.

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


def _cells(policies: Sequence[Policy]) -> Cells:
    return Cells([p.query for p in policies], [p.edges[1:-1] for p in policies])
