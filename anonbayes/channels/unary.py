"""Bit channels: the value is encoded as one raised bit among ``K``, then every bit is flipped."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from anonbayes import estimation
from anonbayes.arrays import Floats, Ints, Mask, read_number, read_numbers, read_share
from anonbayes.channels.base import (
    ReportEvidence,
    budget_second,
    check_codes,
    check_matrix_size,
)
from anonbayes.channels.pure import PureChannel
from anonbayes.channels.randomness import Codes, Seed, Source, draw_bits, limit, noise_rows, words
from anonbayes.channels.reports import BitReports, SupportCounts, bit_matrix, is_one_by_one, single
from anonbayes.domains import Domain
from anonbayes.errors import ChannelError
from anonbayes.notions.ldp import Description, check_epsilon, largest_ratio, sensitive_mask

if TYPE_CHECKING:
    from scipy import sparse

    from anonbayes.estimation.likelihood import MixtureLikelihood


# Number of raised bits held at a time if reports are drawn only to be counted.
COLLECTED = 20_000_000

# A bit that others raise with a smaller probability proves its value, since the ratio overflows.
LEAST_MISS = 1e-300

# Huge budgets round theta to 1, for which the formulas divide zero by zero.
ALMOST_ONE = float(np.nextafter(1.0, 0.0))


class OnesChannel(PureChannel):
    """Channel whose reports raise some of ``K`` bits; the raised ones are the supported values."""

    def read(self, reports: object) -> BitReports:
        """Return the reports as `BitReports`.

        Also accepts a matrix of zeros and ones, a list of what a `reporter` returned, and a column
        of a data frame whose cells list the positions of the ones.
        """
        given = single(reports)
        if isinstance(given, BitReports):
            bits = given
        elif is_one_by_one(given):
            bits = BitReports.from_bytes(given, len(self.domain))
        elif isinstance(given, np.ndarray) and given.dtype == object and given.ndim == 1:
            bits = BitReports.from_ones(given, len(self.domain))
        else:
            bits = BitReports.from_dense(given)
        if bits.size != len(self.domain):
            raise ChannelError(
                f"{self!r} produces {len(self.domain)} bits, but the reports have {bits.size}."
            )
        return bits

    def counts(self, reports: object) -> Ints:
        """Count the reports that raise each bit."""
        if is_one_by_one(reports):
            return estimation.kernels.count_columns(bit_matrix(reports, len(self.domain)))
        return self.read(reports).counts()

    @abstractmethod
    def _rows(self, bits: BitReports) -> MixtureLikelihood:
        """Likelihood with one row per report, in their order."""

    def evidence(self, reports: object) -> ReportEvidence:
        """Likelihood vector of the true value behind each report.

        The label of a report is the tuple of the values whose bits it raises.
        """
        codes, distinct = self.read(reports).unique()
        labels = [tuple(self.domain.values[i] for i in ones.tolist()) for ones in distinct]
        return ReportEvidence(codes, labels, self._rows(distinct).matrix())

    def supported(self, reports: object) -> sparse.csr_array:
        """Which values each report supports: the raised bits."""
        return self.read(reports).to_csr()

    def spell(self, reports: object) -> list[str]:
        """Write each report as a string of zeros and ones, in the order of the domain."""
        return list(self.read(reports).texts())

    def read_texts(self, texts: Sequence[str], *, where: str = "reports") -> BitReports:
        """Parse reports from strings of zeros and ones."""
        return BitReports.from_texts(texts, len(self.domain), where=where)


class BitChannel(OnesChannel):
    """Bit reports: bit ``i`` is one with ``hit[i]`` if the user's value is ``i``, else ``miss[i]``.

    Parameters
    ----------
    domain : Domain
        The values, one bit each.
    hit, miss : array-like of shape (K,) or float
        With ``0 <= miss <= hit <= 1`` and ``miss < 1``. If ``miss`` is zero, a raised bit proves
        the value.

    Examples
    --------
    >>> import anonbayes as ab
    >>> channel = ab.BitChannel(ab.Domain("x", ["a", "b", "c"]), [0.5, 0.5, 0.8], [0.25, 0.25, 0.1])
    >>> channel.release(["a", "c"], seed=2).to_dense()
    array([[1, 0, 0],
           [0, 1, 1]], dtype=uint8)
    >>> round(channel.epsilon, 4)
    2.4849
    """

    def __init__(self, domain: Domain, hit: npt.ArrayLike, miss: npt.ArrayLike) -> None:
        self.domain = domain
        self.hit = _per_value("hit", hit, domain)
        self.miss = _per_value("miss", miss, domain)
        bad = np.flatnonzero((self.miss > self.hit) | (self.miss >= 1))
        if len(bad):
            i = int(bad[0])
            raise ChannelError(
                f"The bit of {domain.values[i]!r} is raised with probability {self.hit[i]:.6g} by "
                f"its own value and {self.miss[i]:.6g} by others; the second must not be larger "
                f"than the first, nor 1."
            )
        self.epsilon = largest_ratio(*self.log_ratios())

    def _draw(self, codes: Ints, source: Source) -> BitReports:
        """Draw a sparse bit report for each value (codes).

        Only the ones are drawn, by the gaps between them, and only they take time and memory: about
        ``n sum(miss)`` of them. If ``miss`` is near 1/2 or above, these are most of the bits.
        """
        return draw_bits(codes, self.hit, self.miss, source)

    def reporter(self, *, seed: Seed = None) -> Callable[[object], bytes]:
        """Return a function that reports one value, a byte 0 or 1 per bit; see `Channel.reporter`.

        Examples
        --------
        >>> import anonbayes as ab
        >>> channel = ab.UnaryEncoding(ab.Domain("x", ["a", "b", "c"]), 0.9, 0.2)
        >>> report = channel.reporter(seed=1)
        >>> reports = [report("a"), report("c")]
        >>> channel.counts(reports).tolist()
        [1, 0, 1]
        """
        codes, source = Codes(self.domain), self._source(seed, "reporter")
        kind, index, draw = codes.kind, codes.index, words(source)
        noise = noise_rows(self.miss, source)
        raised = [limit(probability) for probability in self.hit.tolist()]

        def report(value: object) -> bytes:
            code = codes[value] if type(value) is kind else index(value)
            row = next(noise)
            own = b"\1" if next(draw) < raised[code] else b"\0"
            return row[:code] + own + row[code + 1 :]

        return report

    def _simulated(self, users: Ints, rng: np.random.Generator) -> Ints:
        return rng.binomial(users, self.hit) + rng.binomial(users.sum() - users, self.miss)

    def collect(self, codes: npt.ArrayLike, *, seed: Seed = None) -> SupportCounts:
        """Release every user's report and keep only the counts, in bounded memory.

        Examples
        --------
        >>> import anonbayes as ab
        >>> channel = ab.UnaryEncoding(ab.Domain("x", range(3)), 1.0, 0.0)
        >>> channel.collect(np.array([0, 2, 2])).counts.tolist()
        [1, 0, 2]
        """
        held, source = check_codes(codes, len(self.domain)), self._source(seed, "reporter")
        step = max(1, int(COLLECTED / (1.0 + float(self.miss.sum()))))
        total = np.zeros(len(self.domain), dtype=np.int64)
        for start in range(0, len(held), step):
            total += self._draw(held[start : start + step], source).counts()
        return SupportCounts(total, len(held))

    def all_reports(self) -> BitReports:
        """Every report, the first bit changing slowest: the columns of `matrix`."""
        size = len(self.domain)
        check_matrix_size(self, 2 ** min(size, 62))
        return BitReports.from_dense(list(itertools.product((0, 1), repeat=size)))

    def matrix(self) -> Floats:
        """``Q``, shape (K, 2^K), columns as in `all_reports`."""
        bits = self.all_reports().to_dense()
        own = np.where(np.eye(len(self.domain), dtype=bool), self.hit, self.miss)
        q = np.ones((len(self.domain), len(bits)))
        for j, column in enumerate(bits.T):
            q *= np.where(column == 1, own[:, j, None], 1.0 - own[:, j, None])
        return q

    def likelihood(self, reports: object) -> MixtureLikelihood:
        """Likelihood of the distribution; reports that prove their value are only counted.

        ``Q(y|k) = B(y) (z_k + (w_k - z_k) y_k)`` with ``w = hit/miss``,
        ``z = (1 - hit)/(1 - miss)`` and ``B(y)`` the probability of ``y`` given none of the values.
        """
        bits = self.read(reports)
        rows = self._rows(bits)
        proven = np.flatnonzero(rows.floor == 0)
        if len(proven) == 0:
            return rows
        value = rows.indices[rows.indptr[proven]]
        count = np.bincount(value, minlength=rows.size)
        scale = np.bincount(value, weights=rows.log_scale[proven], minlength=rows.size)
        seen = np.flatnonzero(count)
        kept = rows.floor > 0
        lengths = np.diff(rows.indptr)
        entries = rows.indices[np.repeat(kept, lengths)]
        return estimation.likelihood.MixtureLikelihood(
            weights=np.concatenate([rows.weights[kept], count[seen]]),
            floor=np.concatenate([rows.floor[kept], np.zeros(len(seen))]),
            log_scale=np.concatenate([rows.log_scale[kept], scale[seen] / count[seen]]),
            tilt=rows.tilt,
            gain=rows.gain,
            indptr=np.concatenate(
                [[0], np.cumsum(np.concatenate([lengths[kept], np.ones(len(seen), np.int64)]))]
            ),
            indices=np.concatenate([entries, seen.astype(entries.dtype)]),
        )

    def _rows(self, bits: BitReports) -> MixtureLikelihood:
        """Likelihood with one row per report, in their order."""
        decoy = self.miss > LEAST_MISS
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            raised = np.where(decoy, self.hit / self.miss, 1.0)
            log_odds = np.where(decoy, np.log(self.miss) - np.log1p(-self.miss), 0.0)
        lowered = (1.0 - self.hit) / (1.0 - self.miss)
        none = np.zeros(len(bits))
        mixture = estimation.kernels.mixture
        noise = mixture(0.0, log_odds, none, bits.indptr, bits.indices)
        log_scale = float(np.log1p(-self.miss).sum()) + noise
        indptr, indices, floor = bits.indptr, bits.indices, np.ones(len(bits))
        if not decoy.all():
            is_proof = ~decoy[indices]
            n_proofs = mixture(0.0, (~decoy).astype(float), none, bits.indptr, bits.indices)
            self._check_possible(bits, n_proofs)
            proven = n_proofs > 0
            value = indices[is_proof]
            with np.errstate(divide="ignore"):
                log_scale[proven] += np.log(self.hit[value])
            # For a report that proves its value, only that value matters.
            lengths = np.where(proven, 1, np.diff(indptr))
            indices = indices[is_proof | np.repeat(~proven, np.diff(indptr))]
            indptr = np.concatenate([[0], np.cumsum(lengths)])
            floor[proven] = 0.0
        return estimation.likelihood.MixtureLikelihood(
            weights=np.ones(len(bits), dtype=np.int64),
            floor=floor,
            log_scale=log_scale,
            tilt=lowered,
            gain=np.where(decoy, raised - lowered, 1.0),
            indptr=indptr,
            indices=indices,
        )

    def _check_possible(self, bits: BitReports, n_proofs: Floats) -> None:
        never = np.flatnonzero(self.hit[bits.indices] == 0)
        if len(never):
            row = int(np.searchsorted(bits.indptr, never[0], side="right")) - 1
            raise ChannelError(
                f"{self!r} cannot produce report {row}: it raises the bit of "
                f"{self.domain.values[bits.indices[never[0]]]!r}, which nobody raises."
            )
        bad = np.flatnonzero(n_proofs > 1)
        if len(bad):
            row = int(bad[0])
            two = [self.domain.values[i] for i in bits[row] if self.miss[i] <= LEAST_MISS][:2]
            raise ChannelError(
                f"{self!r} cannot produce report {row}: it raises the bits of both "
                f"{two[0]!r} and {two[1]!r}, each of which only its own value raises."
            )

    # -- guarantees ----------------------------------------------------------------------------

    def log_ratios(self) -> tuple[Floats, Floats]:
        """``ln(hit/miss)`` and ``ln((1-miss)/(1-hit))``: bit ``x`` raised, bit ``x'`` not."""
        with np.errstate(divide="ignore", invalid="ignore"):
            own = np.log(self.hit) - np.log(self.miss)
            other = np.log1p(-self.miss) - np.log1p(-self.hit)
        # A bit that is never raised reveals nothing.
        return np.where(self.hit == 0, 0.0, own), other

    def protected_log_ratios(self) -> tuple[Floats, Floats, Mask]:
        """Like `log_ratios`, over reports in which no proving bit is raised."""
        own, other = self.log_ratios()
        proof = (self.miss == 0) & (self.hit > 0)
        return np.where(proof, -other, own), other, proof

    def describe_report(self, x: int, other: int) -> str:
        """Describe the report that raises the bit of `x` and not that of `other`."""
        labels = self.domain.labels
        return Description(f"a report with bit {labels[x]} raised and bit {labels[other]} not")

    def common_mass(self) -> float:
        """``sum_y min_x Q(y|x)`` in ``O(K log K)``; see `Channel.common_mass`."""
        if len(self.domain) == 1:
            return 1.0
        raised, lowered = self._factors()
        # The smallest factor belongs to a bit that is not raised, if there is one.
        return _sum_by_bit(1.0 - self.miss, lowered, np.argsort(lowered), float(raised.min()))

    def total_variation(self) -> float | None:
        """Two bits distinguish two values; see `Channel.total_variation`."""
        gain = self.hit - self.miss
        same = len(gain) > 1 and np.ptp(self.hit) == 0 and np.ptp(self.miss) == 0
        return float(gain[0]) if same else None

    def total_maximum(self) -> float:
        """``sum_y max_x Q(y|x)`` in ``O(K log K)``; see `Channel.total_maximum`."""
        if len(self.domain) == 1:
            return 1.0
        raised, lowered = self._factors()
        decoy = self.miss > LEAST_MISS
        # A bit that only its own value raises occurs only in reports of that value.
        order = np.argsort(-raised[decoy])
        quiet = _sum_by_bit(self.miss[decoy], raised[decoy], order, float(lowered.max()))
        return quiet + float(self.hit[~decoy].sum())

    def _factors(self) -> tuple[Floats, Floats]:
        """``Q(y|x)`` over the probability of ``y`` as noise, by whether the bit of x is raised."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            raised = np.where(self.miss > LEAST_MISS, self.hit / self.miss, np.inf)
        return raised, (1.0 - self.hit) / (1.0 - self.miss)


class UnaryEncoding(BitChannel):
    """One-hot bits, kept one with probability `p` and raised from zero with `q`.

    Parameters
    ----------
    domain : Domain
        The values, one bit each.
    p, q : float
        With ``0 <= q <= p <= 1``, ``q < 1``; ``epsilon = ln[p (1-q) / ((1-p) q)]``.

    Examples
    --------
    >>> import anonbayes as ab
    >>> channel = ab.UnaryEncoding.optimal(ab.Domain("x", range(100)), epsilon=1.0)
    >>> float(channel.hit[0]), round(float(channel.miss[0]), 6), round(channel.epsilon, 9)
    (0.5, 0.268941, 1.0)
    """

    def __init__(self, domain: Domain, p: float, q: float) -> None:
        super().__init__(
            domain, read_number("p", p, error=ChannelError), read_number("q", q, error=ChannelError)
        )

    @classmethod
    def optimal(cls, domain: Domain, epsilon: float) -> UnaryEncoding:
        """Optimized unary encoding (OUE): ``p = 1/2``, ``q = 1/(e + 1)``, least variance."""
        shrink = np.exp(-check_epsilon(epsilon))
        return cls(domain, 0.5, shrink / (1.0 + shrink))

    def with_epsilon(self, epsilon: float) -> UnaryEncoding:
        """Return the optimal channel for another budget."""
        return UnaryEncoding.optimal(self.domain, epsilon)


class RAPPOR(BitChannel):
    """Generalized basic one-time RAPPOR (ULDP Sec. 2.4); epsilon-LDP for every `theta`.

    Parameters
    ----------
    domain : Domain
        The values, one bit each.
    epsilon : float
        Budget, finite and not negative.
    theta : float, optional
        Probability that the bit of the value stays one, between 0 and 1; by default the classic
        ``exp(epsilon/2) / (exp(epsilon/2) + 1)``. ``theta = 1/2`` is OUE.

    Examples
    --------
    >>> import anonbayes as ab
    >>> channel = ab.RAPPOR(ab.Domain("x", range(5)), epsilon=1.0)
    >>> round(float(channel.hit[0] + channel.miss[0]), 9)
    1.0
    """

    keeps = ()

    @budget_second("epsilon", "theta")
    def __init__(self, domain: Domain, epsilon: float, *, theta: float | None = None) -> None:
        budget = check_epsilon(epsilon)
        self.theta = check_theta(theta, budget)
        stay_down = bot_probability(self.theta, budget)
        super().__init__(domain, self.theta, self.theta * np.exp(-budget) / stay_down)
        self.epsilon = budget


class UtilityOptimizedRAPPOR(BitChannel):
    """RAPPOR that protects sensitive values only (ULDP Def. 4).

    Bits of sensitive values behave as in RAPPOR. A non-sensitive value raises its own bit with
    ``1 - d2``, ``d2 = ((1-theta) e + theta)/e``, and no other non-sensitive bit. It satisfies
    (X_S, Y_P, epsilon)-ULDP, where no non-sensitive bit is raised in protected reports.

    Parameters
    ----------
    domain : Domain
        The values, one bit each.
    epsilon : float
        Budget of the sensitive values, finite and not negative.
    sensitive : iterable
        The sensitive values.
    theta : float, optional
        As in `RAPPOR`; see `optimal` for the best one.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("region", range(400))
    >>> classic = ab.UtilityOptimizedRAPPOR(domain, 1.0, sensitive=range(76))
    >>> best = ab.UtilityOptimizedRAPPOR.optimal(domain, 1.0, sensitive=range(76))
    >>> round(best.theta, 6)
    0.502795
    >>> round(best.worst_case_loss(1) / classic.worst_case_loss(1), 3)
    0.943
    """

    keeps = ("sensitive",)

    @budget_second("sensitive", "epsilon", "theta")
    def __init__(
        self,
        domain: Domain,
        epsilon: float,
        *,
        sensitive: Iterable[object],
        theta: float | None = None,
    ) -> None:
        self.sensitive: Mask = sensitive_mask(domain, sensitive)
        budget = check_epsilon(epsilon)
        self.theta = check_theta(theta, budget)
        stay_down = bot_probability(self.theta, budget)
        raised = self.theta * np.exp(-budget) / stay_down
        super().__init__(
            domain,
            np.where(self.sensitive, self.theta, -self.theta * np.expm1(-budget)),
            np.where(self.sensitive, raised, 0.0),
        )
        self.epsilon = budget

    @classmethod
    @budget_second("sensitive", "epsilon")
    def optimal(
        cls, domain: Domain, epsilon: float, *, sensitive: Iterable[object]
    ) -> UtilityOptimizedRAPPOR:
        """Channel with the `theta` of least worst-case squared error (MODEL 2).

        The paper leaves the best `theta` open; ``theta*`` follows from minimising the l2 loss
        of the empirical estimator at the uniform distribution over non-sensitive values.
        """
        chosen = list(sensitive)
        n_sensitive, budget = int(sensitive_mask(domain, chosen).sum()), check_epsilon(epsilon)
        return cls(domain, budget, sensitive=chosen, theta=best_theta(n_sensitive, budget))


def best_theta(n_sensitive: int, epsilon: float) -> float | None:
    """Best `theta` for uRAP, or None (the classic one) if all choices are equally good.

    With ``E = exp(epsilon)``, ``A = m/(E-1) + 1``, ``B = m E/(E-1)``, ``s = sqrt(B E / A)`` and
    ``x = (1+s)/(E+s)``: ``theta = E (1-x)/(E-1)``; written below with ``1/E``.
    """
    shrink = float(np.exp(-epsilon))
    if n_sensitive == 0 or shrink == 1.0:
        return None
    root = np.sqrt(n_sensitive / (n_sensitive * shrink + 1.0 - shrink)) * np.sqrt(shrink)
    x = (shrink + root) / (1.0 + root)
    return min(float((1.0 - x) / (1.0 - shrink)), ALMOST_ONE)


def bot_probability(theta: float, epsilon: float) -> float:
    """``d2 = ((1-theta) e + theta)/e``, without overflow."""
    return 1.0 - theta + theta * float(np.exp(-epsilon))


def check_theta(theta: float | None, epsilon: float) -> float:
    """Return `theta`, by default the classic one; raise `ChannelError` outside (0, 1)."""
    if theta is None:
        return min(float(1.0 / (1.0 + np.exp(-epsilon / 2))), ALMOST_ONE)
    return read_share("theta", theta, "the probability that a bit stays", error=ChannelError)


def _sum_by_bit(
    chance: Floats, factor: Floats, order: npt.NDArray[np.intp], otherwise: float
) -> float:
    """Mean, over independent bits, of the factor of the first raised bit in `order`."""
    shows = chance[order]
    not_before = np.concatenate([[1.0], np.cumprod(1.0 - shows)])
    mean = float((not_before[:-1] * shows) @ factor[order])
    return mean + (float(not_before[-1]) * otherwise if not_before[-1] > 0 else 0.0)


def _per_value(argument: str, number: npt.ArrayLike, domain: Domain) -> Floats:
    array = read_numbers(argument, number, error=ChannelError)
    if array.ndim == 0:
        array = np.full(len(domain), float(array))
    if array.shape != (len(domain),):
        raise ChannelError(
            f"{argument} must be one probability or one for each of the {len(domain)} values, "
            f"not an array of shape {array.shape}."
        )
    bad = np.flatnonzero(~((array >= 0) & (array <= 1)))
    if len(bad):
        i = int(bad[0])
        raise ChannelError(
            f"{argument} of {domain.values[i]!r} is {array[i]!r}, not a probability."
        )
    return array
