"""Reports that stand for a set of values: subset selection, and Hadamard response."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from anonbayes import estimation
from anonbayes.arrays import Floats, Ints, Mask, read_numbers
from anonbayes.channels.base import (
    MAX_MATRIX,
    ReportEvidence,
    by_appearance,
    check_matrix_size,
    whole_reports,
)
from anonbayes.channels.pure import PureChannel
from anonbayes.channels.randomness import Codes, Seed, Source, limit, stream, words
from anonbayes.channels.reports import BitReports, single
from anonbayes.channels.unary import OnesChannel
from anonbayes.domains import Domain, code_dtype
from anonbayes.errors import ChannelError
from anonbayes.estimation.closed_forms import shares_of
from anonbayes.notions.ldp import Description, check_epsilon

if TYPE_CHECKING:
    from anonbayes.estimation.likelihood import HadamardLikelihood, MixtureLikelihood

# Number of random keys drawn at a time while subsets are made.
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

    keeps = ()

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

    def _draw(self, codes: Ints, source: Source) -> BitReports:
        """Draw a set for each value (codes), as the raised bits of a report."""
        size, n = len(self.domain), len(codes)
        chosen = np.empty((n, self.d), dtype=code_dtype(size))
        step = max(1, CHUNK // size)
        for start in range(0, n, step):
            own = codes[start : start + step]
            inside, others = self._sets_of(len(own), source)
            row, member = np.nonzero(others)
            bits = np.zeros((len(own), size), dtype=bool)
            bits[row, member + (member >= own[row])] = True
            bits[np.arange(len(own)), own] = inside
            chosen[start : start + step] = np.nonzero(bits)[1].reshape(-1, self.d)
        return BitReports.trusted(np.arange(n + 1) * self.d, chosen.ravel(), size)

    def _sets_of(self, n: int, source: Source) -> tuple[Mask, Mask]:
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

    def reporter(self, *, seed: Seed = None) -> Callable[[object], bytes]:
        """Return a function that reports one value, as one byte (0 or 1) per bit."""
        codes, source, many = Codes(self.domain), self._source(seed, "reporter"), 16

        def draw() -> list[tuple[bytes, bytes]]:
            nonlocal many  # increases, because most devices report only once
            many = min(2 * many, 2048, max(1, CHUNK // len(self.domain)))
            drawn = zip(*self._sets_of(many, source), strict=True)
            return [(b"\1" if own else b"\0", row.tobytes()) for own, row in drawn]

        rows = stream(draw)

        def report(value: object) -> bytes:
            code = codes[value] if type(value) is codes.kind else codes.index(value)
            own, others = next(rows)
            return others[:code] + own + others[code:]

        return report

    # -- the analyst -----------------------------------------------------------------------------

    def read(self, reports: object) -> BitReports:
        """Return the reports as `BitReports`; each must raise ``d`` bits."""
        bits = super().read(reports)
        wrong = np.flatnonzero(np.diff(bits.indptr) != self.d)
        if len(wrong):
            raise ChannelError(
                f"{self!r} cannot produce report {wrong[0]}: it contains "
                f"{len(bits[int(wrong[0])])} values, not {self.d}."
            )
        return bits

    def likelihood(self, reports: object) -> MixtureLikelihood:
        """Likelihood of the distribution; all values outside a set are equally likely."""
        return self._rows(self.read(reports))

    def _rows(self, bits: BitReports) -> MixtureLikelihood:
        return estimation.likelihood.MixtureLikelihood.of_rows(
            bits.indptr,
            bits.indices,
            len(self.domain),
            floor=math.exp(-self.epsilon),
            gain=-math.expm1(-self.epsilon),
            log_scale=self._log_probability,
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
        labels = self.domain.labels
        return Description(f"a set with {labels[x]} and without {labels[other]}")

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


class HadamardResponse(PureChannel):
    """Hadamard response (Acharya, Sun and Zhang 2019, with one block): a number below ``B``.

    ``B`` is the least power of two above ``K``. Value ``x`` owns row ``x + 1`` of the Hadamard
    matrix of order ``B``, and is supported by the half of the columns where that row is +1. With
    ``e = exp(epsilon)`` a column that supports the value is reported with probability
    ``2 e / (B (e + 1))``, any other with ``2 / (B (e + 1))``: epsilon-LDP. Rows are orthogonal, so
    half of the columns that support one value support another: ``hit = e / (e + 1)`` and
    ``miss = 1/2``. A report takes ``log2 B`` bits, and a server counts ``n`` reports in
    ``O(n + K log K)`` by a fast transform. For small budgets it is as accurate as the best
    mechanisms; from about ``epsilon = 1.5``, others are more accurate (`choose_channel`).

    Parameters
    ----------
    domain : Domain
        The values.
    epsilon : float
        Budget, finite and not negative.

    Examples
    --------
    >>> import anonbayes as ab
    >>> channel = ab.HadamardResponse(ab.Domain("x", "abc"), epsilon=1.0)
    >>> channel.release(["a", "b", "c"], seed=1).tolist()
    [1, 0, 2]
    >>> channel.satisfies(ab.LDP(1.0)).holds
    True
    >>> channel.counts([2, 1, 0, 0]).tolist()
    [3, 3, 2]
    """

    keeps = ()

    def __init__(self, domain: Domain, epsilon: float) -> None:
        self.domain, self.epsilon = domain, check_epsilon(epsilon)
        self.columns = 1 << len(domain).bit_length()
        size, shrink = (len(domain),), math.exp(-self.epsilon)
        self._own = 1.0 / (1.0 + shrink)
        self.hit: Floats = np.broadcast_to(self._own, size)
        self.miss: Floats = np.broadcast_to(0.5, size)

    # -- the user's device -----------------------------------------------------------------------

    def _draw(self, codes: Ints, source: Source) -> Ints:
        """Draw a column for each value (codes), a number from 0 to ``B - 1``."""
        rows = codes + 1
        column = source.integers(0, self.columns, len(rows))
        inside = source.random(len(rows)) < self._own
        # Flipping a bit that the row has takes one half of the columns one-to-one to the other.
        turn = odd(rows & column) == inside
        return np.where(turn, column ^ (rows & -rows), column)

    def reporter(self, *, seed: Seed = None) -> Callable[[object], int]:
        """Return a function that reports one value; see `Channel.reporter`."""
        codes = Codes(self.domain)
        kind, index, draw = codes.kind, codes.index, words(self._source(seed, "reporter"))
        last, inside = self.columns - 1, limit(self._own)

        def report(value: object) -> int:
            row = 1 + (codes[value] if type(value) is kind else index(value))
            column = next(draw) & last
            if bool((row & column).bit_count() & 1) == (next(draw) < inside):
                column ^= row & -row
            return column

        return report

    # -- the analyst -----------------------------------------------------------------------------

    def read(self, reports: object) -> Ints:
        """Return the reports as an array; raise `ChannelError` for one that is not a column."""
        array = read_numbers("reports", single(reports), error=ChannelError)
        if array.ndim != 1:
            raise ChannelError(
                f"Reports must be a list of numbers, got an array of shape {array.shape}."
            )
        return whole_reports(self, array, self.columns)

    def counts(self, reports: object) -> Ints:
        """Count the reports that support each value, by a fast Walsh-Hadamard transform."""
        seen = np.bincount(self.read(reports), minlength=self.columns)
        turned = estimation.likelihood.walsh_hadamard(seen)
        counted: Ints = (turned[0] + turned[1 : len(self.domain) + 1]) // 2
        return counted

    def fast_likelihood(self, reports: object) -> HadamardLikelihood:
        """Likelihood of the distribution, in ``O(K log K)`` per pass."""
        return estimation.likelihood.HadamardLikelihood(
            weights=np.bincount(self.read(reports), minlength=self.columns),
            theta=math.tanh(self.epsilon / 2),
            rows=np.arange(1, len(self.domain) + 1),
        )

    def likelihood(self, reports: object) -> MixtureLikelihood:
        """Likelihood of the distribution, with a row for each distinct report."""
        seen = np.bincount(self.read(reports), minlength=self.columns)
        column = np.flatnonzero(seen)
        return self._rows(column, seen[column])

    def _rows(self, column: Ints, weights: Ints | None = None) -> MixtureLikelihood:
        size = len(self.domain)
        if len(column) * size > MAX_MATRIX:
            raise ChannelError(
                f"The likelihood of {len(column)} distinct reports of {self!r} has more than "
                f"{MAX_MATRIX} entries; use method='mle' or 'shrinkage', which do not need it."
            )
        inside = ~odd(column[:, None] & np.arange(1, size + 1))
        return estimation.likelihood.MixtureLikelihood.of_rows(
            np.concatenate([[0], np.cumsum(inside.sum(axis=1))]),
            np.nonzero(inside)[1],
            size,
            floor=math.exp(-self.epsilon),
            gain=-math.expm1(-self.epsilon),
            weights=weights,
            log_scale=math.log(2.0 * self._own / self.columns),
        )

    def evidence(self, reports: object) -> ReportEvidence:
        """Likelihood vector of the true value behind each report."""
        codes, distinct = by_appearance(self.read(reports))
        return ReportEvidence(codes, distinct.tolist(), self._rows(distinct).matrix())

    def matrix(self) -> Floats:
        """``Q``, shape (K, B)."""
        check_matrix_size(self, self.columns)
        rows = np.arange(1, len(self.domain) + 1)[:, None]
        own = 2.0 * self._own / self.columns
        return np.where(odd(rows & np.arange(self.columns)), own * math.exp(-self.epsilon), own)

    def apply(self, p: npt.ArrayLike) -> Floats:
        """Distribution of the reports, ``p Q``, in ``O(K log K)``."""
        return self.fast_likelihood(np.zeros(0)).probabilities(shares_of(p, self.domain))

    # -- guarantees ------------------------------------------------------------------------------

    def describe_report(self, x: int, other: int) -> int:
        """Return a column that supports `x` and not `other`."""
        own, row = x + 1, other + 1
        only = row & ~own
        if only:
            return only & -only
        # If all bits of the other row are in the own one: take one of them and one of the rest.
        return (row & -row) | (own ^ row) & -(own ^ row)

    def total_variation(self) -> float | None:
        """Two rows differ in half of the columns; see `Channel.total_variation`."""
        return math.tanh(self.epsilon / 2) / 2.0 if len(self.domain) > 1 else None

    def common_mass(self) -> float:
        """``sum_y min_x Q(y|x)``: only column 0 supports every value."""
        return self._mass(1)

    def total_maximum(self) -> float:
        """``sum_y max_x Q(y|x)``: with three values or more every column supports some."""
        return self._mass(self.columns - (len(self.domain) < 3))

    def _mass(self, supporting: int) -> float:
        """Total probability of columns if `supporting` of them have that of a supporting one."""
        rest = (self.columns - supporting) * math.exp(-self.epsilon)
        return (supporting + rest) * 2.0 * self._own / self.columns

    # -- reports in files ------------------------------------------------------------------------

    def read_texts(self, texts: Sequence[str], *, where: str = "reports") -> Ints:
        """Parse reports from texts of whole numbers."""
        for row, text in enumerate(texts):
            if not (text.isascii() and text.isdigit() and int(text) < self.columns):
                raise ChannelError(
                    f"{where}, row {row}: {text!r} is not a whole number from 0 to "
                    f"{self.columns - 1}."
                )
        return np.array([int(text) for text in texts], dtype=np.int64)


def odd(words: Ints) -> npt.NDArray[np.bool_]:
    """Whether each number has an odd number of binary ones."""
    folded = words
    for shift in (32, 16, 8, 4, 2, 1):
        folded = folded ^ (folded >> shift)
    return (folded & 1).astype(bool)
