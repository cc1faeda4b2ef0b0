"""Convergence of categorical chains: the Weiß test and its relatives, on any ArviZ object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

from .. import compat
from ..errors import AnonbayesError, one_of
from ._labels import flat_labels
from ._quantities import idata_of
from ._weiss_core import bootstrap_kernel, weiss_kernel

METHODS = ("weiss", "hangartner", "billingsley", "dar", "mc")  # in the order of the kernel's codes
BOOTSTRAPS = ("dar", "mc")
BLOCK = 256  # series that are turned around together
RESULTS = ("statistic", "dof", "p_value", "phi", "n_categories", "n_moves")


def weiss(
    data: Any,
    *,
    group: str = "posterior",
    var_names: str | Iterable[str] | None = None,
    coords: Mapping[str, Any] | None = None,
    segments: int | str = 5,
    method: str = "weiss",
    simulations: int = 1000,
    seed: int | np.random.Generator | None = None,
) -> xr.Dataset:
    r"""Test whether pieces of a categorical chain, or whole chains, share one distribution.

    With :math:`p_{jl}` the share of category `j` in piece `l` of `T` draws and :math:`p_j` the
    pooled share, the homogeneity statistic is

    .. math:: X^2 = T \sum_l \sum_j (p_{jl} - p_j)^2 / p_j .

    Draws of a chain are not independent, so :math:`X^2` is too large by a factor that the tests of
    the family estimate each in its own way. All are invariant to relabelling the categories, which
    R-hat is not.

    Parameters
    ----------
    data : Posterior, InferenceData, DataTree, Dataset, DataArray, mapping or array
        Categories as integers, booleans or text; arrays have the shape (draw,), or
        (chain, draw, ...).
    group : str, default "posterior"
        Group of an ArviZ object.
    var_names : str or list of str, optional
        Variables to test; by default all that are not floating-point.
    coords : mapping, optional
        Labels to select, as in ArviZ.
    segments : int or "chains", default 5
        Number of consecutive pieces of each chain that are compared with each other, or
        ``"chains"`` to compare the chains. Draws that do not fill the pieces evenly are left out
        at the beginning.
    method : {"weiss", "hangartner", "billingsley", "dar", "mc"}, default "weiss"
        ``"weiss"``: :math:`X^2 (1-\phi)/(1+\phi)`, with :math:`\phi` of a DAR(1) chain, which
        keeps its value with probability :math:`\phi` and else draws afresh. ``"hangartner"``:
        :math:`X^2` as it is, for independent draws. ``"billingsley"``: equality of the
        transition matrices, for Markov chains. ``"dar"`` and ``"mc"``: :math:`X^2` among those of
        simulated DAR(1) chains, or of Markov chains with the pooled transition matrix.
    simulations : int, default 1000
        Simulated data sets of the bootstraps ``"dar"`` and ``"mc"``. Their p-values are at least
        ``1 / (simulations + 1)``; they take about 25 ns per simulated move, so use them for chosen
        rows rather than for all.
    seed : int, Generator or None
        Random numbers of the bootstraps.

    Returns
    -------
    xarray.Dataset
        ``statistic``, ``dof`` (for the bootstraps the mean of the simulated statistics),
        ``p_value``, ``phi``, ``n_categories`` seen and ``n_moves`` to another category, by chain
        (unless chains are compared) and by the dimensions of the variable. Several variables are
        put one after another on the dimension ``series``, labelled like ``"z[3]"``.

    See Also
    --------
    geweke : the test for real parameters.
    diagnose : all tests at once, with a verdict.

    Notes
    -----
    Only categories that occur count, so a domain may be larger than what the chain visits.

    *One category only*: there is nothing to test; statistic and degrees of freedom are 0, the
    p-value and phi are NaN.

    *Pieces that never move but differ*: ``n_moves`` is 0 and phi cannot be told from 1. Each piece
    then counts as a single draw. The p-value is that of a handful of draws and cannot be small;
    `diagnose` reports such rows as stuck. The same holds, less sharply, whenever phi is close to 1.

    `phi` describes the memory of one step. A chain with a long memory behind a short one (slow
    drift of hidden parameters) has a larger variance than DAR(1) allows, and the test then rejects
    more often than its level.

    References
    ----------
    .. [1] B. Deonovic, B. Smith (2017). Convergence diagnostics for MCMC draws of a categorical
       variable. arXiv:1706.04919.
    .. [2] C. Weiß (2013). Serial dependence of NDARMA processes. Computational Statistics and Data
       Analysis 68, 213-238.
    .. [3] P. Billingsley (1961). Statistical methods in Markov chains. Annals of Mathematical
       Statistics 32, 12-40.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> rows = rng.integers(0, 3, size=(2, 1000, 4))  # chain, draw, row
    >>> weiss(rows)["p_value"].dims
    ('chain', 'x_dim_0')
    >>> rows[1, :, 2] = 0  # chain 1 sees one category of row 2, chain 0 sees three
    >>> weiss(rows, segments="chains")["p_value"].values.round(3)
    array([0.621, 0.733, 0.   , 0.381])
    """
    one_of("method", method, METHODS)
    chosen = compat.select(idata_of(data), group=group, var_names=var_names, coords=coords)
    if var_names is None:
        chosen = chosen[[k for k, v in chosen.data_vars.items() if v.dtype.kind != "f"]]
        if not chosen.data_vars:
            raise AnonbayesError(
                f"The group {group!r} has no categorical variable (integer, bool or text); "
                "test real parameters with geweke."
            )
    pieces, length = _pieces(segments, chosen.sizes["chain"], chosen.sizes["draw"])
    if simulations < 1:
        raise AnonbayesError(f"simulations={simulations!r} must be at least 1.")
    rng = np.random.default_rng(seed)
    between = segments == "chains"
    results = {
        str(name): _of_variable(
            str(name), variable, pieces, length, between, method, simulations, rng
        )
        for name, variable in chosen.data_vars.items()
    }
    result = next(iter(results.values())) if len(results) == 1 else _one_after_another(results)
    draws_used = length if between else pieces * length
    return result.assign_attrs(
        method=method,
        segments=segments,
        draws_per_segment=length,
        draws_left_out=chosen.sizes["draw"] - draws_used,
    )


def _pieces(segments: int | str, chains: int, draws: int) -> tuple[int, int]:
    if segments == "chains":
        if chains < 2:
            raise AnonbayesError(
                "segments='chains' compares chains, but there is only one. Sample more chains, or "
                "give the number of pieces to cut the chain into."
            )
        if draws < 2:
            raise AnonbayesError(f"The chains have {draws} draw; take at least 2.")
        return chains, draws
    if isinstance(segments, bool) or not isinstance(segments, (int, np.integer)) or segments < 2:
        raise AnonbayesError(
            f"segments={segments!r} is neither 'chains' nor a whole number of at least 2."
        )
    if draws // segments < 2:
        raise AnonbayesError(
            f"segments={segments} pieces of {draws} draws leave {draws // segments} draws each; "
            "take fewer segments or more draws."
        )
    return int(segments), draws // int(segments)


def _of_variable(
    name: str,
    variable: xr.DataArray,
    pieces: int,
    length: int,
    between: bool,
    method: str,
    simulations: int,
    rng: np.random.Generator,
) -> xr.Dataset:
    rest = [dim for dim in variable.dims if dim not in compat.SAMPLE_DIMS]
    ordered = variable.transpose(*compat.SAMPLE_DIMS, *rest)
    codes, n_codes = as_codes(ordered.values, name)
    codes = codes.reshape(*ordered.shape[:2], -1)
    dims, shape = rest, ordered.shape[2:]
    if between:
        tables = weiss_array(codes, n_codes, method, simulations, rng)
    else:
        kept = codes[:, codes.shape[1] - pieces * length :]
        tables = np.stack(
            [
                weiss_array(chain.reshape(pieces, length, -1), n_codes, method, simulations, rng)
                for chain in kept
            ],
            axis=1,
        )
        dims, shape = ["chain", *rest], (codes.shape[0], *shape)
    labels = {k: c for k, c in ordered.coords.items() if set(c.dims) <= set(dims)}
    dataset = xr.Dataset(
        {k: (dims, v.reshape(shape)) for k, v in zip(RESULTS, tables, strict=True)}, coords=labels
    )
    return dataset.assign({k: dataset[k].astype(int) for k in ("n_categories", "n_moves")})


def _one_after_another(results: Mapping[str, xr.Dataset]) -> xr.Dataset:
    flat = []
    for name, result in results.items():
        rest = [dim for dim in result["p_value"].dims if dim != "chain"]
        labels = flat_labels(name, result["p_value"], skip=("chain",))
        stacked = (
            result.stack(series=rest, create_index=False) if rest else result.expand_dims(series=1)
        )
        flat.append(stacked.reset_coords(drop=True).assign_coords(series=labels))
    return xr.concat(flat, "series")


def weiss_array(
    codes: np.ndarray,
    n_codes: int,
    method: str = "weiss",
    simulations: int = 1000,
    rng: np.random.Generator | None = None,
) -> np.ndarray:
    """Test each series of `codes` (segment, draw, series); the array form of `weiss`.

    Parameters
    ----------
    codes : array of int (segment, draw, series)
        Codes from 0 to ``n_codes - 1``.
    n_codes : int
        Number of codes.
    method, simulations, rng
        As in `weiss`.

    Returns
    -------
    array (6, series)
        Statistic, degrees of freedom, p-value, phi, number of categories, number of moves.

    Examples
    --------
    >>> halves = np.array([[0, 0, 1, 0, 1, 1], [1, 0, 0, 1, 1, 0]])
    >>> weiss_array(halves[..., None], 2, "hangartner")[:3, 0]
    array([0., 1., 1.])
    """
    rng = np.random.default_rng() if rng is None else rng
    return np.concatenate(
        [
            _of_block(codes[..., begin : begin + BLOCK], n_codes, method, simulations, rng)
            for begin in range(0, codes.shape[2], BLOCK)
        ],
        axis=1,
    )


def _of_block(
    codes: np.ndarray, n_codes: int, method: str, simulations: int, rng: np.random.Generator
) -> np.ndarray:
    # Draws come with rows side by side; the kernels want the draws of a row side by side. They
    # recode in place, so the copy is needed even where the order is right already.
    turned = np.array(codes.transpose(2, 0, 1), dtype=np.int32, order="C", copy=True)
    table = weiss_kernel(turned, n_codes, METHODS.index(method))
    statistic, dof, *rest = table
    if method in BOOTSTRAPS:
        p_value, dof = bootstrap_kernel(turned, table, METHODS.index(method), simulations, rng)
    else:
        p_value = np.full(dof.shape, np.nan)
        p_value[dof > 0] = stats.chi2.sf(statistic[dof > 0], dof[dof > 0])
    return np.stack([statistic, dof, p_value, *rest])


def as_codes(values: np.ndarray, name: str = "data") -> tuple[np.ndarray, int]:
    """Return categories as integer codes from 0, without a copy where they are that already.

    Examples
    --------
    >>> as_codes(np.array(["b", "a", "b"]))
    (array([0, 1, 0], dtype=int32), 2)
    """
    if values.size == 0:
        raise AnonbayesError(f"The variable {name!r} is empty.")
    if values.dtype.kind == "b":
        return values.view(np.int8), 2
    if values.dtype.kind in "iu":
        low, high = int(values.min()), int(values.max())
        if 0 <= low and high < 2**16:  # the table of codes stays small next to the draws
            return values, high + 1
    elif values.dtype.kind not in "OUST":
        raise AnonbayesError(
            f"var_names: {name!r} holds {values.dtype} values, not categories; test real "
            "parameters with geweke, or convert codes to integers."
        )
    codes, categories = pd.factorize(values.reshape(-1))
    if (codes < 0).any():
        raise AnonbayesError(
            f"The variable {name!r} has missing values; drop those draws or give them a category."
        )
    return codes.astype(np.int32).reshape(values.shape), len(categories)
