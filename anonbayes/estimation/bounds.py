"""What no estimator can beat: information and lower bounds on losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import optimize, stats

from anonbayes.arrays import Floats
from anonbayes.errors import ChannelError, one_of
from anonbayes.estimation.losses import NORMS
from anonbayes.notions.ldp import check_epsilon

__all__ = [
    "Information",
    "Kinds",
    "bits",
    "cramer_rao",
    "dirichlet",
    "drawn",
    "fixed",
    "high_privacy_loss",
    "inverse_mean",
    "least_favourable",
    "low_privacy_loss",
    "minimax_rate",
    "non_private_loss",
    "response",
    "uldp_bound",
    "van_trees",
]


# -------------------------------------------------------------------------------------------------
# Fisher information of reports about the distribution of the true values, without a K x K matrix.
#
# A report of a channel ``Q`` has information ``I(p)[v, v] = sum_y (vQ)(y)^2 / (pQ)(y)`` about the
# distribution ``p`` in each direction ``v`` with ``sum v = 0``. Where values look alike, as all
# sensitive ones do, the matrix is known by two numbers for each class of them: the information
# along differences within the class, and along a common change of the whole class.
#
# Randomized response: the reports are multinomial, so that the matrix is diagonal,
# ``gain^2 / (miss + gain p)``.
#
# Bits, with ``T`` the raised bits among the protected values (those with ``miss > 0``), ``B(T)``
# its probability when all of them are noise, ``w = hit/miss`` and ``z = (1-hit)/(1-miss)``:
#
#     P(T and no proof) = B(T) (z + (w - z) p(T)),    P(bit k is a proof) = hit_k p_k,
#
# so that ``I[v, v] = sum_k hit_k v_k^2 / p_k + sum_T B(T) (w - z)^2 v(T)^2 / (z + (w - z) p(T))``.
# If ``p`` is constant on the protected values, or Dirichlet with one parameter for all of them,
# then
# ``p(T)`` depends on the number ``t`` of ones only. What is left is one sum over ``t``.

# ``law(floor, gain, weight)``: ``1 / (floor + gain p(T))``, or its mean over a prior of ``p``, for
# a set ``T`` of that weight, its probability or the sum of its Dirichlet parameters.
Law = Callable[[npt.ArrayLike, npt.ArrayLike, Floats], Floats]

# Terms of the continued fraction at most: enough for 14 digits up to gain/floor of 40,000.
MAX_TERMS = 4000


class Kinds(NamedTuple):
    """Values that look alike: the channel's probabilities, the weight of each value, the number."""

    hit: Floats
    miss: Floats
    weight: Floats
    size: Floats

    @classmethod
    def of(cls, hit: Floats, miss: Floats, weight: Floats) -> Kinds:
        """Sort values with these numbers into kinds."""
        rows = np.stack([hit, miss, weight], axis=1)
        alike, size = np.unique(rows, axis=0, return_counts=True)
        return cls(alike[:, 0], alike[:, 1], alike[:, 2], size.astype(float))


