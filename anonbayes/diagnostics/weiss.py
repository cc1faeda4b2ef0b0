"""Weiß's test and its relatives for categorical chains."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
import xarray as xr
from numba import njit
from scipy import special

from anonbayes import compat
from anonbayes.diagnostics.quantities import flat_labels, idata_of
from anonbayes.errors import AnonbayesError, one_of

# -------------------------------------------------------------------------------------------------
# Homogeneity tests for categorical chains, on plain arrays.
#
# A series is a scalar variable, a segment is a whole chain or a piece of one. Each series is
# recoded to the categories that it visits, so that counters are small whatever the codes.

WEISS, HANGARTNER, BILLINGSLEY, DAR, MC = range(5)


@njit(cache=True)
def _recode(codes: np.ndarray, local: np.ndarray, seen: np.ndarray) -> int:
    """Replace `codes` (segment, draw) by ranks of first visit; return the number of categories.

    `local` maps a code to its rank, and is -1 everywhere before and after the call.
    """
    m = 0
    for segment in range(codes.shape[0]):
        for t in range(codes.shape[1]):
            code = codes[segment, t]
            if local[code] < 0:
                local[code] = m
                seen[m] = code
                m += 1
            codes[segment, t] = local[code]
    for j in range(m):
        local[seen[j]] = -1
    return m


@njit(cache=True)
def count_categories(codes: np.ndarray, m: int) -> np.ndarray:
    """Count how often each segment is in each category, (segment, category)."""
    counts = np.zeros((codes.shape[0], m), np.int64)
    for segment in range(codes.shape[0]):
        for t in range(codes.shape[1]):
            counts[segment, codes[segment, t]] += 1
    return counts


@njit(cache=True)
def count_transitions(codes: np.ndarray, m: int) -> np.ndarray:
    """Count how often each segment steps from one category to another, (segment, from, to)."""
    counts = np.zeros((codes.shape[0], m, m), np.int64)
    for segment in range(codes.shape[0]):
        for t in range(1, codes.shape[1]):
            counts[segment, codes[segment, t - 1], codes[segment, t]] += 1
    return counts


@njit(cache=True)
def chi_square(counts: np.ndarray, length: int) -> float:
    """Pearson's homogeneity statistic, ``T sum_l sum_j (p_jl - p_j)^2 / p_j``."""
    d, m = counts.shape
    total = 0.0
    for j in range(m):
        pooled = counts[:, j].sum() / (d * length)
        if pooled > 0.0:
            for segment in range(d):
                total += (counts[segment, j] / length - pooled) ** 2 / pooled
    return length * total


@njit(cache=True)
def count_moves(codes: np.ndarray) -> int:
    """Count the steps of all segments that lead to another category."""
    moves = 0
    for segment in range(codes.shape[0]):
        for t in range(1, codes.shape[1]):
            moves += codes[segment, t] != codes[segment, t - 1]
    return moves


@njit(cache=True)
def persistence(counts: np.ndarray, length: int, moves: int) -> float:
    """Estimate phi of a DAR(1) chain from all segments together (Deonovic & Smith 2017).

    ``1 + 1/T - (1 - sum_j P_stay(j)) / (1 - sum_j p_j^2)``, at least 0. If it reaches 1, the factor
    ``(1 + phi) / (1 - phi)`` is set to `T`: a segment that does not move counts as one draw.
    """
    d = counts.shape[0]
    evenness = 1.0
    for j in range(counts.shape[1]):
        evenness -= (counts[:, j].sum() / (d * length)) ** 2
    phi = 1.0 + 1.0 / length - moves / (d * (length - 1)) / evenness
    if phi >= 1.0:
        phi = (length - 1.0) / (length + 1.0)
    return max(phi, 0.0)


