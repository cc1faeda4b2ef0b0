"""What follows from a guarantee: composition, integration, post-processing and shuffling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats, read_number, read_numbers, read_share, read_whole
from anonbayes.errors import AnonbayesError, ChannelError
from anonbayes.notions.ldp import LDP, Notion, check_epsilon
from anonbayes.notions.selective import OSLDP, ULDP


def compose(*notions: Notion) -> Notion:
    """Guarantee of releasing the same value through several channels (ULDP Prop. 1).

    Parameters
    ----------
    *notions : Notion
        The guarantees of the single releases, all of one kind (LDP, ULDP or OSLDP with the same
        sensitive set, OneID, MinID); later channels may depend on earlier reports.

    Returns
    -------
    Notion
        The guarantee with the summed budgets. For ULDP, a pair of reports is protected if both are.

    Examples
    --------
    >>> compose(LDP(0.5), LDP(0.25))
    LDP(epsilon=0.75)
    """
    if not notions:
        raise AnonbayesError("Give at least one guarantee to compose.")
    total, *rest = notions
    for notion in rest:
        if not isinstance(total, Notion) or type(total) is not type(notion):
            raise AnonbayesError(
                f"{total} and {notion} cannot be composed into one notion; use `integrate` for "
                "ULDP with LDP."
            )
        total = total + notion
    return total


def integrate(first: ULDP, second: LDP) -> LDP:
    """Guarantee on one collector's protected reports combined with another's (ULDP Prop. 12).

    Returns
    -------
    LDP
        It holds for all pairs ``(y_A, y_B)`` with ``y_A`` protected, and so for everybody who has a
        sensitive value, whose reports to the first collector are always protected.

    Examples
    --------
    >>> integrate(ULDP(["HIV"], 1.0), LDP(0.5))
    LDP(epsilon=1.5)
    """
    if not isinstance(first, ULDP) or not isinstance(second, LDP):
        raise AnonbayesError(f"integrate combines ULDP with LDP, not {first} with {second}.")
    return LDP(first.epsilon + second.epsilon)


def post_process(
    notion: ULDP, kernel: npt.ArrayLike, protected_in: npt.ArrayLike, protected_out: npt.ArrayLike
) -> ULDP | OSLDP:
    """Guarantee after post-processing the reports by a randomized map (ULDP Def. 5, Prop. 11).

    Parameters
    ----------
    notion : ULDP
        Guarantee of the reports.
    kernel : array-like, shape (number of reports, number of results)
        Probability of each result given each report.
    protected_in, protected_out : array-like of bool
        Which reports, and which results, count as protected.

    Returns
    -------
    ULDP or OSLDP
        The same ULDP if the map preserves data types: no invertible report gives a protected
        result, and each invertible result comes from exactly one report, an invertible one.
        Otherwise the one-sided guarantee, which ULDP implies (Prop. 13) and every map preserves.

    Examples
    --------
    Merging two protected reports keeps ULDP; merging a protected and an invertible one does not:

    >>> before = ULDP(["HIV"], 1.0)
    >>> merge_protected = [[1, 0], [1, 0], [0, 1]]
    >>> post_process(before, merge_protected, [True, True, False], [True, False])
    ULDP(['HIV'], epsilon=1.0)
    >>> post_process(before, [[1, 0], [0, 1], [1, 0]], [True, True, False], [True, True])
    OSLDP(['HIV'], epsilon=1.0)
    """
    q = read_numbers("kernel", kernel)
    before = read_numbers("protected_in", protected_in).reshape(-1) != 0
    after = read_numbers("protected_out", protected_out).reshape(-1) != 0
    if q.shape != (len(before), len(after)):
        raise AnonbayesError(
            f"The kernel has shape {q.shape}, but there are {len(before)} reports and "
            f"{len(after)} results."
        )
    if not (q >= 0).all() or not np.allclose(q.sum(axis=1), 1.0):
        raise AnonbayesError("Every row of the kernel must be a distribution over the results.")
    possible = q > 0
    mixed = possible[np.ix_(~before, after)].any()
    sources = possible[:, ~after]
    invertible = (sources.sum(axis=0) == 1) & ~sources[before].any(axis=0)
    if not mixed and invertible.all():
        return notion
    return OSLDP(notion.sensitive, notion.epsilon)


# -------------------------------------------------------------------------------------------------
# When a trusted shuffler passes reports on in random order, a person's report hides among those of
# all others, and together the reports satisfy central (epsilon, delta)-differential privacy with a
# smaller budget than each does alone.

# Number of bisections of the interval of the budget, down to rounding.
HALVINGS = 60
# Above this, a report excludes all values but one, as far as floats can distinguish.
MOST_LOCAL = 700.0


@dataclass(frozen=True)
class Shuffled:
    """Central guarantee of shuffled reports.

    Attributes
    ----------
    epsilon, delta : float
        Whoever sees all reports in random order learns at most this about any person.
    n : int
        Number of reports.
    local_epsilon : float
        Budget of a single report, which holds even against the shuffler.
    total_variation : float or None
        Distance between the reports of any two values, if it is the same for all pairs; the bound
        may then be tighter.
    closed_form : float
        The published formula for any mechanism with that local budget, for comparison; infinite
        where it does not apply.
    """

    epsilon: float
    delta: float
    n: int
    local_epsilon: float
    total_variation: float | None
    closed_form: float

    def __str__(self) -> str:
        """Return one sentence."""
        return (
            f"{self.n:,} shuffled reports with local epsilon {self.local_epsilon:.4g} satisfy "
            f"central ({self.epsilon:.4g}, {self.delta:.3g})-differential privacy"
        )


@runtime_checkable
class Local(Protocol):
    """The properties of a channel that determine how well its reports hide among others."""

    def ldp_budget(self) -> float:
        """Budget of plain local differential privacy."""
        ...

    def total_variation(self) -> float | None:
        """Total variation distance of two values' reports; None unless equal for all pairs."""
        ...


