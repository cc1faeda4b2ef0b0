"""Deterministic channels: generalization and uniform quantization."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from anonbayes import estimation
from anonbayes.arrays import Floats, Ints, read_number, read_whole
from anonbayes.channels.base import (
    Channel,
    ReportEvidence,
    by_appearance,
    check_matrix_size,
    labels_of_texts,
)
from anonbayes.channels.randomness import Seed
from anonbayes.domains import (
    Domain,
    factorize,
    is_series,
    list_of,
    number_place,
    object_array,
    plain,
)
from anonbayes.errors import AnonbayesError, ChannelError, DomainError, nearest
from anonbayes.notions.ldp import Ratios, matrix_ratios

if TYPE_CHECKING:
    from scipy import sparse

    from anonbayes.estimation.likelihood import MixtureLikelihood

# Relative excess of a width over ``2/gamma`` that counts as rounding; largest number of bins.
SLACK = 1e-9
MOST_BINS = 1_000_000


# -------------------------------------------------------------------------------------------------
# Generalization: each value is released as the label of its cell.


class Generalization(Channel):
    """Deterministic channel: the report is the label of the value's cell.

    Parameters
    ----------
    domain : Domain
        The true values.
    cells : mapping or sequence
        Label of each value's cell: ``{value: label}``, or one label per value in domain order.

    Notes
    -----
    It hides values within a cell perfectly and cells not at all, so it satisfies no finite LDP
    budget unless there is a single cell. Its likelihood says nothing about the split inside a cell:
    ``method="mle"`` spreads a cell's share evenly, ``method="bayes"`` according to the prior.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("zip", ["45501", "45502", "55501"])
    >>> channel = ab.Generalization(domain, ["4550*", "4550*", "5550*"])
    >>> channel.release(["45502", "55501"]).tolist()
    ['4550*', '5550*']
    >>> channel.estimate(["4550*", "4550*", "5550*", "5550*"]).p.tolist()
    [0.25, 0.25, 0.5]
    """

    def __init__(self, domain: Domain, cells: Mapping[Any, Hashable] | Sequence[Hashable]) -> None:
        self.domain = domain
        if isinstance(cells, Mapping):
            missing = [value for value in domain if value not in cells]
            if missing:
                raise DomainError(f"Value {missing[0]!r} of {domain.name!r} has no cell.")
            labels = [cells[value] for value in domain]
        else:
            labels = list_of("cells", cells)
            if len(labels) != len(domain):
                raise DomainError(
                    f"There are {len(labels)} cell labels for {len(domain)} values of "
                    f"{domain.name!r}."
                )
        self._index: dict[Any, int] = {}
        codes = []
        for label in labels:
            try:
                codes.append(self._index.setdefault(label, len(self._index)))
            except TypeError:  # a list, or a number that cannot be hashed
                raise DomainError(
                    f"{label!r} cannot be the label of a cell; use a string."
                ) from None
        self.codes: Ints = np.array(codes, dtype=np.int64)
        self.cells: tuple[Any, ...] = tuple(self._index)
        self.epsilon = 0.0 if len(self.cells) == 1 else float("inf")

    @classmethod
    def at_level(cls, domain: Domain, level: int) -> Generalization:
        """Release each value as its label at a level of the domain's hierarchy (0: itself).

        Examples
        --------
        >>> import anonbayes as ab
        >>> codes = ["45501", "45502", "55501"]
        >>> domain = ab.Domain("zip", codes, ab.Hierarchy.from_prefix(codes))
        >>> Generalization.at_level(domain, 1).cells
        ('4550*', '5550*')
        """
        tree = domain.hierarchy
        if tree is None:
            raise DomainError(f"Domain {domain.name!r} has no hierarchy to generalize with.")
        if not 0 <= level < tree.depth:
            raise DomainError(
                f"level={level} does not exist; the hierarchy of {domain.name!r} has levels 0 to "
                f"{tree.depth - 1}."
            )
        place = {str(leaf): i for i, leaf in enumerate(tree.leaves)}
        return cls(domain, [tree.label(place[str(value)], level) for value in domain])

    def release(self, values: Iterable[object], *, seed: Seed = None) -> npt.NDArray[Any]:
        """Release the label of each value's cell; nothing is random, so `seed` has no effect."""
        return object_array(self.cells)[self.codes[self._encode(values)]]

    def report_codes(self, reports: object) -> Ints:
        """Cell of each report; raise `ChannelError` for a label that is not a cell."""
        codes, distinct = factorize(reports, where="Reports")
        lookup = np.empty(len(distinct), dtype=np.int64)
        for i, label in enumerate(distinct):
            cell = self._index.get(label)
            if cell is None:
                row = int(np.argmax(codes == i))
                raise ChannelError(
                    f"Report {row}: {label!r} is not a cell of {self.domain.name!r}. "
                    f"{nearest(label, self.cells)}"
                )
            lookup[i] = cell
        return lookup[codes]

    def matrix(self) -> Floats:
        """``Q``, shape (K, number of cells): ones and zeros."""
        check_matrix_size(self, len(self.cells))
        return np.asarray(self._membership.toarray().T)

    @property
    def _membership(self) -> sparse.csr_array:
        from scipy import sparse

        size = len(self.domain)
        ones = np.ones(size)
        return sparse.csr_array(
            (ones, (self.codes, np.arange(size))), shape=(len(self.cells), size)
        )

    def likelihood(self, reports: object) -> MixtureLikelihood:
        """Likelihood of the distribution: the probability of each reported cell."""
        rows = self._membership
        return estimation.likelihood.MixtureLikelihood.of_rows(
            rows.indptr.astype(np.int64),
            rows.indices,
            len(self.domain),
            floor=0.0,
            gain=1.0,
            weights=np.bincount(self.report_codes(reports), minlength=len(self.cells)),
        )

    def evidence(self, reports: object) -> ReportEvidence:
        """Values that each report allows."""
        codes, seen = by_appearance(self.report_codes(reports))
        return ReportEvidence(codes, [self.cells[i] for i in seen], self._membership[seen])

    def ratios(self, *, protected: bool = False) -> Iterable[Ratios]:
        """Log ratios of each cell; see `Channel.ratios`."""
        return matrix_ratios(self.matrix(), self.cells, protected=protected)

    def read_texts(self, texts: Sequence[str], *, where: str = "reports") -> list[Any]:
        """Parse labels of cells from texts."""
        return labels_of_texts(texts, self.cells, where)