@njit(cache=True)
def billingsley(transitions: np.ndarray) -> tuple[float, int]:
    """Billingsley's statistic for equal transition matrices, and its degrees of freedom.

    A category counts in the segments that leave it, with its successors in any of them: there are
    ``sum over categories of (segments - 1) (successors - 1)`` degrees of freedom.
    """
    d, m, _ = transitions.shape
    statistic, dof = 0.0, 0
    for j in range(m):
        leaving = 0
        total = 0
        for segment in range(d):
            here = transitions[segment, j].sum()
            leaving += here > 0
            total += here
        if total == 0:
            continue
        successors = 0
        for k in range(m):
            pooled = transitions[:, j, k].sum() / total
            if pooled == 0.0:
                continue
            successors += 1
            for segment in range(d):
                here = transitions[segment, j].sum()
                if here > 0:
                    share = transitions[segment, j, k] / here
                    statistic += here * (share - pooled) ** 2 / pooled
        dof += (leaving - 1) * (successors - 1)
    return statistic, dof


@njit(cache=True)
def _pick(rng: np.random.Generator, cumulative: np.ndarray) -> int:
    """Draw an index by cumulative weights whose last entry is at least 1."""
    u = rng.random()
    j = 0
    while u >= cumulative[j]:
        j += 1
    return j


@njit(cache=True)
def _jumps(transition: np.ndarray) -> np.ndarray:
    """Return cumulative probabilities of the next *other* category, one row per category."""
    m = transition.shape[0]
    cumulative = np.ones((m, m))
    for j in range(m):
        leaving = 1.0 - transition[j, j]
        total, last = 0.0, 0
        for k in range(m):
            if k != j and transition[j, k] > 0.0:
                total += transition[j, k] / leaving
                last = k
            cumulative[j, k] = total
        cumulative[j, last:] = 1.0  # guards against rounding
    return cumulative


@njit(cache=True)
def bootstrap(
    rng: np.random.Generator,
    shares: np.ndarray,
    transition: np.ndarray,
    shape: tuple[int, int],
    observed: float,
    simulations: int,
) -> tuple[float, float]:
    """Return the p-value of `observed` among chi-squares of simulated chains, and their mean.

    Simulates ``shape[0]`` Markov chains of ``shape[1]`` draws that start from `shares`. Times spent
    in a category are geometric, so the work grows with the number of moves. The observed value
    counts as one of the simulated ones.
    """
    d, length = shape
    starts = np.cumsum(shares)
    starts[-1] = 1.0
    jumps = _jumps(transition)
    stay = np.diag(transition)
    scale = np.zeros(stay.size)
    for j in range(stay.size):
        if 0.0 < stay[j] < 1.0:
            scale[j] = 1.0 / math.log(stay[j])
    counts = np.zeros((d, shares.size), np.int64)
    as_large = 0
    total = 0.0
    for _ in range(simulations):
        counts[:] = 0
        for segment in range(d):
            state = _pick(rng, starts)
            left = length
            while True:
                run = left
                if stay[state] < 1.0:
                    run = 1 + int(min(math.log(1.0 - rng.random()) * scale[state], float(left)))
                if run >= left:
                    counts[segment, state] += left
                    break
                counts[segment, state] += run
                left -= run
                state = _pick(rng, jumps[state])
        value = chi_square(counts, length)
        total += value
        as_large += value >= observed * (1.0 - 1e-12)
    return (1.0 + as_large) / (1.0 + simulations), total / simulations


@njit(cache=True)
def pooled_transition(transitions: np.ndarray) -> np.ndarray:
    """Return the transition matrix of all segments together; a category never left is absorbing."""
    m = transitions.shape[1]
    matrix = np.zeros((m, m))
    for j in range(m):
        total = transitions[:, j].sum()
        if total == 0:
            matrix[j, j] = 1.0
        else:
            for k in range(m):
                matrix[j, k] = transitions[:, j, k].sum() / total
    return matrix


@njit(cache=True)
def dar_transition(shares: np.ndarray, phi: float) -> np.ndarray:
    """Return the transition matrix of a DAR(1) chain: stay with phi, else draw from `shares`."""
    m = shares.size
    matrix = np.empty((m, m))
    for j in range(m):
        for k in range(m):
            matrix[j, k] = (1.0 - phi) * shares[k] + (phi if j == k else 0.0)
    return matrix


