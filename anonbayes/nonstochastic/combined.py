"""Several policies and several agents together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.arrays import Codes, Floats
from anonbayes.channels.coarsening import UniformQuantizer
from anonbayes.errors import ChannelError
from anonbayes.nonstochastic import ranges
from anonbayes.nonstochastic.geometry import Box, LinearQuery, linear_cells, smallest_enclosing_ball
from anonbayes.nonstochastic.policies import Policy, optimal_policy, quantized_query
from anonbayes.nonstochastic.ranges import write_json
from anonbayes.nonstochastic.regions import Cells, cell_volumes, enclosing_balls

__all__ = ["Answer", "JointPolicy", "TrustedAgent", "joint", "quantized_answer"]


# -------------------------------------------------------------------------------------------------
# Several quantized queries about one secret: what their answers give away together.


@dataclass(frozen=True, eq=False)
class JointPolicy:
    """Several quantized queries answered about the same secret.

    Attributes
    ----------
    policies : tuple of Policy
        The single queries.
    bins : array of int, shape (n_combinations, n_policies)
        The combinations of bins that can occur.
    conditional_log_measures : array, shape (n_combinations,)
        Log-volume of the secrets that give each combination.
    errors : array, shape (n_combinations,)
        Errors of the volumes, as in `Region`; infinite where only a lower bound is known.
    method : str
        How the volumes were found: "exact", "quadrature" or "quasi-Monte Carlo".
    """

    policies: tuple[Policy, ...]
    bins: Codes
    conditional_log_measures: Floats
    errors: Floats
    method: str
    corners: tuple[Floats, ...] | None = field(default=None, repr=False)

    @property
    def answers(self) -> Floats:
        """The answers of each combination, shape (n_combinations, n_policies)."""
        columns = [
            ((policy.edges[:-1] + policy.edges[1:]) / 2)[codes]
            for policy, codes in zip(self.policies, self.bins.T, strict=True)
        ]
        return np.stack(columns, axis=1)

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
        return len(self.bins)

    @property
    def leakage(self) -> float:
        """Joint leakage ``L0(X; Y_1, ..., Y_m)`` in nats."""
        return ranges.leakage(self)

    @property
    def maximin_information(self) -> float:
        """Joint maximin information in nats."""
        return ranges.maximin_information(self)

    @cached_property
    def radii(self) -> Floats:
        """Radius of the smallest ball around the secrets of each combination."""
        if self.corners is not None:
            return np.array([smallest_enclosing_ball(points)[1] for points in self.corners])
        cells = _cells(self.policies)
        codes = np.ravel_multi_index(tuple(self.bins.T), cells.shape)
        found = enclosing_balls(cells, self.box, codes)
        return np.array([found[c][1] if c in found else np.nan for c in codes.tolist()])

    @property
    def adversary_error(self) -> float:
        """Smallest worst-case error over the combinations, ``d_min`` of Quantize (7)."""
        return min(self.radii[~np.isnan(self.radii)].tolist(), default=math.nan)

    def summary(self) -> pd.DataFrame:
        """One row per combination of answers, the most telling first."""
        frame = pd.DataFrame(
            self.answers, columns=[f"answer {i + 1}" for i in range(len(self.policies))]
        )
        with np.errstate(over="ignore"):
            frame["measure"] = np.exp(self.conditional_log_measures)
        frame["error"] = self.errors
        frame["leakage"] = self.log_measure - self.conditional_log_measures
        return frame.sort_values("leakage", ascending=False, ignore_index=True)

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the combinations and the measures as JSON text; write it to `path` if given."""
        content = {
            "queries": len(self.policies),
            "method": self.method,
            "leakage": self.leakage,
            "maximin_information": self.maximin_information,
            "combinations": self.summary(),
        }
        return write_json(content, path)

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.summary().to_html(index=False, max_rows=20)}"

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
    region. The volume of every combination is computed instead: exactly for linear queries up to
    six coordinates, as in `optimal_policy` otherwise. Three coordinates or more and a query that
    is not linear: a combination that no line meets is overlooked, so that leakage and maximin
    information are estimates from below; raise `n_lines`.

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
        bins = np.searchsorted(only.edges[1:-1], only.levels, side="right")[:, None]
        errors = np.array([region.error for region in only.regions])
        return JointPolicy((only,), bins, only.conditional_log_measures, errors, only.method)
    if all(isinstance(policy.query, LinearQuery) for policy in policies):
        return _linear_joint(policies, tolerance=tolerance, n_lines=n_lines, seed=seed)
    cells = _cells(policies)
    volumes, errors, method = cell_volumes(
        cells, box, tolerance=tolerance, n_lines=n_lines, seed=seed
    )
    # Combinations without volume do not occur; quadrature sees them as slivers of rounding.
    kept = np.flatnonzero(volumes > 1e-13 * box.volume)
    bins = np.stack(np.unravel_index(kept, cells.shape), axis=1)
    return JointPolicy(tuple(policies), bins, np.log(volumes[kept]), errors[kept], method)


