"""Input-discriminative unary encoding and its optimal probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats, Mask
from anonbayes.channels.unary import BitChannel
from anonbayes.domains import Domain
from anonbayes.errors import ChannelError, one_of
from anonbayes.notions.selective import InputDiscriminative, MinID, OneID, budget_array

# -------------------------------------------------------------------------------------------------
# Input-discriminative unary encoding: bits with individual probabilities.


class InputDiscriminativeUE(BitChannel):
    """One-hot bits; bit ``i`` is kept with ``a_i`` and raised with ``b_i`` (OneID (4)).

    It satisfies ID-LDP iff ``a_i (1-b_j) / (b_i (1-a_j)) <= exp(r(eps_i, eps_j))`` for all
    ``i != j`` (OneID Prop. 1), which `satisfies` checks.

    Parameters
    ----------
    domain : Domain
        The values, one bit each.
    a, b : array-like of shape (K,) or float
        With ``0 <= b < a <= 1``.

    Attributes
    ----------
    a, b : ndarray, shape (K,)
        The bit probabilities (also called `hit` and `miss`).
    notion : OneID, MinID or None
        The guarantee requested from `optimal`.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("place", ["clinic", "park", "station"])
    >>> channel = ab.InputDiscriminativeUE.optimal(domain, [1.0, 4.6, float("inf")])
    >>> channel.a.round(3).tolist(), channel.b.round(3).tolist()
    ([0.947, 0.41, 0.39], [0.571, 0.033, 0.0])
    """

    notion: InputDiscriminative | None = None

    def __init__(self, domain: Domain, a: npt.ArrayLike, b: npt.ArrayLike) -> None:
        super().__init__(domain, a, b)
        same = np.flatnonzero(self.hit <= self.miss)
        if len(same):
            i = int(same[0])
            raise ChannelError(
                f"Bit of {domain.values[i]!r}: a and b are both {self.hit[i]:.6g}, so the bit "
                "carries no information; a must be larger than b."
            )

    @property
    def a(self) -> Floats:
        """Probability that a user's own bit stays one."""
        return self.hit

    @property
    def b(self) -> Floats:
        """Probability that any other bit is raised."""
        return self.miss

    @classmethod
    def optimal(
        cls, domain: Domain, budgets: object, notion: str = "oneid", *, as_published: bool = False
    ) -> InputDiscriminativeUE:
        """Channel with the least worst-case squared error for given budgets (OneID (5), MODEL 3).

        Parameters
        ----------
        domain : Domain
            The values, one bit each.
        budgets : Budgets, array-like, mapping, pandas.Series or float
            Positive, one for each value; infinite for values that need no protection.
        notion : {"oneid", "minid"}
            Which pairs a budget protects.
        as_published : bool
            Whether to solve the paper's problem, which also constrains a value against itself.
            OneID does not require that for a value that is the only one with its budget, and
            dropping it reduces the loss: with budgets of 0.5 and 3, from 19.68 to 9.06.

        Examples
        --------
        >>> import anonbayes as ab
        >>> domain = ab.Domain("coin", ["heads", "tails"])
        >>> channel = ab.InputDiscriminativeUE.optimal(domain, np.log(3))
        >>> channel.a.round(6).tolist(), channel.b.round(6).tolist()  # (3 - sqrt 3)/2 and the rest
        ([0.633975, 0.633975], [0.366025, 0.366025])
        """
        one_of("notion", notion, NOTIONS)
        epsilon = budget_array(budgets, domain)
        classes, place, sizes = np.unique(epsilon, return_inverse=True, return_counts=True)
        a, b, _ = optimum(classes, sizes, notion=notion, as_published=as_published)
        channel = cls(domain, a[place], b[place])
        channel.notion = (OneID if notion == "oneid" else MinID)(budgets)
        return channel


# -------------------------------------------------------------------------------------------------
# The best bit probabilities for given budgets: a convex problem in one or two dimensions.
#
# Unary encoding keeps bit ``i`` with ``a_i`` and raises it with ``b_i``. The worst-case squared
# error of estimated counts, divided by ``n``, is (OneID (5))
#
#     F = sum_i m_i b_i (1-b_i)/(a_i-b_i)^2 + max_i (1-a_i-b_i)/(a_i-b_i)
#
# over budget classes ``i`` of ``m_i`` values. With ``u = ln(a/b)`` and ``w = ln((1-b)/(1-a))`` the
# constraints become linear, ``u_i + w_j <= r_ij``, and
#
#     F = sum_i m_i/((1-e^-w_i)(e^u_i-1)) + max_i [1/(e^w_i-1) - 1/(e^u_i-1)]
#
# is convex and falls in every ``u`` and ``w`` (the sum's slope outweighs the maximum's), so at the
# optimum the constraints bind. OneID-LDP then leaves one unknown, the common ``w``; MinID-LDP two,
# the largest ``u`` and the largest ``w`` (MODEL 3).
#
# The paper also limits a value against itself, ``u_i + w_i <= r_ii``, which no pair requires if the
# value is alone in its class. Without this constraint, OneID-LDP lets one such value ``s`` have a
# larger ``w`` than the common one: ``u_s = eps_s - w`` and ``u_i = eps_i - w_s``, two unknowns.