# -------------------------------------------------------------------------------------------------
# The uniform quantizer: a number is released as the midpoint of its bin.


class UniformQuantizer(Generalization):
    """Bins of equal width; the report is the midpoint of the bin (Quantize Def. IV.1).

    It is deterministic: a report has probability one for the values in its bin and zero for all
    others. Of all deterministic reports of the same quality, it reveals the least (Quantize Thm.
    IV.2).

    Parameters
    ----------
    lower, upper : float
        Range of the numbers.
    bins : int
        Number of bins, ``[a_i, a_(i+1))``; the last one includes `upper`.
    domain : Domain, optional
        The true values, for tables and estimates: numbers inside the range. By default the true
        values are only distinguished by their bins, and the domain consists of the levels.

    Examples
    --------
    >>> import anonbayes as ab
    >>> ages = ab.Domain("age", range(0, 100))
    >>> quantizer = ab.UniformQuantizer(0, 100, 10, domain=ages)
    >>> reports = quantizer.release([3, 10, 99])
    >>> reports.tolist()
    [5.0, 15.0, 95.0]
    >>> codes, labels, matrix = quantizer.evidence(reports)
    >>> ages.decode(matrix[[0]].indices).tolist()      # who can be behind the first report
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]

    How much a report can reveal, in nats, and its largest error:

    >>> round(ab.nonstochastic.leakage(quantizer), 4), 1 / quantizer.quality
    (2.3026, 5.0)
    """

    def __init__(
        self, lower: float, upper: float, bins: int, *, domain: Domain | None = None
    ) -> None:
        self.lower, self.upper = _ends(lower, upper, ChannelError)
        self.bins = read_whole("bins", bins, least=1, most=MOST_BINS, error=ChannelError)
        self.edges: Floats = np.linspace(self.lower, self.upper, self.bins + 1)
        self.levels: Floats = (self.edges[:-1] + self.edges[1:]) / 2
        known = Domain("value", self.levels.tolist()) if domain is None else domain
        bin_of_value = self._bins(known.numbers, f"domain {known.name!r}")
        super().__init__(known, self.levels[bin_of_value].tolist())
        self._cell_of_bin = np.full(self.bins, -1, dtype=np.int64)  # -1: no value of the domain
        self._cell_of_bin[bin_of_value] = self.codes

    @classmethod
    def optimal(
        cls, lower: float, upper: float, gamma: float, *, domain: Domain | None = None
    ) -> UniformQuantizer:
        """Quantizer with the fewest bins whose error is at most ``1/gamma`` (Quantize Thm. IV.2).

        Examples
        --------
        >>> import anonbayes as ab
        >>> ab.UniformQuantizer.optimal(-2, 2, gamma=2).levels.tolist()
        [-1.5, -0.5, 0.5, 1.5]
        """
        return cls(lower, upper, n_bins(lower, upper, gamma), domain=domain)

    # -- the user's device -----------------------------------------------------------------------

    def release(self, values: Iterable[object], *, seed: Seed = None) -> Floats:
        """Release the midpoint of each value's bin.

        Parameters
        ----------
        values : iterable of float
            Numbers inside the range.
        seed
            Not used, because nothing is random; present for a common signature.
        """
        return self.levels[self._bins(values, "values")]

    # -- what a report reveals ---------------------------------------------------------------------

    @property
    def quality(self) -> float:
        """One over the largest error of a report (Quantize (11))."""
        return 2 * self.bins / (self.upper - self.lower)

    # -- the analyst -------------------------------------------------------------------------------

    def report_codes(self, reports: object) -> Ints:
        """Cell of each report; raise `ChannelError` for one that no value produces."""
        bins = self._report_bins(reports)
        cells = self._cell_of_bin[bins]
        if np.any(cells < 0):
            row = int(np.argmin(cells))
            low, high = self.edges[bins[row]], self.edges[bins[row] + 1]
            raise ChannelError(
                f"Report {row} is {self.levels[bins[row]]:g}, but no value of domain "
                f"{self.domain.name!r} lies in its bin [{low:g}, {high:g}). Add the missing values "
                "to the domain, or use fewer bins."
            )
        return cells

    def _report_bins(self, reports: object) -> Ints:
        numbers = number_list("reports", reports)
        width = (self.upper - self.lower) / self.bins
        codes = np.clip(np.rint((numbers - self.levels[0]) / width), 0, self.bins - 1).astype(int)
        wrong = np.abs(numbers - self.levels[codes]) > 1e-6 * width
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ChannelError(
                f"Report {row} is {numbers[row]:g}, which is not the midpoint of a bin; the "
                f"nearest is {self.levels[codes[row]]:g}. Use release() to turn raw numbers into "
                f"reports."
            )
        return codes.astype(np.int64)

    def intervals(self, reports: Iterable[object]) -> npt.NDArray[np.object_]:
        """Bin of each report as a `pandas.Interval`, the form in which tables show it.

        Examples
        --------
        >>> quantizer = UniformQuantizer(0, 30, 3)
        >>> print(*quantizer.intervals([5, 25]))
        [0.0, 10.0) [20.0, 30.0]
        """
        import pandas as pd

        bins = np.empty(self.bins, dtype=object)
        for i in range(self.bins):
            ends = float(self.edges[i]), float(self.edges[i + 1])
            last = i == self.bins - 1
            bins[i] = pd.Interval(*ends, "both") if last else pd.Interval(*ends, "left")
        return bins[self._report_bins(reports)]

    def __repr__(self) -> str:
        return f"UniformQuantizer({self.lower:g}, {self.upper:g}, {self.bins})"

    def _bins(self, values: Iterable[object], what: str) -> Ints:
        numbers = number_list(what, values)
        outside = ~((numbers >= self.lower) & (numbers <= self.upper))
        if outside.any():
            row = int(np.argmax(outside))
            raise ChannelError(
                f"{what}[{row}] = {numbers[row]:g} lies outside the range [{self.lower:g}, "
                f"{self.upper:g}] of the quantizer."
            )
        return np.searchsorted(self.edges[1:-1], numbers, side="right").astype(np.int64)