def _linear_joint(
    policies: Sequence[Policy],
    *,
    tolerance: float,
    n_lines: int,
    seed: int | np.random.Generator | None,
) -> JointPolicy:
    """Polytopes as long as their hulls are cheap, else random lines with a floor.

    Above six coordinates a combination that the lines rarely meet gets the volume of its largest
    inscribed ball when that is more: leakage is then never understated for being overlooked.
    """
    queries = [policy.query for policy in policies if isinstance(policy.query, LinearQuery)]
    cells = _cells(policies)
    parts = linear_cells(queries, list(cells.inner_edges), policies[0].box)
    bins = np.array([part.bins for part in parts], dtype=np.intp)
    logs = np.array([part.log_volume for part in parts])
    corners = tuple(part.corners for part in parts if part.corners is not None)
    if len(corners) == len(parts):
        return JointPolicy(tuple(policies), bins, logs, np.zeros(len(parts)), "exact", corners)
    volumes, errors, method = cell_volumes(
        cells, policies[0].box, tolerance=tolerance, n_lines=n_lines, seed=seed
    )
    codes = np.ravel_multi_index(tuple(bins.T), cells.shape)
    with np.errstate(divide="ignore"):
        estimated = np.log(volumes[codes])
    seen = estimated >= logs
    return JointPolicy(
        tuple(policies),
        bins,
        np.where(seen, estimated, logs),
        np.where(seen, errors[codes], math.inf),
        method,
    )


def _cells(policies: Sequence[Policy]) -> Cells:
    return Cells([p.query for p in policies], [p.edges[1:-1] for p in policies])


# -------------------------------------------------------------------------------------------------
# A trusted agent: answers queries about a secret and keeps account of what they give away.


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


def quantized_answer(
    quantizer: UniformQuantizer, query: Any, data: npt.ArrayLike, *, box: Box | None = None
) -> Answer:
    """Answer a scalar query about private data by a quantizer, with its guarantee.

    Parameters
    ----------
    quantizer : UniformQuantizer
        Its range holds the true answer.
    query : callable or list of weights
        The query.
    data : array_like of float
        The secret, one number per coordinate.
    box : Box, optional
        Where the secret can be. With it the guarantee includes the leakage, and a callable must
        work along the last axis, as in `optimal_policy`.

    Notes
    -----
    Several answers about the same data can give away more than each alone. Their joint leakage is
    that of ``joint([quantized_query(query, box, quantizer.edges), ...])``; `TrustedAgent` keeps
    this account.

    Examples
    --------
    >>> import anonbayes as ab
    >>> quantizer = ab.UniformQuantizer.optimal(100, 250, gamma=0.28)
    >>> box = ab.nonstochastic.Box.cube(100, 250, 3)
    >>> reply = quantized_answer(quantizer, [1/3, 1/3, 1/3], [171, 180, 164], box=box)
    >>> round(reply.value, 2), round(reply.largest_error, 2), round(reply.leakage, 2)
    (175.0, 3.57, 7.63)
    """
    secret = np.asarray(data, dtype=float)
    asked = query if callable(query) else LinearQuery(query)
    if isinstance(asked, LinearQuery) and secret.shape != (len(asked.weights),):
        raise ChannelError(
            f"The query has {len(asked.weights)} weights, the data has shape {secret.shape}."
        )
    leakage = None
    if box is not None:
        if secret.shape != (box.dimension,) or not box.contains(secret):
            raise ChannelError(
                f"The data must be a point of the box, with {box.dimension} coordinates."
            )
        leakage = quantized_query(asked, box, quantizer.edges).leakage
    return Answer(
        value=float(quantizer.release([float(asked(secret))])[0]),
        largest_error=1 / quantizer.quality,
        maximin_information=math.log(quantizer.bins),
        leakage=leakage,
    )


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