@njit(cache=True)
def weiss_kernel(codes: np.ndarray, n_codes: int, method: int) -> np.ndarray:
    """Test every series of `codes` (series, segment, draw), which is recoded in place.

    Returns by series: statistic, degrees of freedom, phi, number of categories, number of moves.
    """
    n_series, d, length = codes.shape
    out = np.zeros((5, n_series))
    local = np.full(n_codes, -1, np.int64)
    seen = np.empty(n_codes, np.int64)
    for i in range(n_series):
        series = codes[i]
        m = _recode(series, local, seen)
        moves = count_moves(series)
        out[3, i] = m
        out[4, i] = moves
        if m == 1:  # nothing to compare: the statistic is 0 with 0 degrees of freedom
            out[2, i] = np.nan
            continue
        counts = count_categories(series, m)
        phi = persistence(counts, length, moves)
        out[2, i] = phi
        if method == BILLINGSLEY:
            out[0, i], out[1, i] = billingsley(count_transitions(series, m))
        else:
            out[0, i] = chi_square(counts, length)
            out[1, i] = (m - 1) * (d - 1)
            if method == WEISS:
                out[0, i] *= (1.0 - phi) / (1.0 + phi)
    return out


@njit(cache=True)
def bootstrap_kernel(
    codes: np.ndarray, table: np.ndarray, method: int, simulations: int, rng: np.random.Generator
) -> np.ndarray:
    """Return p-values and mean simulated statistics (2, series), given `weiss_kernel`'s table."""
    n_series, d, length = codes.shape
    out = np.full((2, n_series), np.nan)
    for i in range(n_series):
        m = int(table[3, i])
        if m == 1:
            out[1, i] = 0.0
            continue
        shares = count_categories(codes[i], m).sum(axis=0) / (d * length)
        if method == DAR:
            matrix = dar_transition(shares, table[2, i])
        else:
            matrix = pooled_transition(count_transitions(codes[i], m))
        out[0, i], out[1, i] = bootstrap(rng, shares, matrix, (d, length), table[0, i], simulations)
    return out


# -------------------------------------------------------------------------------------------------
# Convergence of categorical chains: the Weiß test and its relatives, on any ArviZ object.

METHODS = ("weiss", "hangartner", "billingsley", "dar", "mc")  # in the order of the kernel's codes
BOOTSTRAPS = ("dar", "mc")
BLOCK = 256  # number of series transposed together
RESULTS = ("statistic", "dof", "p_value", "phi", "n_categories", "n_moves")


