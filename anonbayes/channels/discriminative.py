"""Input-discriminative unary encoding: bits with probabilities of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats
from anonbayes.channels.unary import BitChannel
from anonbayes.domains import Domain
from anonbayes.errors import ChannelError, one_of
from anonbayes.guarantees.idldp import InputDiscriminative, MinID, OneID, budget_array
from anonbayes.guarantees.idue_optimum import NOTIONS, objective, optimum

__all__ = ["InputDiscriminativeUE"]


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
        The bit probabilities (other names of `hit` and `miss`).
    notion : OneID, MinID or None
        The guarantee that `optimal` was asked for.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("place", ["clinic", "park", "station"])
    >>> channel = ab.InputDiscriminativeUE.optimal(domain, [1.0, 4.6, float("inf")])
    >>> channel.a.round(3).tolist(), channel.b.round(3).tolist()
    ([0.623, 0.398, 0.394], [0.378, 0.007, 0.0])
    """

    notion: InputDiscriminative | None = None

    def __init__(self, domain: Domain, a: npt.ArrayLike, b: npt.ArrayLike) -> None:
        super().__init__(domain, a, b)
        same = np.flatnonzero(self.hit <= self.miss)
        if len(same):
            i = int(same[0])
            raise ChannelError(
                f"Bit of {domain.values[i]!r}: a and b are both {self.hit[i]:.6g}, so that it "
                "tells nothing; a must be larger than b."
            )

    @property
    def a(self) -> Floats:
        """Probability that a user's own bit stays one."""
        return self.hit

    @property
    def b(self) -> Floats:
        """Probability that another bit is raised."""
        return self.miss

    @property
    def loss_bound(self) -> float:
        """Largest expected squared error of the users' estimated counts, over ``n`` (OneID (5))."""
        return objective(self.a, self.b, np.ones(len(self.domain)))

    @classmethod
    def optimal(cls, domain: Domain, budgets: Any, notion: str = "oneid") -> InputDiscriminativeUE:
        """Channel of least worst-case squared error for given budgets (OneID (5), MODEL 3).

        Parameters
        ----------
        domain : Domain
            The values, one bit each.
        budgets : Budgets, array-like, mapping, pandas.Series or float
            Positive, one for each value; infinite ones need no protection.
        notion : {"oneid", "minid"}
            Which pairs a budget protects.

        Examples
        --------
        >>> import anonbayes as ab
        >>> domain = ab.Domain("coin", ["heads", "tails"])
        >>> channel = ab.InputDiscriminativeUE.optimal(domain, np.log(3))
        >>> round(channel.loss_bound, 9)  # 3 + 2 sqrt 3
        6.464101615
        """
        one_of("notion", notion, NOTIONS)
        epsilon = budget_array(budgets, domain)
        classes, place, sizes = np.unique(epsilon, return_inverse=True, return_counts=True)
        a, b, _ = optimum(classes, sizes, notion=notion)
        channel = cls(domain, a[place], b[place])
        channel.notion = (OneID if notion == "oneid" else MinID)(budgets)
        return channel