def shuffled(channel: Local | float, n: int, *, delta: float = 1e-6) -> Shuffled:
    """Compute the central guarantee of `n` reports mixed by a trusted shuffler.

    The bound is the numerical one of Feldman, McMillan and Talwar, summed exactly; see
    `shuffled_delta`.

    Parameters
    ----------
    channel : Channel or float
        What each device runs; it must satisfy LDP. For a budget (a number), the bound holds for any
        mechanism with that budget.
    n : int
        Number of people, who send one report each.
    delta : float
        Probability with which the guarantee may fail; it should be below ``1/n``.

    References
    ----------
    .. [1] V. Feldman, A. McMillan, K. Talwar (2021). Hiding among the clones: a simple and nearly
       optimal analysis of privacy amplification by shuffling. FOCS.

    Examples
    --------
    >>> import anonbayes as ab
    >>> channel = ab.RandomizedResponse(ab.Domain("answer", ["yes", "no"]), epsilon=1.0)
    >>> mixed = ab.shuffled(channel, 10_000)
    >>> round(mixed.epsilon, 3), round(mixed.closed_form, 3)
    (0.043, 0.214)
    """
    number = read_whole("n", n, least=1, error=ChannelError)
    failing = read_share("delta", delta, "the probability of failing", error=ChannelError)
    if isinstance(channel, Local):
        local, apart = channel.ldp_budget(), channel.total_variation()
    else:
        local, apart = check_epsilon(read_number("channel", channel, error=ChannelError)), None
    if local > MOST_LOCAL:
        raise ChannelError(
            f"{channel!r} does not satisfy LDP with a budget of at most {MOST_LOCAL:g}: some "
            "report excludes a value, which shuffling does not change."
        )
    low, high = 0.0, local
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        kept = shuffled_delta(middle, number, local, apart) <= failing
        low, high = (low, middle) if kept else (middle, high)
    formula = closed_form_epsilon(local, number, failing)
    return Shuffled(high, failing, number, local, apart, formula)