def weiss(
    data: object,
    *,
    group: str = "posterior",
    var_names: str | Iterable[str] | None = None,
    coords: Mapping[str, object] | None = None,
    segments: int | str = 5,
    method: str = "weiss",
    simulations: int = 1000,
    seed: int | np.random.Generator | None = None,
) -> xr.Dataset:
    r"""Test whether pieces of a categorical chain, or whole chains, share one distribution.

    With :math:`p_{jl}` the share of category `j` in piece `l` of `T` draws and :math:`p_j` the
    pooled share, the homogeneity statistic is

    .. math:: X^2 = T \sum_l \sum_j (p_{jl} - p_j)^2 / p_j .

    Draws of a chain are not independent, so :math:`X^2` is too large by a factor, which each test
    of the family estimates in its own way. All are invariant under relabelling of the categories,
    unlike R-hat.
    R-hat is not.

    Parameters
    ----------
    data : Posterior, InferenceData, DataTree, Dataset, DataArray, mapping or array
        Categories as integers, booleans or text; arrays have the shape (draw,) or
        (chain, draw, ...).
    group : str, default "posterior"
        Group of an ArviZ object.
    var_names : str or list of str, optional
        Variables to test; by default all that are not floating-point.
    coords : mapping, optional
        Labels to select, as in ArviZ.
    segments : int or "chains", default 5
        Number of consecutive pieces of each chain to compare with each other, or ``"chains"`` to
        compare the chains. If the draws cannot be divided evenly, some at the beginning are left
        out.
    method : {"weiss", "hangartner", "billingsley", "dar", "mc"}, default "weiss"
        ``"weiss"``: :math:`X^2 (1-\phi)/(1+\phi)`, with :math:`\phi` of a DAR(1) chain, which
        keeps its value with probability :math:`\phi` and otherwise draws a new one.
        ``"hangartner"``: :math:`X^2` itself, for independent draws. ``"billingsley"``: equality of
        the transition matrices, for Markov chains. ``"dar"`` and ``"mc"``: :math:`X^2` compared
        with simulated DAR(1) chains, or Markov chains with the pooled transition matrix.
    simulations : int, default 1000
        Number of simulated data sets for ``"dar"`` and ``"mc"``. Their p-values are at least
        ``1 / (simulations + 1)``. They take about 25 ns per simulated move, so use them for
        selected rows rather than for all.
    seed : int, Generator or None
        Seed of the simulations.

    Returns
    -------
    xarray.Dataset
        ``statistic``, ``dof`` (for ``"dar"`` and ``"mc"`` the mean of the simulated statistics),
        ``p_value``, ``phi``, ``n_categories`` visited and ``n_moves`` to another category, by chain
        (unless chains are compared) and by the dimensions of the variable. Several variables are
        concatenated along the dimension ``series``, labelled like ``"z[3]"``.

    See Also
    --------
    geweke : the test for real parameters.
    diagnose : all tests at once, with a verdict.

    Notes
    -----
    Only categories that occur count, so a domain may be larger than the set of visited values.

    *Only one category*: there is nothing to test; statistic and degrees of freedom are 0, p-value
    and phi are NaN.

    *Pieces that never move but differ*: ``n_moves`` is 0, and phi cannot be distinguished from 1.
    Each piece then counts as a single draw, so the p-value cannot be small; `diagnose` reports such
    rows as stuck. To a lesser degree this happens whenever phi is close to 1.

    `phi` describes the memory of a single step. A chain with an additional long memory (slow drift
    of hidden parameters) has a larger variance than DAR(1) allows, and the test then rejects more
    often than its level.

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
    if isinstance(segments, str) and segments == "chains":
        if chains < 2:
            raise AnonbayesError(
                "segments='chains' compares chains, but there is only one. Sample more chains, or "
                "give the number of pieces into which to cut the chain."
            )
        if draws < 2:
            raise AnonbayesError(f"The chains have {draws} draw; take at least 2.")
        return chains, draws
    if isinstance(segments, bool) or not isinstance(segments, (int, np.integer)) or segments < 2:
        raise AnonbayesError(f"segments={segments!r} must be 'chains' or an integer of at least 2.")
    if draws // segments < 2:
        raise AnonbayesError(
            f"segments={segments} pieces of {draws} draws leave {draws // segments} draws each; "
            "use fewer segments or more draws."
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
    """Test each series of `codes` (segment, draw, series); `weiss` for arrays."""
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
    # Draws come with rows next to each other, but the kernels need the draws of a row next to each
    # other. They also recode in place, so a copy is needed in any case.
    turned = np.array(codes.transpose(2, 0, 1), dtype=np.int32, order="C", copy=True)
    table = weiss_kernel(turned, n_codes, METHODS.index(method))
    statistic, dof, *rest = table
    if method in BOOTSTRAPS:
        p_value, dof = bootstrap_kernel(turned, table, METHODS.index(method), simulations, rng)
    else:
        p_value = np.full(dof.shape, np.nan)
        p_value[dof > 0] = special.chdtrc(dof[dof > 0], statistic[dof > 0])
    return np.stack([statistic, dof, p_value, *rest])


def as_codes(values: np.ndarray, name: str = "data") -> tuple[np.ndarray, int]:
    """Return categories as integer codes from 0, without a copy if they already are."""
    if values.size == 0:
        raise AnonbayesError(f"The variable {name!r} is empty.")
    if values.dtype.kind == "b":
        return values.view(np.int8), 2
    if values.dtype.kind in "iu":
        low, high = int(values.min()), int(values.max())
        if 0 <= low and high < 2**16:  # the table of codes is small compared with the draws
            return values, high + 1
    elif values.dtype.kind not in "OUST":
        raise AnonbayesError(
            f"var_names: {name!r} contains {values.dtype} values, not categories; test real "
            "parameters with geweke, or convert codes to integers."
        )
    codes, categories = pd.factorize(values.reshape(-1))
    if (codes < 0).any():
        raise AnonbayesError(
            f"The variable {name!r} has missing values; drop those draws or give them a category."
        )
    return codes.astype(np.int32).reshape(values.shape), len(categories)