class Information(NamedTuple):
    """Symmetric matrix over classes of values that look alike.

    Attributes
    ----------
    size : ndarray, shape (classes,)
        Number of values in each class.
    within : ndarray, shape (classes,)
        Its eigenvalue for differences between values of the class.
    common : ndarray, shape (classes,)
        Its eigenvalue for a change that all values of the class share.
    """

    size: Floats
    within: Floats
    common: Floats

    def plus(self, other: Information, times: float = 1.0) -> Information:
        """Sum with `other` (same classes), this one taken `times`."""
        return Information(
            self.size, times * self.within + other.within, times * self.common + other.common
        )

    def variances(self) -> Floats:
        """Diagonal of the inverse on directions that sum to zero, one entry per class.

        The inverse of ``M`` on these directions is ``M^-1 - M^-1 1 1' M^-1 / (1' M^-1 1)``.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = np.where(self.size > 1, (1 - 1 / self.size) / self.within, 0.0)
            shared = 1.0 / self.common
        total = float(self.size @ shared)
        return np.maximum(inside + shared / self.size - shared**2 / total, 0.0)

    def inverse_trace(self) -> float:
        """Trace of the inverse on directions that sum to zero.

        Examples
        --------
        Four values, identity matrix: three directions.

        >>> Information(np.array([3.0, 1.0]), np.ones(2), np.ones(2)).inverse_trace()
        3.0
        """
        return float(self.size @ self.variances())


def fixed(floor: npt.ArrayLike, gain: npt.ArrayLike, weight: Floats) -> Floats:
    """Law of a known distribution: the weights are its probabilities."""
    with np.errstate(divide="ignore"):
        return 1.0 / (np.asarray(floor) + np.asarray(gain) * weight)


def drawn(total: float, *, terms: int = MAX_TERMS) -> Law:
    """Law of a Dirichlet distribution: a share with weight ``a`` is ``Beta(a, total - a)``."""

    def reciprocal(floor: npt.ArrayLike, gain: npt.ArrayLike, weight: Floats) -> Floats:
        return inverse_mean(floor, gain, weight, np.maximum(total - weight, 0.0), terms=terms)

    return reciprocal


def response(kinds: Kinds, law: Law) -> Information:
    """Information of a report of the randomized-response family."""
    gain = kinds.hit - kinds.miss
    diagonal = gain**2 * law(kinds.miss, gain, kinds.weight)
    return Information(kinds.size, diagonal, diagonal)


def bits(kinds: Kinds, law: Law) -> Information:
    """Information of a bit report, with at most one kind of protected values (``miss > 0``).

    Raise `ChannelError` when there are several, since their raised bits then count differently.
    """
    protected = kinds.miss > 0
    lowered = (1 - kinds.hit) / (1 - kinds.miss)
    probabilities = np.stack([kinds.hit, kinds.miss])[:, protected]
    if np.ptp(lowered) > 1e-12 or len(np.unique(probabilities, axis=1).T) > 1:
        raise ChannelError(
            "The information of bit reports is known where all protected bits have the same "
            "probabilities, and a report without a proof says the same of every value; not here."
        )
    if protected.sum() > 1:
        raise ChannelError(
            "The information of bit reports is known for distributions and priors that treat all "
            "protected values alike; give them the same number."
        )
    within = kinds.hit * law(0.0, 1.0, kinds.weight)
    common = within.copy()
    for i in np.flatnonzero(protected):
        within[i], common[i] = _raised(
            kinds.hit[i], kinds.miss[i], int(kinds.size[i]), kinds.weight[i], law
        )
    return Information(kinds.size, within, common)


def _raised(hit: float, miss: float, number: int, weight: float, law: Law) -> tuple[float, float]:
    """Information of the raised bits of `number` protected values, within and common."""
    middle, spread = number * miss, np.sqrt(number * miss * (1 - miss))
    # Numbers of ones further out have a probability below 1e-30.
    first, last = int(middle - 12 * spread - 40), int(middle + 12 * spread + 40)
    ones = np.arange(max(first, 1), min(last, number) + 1, dtype=float)
    lowered = (1 - hit) / (1 - miss)
    gain = hit / miss - lowered
    share = gain**2 * stats.binom.pmf(ones, number, miss) * law(lowered, gain, ones * weight)
    # Mean of v(T)^2 over the sets of t values: v sums to zero, or v is constant.
    within = float(share @ (ones * (number - ones))) / (number * max(number - 1, 1))
    return within, float(share @ ones**2) / number


def dirichlet(alpha: Floats, size: Floats) -> Information:
    """Information of a Dirichlet prior, one parameter (above 2) per class.

    The score is ``(alpha_k - 1)/p_k``; its covariance is diagonal,
    ``(alpha_0 - 1)(alpha_0 - 2)/(alpha_k - 2)``, up to a constant that directions with sum zero do
    not see.

    Examples
    --------
    >>> dirichlet(np.array([3.0]), np.array([2.0])).within.tolist()
    [20.0]
    """
    if not (np.isfinite(alpha) & (alpha > 2)).all():
        bad = int(np.flatnonzero(~(np.isfinite(alpha) & (alpha > 2)))[0])
        raise ChannelError(
            f"alpha[{bad}] = {alpha[bad]:g}: the bound needs a prior that vanishes smoothly at the "
            "edges; give Dirichlet parameters above 2."
        )
    total = float(alpha @ size)
    diagonal = (total - 1) * (total - 2) / (alpha - 2)
    return Information(size, diagonal, diagonal)


def inverse_mean(
    floor: npt.ArrayLike,
    gain: npt.ArrayLike,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    terms: int = MAX_TERMS,
) -> Floats:
    """Mean of ``1 / (floor + gain B)`` for ``B ~ Beta(a, b)``, ``a > 1``; never too small.

    It is ``2F1(1, a; a+b; -gain/floor) / floor``. The convergents of Gauss's continued fraction
    enclose it; the upper one is returned, so that information is never understated, however few
    `terms` there are.

    Examples
    --------
    >>> round(float(inverse_mean(1.0, 3.0, 1.0, 1.0)), 9)  # log(4) / 3
    0.46209812
    """
    low, slope, a, b = np.broadcast_arrays(
        *(np.asarray(x, dtype=float) for x in (floor, gain, a, b))
    )
    total = a + b
    with np.errstate(divide="ignore", invalid="ignore"):
        # Without the floor: exact when there is none, and always an upper bound.
        bare = np.where(a > 1, (total - 1) / ((a - 1) * slope), np.inf)
        x = np.where(low > 0, slope / low, 0.0)
    # Convergents by the forward recurrence: upper[0]/upper[1] and lower[0]/lower[1].
    upper, lower = np.stack([np.ones_like(x)] * 2), np.stack([np.ones_like(x), 1 + a / total * x])
    for m in range(terms // 2):
        if np.all(upper[0] * lower[1] <= lower[0] * upper[1] * (1 + 1e-14)):
            break
        even = (m + 1) * (b + m) / ((total + 2 * m) * (total + 2 * m + 1))
        odd = (a + m + 1) * (total + m) / ((total + 2 * m + 1) * (total + 2 * m + 2))
        upper = (lower + even * x * upper) / lower[1]
        lower = (upper + odd * x * lower / lower[1]) / upper[1]
        upper = upper / upper[1]
    with np.errstate(divide="ignore"):
        return np.minimum(np.where(low > 0, upper[0] / (upper[1] * low), np.inf), bare)


# -------------------------------------------------------------------------------------------------
# What no estimator can beat: lower bounds with their constants.
#
# * `cramer_rao`: for one channel near one distribution, as the number of reports grows.
# * `van_trees`: for one channel and every number of reports, averaged over a Dirichlet prior, hence
#   also in the worst case: ``E ||p_hat - p||^2 >= tr (n E[I(p)] + J)^-1`` with the information
#   ``I`` of a report and ``J`` of the prior (van Trees 1968; Gill and Levit 1995).
# * `uldp_bound`: for every mechanism with a given guarantee, every estimator and every ``n``.
#
# The last one needs the most information that an epsilon-LDP report can carry. The columns ``q`` of
# such a channel form a cone, ``max q <= e min q``, and ``|q - mean q|^2 / (p q)`` is convex and
# grows in proportion to ``q``: it is largest at the extreme columns, whose entries are 1 and ``e``.
# With
# ``t`` entries ``e`` the sum over the reports, ``tr I(p)``, is at most
#
#     max_t  (e-1)^2 t (K-t)/K / ((1 + (e-1) t/K) (1 + (e-1) p(T))),
#
# at the uniform distribution ``K (e-1)^2/(4e)``, which subset selection with ``t = K/(e+1)``
# attains. Sensitive values of a ULDP mechanism produce protected reports only, so that on
# distributions over them it is an epsilon-LDP channel with ``K_S`` values (ULDP Sec. 3.2).

# Terms of continued fractions while priors are searched for; the bound itself takes all.
SEARCH_TERMS = 60

# Budget at which randomized values are as good as the values themselves.
NO_PRIVACY = 50.0


def cramer_rao(information: Information, n: int, *, norm: str = "l2") -> float:
    """Least loss of an estimator that is unbiased, or regular as ``n`` grows.

    ``tr I^-1 / n`` (l2); for l1 the mean absolute value of the normal limit,
    ``sqrt(2/(pi n)) sum_k sqrt((I^-1)_kk)`` (Hajek and Le Cam's local asymptotic minimax bound).

    Examples
    --------
    Tossing a fair coin 100 times, as `anonbayes.estimation.losses.expected_loss` without noise:

    >>> coin = Information(np.array([2.0]), np.array([2.0]), np.array([2.0]))
    >>> cramer_rao(coin, 100)
    0.005
    """
    one_of("norm", norm, NORMS)
    check_number(n)
    variances = information.variances() / n
    if norm == "l2":
        return float(information.size @ variances)
    return float(np.sqrt(2 / np.pi) * (information.size @ np.sqrt(variances)))


def van_trees(
    information_of: Callable[[Kinds, Law], Information],
    kinds: Kinds,
    n: int,
    *,
    terms: int = MAX_TERMS,
) -> float:
    """Least mean squared error over a Dirichlet prior, ``tr (n E[I] + J)^-1``.

    Parameters
    ----------
    information_of : callable
        Information of one report, `anonbayes.estimation.bounds.response` or ``bits``.
    kinds : Kinds
        The values; their weights are the parameters of the prior, above 2.
    n : int
        Number of reports.
    terms : int
        Of the mean information's continued fraction; with fewer the bound is smaller.
    """
    check_number(n)
    prior = dirichlet(kinds.weight, kinds.size)
    report = information_of(kinds, drawn(float(kinds.weight @ kinds.size), terms=terms))
    return report.plus(prior, times=n).inverse_trace()


def least_favourable(
    information_of: Callable[[Kinds, Law], Information], kinds: Kinds, n: int
) -> Kinds:
    """Prior with a large `van_trees` bound: the weights by search, the numbers of values by halves.

    Parameters as in `van_trees`; the weights of `kinds` are where the search starts.
    """
    check_number(n)
    value, best = _best_weights(information_of, kinds, n)
    while True:
        rivals = []
        for i in np.flatnonzero(best.size > 0):
            size = best.size.copy()
            size[i] = size[i] // 2
            if size.sum() >= 2:
                rivals.append(_best_weights(information_of, best._replace(size=size), n))
        top, rival = max(rivals, key=lambda pair: pair[0], default=(0.0, best))
        if top <= value:
            return best
        value, best = top, rival


def _best_weights(
    information_of: Callable[[Kinds, Law], Information], kinds: Kinds, n: int
) -> tuple[float, Kinds]:
    held = kinds.size > 0
    present = Kinds(*(column[held] for column in kinds))

    def weights(x: Floats) -> Floats:
        return 2.0 + np.exp(np.clip(x, -30.0, 60.0))

    def deficit(x: Floats) -> float:
        bound = van_trees(
            information_of, present._replace(weight=weights(x)), n, terms=SEARCH_TERMS
        )
        return -float(np.log(max(bound, 1e-300)))  # zero for a single value

    found = optimize.minimize(
        deficit,
        np.log(present.weight - 2.0),
        method="Nelder-Mead",
        options={"xatol": 1e-2, "fatol": 1e-5, "maxfev": 200},
    )
    weight = kinds.weight.copy()
    weight[held] = weights(found.x)
    return float(np.exp(-found.fun)), kinds._replace(weight=weight)


def uldp_bound(
    n_sensitive: int, epsilon: float, n: int, *, n_values: int | None = None, norm: str = "l2"
) -> float:
    """Worst-case loss that no ULDP mechanism with no estimator can fall below, constants included.

    With all values sensitive it is the bound for LDP.

    Parameters
    ----------
    n_sensitive : int
        Number of sensitive values.
    epsilon : float
        Budget, of any size.
    n : int
        Number of reports, one per user.
    n_values : int, optional
        Number of all values; with it, the error of sampling users is a bound as well.
    norm : {"l1", "l2"}
        Loss.

    Notes
    -----
    l2: van Trees' inequality with a symmetric Dirichlet prior on the sensitive values, or on some
    of them, its parameter chosen to make the bound large. As ``n`` grows and ``epsilon`` falls it
    becomes ``4 (K_S - 1)^2/(K_S n epsilon^2)`` for even ``K_S``: RAPPOR is optimal there, its
    constant 4 included. Without privacy, ``(1 - 1/K)/(sqrt n + 1)^2``, which is exact (Trybula
    1958).

    l1: Assouad's lemma over pairs of values; about ``K_S / (4 sqrt(n epsilon^2))``, a sixth of what
    RAPPOR reaches.

    Examples
    --------
    Utility-optimized RAPPOR with a small budget, beside what is possible at all:

    >>> import anonbayes as ab
    >>> channel = ab.UtilityOptimizedRAPPOR(ab.Domain("x", range(1000)), range(200), 0.1)
    >>> n = 10**10
    >>> round(channel.worst_case_loss(n) / uldp_bound(200, 0.1, n), 2)
    1.02
    """
    one_of("norm", norm, NORMS)
    check_number(n)
    budget = check_epsilon(epsilon)
    if n_sensitive < 0 or (n_values is not None and n_values < max(n_sensitive, 1)):
        raise ChannelError(
            f"n_sensitive={n_sensitive} of n_values={n_values}: give numbers of values, the first "
            "not larger than the second."
        )
    bound = _any_size(_ldp_l2 if norm == "l2" else _ldp_l1, n_sensitive, budget, n)
    if n_values is None:
        return bound
    if norm == "l2":
        return max(bound, float((1 - 1 / n_values) / (np.sqrt(n) + 1) ** 2))
    return max(bound, _any_size(_ldp_l1, n_values, NO_PRIVACY, n))


def _any_size(
    bound: Callable[[int, float, int], float], size: int, epsilon: float, n: int
) -> float:
    """Largest bound over some numbers of values that are held at all: few, for few reports."""
    if size < 2:
        return 0.0
    numbers = np.unique(np.rint(np.geomspace(2, size, 16)).astype(int))
    return max(bound(int(number), epsilon, n) for number in numbers)


def _ldp_l2(size: int, epsilon: float, n: int) -> float:
    """``(K-1)^2 / (n tr E[I] + tr J)`` at the best parameter of the prior."""
    every = np.arange(1, size, dtype=float)
    some = np.unique(np.rint(np.linspace(1, size - 1, min(size - 1, 60))))

    def bound(log_excess: float, ones: Floats, terms: int) -> float:
        a = 2.0 + np.exp(log_excess)
        trace = float(np.max(_trace(size, epsilon, ones, a, terms)))
        prior = dirichlet(np.array([a]), np.array([float(size)])).within[0]
        return (size - 1) ** 2 / (n * trace + (size - 1) * prior)

    # Searched with few terms on some numbers of ones, then bounded with all.
    place = _highest(lambda x: bound(x, some, SEARCH_TERMS), -8.0, float(np.log(n) + 8.0))
    return float(bound(place, every, MAX_TERMS))


def _trace(size: int, epsilon: float, ones: Floats, a: float, terms: int = MAX_TERMS) -> Floats:
    """Mean trace of the information of an extreme column with that many entries ``e``.

    Written for the column over ``e``, with entries 1 and ``exp(-epsilon)``.
    """
    low, rest = np.exp(-epsilon), -np.expm1(-epsilon)
    mean = low + rest * ones / size
    inverse = inverse_mean(low, rest, a * ones, a * (size - ones), terms=terms)
    return rest**2 * ones * (size - ones) / size / mean * inverse


def _ldp_l1(size: int, epsilon: float, n: int) -> float:
    """Assouad's lemma: ``K/2`` pairs of values with probabilities ``(1 +- delta)/K``.

    A pair costs ``(2 delta/K)(1 - TV)``; the squared Hellinger distances of the pairs add up to at
    most ``n (2 delta^2/K^2) tr``, and ``TV`` is at most the Hellinger distance.
    """
    ones = np.arange(1, size, dtype=float)
    low, rest = np.exp(-epsilon), -np.expm1(-epsilon)
    mean = low + rest * ones / size
    pairs = size // 2

    def bound(log_delta: float) -> float:
        delta = np.exp(log_delta)
        least = (1 - delta) * mean + delta * low
        trace = float(np.max(rest**2 * ones * (size - ones) / size / mean / least))
        distance = delta / size * np.sqrt(2 * n * trace / pairs)
        return 2 * pairs / size * delta * (1 - min(distance, 1.0))

    return float(bound(_highest(bound, -0.75 * float(np.log(n)) - 40.0, 0.0)))


def _highest(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function of one peak is highest: a grid, then a search around its best point."""
    grid = np.linspace(low, high, 25)
    best = int(np.argmax([function(x) for x in grid]))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, 24)])
    found = optimize.minimize_scalar(
        lambda x: -function(x), bounds=around, method="bounded", options={"xatol": 1e-2}
    )
    return float(found.x) if -found.fun > function(grid[best]) else float(grid[best])


