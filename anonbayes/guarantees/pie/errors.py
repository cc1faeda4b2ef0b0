"""From bits to the error of whoever tries to re-identify, and back (PIE Prop. 7, Cor. 8)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import optimize

from anonbayes.errors import AnonbayesError
from anonbayes.guarantees.pie.bounds import check_users

__all__ = ["bayes_error", "information_for", "largest_prior"]

Prior = float | npt.ArrayLike


def bayes_error(
    alpha_bits: float,
    n_users: int | npt.ArrayLike | None = None,
    *,
    prior: Prior | None = None,
    sharp: bool = False,
) -> float:
    """Smallest error with which anybody can name the sender of a report that says so much.

    ``1 + (alpha+1)/log2(max_u p_U(u))``, for equally likely users ``1 - (alpha+1)/log2 n`` (PIE
    (9), (10)); 0 when that is negative.

    Parameters
    ----------
    alpha_bits : float
        ``I(U;Y)`` in bits, or a bound on it.
    n_users : int or array-like, optional
        Number of equally likely users. An array is taken as `prior`.
    prior : float or array-like, optional
        Instead, the probability of each user before the report, or just the largest of them.
    sharp : bool
        Use Fano's inequality as it is, ``h(beta) + beta log2(n-1) >= log2 n - alpha``, which is
        stronger; for equally likely users. PIE uses the simpler form.

    Examples
    --------
    Five income classes and 10^8 users: without any channel, bits are at most ``log2 5``.

    >>> round(bayes_error(np.log2(5), 10**8), 3)
    0.875
    >>> round(bayes_error(np.log2(5), prior=0.01), 3)
    0.5
    """
    alpha = _check_bits(alpha_bits)
    top = largest_prior(n_users, prior)
    if sharp:
        if n_users is None or np.ndim(n_users):
            raise AnonbayesError("sharp=True is for equally likely users; give n_users alone.")
        return _sharp_error(alpha, check_users(int(np.asarray(n_users))))
    if top >= 1:
        return 0.0
    return float(max(0.0, 1.0 + (alpha + 1.0) / np.log2(top)))


def information_for(
    error: float,
    n_users: int | npt.ArrayLike | None = None,
    *,
    prior: Prior | None = None,
) -> float:
    """Bits that a report may say so that nobody names its sender with an error below `error`.

    The inverse of `bayes_error`; negative when no number of bits guarantees the error.

    Examples
    --------
    >>> round(information_for(0.8, 10**6), 3), round(information_for(0.5, 10**6), 3)
    (2.986, 8.966)
    """
    if not 0 <= error <= 1:
        raise AnonbayesError(f"error={error!r} is not a probability.")
    return float(-(1.0 - error) * np.log2(largest_prior(n_users, prior)) - 1.0)


def largest_prior(n_users: int | npt.ArrayLike | None, prior: Prior | None) -> float:
    """Probability of the likeliest user before any report."""
    if (n_users is None) == (prior is None):
        raise AnonbayesError("Give either n_users (equally likely) or prior.")
    given = np.asarray(n_users if prior is None else prior, dtype=float)
    if prior is None and given.ndim == 0:
        return 1.0 / check_users(float(given))
    if given.ndim == 0:
        if not 0 < given <= 1:
            raise AnonbayesError(f"prior={prior!r} is not the probability of the likeliest user.")
        return float(given)
    if given.ndim != 1 or not (given >= 0).all() or abs(given.sum() - 1.0) > 1e-6:
        raise AnonbayesError(f"The prior must be a distribution; it sums to {given.sum():.9g}.")
    return float(given.max())


def _check_bits(bits: float) -> float:
    if not bits >= 0:
        raise AnonbayesError(f"alpha_bits={bits!r} must not be negative.")
    return float(bits)


def _sharp_error(alpha: float, n: int) -> float:
    def room(beta: float) -> float:
        entropy = -sum(x * np.log2(x) for x in (beta, 1 - beta) if x > 0)
        return float(entropy + beta * np.log2(n - 1) + alpha - np.log2(n))

    if n == 1 or alpha >= np.log2(n):
        return 0.0
    return float(optimize.brentq(room, 0.0, 1.0 - 1.0 / n, xtol=1e-14)) if alpha else 1 - 1 / n
