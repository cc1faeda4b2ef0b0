"""Local hashing: the value is hashed to few symbols, then reported by randomized response."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from anonbayes import estimation
from anonbayes.arrays import Floats, Ints
from anonbayes.channels.base import (
    Naming,
    ReportEvidence,
    Symbols,
    budget_second,
    check_matrix_size,
    check_reports,
    check_some,
)
from anonbayes.channels.pure import PureChannel
from anonbayes.channels.randomness import Codes, Seed, Source, below, limit, words
from anonbayes.channels.reports import single, whole_numbers
from anonbayes.domains import Domain, IntegerDomain, list_of
from anonbayes.errors import ChannelError, one_of
from anonbayes.estimation import closed_forms
from anonbayes.estimation.closed_forms import Estimate
from anonbayes.notions.ldp import Description, check_epsilon

if TYPE_CHECKING:
    from anonbayes.estimation.likelihood import MixtureLikelihood

# Modulus of hash functions that are not invertible, and the limit for numbers of symbols.
MERSENNE = 2**61 - 1
SMALL = 2**31

# Spelling of a report in a file.
TRIPLE = re.compile(r"([0-9]{1,19})/([0-9]{1,19})/([0-9]{1,19})")

# Most hash evaluations for a likelihood, which take some minutes.
MOST_HASHES = 20_000_000_000


@dataclass(frozen=True, eq=False)
class HashReports:
    """Reports ``(h, y)``: the hash function ``h(x) = ((a x + b) mod p) mod g`` and a symbol.

    Attributes
    ----------
    a, b : ndarray of int, shape (n,)
        The hash function that each user drew; it reveals nothing about the value.
    y : ndarray of int, shape (n,)
        The reported symbol, below ``g``.

    Examples
    --------
    >>> reports = HashReports([3, 0], [1, 4], [0, 4])
    >>> len(reports), reports[:1].y.tolist()
    (2, [0])
    """

    a: Ints
    b: Ints
    y: Ints

    def __post_init__(self) -> None:
        for name in ("a", "b", "y"):
            array = whole_numbers(f"{name} of hash reports", getattr(self, name))
            if array.ndim != 1:
                raise ChannelError(f"{name} of hash reports must be a list of whole numbers.")
            object.__setattr__(self, name, array)
        if not len(self.a) == len(self.b) == len(self.y):
            raise ChannelError(
                f"Hash reports need one a, b and y each; got {len(self.a)}, {len(self.b)} and "
                f"{len(self.y)} of them."
            )

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: Any) -> HashReports | tuple[int, int, int]:
        """Select reports; a single number gives the triple ``(a, b, y)`` of that report."""
        if isinstance(rows, int | np.integer):
            return int(self.a[rows]), int(self.b[rows]), int(self.y[rows])
        return HashReports(self.a[rows], self.b[rows], self.y[rows])

    @classmethod
    def from_triples(cls, rows: Iterable[tuple[int, int, int]]) -> HashReports:
        """Read ``(a, b, y)`` of each report, as a channel's reporter returns them.

        Examples
        --------
        >>> HashReports.from_triples([(3, 1, 0), (0, 4, 4)])[1]
        (0, 4, 4)
        """
        reports = list_of("reports", rows)
        for i, row in enumerate(reports):
            if not isinstance(row, tuple | list) or len(row) != 3:
                raise ChannelError(f"Report {i} must be a triple (a, b, y), got {row!r}.")
        columns = zip(*reports, strict=True) if reports else [np.empty(0, dtype=np.int64)] * 3
        return cls(*map(np.asarray, columns))


class LocalHashing(PureChannel):
    """General local hashing, GLH (PIE (3)): hash to ``g`` symbols, then randomized response.

    Each user draws a hash function ``h`` from a universal family and reports it together with
    ``h(x)``, which is true with probability ``e / (g + e - 1)``, ``e = exp(epsilon)``. It satisfies
    epsilon-LDP. Nothing of the domain's size is ever stored.

    Parameters
    ----------
    domain : Domain or int
        The values, or just their number, in which case they are the integers from 0.
    epsilon : float
        Budget, finite and not negative.
    g : int, optional
        Number of symbols, from 2 to ``2^31 - 1``; by default ``e + 1``, rounded, which minimises
        the variance (optimized local hashing, OLH). A prime that is at least the number of values
        makes the hash functions *invertible*: one value per report supports it, and everything is
        ``O(n)``. See `invertible`.

    Notes
    -----
    ``h(x) = ((a x + b) mod p) mod g`` with ``a, b`` uniform on ``0..p-1``, zero included. With
    ``p = g`` (invertible) two values collide with probability ``1/g`` exactly; otherwise
    ``p = 2^61 - 1``, and it is ``1/g`` to the last digit of a float. So the empirical estimator is
    unbiased, which a family with ``a > 0`` and a small ``p`` would not give.

    Examples
    --------
    >>> import anonbayes as ab
    >>> channel = ab.LocalHashing(10_500_393, epsilon=25.0, g=2_000_000_000)
    >>> reports = channel.release(np.repeat([7, 10_000_000], [800, 200]), seed=1)
    >>> channel.estimate(reports, method="empirical", values=[7, 10_000_000]).p.round(2)
    array([0.8, 0.2])
    """

    keeps = ("g",)

    @budget_second("g", "epsilon")
    def __init__(self, domain: Domain | int, epsilon: float, *, g: int | None = None) -> None:
        self.domain = domain if isinstance(domain, Domain) else IntegerDomain(domain)
        self.epsilon = check_epsilon(epsilon)
        if g is None:
            g = min(max(round(math.exp(min(self.epsilon, 40.0)) + 1.0), 2), SMALL - 1)
        if not isinstance(g, int | np.integer) or isinstance(g, bool) or not 2 <= g < SMALL:
            raise ChannelError(f"g={g!r} must be a whole number from 2 to {SMALL - 1}.")
        self.g = int(g)
        size = len(self.domain)
        if size > MERSENNE:
            raise ChannelError(f"A domain of {size} values is too large for hashing.")
        self.is_invertible = self.has_closed_form = self.g >= size and is_prime(self.g)
        self.prime = self.g if self.is_invertible else MERSENNE
        shrink = float(np.exp(-self.epsilon))
        total = 1.0 + (self.g - 1) * shrink
        #: Probability of the true symbol, of each other one, and their difference (PIE's theta).
        self.own, self.noise = 1.0 / total, shrink / total
        self.theta = -float(np.expm1(-self.epsilon)) / total
        collision = collision_probability(self.prime, self.g)
        # One number for all values: views without memory.
        self.hit: Floats = np.broadcast_to(self.own, (size,))
        self.miss: Floats = np.broadcast_to(self.noise + self.theta * collision, (size,))

    @classmethod
    def invertible(cls, domain: Domain | int, epsilon: float, *, at_least: int = 2) -> LocalHashing:
        """Channel whose ``g`` is the smallest prime not below `at_least` or the domain's size.

        Examples
        --------
        >>> import anonbayes as ab
        >>> ab.LocalHashing.invertible(10_500_393, 16.0).g
        10500421
        """
        size = len(domain) if isinstance(domain, Domain) else int(domain)
        return cls(domain, epsilon, g=next_prime(max(size, at_least, 2)))

    @classmethod
    def optimal(cls, domain: Domain | int, epsilon: float, *, g: int | None = None) -> LocalHashing:
        """Optimized local hashing (OLH), the default of the class when `g` is not given.

        Examples
        --------
        >>> import anonbayes as ab
        >>> ab.LocalHashing.optimal(1000, epsilon=1.0).g
        4
        """
        return cls(domain, epsilon, g=g)

    # -- the user's device -------------------------------------------------------------------

    def _draw(self, codes: Ints, source: Source) -> HashReports:
        n = len(codes)
        a, b = source.integers(0, self.prime, n), source.integers(0, self.prime, n)
        y = hash_pairs(a, b, codes, self.prime, self.g)
        noisy = np.flatnonzero(source.random(n) >= self.theta)
        if len(noisy):
            y[noisy] = source.integers(0, self.g, len(noisy))
        return HashReports(a, b, y)

    def reporter(self, *, seed: Seed = None) -> Callable[[object], tuple[int, int, int]]:
        """Return a function that reports ``(a, b, y)`` of one value; see `Channel.reporter`."""
        codes, prime, g = Codes(self.domain), self.prime, self.g
        kind, index, draw = codes.kind, codes.index, words(self._source(seed, "reporter"))
        stays = limit(self.theta)
        number, symbol = below(prime, draw), below(g, draw)

        def report(value: object) -> tuple[int, int, int]:
            code = codes[value] if type(value) is kind else index(value)
            a, b = next(number), next(number)
            true = next(draw) < stays
            return a, b, (a * code + b) % prime % g if true else next(symbol)

        return report

    # -- the analyst -------------------------------------------------------------------------

    def read(self, reports: object) -> HashReports:
        """Return the reports if this channel can produce them; otherwise raise `ChannelError`."""
        if isinstance(reports, list | np.ndarray):
            reports = HashReports.from_triples(reports)
        if not isinstance(reports, HashReports):
            raise ChannelError(
                f"{self!r} expects HashReports(a, b, y), not {type(reports).__name__}."
            )
        for name, end in (("a", self.prime), ("b", self.prime), ("y", self.g)):
            array = getattr(reports, name)
            if len(array) and (array.min() < 0 or array.max() >= end):
                row = int(np.flatnonzero((array < 0) | (array >= end))[0])
                raise ChannelError(
                    f"Report {row}: {name} = {array[row]} must lie in 0..{end - 1} for {self!r}."
                )
        return reports

    def counts(self, reports: object, *, values: Iterable[object] | None = None) -> Ints:
        """Count the reports that support each value, or each of the candidate `values`.

        With invertible hash functions in ``O(n + K)``, otherwise in ``O(n)`` per value.
        """
        sent = self.read(reports)
        chosen = None if values is None else self._encode(values)
        if self.is_invertible:
            only = estimation.kernels.invert(sent.a, sent.b, sent.y, self.prime)
            everybody = int((only == -1).sum())
            kept = only[(only >= 0) & (only < len(self.domain))]
            if chosen is None:
                return np.bincount(kept, minlength=len(self.domain)) + everybody
            kept.sort()
            first, last = (np.searchsorted(kept, chosen, side=s) for s in ("left", "right"))
            return last - first + everybody
        self._check_effort(len(sent), len(self.domain) if chosen is None else len(chosen))
        codes = np.arange(len(self.domain)) if chosen is None else chosen
        return estimation.kernels.support_counts(sent.a, sent.b, sent.y, codes, self.prime, self.g)

    def estimate(
        self,
        reports: object,
        *,
        method: str = "mle",
        values: Iterable[object] | None = None,
        **settings: Any,
    ) -> Estimate:
        """Estimate the distribution, or the shares of candidate values only.

        Parameters
        ----------
        reports : HashReports
            What `release` returned for many users.
        method : {"mle", "em", "bayes", "empirical", "threshold", "shrinkage"}
            As in `Channel.estimate`. Maximum likelihood is in closed form for invertible hash
            functions.
        values : iterable, optional
            Candidates, for ``"empirical"`` and ``"threshold"``. The threshold is corrected for all
            values of the domain, and candidates below it get zero (PIE 5.3).
        **settings
            Settings of the method.
        """
        if values is None:
            return super().estimate(reports, method=method, **settings)
        one_of("method", method, ("empirical", "threshold"))
        chosen = list_of("values", values)
        return self._estimate_candidates(reports, chosen, method, **settings)

    def _estimate_candidates(
        self,
        reports: object,
        chosen: list[object],
        method: str,
        *,
        alpha: float = 0.05,
        level: float = 0.95,
    ) -> Estimate:
        counts, n = self.counts(reports, values=chosen), len(check_reports(reports))
        check_some(n)
        hit, miss = self.hit[: len(chosen)], self.miss[: len(chosen)]
        p = closed_forms.empirical(counts, n, hit, miss)
        if method == "threshold":
            # Corrected for all values of the domain, not only for the candidates.
            each = alpha / len(self.domain)
            limit = closed_forms.significance_threshold(n, hit[:1], miss[:1], alpha=each)
            p = np.where(p > limit, p, 0.0)
        return Estimate(
            Domain(self.domain.name, chosen),
            method,
            n,
            p,
            interval=closed_forms.share_interval(counts, n, hit, miss, level),
            level=level,
        )

    def likelihood(self, reports: object) -> MixtureLikelihood:
        """Likelihood of the distribution given the drawn hash functions.

        A report supports the values that hash to it; constant hash functions are uninformative.
        """
        sent = self.read(single(reports))
        if not self.is_invertible:
            return self._rows(sent)
        only = estimation.kernels.invert(sent.a, sent.b, sent.y, self.prime)
        size = len(self.domain)
        supported = np.bincount(only[(only >= 0) & (only < size)], minlength=size)
        constant = int((only == -1).sum())
        rest = len(only) - constant - int(supported.sum())
        return estimation.likelihood.MixtureLikelihood.of_rows(
            np.minimum(np.arange(size + 3), size),
            np.arange(size),
            size,
            floor=np.append(np.full(size + 1, self.noise), self.own),
            gain=self.theta,
            weights=np.append(supported, [rest, constant]),
        )

    def _rows(self, sent: HashReports) -> MixtureLikelihood:
        """Likelihood with one row per report, in their order."""
        size = len(self.domain)
        self._check_effort(len(sent), size)
        ends, values = estimation.kernels.support_rows(
            sent.a, sent.b, sent.y, size, self.prime, self.g
        )
        return estimation.likelihood.MixtureLikelihood.of_rows(
            ends, values, size, floor=self.noise, gain=self.theta
        )

    def _check_effort(self, n: int, size: int) -> None:
        if n * size > MOST_HASHES:
            raise ChannelError(
                f"{n} reports on {size} values need {n * size:.1e} hashes; choose candidates "
                "(values=...), or collect reports with LocalHashing.invertible."
            )

    def evidence(self, reports: object) -> ReportEvidence:
        """Likelihood vector of the true value behind each report."""
        sent = self.read(reports)
        triples, codes = np.unique(
            np.stack([sent.a, sent.b, sent.y], axis=1), axis=0, return_inverse=True
        )
        check_matrix_size(self, len(triples))
        rows = self._rows(HashReports(*triples.T))
        labels = [tuple(row) for row in triples.tolist()]
        return ReportEvidence(codes.reshape(-1), labels, rows.matrix())

    def _most_likely(self, likelihood: MixtureLikelihood) -> Floats:
        counts, size = likelihood.weights[:-2], len(self.domain)
        if not counts.any():
            return np.full(size, 1.0 / size)
        return closed_forms.water_filling(counts, likelihood.floor[:size], likelihood.gain)

    def all_reports(self) -> HashReports:
        """Every report of a small invertible channel: the columns of `matrix`."""
        if not self.is_invertible:
            raise ChannelError(f"{self!r} has too many hash functions to list.")
        check_matrix_size(self, self.g**3)
        a, b, y = np.indices((self.g,) * 3).reshape(3, -1)
        return HashReports(a, b, y)

    def matrix(self) -> Floats:
        """``Q``, shape (K, g^3), columns as in `all_reports`: for small invertible channels."""
        every = self.all_reports()
        hashes = (np.arange(len(self.domain))[:, None] * every.a + every.b) % self.g
        return np.where(hashes == every.y, self.own, self.noise) / self.g**2

    # -- guarantees ----------------------------------------------------------------------------

    def describe_report(self, x: int, other: int) -> str:
        """Describe a report that distinguishes `x` from `other`."""
        first, second = self.domain.values[x], self.domain.values[other]
        return Description(f"a hash of {first!r} that differs from that of {second!r}")

    def total_variation(self) -> float | None:
        """Two values with different hashes; see `Channel.total_variation`."""
        if len(self.domain) == 1:
            return None
        return self.theta * (1.0 - collision_probability(self.prime, self.g))

    def symbols(self) -> Symbols:
        """``g`` symbols; among invertible hash functions only a constant one is silent."""
        silent = 1.0 / self.g if self.is_invertible else None
        return Symbols(self.g, len(self.domain), self.epsilon, silent)

    def naming(self) -> Naming | None:
        """Invertible hash functions permute the values; those with ``a = 0`` reveal nothing."""
        if not self.is_invertible:
            return None
        size = (len(self.domain),)
        floor, gain = np.broadcast_to(self.noise, size), np.broadcast_to(self.theta, size)
        return Naming(floor, gain, 1.0 - 1.0 / self.g)

    def draw_symbols(self, codes: Ints, rng: np.random.Generator) -> Ints:
        """Hash values with a newly drawn function."""
        a, b = (np.full(len(codes), number) for number in rng.integers(0, self.prime, 2))
        return hash_pairs(a, b, codes, self.prime, self.g)

    # -- reports in files ------------------------------------------------------------------------

    def spell(self, reports: object) -> list[str]:
        """Each report as ``a/b/y``."""
        sent = self.read(reports)
        parts = (sent.a.tolist(), sent.b.tolist(), sent.y.tolist())
        return [f"{a}/{b}/{y}" for a, b, y in zip(*parts, strict=True)]

    def read_texts(self, texts: Sequence[str], *, where: str = "reports") -> HashReports:
        """Parse reports from texts ``a/b/y``."""
        triples = []
        for row, text in enumerate(texts):
            parts = TRIPLE.fullmatch(text)
            if parts is None:
                raise ChannelError(
                    f"{where}, row {row}: {text!r} is not a/b/y, three whole numbers."
                )
            triples.append((int(parts[1]), int(parts[2]), int(parts[3])))
        return self.read(triples)


# -------------------------------------------------------------------------------------------------
# Hash functions ``h(x) = ((a x + b) mod p) mod g`` and the primes they need.


def hash_pairs(a: npt.ArrayLike, b: npt.ArrayLike, x: npt.ArrayLike, prime: int, g: int) -> Ints:
    """Hash of each value under the hash function of the same position.

    `prime` is below ``2^31``, so that products fit into 64 bits, or ``2^61 - 1``, computed in
    halves.
    """
    first, second, value = (np.asarray(part, dtype=np.uint64) for part in (a, b, x))
    if prime != MERSENNE:
        return ((first * value + second) % np.uint64(prime) % np.uint64(g)).astype(np.int64)
    low30, low31, p61 = (np.uint64(2**bits - 1) for bits in (30, 31, 61))
    a_high, a_low = first >> np.uint64(31), first & low31
    x_high, x_low = value >> np.uint64(31), value & low31
    middle = a_low * x_high + a_high * x_low
    total = ((a_high * x_high) << np.uint64(1)) + (middle >> np.uint64(30)) + a_low * x_low
    total = total + ((middle & low30) << np.uint64(31))
    total = (total >> np.uint64(61)) + (total & p61) + second
    total = (total >> np.uint64(61)) + (total & p61)
    total = np.where(total >= p61, total - p61, total)
    return (total % np.uint64(g)).astype(np.int64)


def collision_probability(prime: int, g: int) -> float:
    """Probability that two different values collide, ``a`` and ``b`` uniform on ``0..p-1``.

    ``a x + b`` and ``a x' + b`` are independent and uniform modulo ``p``: the sum of the squared
    shares of the ``g`` residues; ``1/g`` when ``g = p``, or when ``p`` is much larger than ``g``.
    """
    share, rest = divmod(prime, g)
    return (rest * (share + 1) ** 2 + (g - rest) * share**2) / prime**2


def is_prime(number: int) -> bool:
    """Whether a number below 3.4e14 is prime (Miller-Rabin with bases that suffice there)."""
    bases = (2, 3, 5, 7, 11, 13, 17)
    if number < 2 or any(number % q == 0 for q in bases):
        return number in bases
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in bases:
        power = pow(base, odd, number)
        if power in (1, number - 1):
            continue
        if all((power := power * power % number) != number - 1 for _ in range(twos - 1)):
            return False
    return True


def next_prime(number: int) -> int:
    """Smallest prime that is at least `number`."""
    while not is_prime(number):
        number += 1
    return number