def check_number(n: int) -> None:
    """Raise `ChannelError` unless there is at least one report."""
    if n < 1:
        raise ChannelError(f"n={n!r} reports: give at least one.")


# -------------------------------------------------------------------------------------------------
# What the losses become at small and large budgets, and what no mechanism can beat.
#
# The exact losses are in `anonbayes.estimation.losses`; these are the simple expressions that the
# literature compares mechanisms by (ULDP Secs. 3.2, 4.3 and App. C.1).


def high_privacy_loss(
    mechanism: str, n_sensitive: int, epsilon: float, n: int, *, norm: str = "l2"
) -> float:
    """Worst-case loss as ``epsilon -> 0`` (ULDP (15), (18), App. C.1).

    Parameters
    ----------
    mechanism : {"response", "bits"}
        Utility-optimized randomized response, or RAPPOR; plain ones have all values sensitive.
    n_sensitive : int
        Number of sensitive values.
    epsilon : float
        Budget, positive.
    n : int
        Number of reports.
    norm : {"l1", "l2"}
        Loss.

    Examples
    --------
    RAPPOR beats randomized response when the budget is small:

    >>> bits = high_privacy_loss("bits", 100, 0.1, 10_000, norm="l1")
    >>> response = high_privacy_loss("response", 100, 0.1, 10_000, norm="l1")
    >>> round(response / bits, 2)
    4.97
    """
    one_of("mechanism", mechanism, ("response", "bits"))
    one_of("norm", norm, NORMS)
    _check(n_sensitive, epsilon, n)
    if norm == "l1":
        size = (
            n_sensitive * np.sqrt(n_sensitive - 1) if mechanism == "response" else 2 * n_sensitive
        )
        return float(np.sqrt(2 / (n * np.pi)) * size / epsilon)
    size = n_sensitive * (n_sensitive - 1) if mechanism == "response" else 4 * n_sensitive
    return float(size / (n * epsilon**2))