class BinnedDomain(Domain):
    """Bins of equal width in a bounded range: an ordered domain for all numbers in the range.

    The values are the midpoints of the bins. Any number in the range, or its text, belongs to a bin
    ``[a_i, a_(i+1))``; the last bin includes the upper end.

    Parameters
    ----------
    name : str
        Name of the attribute.
    lower, upper : float
        The range.
    bins : int
        Number of bins.

    Examples
    --------
    >>> import anonbayes as ab
    >>> income = ab.BinnedDomain("income", 0, 5000, 5)
    >>> income.values, income.find(1999.5), income.encode([0, 2500, 5000]).tolist()
    ((500, 1500, 2500, 3500, 4500), 1, [0, 2, 4])
    >>> income.labels[1], income.find("[1000, 2000)")
    ('[1000, 2000)', 1)
    """

    lower: float
    upper: float

    def __init__(self, name: str, lower: float, upper: float, bins: int) -> None:
        least, most = _ends(lower, upper, DomainError)
        number = read_whole("bins", bins, least=1, error=DomainError)
        edges = np.linspace(least, most, number + 1)
        object.__setattr__(self, "lower", least)
        object.__setattr__(self, "upper", most)
        object.__setattr__(self, "edges", edges)
        super().__init__(name, ((edges[:-1] + edges[1:]) / 2).tolist())

    @cached_property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        """The bins as texts, such as ``[0, 10)``."""
        ends = [f"{end:.12g}" for end in self.edges.tolist()]  # type: ignore[attr-defined]
        last = len(ends) - 2
        return tuple(
            f"[{ends[i]}, {ends[i + 1]}{']' if i == last else ')'}" for i in range(last + 1)
        )

    def renamed(self, name: str) -> BinnedDomain:
        """Return the same bins under another attribute name."""
        return BinnedDomain(name, self.lower, self.upper, len(self))

    def find(self, value: object) -> int | None:
        """Return the bin of a number, of its text, or of the bin's own label."""
        item = plain(value)
        number = number_place(item)
        if number is None:
            return self.by_label.get(item) if isinstance(item, str) else None
        if not self.lower <= number <= self.upper:
            return None
        return int(self._bins(np.array([number]))[0])

    def _known(self, value: object) -> str:
        return f"It holds the numbers from {self.lower:g} to {self.upper:g}."

    def encode(self, values: Iterable[object]) -> Ints:
        """Bins of many numbers; raise `DomainError` naming the first row outside the range."""
        items = arrayed(values)
        array = np.asarray(items)
        if array.ndim == 1 and array.dtype.kind in "iuf":
            inside = (array >= self.lower) & (array <= self.upper)
            if inside.all():
                return self._bins(array.astype(float))
        codes = [self.find(value) for value in items]
        if None in codes:
            row = codes.index(None)
            raise DomainError(
                f"Column {self.name!r}, row {row}: {plain(array[row])!r} is not in the domain. "
                f"{self._known(array[row])}"
            )
        return np.array(codes, dtype=np.int64)

    def _bins(self, numbers: Floats) -> Ints:
        inner = self.edges[1:-1]  # type: ignore[attr-defined]
        return np.searchsorted(inner, numbers, side="right").astype(np.int64)


