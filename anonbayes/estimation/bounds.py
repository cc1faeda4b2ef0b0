"""What no estimator can beat: lower bounds with their constants.

* `cramer_rao`: for one channel near one distribution, as the number of reports grows.
* `van_trees`: for one channel and every number of reports, averaged over a Dirichlet prior, hence
  also in the worst case: ``E ||p_hat - p||^2 >= tr (n E[I(p)] + J)^-1`` with the information ``I``
  of a report and ``J`` of the prior (van Trees 1968; Gill and Levit 1995).
* `uldp_bound`: for every mechanism with a given guarantee, every estimator and every ``n``.

The last one needs the most information that an epsilon-LDP report can carry. The columns ``q`` of
such a channel form a cone, ``max q <= e min q``, and ``|q - mean q|^2 / (p q)`` is convex and grows
in proportion to ``q``: it is largest at the extreme columns, whose entries are 1 and ``e``. With
``t`` entries ``e`` the sum over the reports, ``tr I(p)``, is at most

    max_t  (e-1)^2 t (K-t)/K / ((1 + (e-1) t/K) (1 + (e-1) p(T))),

at the uniform distribution ``K (e-1)^2/(4e)``, which subset selection with ``t = K/(e+1)`` attains.
Sensitive values of a ULDP mechanism produce protected reports only, so that on distributions over
them it is an epsilon-LDP channel with ``K_S`` values (ULDP Sec. 3.2).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import optimize

from anonbayes.arrays import Floats
from anonbayes.errors import ChannelError, one_of
from anonbayes.estimation.information import (
    MAX_TERMS,
    Information,
    Kinds,
    Law,
    dirichlet,
    drawn,
    inverse_mean,
)
from anonbayes.estimation.losses import NORMS
from anonbayes.guarantees.ldp import check_epsilon

__all__ = ["cramer_rao", "least_favourable", "uldp_bound", "van_trees"]


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
        Information of one report, `anonbayes.estimation.information.response` or ``bits``.
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