def low_privacy_loss(n_values: int, n: int, *, norm: str = "l2") -> float:
    """Worst-case loss at ``epsilon = ln K`` when few values are sensitive: that of no privacy.

    It is reached by uRR when ``K_S << K`` and by uRAP when ``K_S << K^(3/4)`` (l1) or
    ``K_S << K^(1/2)`` (l2).
    """
    return non_private_loss(n_values, n, norm=norm)


def non_private_loss(n_values: int, n: int, *, norm: str = "l2") -> float:
    """Worst-case loss of releasing the values as they are: the error of sampling.

    Examples
    --------
    >>> non_private_loss(2, 100, norm="l2")
    0.005
    """
    one_of("norm", norm, NORMS)
    if n_values < 1 or n < 1:
        raise ChannelError(f"n_values={n_values} and n={n} must be at least 1.")
    if norm == "l1":
        return float(np.sqrt(2 * (n_values - 1) / (n * np.pi)))
    return (1 - 1 / n_values) / n


def minimax_rate(n_sensitive: int, epsilon: float, n: int, *, norm: str = "l2") -> float:
    """Order of the smallest worst-case loss of any ULDP mechanism, for ``epsilon <= 1``.

    ``K_S / sqrt(n epsilon^2)`` (l1) and ``K_S / (n epsilon^2)`` (l2), up to a constant (Duchi,
    Jordan and Wainwright 2013, applied to the sensitive values; ULDP Sec. 3.2). A mechanism is
    order-optimal when its worst case is a bounded multiple of this.
    """
    one_of("norm", norm, NORMS)
    _check(n_sensitive, epsilon, n)
    if epsilon > 1:
        raise ChannelError(f"epsilon={epsilon!r}: the bound is known for budgets up to 1 only.")
    if norm == "l1":
        return float(n_sensitive / np.sqrt(n * epsilon**2))
    return float(n_sensitive / (n * epsilon**2))


def _check(n_sensitive: int, epsilon: float, n: int) -> None:
    if check_epsilon(epsilon) == 0:
        raise ChannelError("epsilon=0: the loss is infinite.")
    if n_sensitive < 1 or n < 1:
        raise ChannelError(f"n_sensitive={n_sensitive} and n={n} must be at least 1.")