def n_bins(lower: float, upper: float, gamma: float) -> int:
    """Bins of the optimal quantizer, ``ceil(gamma (upper-lower)/2)`` (Quantize Thm. IV.2)."""
    check_gamma(gamma)
    if not (math.isfinite(lower) and math.isfinite(upper) and lower <= upper):
        raise ChannelError(f"The range [{lower:g}, {upper:g}] is not a bounded interval.")
    wanted = gamma * (upper - lower) / 2
    if wanted > MOST_BINS:
        raise ChannelError(
            f"gamma={gamma:g} on [{lower:g}, {upper:g}] needs {wanted:.3g} bins, but at most "
            f"{MOST_BINS:,} are possible. Accept a larger error, that is, a smaller gamma."
        )
    return max(1, math.ceil(wanted * (1 - SLACK)))


def check_gamma(gamma: float) -> None:
    """Raise `ChannelError` unless the quality of an answer is a positive number."""
    if not 0 < read_number("gamma", gamma, error=ChannelError) < math.inf:
        raise ChannelError(
            f"gamma={gamma!r} must be a positive number: 1/gamma is the largest error."
        )


def _ends(lower: float, upper: float, error: type[AnonbayesError]) -> tuple[float, float]:
    least = read_number("lower", lower, error=error)
    most = read_number("upper", upper, error=error)
    if not (math.isfinite(least) and math.isfinite(most) and least < most):
        raise error(f"lower={lower!r} and upper={upper!r} must be finite, with lower below upper.")
    return least, most


def arrayed(values: Iterable[object]) -> Sequence[object] | npt.NDArray[np.generic]:
    """Return arrays, and columns of frames as arrays; anything else as a list."""
    return (
        np.asarray(values) if isinstance(values, np.ndarray) or is_series(values) else list(values)
    )


def number_list(argument: str, values: object) -> Floats:
    """Numbers, or their texts, in one column; raise `ChannelError` for anything else."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ChannelError(f"{argument}={values!r} is not a list of numbers.")
    try:
        numbers = np.asarray(arrayed(values), dtype=float)
    except (TypeError, ValueError, OverflowError) as reason:
        raise ChannelError(f"{argument} must be a list of numbers: {reason}.") from None
    if numbers.ndim != 1:
        raise ChannelError(
            f"{argument} must be a list of numbers, got an array of shape {numbers.shape}."
        )
    return numbers
