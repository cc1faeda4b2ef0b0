"""The budget attack's success, computed instead of drawn.

The attacker names a random holder of the raised values with the largest budget. For the sender's
own value ``x`` that needs: no raised bit of a held value with a larger budget, bit ``x`` raised,
and a guess among ``c(x) + S`` users, where ``S`` sums the counts of raised values with the same
budget. Bits are independent, so

    E[1/(c(x) + S)] = int_0^inf exp(-c(x) z) prod_i (1 - b_i + b_i exp(-c_i z)) dz

is one integral for all values of a budget class, whatever their number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from anonbayes.arrays import Floats
from anonbayes.channels.unary import BitChannel
from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError
from anonbayes.guarantees.idldp import budget_array, chosen_mask, value_array

__all__ = ["ExpectedAttack", "expected_budget_attack"]


# Gauss-Legendre nodes on panels that grow geometrically: integrands decay anywhere between
# exp(-z) and exp(-n z). Distinct (count, bit) pairs that are held at a time.
PANELS, NODES = 48, 16
CHUNK = 2000


@dataclass(frozen=True, eq=False)
class ExpectedAttack:
    """Expected success of the budget attack, value by value.

    Attributes
    ----------
    domain : Domain
        The values.
    counts : ndarray, shape (K,)
        Users who hold each value.
    success : ndarray, shape (K,)
        Probability that the report of a holder is traced to her.
    opened : ndarray, shape (K,)
        Probability that her report raises a non-sensitive bit.
    opened_success : ndarray, shape (K,)
        Probability of both.
    """

    domain: Domain
    counts: Floats = field(repr=False)
    success: Floats = field(repr=False)
    opened: Floats = field(repr=False)
    opened_success: Floats = field(repr=False)

    @property
    def rate(self) -> float:
        """Expected share of all users' reports whose sender is named (OneID Fig. 5)."""
        return float(self.counts @ self.success / self.counts.sum())

    @property
    def outlier_rate(self) -> float:
        """Expected share among senders with a unique value and an open bit (OneID Fig. 6).

        NaN where no value is held by one user only.
        """
        alone = self.counts == 1
        opened = float(self.opened[alone].sum())
        return float(self.opened_success[alone].sum()) / opened if opened > 0 else float("nan")


def expected_budget_attack(
    channel: BitChannel, counts: Any, budgets: Any, *, sensitive: Any = ()
) -> ExpectedAttack:
    """Success of `budget_attack` in expectation over reports and guesses, without drawing any.

    Parameters
    ----------
    channel : BitChannel
        What the users' devices run.
    counts : mapping, pandas.Series or array-like
        How many users hold each value.
    budgets : Budgets, array-like, mapping or pandas.Series
        Budget of each value.
    sensitive : iterable
        The sensitive values, or their mask, for telling outliers.

    Examples
    --------
    Istanbul's size, in a tenth of a second; nobody there is unique:

    >>> import anonbayes as ab
    >>> domain = ab.Domain("place", range(70_557))
    >>> tuned = ab.budgets.worst_case(domain, n=330_159, gamma=100)
    >>> channel = ab.InputDiscriminativeUE.optimal(domain, tuned)
    >>> counts = [330_159 - 4 * 70_556] + [4] * 70_556
    >>> attack = ab.reidentify.expected_budget_attack(channel, counts, tuned)
    >>> round(attack.rate / tuned.bound, 3), attack.outlier_rate
    (0.505, nan)
    """
    held = value_array("counts", counts, channel.domain, default=0.0)
    if not ((held >= 0) & (held == np.round(held))).all() or not 1 <= held.sum() < np.inf:
        raise AnonbayesError("counts must be whole numbers of users, at least one in total.")
    epsilon = budget_array(budgets, channel.domain)
    is_open = ~chosen_mask(channel.domain, sensitive)
    hit, miss = channel.hit, channel.miss
    success = _success(hit, miss, held, epsilon)
    with np.errstate(divide="ignore"):
        silent = np.log1p(-miss)
        closed = np.exp(silent[is_open].sum()) * np.where(is_open, (1 - hit) / (1 - miss), 1.0)
    # Of a report without open bits, the other bits are what they always are.
    shut = np.where(is_open, 0.0, hit), np.where(is_open, 0.0, miss)
    closed_success = closed * _success(*shut, held, epsilon)
    return ExpectedAttack(
        channel.domain, held, success, 1.0 - closed, np.maximum(success - closed_success, 0.0)
    )


def _success(hit: Floats, miss: Floats, held: Floats, epsilon: Floats) -> Floats:
    """Probability that a holder of each value is named."""
    n = float(held.sum())
    success = np.zeros(len(held))
    order = np.argsort(-epsilon, kind="stable")
    order = order[held[order] > 0]
    quiet = np.log1p(-miss[order])
    # Log probability that no bit before a place is raised by somebody else's value.
    before = np.concatenate([[0.0], np.cumsum(quiet)])
    falling = epsilon[order]
    start = np.flatnonzero(np.append(True, falling[1:] != falling[:-1]))
    end = np.append(start[1:], len(order))
    alone = start[end - start == 1]
    x = order[alone]
    success[x] = np.exp(before[alone]) * hit[x] / held[x]
    for i, j in zip(start, end, strict=True):
        if j - i > 1:
            x = order[i:j]
            success[x] = np.exp(before[i]) * hit[x] * _share(held[x], miss[x], n)
    # Nothing raised that anybody holds: any user is named.
    others = before[-1] - np.log1p(-miss)
    return success + np.where(held > 0, np.exp(others) * (1 - hit) / n, 0.0)


def _share(held: Floats, miss: Floats, n: float) -> Floats:
    """``E[1/(c + S)]`` for each value of a class, ``S`` the raised counts of its other values."""
    z, weight = _nodes(n)
    pairs, place, number = np.unique(held + 1j * miss, return_inverse=True, return_counts=True)
    count, raised = pairs.real[:, None], pairs.imag[:, None]
    parts = [slice(k, k + CHUNK) for k in range(0, len(pairs), CHUNK)]
    total = np.zeros(len(z))
    for part in parts:
        total += number[part] @ np.log1p(raised[part] * np.expm1(-count[part] * z))
    found = np.empty(len(pairs))
    for part in parts:
        own = np.log1p(raised[part] * np.expm1(-count[part] * z))
        found[part] = np.exp(total - own - count[part] * z) @ weight
    return found[place.ravel()]


def _nodes(n: float) -> tuple[Floats, Floats]:
    """Nodes and weights of integrals over the positive numbers, with scales from 1/n to 1."""
    node, weight = _gauss()
    edges = np.concatenate([[0.0], np.geomspace(0.01 / n, 50.0, PANELS)])
    width = np.diff(edges)[:, None]
    return (edges[:-1, None] + width * (node + 1) / 2).ravel(), (width * weight / 2).ravel()


@cache
def _gauss() -> tuple[Floats, Floats]:
    return np.polynomial.legendre.leggauss(NODES)
