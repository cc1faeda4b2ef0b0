"""Subset selection: the report is a set of values that is likely to contain the true one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from anonbayes import estimation
from anonbayes.arrays import Floats, Mask
from anonbayes.channels.base import check_matrix_size
from anonbayes.channels.randomness import Codes, Source, stream
from anonbayes.channels.reports import BitReports
from anonbayes.channels.unary import OnesChannel
from anonbayes.domains import Domain, code_dtype
from anonbayes.errors import ChannelError
from anonbayes.notions.ldp import check_epsilon

if TYPE_CHECKING:
    from anonbayes.estimation.likelihood import MixtureLikelihood

__all__ = ["SubsetSelection"]

# Random keys drawn at a time while subsets are made.
CHUNK = 1 << 20


class SubsetSelection(OnesChannel):
    """Subset selection (Ye and Barg 2018; Wang et al. 2016): a set of ``d`` of the ``K`` values.

    With ``e = exp(epsilon)`` the set contains the true value with probability
    ``d e / (d e + K - d)``; all sets that do are equally likely, and so are all that do not. Each
    set that contains it is ``e`` times as likely as each that does not: epsilon-LDP. With
    ``d = 1`` it is randomized response.

    Parameters
    ----------
    domain : Domain
        The values.
    epsilon : float
        Budget, finite and not negative.
    d : int, optional
        Number of values in a report; by default ``K / (e + 1)``, rounded, at least 1, which no
        other mechanism beats in the worst case.

    Examples
    --------
    >>> import anonbayes as ab
    >>> channel = ab.SubsetSelection(ab.Domain("x", "abcd"), epsilon=1.0, d=2)
    >>> channel.spell(channel.release(["a", "d"], seed=1))
    ['1001', '0011']
    >>> channel.satisfies(ab.LDP(1.0)).holds
    True
    >>> best = ab.SubsetSelection(ab.Domain("x", range(100)), epsilon=1.0)
    >>> best.d, best.worst_case_loss(1) < ab.RAPPOR(best.domain, 1.0).worst_case_loss(1)
    (27, True)
    """

    def __init__(self, domain: Domain, epsilon: float, *, d: int | None = None) -> None:
        self.domain, self.epsilon = domain, check_epsilon(epsilon)
        size = len(domain)
        shrink = math.exp(-self.epsilon)
        if d is None:
            d = max(1, round(size * shrink / (1.0 + shrink)))
        if not isinstance(d, int | np.integer) or isinstance(d, bool) or not 1 <= d <= size:
            raise ChannelError(f"d={d!r} must be a whole number from 1 to {size}.")
        self.d = int(d)
        holds = self.d / (self.d + (size - self.d) * shrink)
        others = max(size - 1, 1)
        shared = (holds * (self.d - 1) + (1.0 - holds) * self.d) / others
        # One number for all values: views without memory.
        self.hit: Floats = np.broadcast_to(holds, (size,))
        self.miss: Floats = np.broadcast_to(shared, (size,))

    # -- the user's device -----------------------------------------------------------------------

    def release_codes(self, codes: npt.NDArray[np.integer[Any]], *, seed: Any = None) -> BitReports:
        """Draw a set for each value (codes), as the raised bits of a report."""
        source, size, n = self._source(seed), len(self.domain), len(codes)
        chosen = np.empty((n, self.d), dtype=code_dtype(size))
        step = max(1, CHUNK // size)
        for start in range(0, n, step):
            own = codes[start : start + step].astype(np.int64)
            inside, others = self._draw(len(own), source)
            row, member = np.nonzero(others)
            bits = np.zeros((len(own), size), dtype=bool)
            bits[row, member + (member >= own[row])] = True
            bits[np.arange(len(own)), own] = inside
            chosen[start : start + step] = np.nonzero(bits)[1].reshape(-1, self.d)
        return BitReports.trusted(np.arange(n + 1) * self.d, chosen.ravel(), size)

    def _draw(self, n: int, source: Source) -> tuple[Mask, Mask]:
        """Whether each of `n` sets has the true value, and bits of all others (Floyd's method)."""
        inside = source.random(n) < self.hit[0]
        others = len(self.domain) - 1
        bits = np.zeros((n, others), dtype=bool)
        for own in (0, 1):
            rows = np.flatnonzero(inside == own)
            for top in range(others - self.d + own, others) if len(rows) else ():
                pick = source.integers(0, top + 1, len(rows))
                bits[rows, np.where(bits[rows, pick], top, pick)] = True
        return inside, bits

    def reporter(self, *, seed: Any = None) -> Callable[[object], bytes]:
        """Return a function that reports one value, as one byte (0 or 1) per bit."""
        codes, source, many = Codes(self.domain), self._source(seed, "reporter"), 16

        def draw() -> list[tuple[bytes, bytes]]:
            nonlocal many  # more each time: most devices report once
            many = min(2 * many, 2048, max(1, CHUNK // len(self.domain)))
            drawn = zip(*self._draw(many, source), strict=True)
            return [(b"\1" if own else b"\0", row.tobytes()) for own, row in drawn]

        rows = stream(draw)

        def report(value: object) -> bytes:
            code = codes[value] if type(value) is codes.kind else codes.index(value)
            own, others = next(rows)
            return others[:code] + own + others[code:]

        return report

    # -- the analyst -----------------------------------------------------------------------------

    def read(self, reports: Any) -> BitReports:
        """Return the reports as `BitReports`; each must raise ``d`` bits."""
        bits = super().read(reports)
        wrong = np.flatnonzero(np.diff(bits.indptr) != self.d)
        if len(wrong):
            raise ChannelError(
                f"{self!r} cannot produce report {wrong[0]}: it contains "
                f"{len(bits[int(wrong[0])])} values, not {self.d}."
            )
        return bits

    def likelihood(self, reports: Any) -> MixtureLikelihood:
        """Likelihood of the distribution; all values outside a set are equally likely."""
        return self._rows(self.read(reports))

    def _rows(self, bits: BitReports) -> MixtureLikelihood:
        size = len(self.domain)
        inside = self._log_probability
        shrink = math.exp(-self.epsilon)
        return estimation.likelihood.MixtureLikelihood(
            weights=np.ones(len(bits), dtype=np.int64),
            floor=np.full(len(bits), shrink),
            log_scale=np.full(len(bits), inside),
            tilt=np.ones(size),
            gain=np.full(size, -math.expm1(-self.epsilon)),
            indptr=bits.indptr,
            indices=bits.indices,
        )

    @property
    def _log_probability(self) -> float:
        """Log-probability of one set that holds the true value, ``hit / C(K-1, d-1)``."""
        size, d = len(self.domain), self.d
        sets = math.lgamma(size) - math.lgamma(d) - math.lgamma(size - d + 1)
        return math.log(self.hit[0]) - sets

    def all_reports(self) -> BitReports:
        """Every set, in lexical order: the columns of `matrix`."""
        size = len(self.domain)
        check_matrix_size(self, math.comb(size, self.d))
        return BitReports.from_ones(itertools.combinations(range(size), self.d), size)

    def matrix(self) -> Floats:
        """``Q``, shape (K, number of sets), columns as in `all_reports`."""
        inside = self.all_reports().to_dense().T == 1
        q = math.exp(self._log_probability)
        return np.where(inside, q, q * math.exp(-self.epsilon))

    # -- guarantees ------------------------------------------------------------------------------

    def log_ratios(self) -> tuple[Floats, Floats]:
        """``epsilon`` and zero: a set with ``x`` and without ``x'``, unless it holds all values."""
        size = len(self.domain)
        own = self.epsilon if self.d < size else 0.0
        return np.broadcast_to(own, (size,)), np.broadcast_to(0.0, (size,))

    def describe_report(self, x: int, other: int) -> str:
        """Describe a report that distinguishes `x` from `other`."""
        return f"a set with {self.domain.labels[x]} and without {self.domain.labels[other]}"

    def with_epsilon(self, epsilon: float) -> SubsetSelection:
        """Return the channel with another budget, and the best number of values for it."""
        return SubsetSelection(self.domain, epsilon)

    def common_mass(self) -> float:
        """``sum_y min_x Q(y|x)``; see `Channel.common_mass`."""
        return self._sets * math.exp(-self.epsilon) if self.d < len(self.domain) else 1.0

    def total_variation(self) -> float | None:
        """Sets with one of two values and without the other; see `Channel.total_variation`."""
        size = len(self.domain)
        if size == 1:
            return None
        apart = (size - self.d) / (size - 1)
        return float(self.hit[0]) * apart * -math.expm1(-self.epsilon)

    def total_maximum(self) -> float:
        """``sum_y max_x Q(y|x)``; see `Channel.total_maximum`."""
        return self._sets

    @property
    def _sets(self) -> float:
        """Number of sets times the probability of one that holds the true value, ``hit K / d``."""
        return float(self.hit[0]) * len(self.domain) / self.d
