"""Lower bounds on the loss, for channels whose reports carry a known amount of information."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats
from anonbayes.channels.pure import PureChannel
from anonbayes.errors import ChannelError
from anonbayes.estimation import bounds
from anonbayes.estimation.bayes import check_prior
from anonbayes.estimation.bounds import Information, Kinds, Law
from anonbayes.estimation.closed_forms import check_informative
from anonbayes.estimation.likelihood import shares_of

__all__ = ["BoundedChannel"]


class BoundedChannel(PureChannel):
    """Pure channel that knows what no estimator from its reports can beat."""

    @abstractmethod
    def _information(self, kinds: Kinds, law: Law) -> Information:
        """Fisher information of one report."""

    def cramer_rao_bound(self, p: npt.ArrayLike, n: int, *, norm: str = "l2") -> float:
        """Least loss near `p` of an unbiased estimator, and of any regular one as `n` grows.

        Parameters
        ----------
        p : array-like, shape (K,)
            Distribution of the true values. Bit channels: the same for all protected values.
        n : int
            Number of reports.
        norm : {"l1", "l2"}
            ``sum |p_hat - p|`` or ``sum (p_hat - p)^2``.

        Notes
        -----
        For randomized response and its utility-optimized form the empirical estimate attains it.
        For bits the empirical estimate does not, since it forgets which bits were raised together;
        maximum likelihood does. At the edge of the simplex estimators that know it do better.

        Examples
        --------
        >>> import anonbayes as ab
        >>> channel = ab.RandomizedResponse(ab.Domain("x", range(4)), epsilon=1.0)
        >>> p = [0.4, 0.3, 0.2, 0.1]
        >>> round(channel.cramer_rao_bound(p, 1000), 9) == round(channel.expected_loss(p, 1000), 9)
        True
        """
        check_informative(self.hit, self.miss)
        known = shares_of(p, self.domain)
        kinds = Kinds.of(self.hit, self.miss, known)
        return bounds.cramer_rao(self._information(kinds, bounds.fixed), n, norm=norm)

    def van_trees_bound(self, n: int, *, alpha: npt.ArrayLike) -> float:
        """Least mean squared error of any estimator, averaged over a Dirichlet prior, at every `n`.

        Parameters
        ----------
        n : int
            Number of reports.
        alpha : float or array-like of shape (K,)
            Parameters of the prior, above 2, or 0 for values that nobody holds. Bit channels: the
            same for all protected values that somebody holds.

        Examples
        --------
        The posterior mean is the best estimator; it cannot go below this:

        >>> import anonbayes as ab
        >>> channel = ab.RAPPOR(ab.Domain("x", range(4)), epsilon=1.0)
        >>> round(channel.van_trees_bound(10_000, alpha=5.0), 6)
        0.00115
        """
        check_informative(self.hit, self.miss)
        given = np.asarray(alpha, dtype=float)
        # Zeros pass the check as ones, and are left out.
        prior = check_prior(np.where(given == 0, 1.0, given), len(self.domain))
        held = np.broadcast_to(given != 0, prior.shape)
        small = np.flatnonzero(held & (prior <= 2))
        if len(small) or not held.any():
            value = self.domain.values[int(small[0]) if len(small) else 0]
            raise ChannelError(
                f"alpha of {value!r} is {given.flat[small[0] if given.ndim else 0]:g}: the bound "
                "needs a prior that vanishes smoothly at the edges; give numbers above 2, or 0 for "
                "values that nobody holds, not for all."
            )
        kinds = Kinds.of(self.hit[held], self.miss[held], prior[held])
        return bounds.van_trees(self._information, kinds, n)

    def least_favourable_prior(self, n: int) -> Floats:
        """Dirichlet parameters with the largest `van_trees_bound`, protected values alike.

        They are found by search, and may leave out values (zeros) when there are few reports. Any
        others give a bound as well, a smaller one.
        """
        check_informative(self.hit, self.miss)
        bounds.check_number(n)
        # Around the worst case of the empirical estimate, as firmly as reports of sqrt(n) users.
        start = 2.1 + np.sqrt(n) * self.worst_case_distribution(norm="l2")
        kinds = Kinds.of(self.hit, self.miss, start)
        found = bounds.least_favourable(self._information, kinds, n)
        alpha = np.zeros(len(self.hit))
        for hit, miss, weight, size in zip(*found, strict=True):
            alike = np.flatnonzero((self.hit == hit) & (self.miss == miss))
            alpha[alike[: int(size)]] = weight
        return alpha

    def minimax_bound(self, n: int) -> float:
        """Squared error that every estimator from `n` reports exceeds for some distribution.

        `van_trees_bound` at the `least_favourable_prior`. What no other channel can beat either is
        `anonbayes.estimation.bounds.uldp_bound`.

        Examples
        --------
        With many reports the empirical estimate is as good as any in the worst case:

        >>> import anonbayes as ab
        >>> channel = ab.RandomizedResponse(ab.Domain("x", range(10)), epsilon=2.0)
        >>> round(channel.worst_case_loss(10**6) / channel.minimax_bound(10**6), 3)
        1.006
        """
        return self.van_trees_bound(n, alpha=self.least_favourable_prior(n))