def shuffled_delta(epsilon: float, n: int, local: float, apart: float | None = None) -> float:
    """Upper bound on the probability that shuffled reports exceed a central budget.

    Parameters
    ----------
    epsilon : float
        Central budget.
    n : int
        Number of reports.
    local : float
        Local budget.
    apart : float, optional
        Total variation distance between the reports of any two values, the same for all pairs.

    Notes
    -----
    Let ``q = e^local``. A report of either of two values is drawn from one of two
    distributions, ``D0`` and ``D1``, or from a third that both values share. With ``a = apart /
    (q - 1)`` the own one has probability ``a q`` and the other one ``a`` (``D0`` is the
    normalized excess of the first value's probabilities over the second's). Every other report
    is drawn from ``D0`` with probability ``a``, and from ``D1`` too. If the first report is
    from the third distribution, which has probability ``1 - a (q + 1)`` for each value, it
    reveals nothing; otherwise it hides among ``C ~ Binomial(n - 1, 2 a)`` others. The divergence
    is convex, so that the probability asked for is ``a (q + 1)`` times that of telling ``(A +
    1, C - A)`` from ``(A, C - A + 1)``, where ``A ~ Binomial(C, 1/2)`` and the right one of the
    two is seen with ``q / (q + 1)``. Without `apart`, ``C ~ Binomial(n - 1, 1/q)`` holds for
    any mechanism (Feldman et al. 2021, Theorem 3.2), and the smaller of the two bounds holds.

    Examples
    --------
    >>> 0 < shuffled_delta(0.1, 10_000, 1.0) < shuffled_delta(0.05, 10_000, 1.0) < 1
    True
    """
    from scipy import special

    if local == 0 or apart == 0:
        return 0.0
    ratio = math.exp(local)
    part, chance, of_any = 1.0, 1.0 / ratio, 1.0
    if apart is not None:
        of_any = shuffled_delta(epsilon, n, local)
        alpha = apart / math.expm1(local)
        part, chance = min(1.0, alpha * (ratio + 1.0)), min(1.0, 2.0 * alpha)
    others, own, other = n - 1, ratio / (ratio + 1.0), 1.0 / (ratio + 1.0)
    mean, spread = others * chance, math.sqrt(others * chance * (1.0 - chance))
    low = max(0, math.floor(mean - 9.0 * spread - 40.0))
    high = min(others, math.ceil(mean + 9.0 * spread + 40.0))
    beyond = float(special.bdtr(low - 1, others, chance)) if low > 0 else 0.0
    beyond += float(special.bdtrc(high, others, chance)) if high < others else 0.0
    sizes = np.arange(low, high + 1)
    log_pmf = special.gammaln(others + 1) - special.gammaln(sizes + 1)
    log_pmf -= special.gammaln(others - sizes + 1)
    log_pmf += special.xlogy(sizes, chance) + special.xlog1py(others - sizes, -chance)
    grown = math.exp(epsilon)
    # From this count of the first kind on, the first value is likelier by more than `epsilon`.
    limit = np.floor((sizes + 1) * (ratio * grown - 1.0) / ((ratio - 1.0) * (1.0 + grown)))

    def tail(above: Floats) -> Floats:
        """Probability that a fair binomial number of these sizes exceeds `above`."""
        out = np.where(above < 0, 1.0, 0.0)
        inside = (above >= 0) & (above < sizes)
        out[inside] = special.bdtrc(above[inside], sizes[inside], 0.5)
        return out

    one, two = tail(limit - 1.0), tail(limit)
    gain = own * one + other * two - grown * (other * one + own * two)
    total = float(np.exp(log_pmf) @ np.maximum(gain, 0.0))
    return min(of_any, part * (total + beyond))


def closed_form_epsilon(local: float, n: int, delta: float) -> float:
    """Central budget by the formula of Feldman, McMillan and Talwar (2021, Theorem 3.1).

    It holds for ``local <= log(n / (16 log(2/delta)))``, and is infinite beyond.
    """
    check_epsilon(local)
    ratio = math.exp(local)
    if ratio > n / (16.0 * math.log(2.0 / delta)):
        return math.inf
    noise = 8.0 * math.sqrt(ratio * math.log(4.0 / delta) / n) + 8.0 * ratio / n
    return math.log1p(math.tanh(local / 2.0) * noise)