NOTIONS = ("oneid", "minid")

# Larger finite budgets are treated as this one, which is stricter but not noticeably so.
LARGEST_BUDGET = 500.0
# For a bit kept with 1 - exp(-w), 1 - a must be distinguishable from 1.
LARGEST_KEEP = 34.0
# Values that are alone with their budget are tried from both ends of the range of budgets.
TRIED = 8
ROUNDING = 16 * float(np.finfo(float).eps)


class Optimum(NamedTuple):
    """Bit probabilities of each class, and the worst-case squared error of counts over ``n``."""

    a: Floats
    b: Floats
    value: float


def optimum(
    epsilon: npt.ArrayLike,
    sizes: npt.ArrayLike,
    *,
    notion: str = "oneid",
    as_published: bool = False,
) -> Optimum:
    """Best ``a`` and ``b`` of unary encoding for classes of `sizes` values with these budgets.

    Infinite budgets remove their constraints. `as_published` retains the constraint of each value
    against itself, which MinID always includes. The probabilities satisfy every constraint even
    after rounding.
    """
    one_of("notion", notion, NOTIONS)
    budget, size = np.asarray(epsilon, dtype=float), np.asarray(sizes, dtype=float)
    if budget.ndim != 1 or budget.shape != size.shape or len(budget) == 0:
        raise ChannelError(
            f"Budgets have shape {budget.shape} and sizes have shape {size.shape}; give one of "
            "each per class."
        )
    if not (budget > 0).all():
        raise ChannelError(
            f"With a budget of {budget.min():g} all values look alike, and no report carries "
            "information. Give positive budgets (when tuning them, gamma > 1)."
        )
    if not (size >= 1).all():
        raise ChannelError(f"A class has {size.min():g} values; leave out empty classes.")
    budget = np.where(np.isinf(budget), np.inf, np.minimum(budget, LARGEST_BUDGET))
    if np.isinf(budget).all():
        return Optimum(np.ones(len(budget)), np.zeros(len(budget)), 0.0)
    u, w = (_oneid if notion == "oneid" else _minid)(budget, size)
    a, b = _repair(u, w, budget, notion)
    best = Optimum(a, b, objective(a, b, size))
    if notion == "minid" or as_published:
        return best
    for single in _candidates(budget, size):
        u, w = _one_apart(budget, size, single)
        if min(u.min(), w.min()) > 0:
            a, b = _repair(u, w, budget, notion, size == 1)
            best = min(best, Optimum(a, b, objective(a, b, size)), key=lambda each: each.value)
    return best


def _candidates(epsilon: Floats, sizes: Floats) -> list[int]:
    """Classes of one value that may have the larger ``w``: the smallest and largest budgets."""
    alone = np.flatnonzero((sizes == 1) & np.isfinite(epsilon))
    order = alone[np.argsort(epsilon[alone])].tolist() if sizes.sum() > 1 else []
    return list(dict.fromkeys([*order[:TRIED], *order[-TRIED:]]))


def _one_apart(epsilon: Floats, sizes: Floats, single: int) -> tuple[Floats, Floats]:
    """``u`` and ``w`` if the value of class `single` has its own ``w``."""
    others = np.arange(len(epsilon)) != single
    several = sizes[others].sum() > 1
    widest = min(float(epsilon[others].min()), LARGEST_KEEP)

    def parts(own: float, common: float) -> tuple[Floats, Floats]:
        u = epsilon - (max(own, common) if several else own)
        w = np.full(len(epsilon), common)
        u[single], w[single] = epsilon[single] - common, own
        return u, w

    def value(own: float, common: float) -> float:
        return _loss(*parts(own, common), sizes)

    def inner(own: float) -> tuple[float, float]:
        most = min(float(epsilon[single]), widest if several else LARGEST_KEEP)
        common = _search(lambda at: value(own, at), most)
        return common, value(own, common)

    own = _search(lambda at: inner(at)[1], widest)
    return parts(own, inner(own)[0])


def _loss(u: Floats, w: Floats, sizes: Floats) -> float:
    """``F`` in terms of ``u`` and ``w``; infinite at the very edge, after rounding."""
    if min(u.min(), w.min()) <= 0:
        return np.inf
    lift = 1.0 / np.expm1(u)
    return float(sizes @ (lift / -np.expm1(-w)) + np.max(1.0 / np.expm1(w) - lift))


def objective(a: npt.ArrayLike, b: npt.ArrayLike, sizes: npt.ArrayLike) -> float:
    """``F``: the worst-case squared error of estimated counts, divided by ``n`` (OneID (5))."""
    keep, raised = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    gain = keep - raised
    noise = np.asarray(sizes, dtype=float) @ (raised * (1 - raised) / gain**2)
    return float(noise + np.max((1 - keep - raised) / gain))


