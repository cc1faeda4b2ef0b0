"""Geweke's test: compare the means of the first and the last part of a chain."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import xarray as xr
from numba import njit
from scipy import special

from anonbayes import compat
from anonbayes.arrays import read_number, read_whole
from anonbayes.diagnostics.quantities import idata_of
from anonbayes.errors import AnonbayesError, one_of

# -------------------------------------------------------------------------------------------------
# Geweke's statistic on plain arrays: spectral densities at zero and windows of a chain.
#
# Everything here takes and returns NumPy arrays whose last axis is the draw.

# A window counts as constant or linear if its residual from a straight line is below this share of
# its largest value, that is, within rounding.
ROUNDING = 1e-12


@njit(cache=True)
def _is_straight(x: np.ndarray) -> bool:
    """Return whether `x` is constant or exactly linear in time, up to rounding."""
    n = x.size
    mean = x.mean()
    middle = 0.5 * (n - 1)
    slope, spread = 0.0, 0.0
    for t in range(n):
        slope += (t - middle) * (x[t] - mean)
        spread += (t - middle) ** 2
    if spread > 0.0:
        slope /= spread
    rest, largest = 0.0, 0.0
    for t in range(n):
        rest += (x[t] - mean - slope * (t - middle)) ** 2
        largest = max(largest, abs(x[t]))
    return math.sqrt(rest / max(n - 1, 1)) <= ROUNDING * largest


@njit(cache=True)
def spectrum0_ar(x: np.ndarray) -> tuple[float, int]:
    """Spectral density at zero of a series from an autoregression, and its order, chosen by AIC.

    Yule-Walker estimates by the Durbin-Levinson recursion, orders up to ``10 log10 n``, innovation
    variance scaled by ``n / (n - order - 1)``, like R's ``ar``, on which coda's ``spectrum0.ar``
    relies. A constant or exactly linear series has density 0 and order 0.
    """
    n = x.size
    if n < 2 or _is_straight(x):
        return 0.0, 0
    top = min(n - 1, math.floor(10.0 * math.log10(n)))
    centred = x - x.mean()
    covariance = np.empty(top + 1)
    for lag in range(top + 1):
        covariance[lag] = np.dot(centred[: n - lag], centred[lag:]) / n

    variance = covariance[0]
    coefficients = np.zeros(top)
    previous = np.zeros(top)
    best_aic = n * math.log(variance)
    best_order, best_variance, best_sum = 0, variance, 0.0
    for order in range(1, top + 1):
        numerator = covariance[order]
        for i in range(order - 1):
            numerator -= coefficients[i] * covariance[order - 1 - i]
        reflection = numerator / variance
        previous[:] = coefficients
        for i in range(order - 1):
            coefficients[i] = previous[i] - reflection * previous[order - 2 - i]
        coefficients[order - 1] = reflection
        variance *= 1.0 - reflection * reflection
        if variance <= 0.0:  # exactly predicted; a higher order cannot help
            break
        aic = n * math.log(variance) + 2.0 * order
        if aic < best_aic:
            best_aic, best_order, best_variance = aic, order, variance
            best_sum = coefficients[:order].sum()
    best_variance *= n / (n - (best_order + 1.0)) if n > best_order + 1 else 1.0
    return best_variance / (1.0 - best_sum) ** 2, best_order


@njit(cache=True)
def mean_variance_ar(x: np.ndarray) -> np.ndarray:
    """Variance of the mean of each row of `x` (series, draw) by `spectrum0_ar`."""
    out = np.empty(x.shape[0])
    for i in range(x.shape[0]):
        out[i] = spectrum0_ar(x[i])[0] / x.shape[1]
    return out


def windows(
    n: int, first: float, last: float, intervals: int, scheme: str
) -> list[tuple[slice, slice]]:
    """Return the pairs of early and late windows of a chain of `n` draws.

    ``"discard"`` uses increasingly late starts up to the middle of the chain, like coda's
    ``geweke.plot`` (and with one interval like ``geweke.diag``). ``"blocks"`` compares consecutive
    blocks of the fraction `first` with a single late window (Groups, Section VI-D).
    """
    if scheme == "blocks":
        length = math.floor(first * n + 1e-9)
        late = slice(n - math.floor(last * n + 1e-9), n)
        return [(slice(i * length, (i + 1) * length), late) for i in range(intervals)]
    pairs = []
    for begin in np.linspace(1, (1 + n) / 2, intervals) if intervals > 1 else [1.0]:
        # coda counts from 1, and rounds a fractional start up.
        begin = math.ceil(begin)
        stop = math.ceil(begin + first * (n - begin))
        start = math.floor(n - last * (n - begin))
        pairs.append((slice(begin - 1, stop), slice(start - 1, n)))
    return pairs


def z_scores(
    early: np.ndarray, late: np.ndarray, early_variance: np.ndarray, late_variance: np.ndarray
) -> np.ndarray:
    """Return z of each row's difference of means, given the variances of the two means.

    Windows without variance give NaN if their means agree, and infinity otherwise.
    """
    difference = early.mean(axis=1) - late.mean(axis=1)
    scale = np.maximum(np.abs(early).max(axis=1), np.abs(late).max(axis=1))
    difference[np.abs(difference) <= ROUNDING * scale] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        return difference / np.sqrt(early_variance + late_variance)


# -------------------------------------------------------------------------------------------------
# Geweke's convergence diagnostic for real parameters, on any ArviZ object.

#: The comparison of Groups, Section VI-D: five blocks of a tenth each against the last half.
GEWEKE_PAPER: Mapping[str, object] = {"first": 0.1, "last": 0.5, "intervals": 5, "scheme": "blocks"}


def geweke(
    data: object,
    *,
    group: str = "posterior",
    var_names: str | Iterable[str] | None = None,
    coords: Mapping[str, object] | None = None,
    first: float = 0.1,
    last: float = 0.5,
    intervals: int = 1,
    scheme: str = "discard",
    method: str = "ar",
) -> xr.Dataset:
    r"""Compare the mean of an early part of each chain with the mean of its last part.

    .. math:: z = (\bar x_{early} - \bar x_{late}) / \sqrt{v_{early} + v_{late}}

    is standard normal if the chain is stationary. Here `v` is the variance of a mean of
    *autocorrelated* draws: the spectral density at frequency zero divided by the number of draws.

    Parameters
    ----------
    data : Posterior, InferenceData, DataTree, Dataset, DataArray, mapping or array
        Draws; arrays have the shape (draw,) or (chain, draw, ...).
    group : str, default "posterior"
        Group of an ArviZ object.
    var_names : str or list of str, optional
        Variables to test. By default all floating-point variables; categorical codes have no mean
        and should be tested with `weiss`.
    coords : mapping, optional
        Labels to select, as in ArviZ.
    first, last : float, default 0.1 and 0.5
        Fractions of the chain to compare.
    intervals : int, default 1
        Number of early windows. More than one adds the dimension ``interval``, whose coordinate
        ``start`` is the first draw of each early window.
    scheme : {"discard", "blocks"}, default "discard"
        ``"discard"``: increasingly late starts up to the middle, comparing fractions of the rest
        (coda's ``geweke.plot``). ``"blocks"``: consecutive early blocks against a single late
        window; ``geweke(data, **GEWEKE_PAPER)`` is the comparison in Groups, Section VI-D.
    method : {"ar", "ess"}, default "ar"
        ``"ar"``: Yule-Walker autoregression chosen by AIC, as in R's coda. ``"ess"``: variance
        divided by effective sample size, as in ArviZ's ``mcse``.

    Returns
    -------
    xarray.Dataset
        z for each variable, by chain. Its attributes ``n_missing`` and ``n_constant`` count the
        chains with NaN or infinite draws, and those whose windows are constant and equal; z is NaN
        for both. Windows that are constant but differ give an infinite z.

    See Also
    --------
    weiss : the test for categorical chains.
    diagnose : all tests at once, with a verdict.

    Notes
    -----
    Of 1,000 parameters, 50 are expected beyond 1.96: judge shares rather than single values, see
    `summarize_tests`. If a window has few effective draws there are more, because `v` is then a
    poor estimate; `diagnose` uses Student's t instead of the normal distribution.

    z for each chain says nothing about whether the chains agree with each other; chains in
    different modes can each have a perfect z.

    References
    ----------
    .. [1] J. Geweke (1992). Evaluating the accuracy of sampling-based approaches to the calculation
       of posterior moments. Bayesian Statistics 4, 169-193.
    .. [2] M. Plummer, N. Best, K. Cowles, K. Vines (2006). CODA: convergence diagnosis and output
       analysis for MCMC. R News 6, 7-11.

    Examples
    --------
    >>> import numpy as np
    >>> draws = np.random.default_rng(0).normal(size=(2, 1000))
    >>> geweke(draws)["x"].values.round(2)
    array([1.47, 0.46])
    >>> draws[1, :100] += 1.0
    >>> geweke(draws)["x"].values.round(2)
    array([1.47, 7.12])
    >>> geweke(draws, **GEWEKE_PAPER)["x"].sizes["interval"]
    5
    """
    one_of("method", method, ("ar", "ess"))
    one_of("scheme", scheme, ("discard", "blocks"))
    _check_fractions(first, last, intervals, scheme)
    chosen = compat.select(idata_of(data), group=group, var_names=var_names, coords=coords)
    if var_names is None:
        floats = [k for k, v in chosen.data_vars.items() if v.dtype.kind == "f"]
        chosen = chosen[floats] if floats else chosen
    for name, variable in chosen.data_vars.items():
        if variable.dtype.kind not in "biuf":
            raise AnonbayesError(
                f"var_names: {name!r} contains {variable.dtype} values, which have no mean; "
                "test categorical variables with weiss."
            )
    if "draw" not in chosen.sizes:
        raise AnonbayesError("data contains no draws to test.")
    pairs = windows(chosen.sizes["draw"], first, last, intervals, scheme)
    shortest = min(part.stop - part.start for pair in pairs for part in pair)
    if shortest < 4:
        raise AnonbayesError(
            f"There are {chosen.sizes['draw']} draws per chain, which leaves windows of "
            f"{shortest}; use more draws, larger fractions or fewer intervals."
        )
    starts = chosen["draw"].values[[early.start for early, _ in pairs]]
    return xr.Dataset(
        {k: _of_variable(v, pairs, starts, method) for k, v in chosen.data_vars.items()},
        attrs={"first": first, "last": last, "scheme": scheme, "method": method},
    )


def _of_variable(
    variable: xr.DataArray, pairs: list[tuple[slice, slice]], starts: np.ndarray, method: str
) -> xr.DataArray:
    rest = [dim for dim in variable.dims if dim not in compat.SAMPLE_DIMS]
    ordered = variable.transpose("chain", *rest, "draw")
    series = np.ascontiguousarray(ordered.values, dtype=float).reshape(-1, ordered.sizes["draw"])
    compared = geweke_array(series, pairs, method)
    result = xr.DataArray(
        compared.z.reshape(*ordered.shape[:-1], len(pairs)),
        dims=[*ordered.dims[:-1], "interval"],
        coords={k: c for k, c in ordered.coords.items() if "draw" not in c.dims},
        attrs={
            "n_missing": int(compared.missing.sum()),
            "n_constant": int(compared.constant.sum()),
        },
    )
    if len(pairs) == 1:
        return result.isel(interval=0)
    return result.assign_coords(start=("interval", starts))


class Compared(NamedTuple):
    """Windows of several series compared: ``z`` and degrees of freedom by (series, pair)."""

    z: np.ndarray
    dof: np.ndarray
    missing: np.ndarray
    constant: np.ndarray

    @property
    def p_values(self) -> np.ndarray:
        """Two-sided p-values of Student's t.

        The variances of the means are themselves estimates, and poor ones if a window has few
        effective draws. The normal distribution would then reject stationary chains too often (13%
        at a level of 5% for a thousand draws with autocorrelation 0.9).
        """
        return np.asarray(2.0 * special.stdtr(self.dof, -np.abs(self.z)))


def geweke_array(
    series: np.ndarray, pairs: list[tuple[slice, slice]], method: str = "ar"
) -> Compared:
    """Compare the windows of the rows of `series`, noting missing and constant ones."""
    missing = ~np.isfinite(series).all(axis=1)
    sound = np.ascontiguousarray(series[~missing])
    variance_of = mean_variance_ar if method == "ar" else _mean_variance_ess
    z = np.full((len(series), len(pairs)), np.nan)
    dof = np.full(z.shape, np.nan)
    late_variances: dict[int, np.ndarray] = {}
    for i, (first, last) in enumerate(pairs):
        early, late = (np.ascontiguousarray(sound[:, part]) for part in (first, last))
        if last.start not in late_variances:  # "blocks" always uses the same late window
            late_variances[last.start] = variance_of(late)
        variances = variance_of(early), late_variances[last.start]
        z[~missing, i] = z_scores(early, late, *variances)
        dof[~missing, i] = _degrees_of_freedom(early.shape[1], late, *variances)
    return Compared(z, dof, missing, np.isnan(z).any(axis=1) & ~missing)


def _degrees_of_freedom(
    n_early: int, late: np.ndarray, early_variance: np.ndarray, late_variance: np.ndarray
) -> np.ndarray:
    """Degrees of freedom of each row's difference of means, after Welch.

    The log of the spectral density at zero, estimated from n effective draws of an AR(1) chain, has
    variance 4/n, like that of a variance with n/2 degrees of freedom. The share of effective draws
    is taken from the late window, which is longer and more likely to be stationary.
    """
    n_late = late.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = np.nan_to_num(late.var(axis=1) / late_variance, nan=n_late, posinf=n_late)
        each = [np.maximum(np.minimum(effective / n_late, 1.0) * n / 2, 1.0)
                for n in (n_early, n_late)]  # fmt: skip
        squares = early_variance**2 / each[0] + late_variance**2 / each[1]
        return np.nan_to_num((early_variance + late_variance) ** 2 / squares, nan=1.0)


def _mean_variance_ess(x: np.ndarray) -> np.ndarray:
    # ArviZ's error is NaN for a constant window, whose mean has no error.
    moving = np.ptp(x, axis=1) > 0
    out = np.zeros(len(x))
    if moving.any():
        out[moving] = compat.mcse(x[moving].T[None])["x"].values ** 2
    return out


def _check_fractions(first: float, last: float, intervals: int, scheme: str) -> None:
    for name, value in (("first", first), ("last", last)):
        if not 0 < read_number(name, value) < 1:
            raise AnonbayesError(f"{name}={value!r} must be a fraction between 0 and 1.")
    read_whole("intervals", intervals, least=1)
    taken = (intervals if scheme == "blocks" else 1) * first + last
    if taken > 1 + 1e-9:
        raise AnonbayesError(
            f"first={first!r} and last={last!r} overlap: together they cover {taken:.2f} of the "
            "chain, but windows that share draws cannot be compared. Make one smaller."
        )