def _oneid(epsilon: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """``w`` common to all, ``u = eps - w``; a root of the derivative in one dimension.

    With ``x = e^-w``, ``q = 1/E``, ``d = 1 - q`` and partial fractions
    ``F = A/(1-x) + sum_i B_i q_i/(x-q_i) - 1``, ``A = 1 + sum m q/d``, ``B = m/d`` (less one for
    the largest budget). With ``1 - x = d_min s`` the unknown ``s`` runs from 0 to 1, and the
    derivative is zero where ``sum B q/((d-d_min)/d_min + 1-s)^2 = A/s^2``.
    """
    finite = np.isfinite(epsilon)
    budget = epsilon[finite]
    q, d = np.exp(-budget), -np.expm1(-budget)
    smallest = float(d.min())
    weight = sizes[finite] / d
    if finite.all():
        top = int(np.argmax(budget))
        weight[top] = (sizes[top] - 1.0 + q[top]) / d[top]
    log_rise = np.log(1.0 + sizes[finite] @ (q / d))
    behind = (d - smallest) / smallest

    def slope(logit: float) -> float:
        s, rest = 1.0 / (1.0 + np.exp(-logit)), 1.0 / (1.0 + np.exp(logit))
        with np.errstate(divide="ignore"):  # a budget so large that its noise vanishes
            fall = np.log(weight * q @ (behind + rest) ** -2.0)
        return float(fall - log_rise + 2.0 * np.log(s))

    from scipy import optimize

    ends = slope(-300.0), slope(300.0)
    if ends[0] * ends[1] < 0:
        root = optimize.brentq(slope, -300.0, 300.0, xtol=1e-13)
    else:  # budgets so large that the solution is an end point within rounding
        root = -300.0 if abs(ends[0]) < abs(ends[1]) else 300.0
    x = float(q.max()) + smallest / (1.0 + np.exp(root))
    keep = min(-np.log(x), LARGEST_KEEP)
    return epsilon - keep, np.full(len(epsilon), keep)


def _minid(epsilon: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """``u = min(U, eps - W)`` and ``w = min(W, eps - U)``; nested searches over ``W`` and ``U``.

    A convex function minimised over one coordinate is convex in the other, so this crosses kinks.
    """
    smallest = float(epsilon.min())
    widest = min(smallest, LARGEST_KEEP)

    def parts(top_u: float, top_w: float) -> tuple[Floats, Floats]:
        return np.minimum(top_u, epsilon - top_w), np.minimum(top_w, epsilon - top_u)

    def value(top_u: float, top_w: float) -> float:
        return _loss(*parts(top_u, top_w), sizes)

    def inner(top_w: float) -> tuple[float, float]:
        top_u = _search(lambda at: value(at, top_w), smallest)
        return top_u, value(top_u, top_w)

    top_w = _search(lambda at: inner(at)[1], widest)
    return parts(inner(top_w)[0], top_w)


def _search(function: Callable[[float], float], upper: float) -> float:
    """Minimiser of a convex function on ``(0, upper)``."""
    from scipy import optimize

    best = optimize.minimize_scalar(
        lambda share: function(share * upper),
        bounds=(0.0, 1.0),
        method="bounded",
        options={"xatol": 1e-12, "maxiter": 300},
    )
    return float(best.x) * upper


def _repair(
    u: Floats, w: Floats, epsilon: Floats, notion: str, alone: Mask | bool = False
) -> tuple[Floats, Floats]:
    """Bit probabilities whose rounded values satisfy the constraints.

    If rounding moved a ratio above its limit, ``u`` (for MinID also ``w``) is reduced.
    """
    for attempt in range(50):
        a = np.expm1(-w) / np.expm1(-(u + w))
        b = a * np.exp(-u)
        if not ((a > b) & (b < 1)).all():
            break
        with np.errstate(divide="ignore"):
            log_a, log_b = np.log(a), np.log(b)
            own, other = log_a - log_b, np.log1p(-b) - np.log1p(-a)
        largest = np.full(len(a), np.max(other))
        for i in np.flatnonzero(alone & (other == largest)):  # not limited against themselves
            largest[i] = np.max(np.delete(other, i), initial=0.0)
        margin = ROUNDING * (1.0 + np.where(b > 0, own, 0.0) + np.max(other))
        over = _excess(own + largest + margin, epsilon)
        if notion == "minid":
            over = np.maximum(over, _excess(np.max(own) + other + margin, epsilon))
        if (over <= 0).all():
            return a, b
        # Each attempt gives a little more than needed, or rounding could undo it forever.
        give = np.where(over > 0, over + attempt * margin, 0.0)
        u = u - give
        if notion == "minid":
            w = w - give
    raise ChannelError(
        f"Budgets from {epsilon.min():.3g} to {epsilon.max():.3g} cannot be met in double "
        "precision; increase the smallest one."
    )


def _excess(log_ratio: Floats, epsilon: Floats) -> Floats:
    """Excess of each class over its budget; infinite budgets cannot be exceeded."""
    over = np.zeros(len(epsilon))
    limited = np.isfinite(epsilon)
    over[limited] = log_ratio[limited] - epsilon[limited]
    return over
