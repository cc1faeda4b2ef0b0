"""What diagnoses are based on: a table row per scalar quantity, and p-values by kind of test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import xarray as xr
from scipy import special

from anonbayes import compat
from anonbayes.diagnostics.geweke import geweke_array, windows
from anonbayes.diagnostics.quantities import flat_labels
from anonbayes.diagnostics.weiss import weiss
from anonbayes.errors import AnonbayesError

#: Scalar sampler statistics that follow the log density, in which chains in different modes differ.
LOG_DENSITIES = ("energy", "lp", "logp", "log_density", "log_posterior", "log_likelihood")
#: Number of draws of a closed form, made only if needed, that suffice to describe it.
FEW_DRAWS = 100
#: R-hat above which it is tested whether chance explains it.
SUSPECT = 1.005
#: Effective draws of a chain below which differences from other chains cannot be tested.
LEAST_SIZE = 25
#: Parts of the names of statistics that are rates: of accepted proposals, exchanges, moved rows.
RATES = ("accept", "swap", "exchange", "moved")


@dataclass(frozen=True, eq=False)
class Family:
    """P-values of one kind of test, with names and chains."""

    names: list[str]
    p_values: np.ndarray  # (name,) between chains, (chain, name) within


@dataclass(frozen=True, eq=False)
class Measurements:
    """Everything measured for a set of chains."""

    n_chains: int
    n_draws: int
    table: pd.DataFrame
    families: Mapping[str, Family]
    rates: pd.DataFrame  # statistic x chain
    n_divergences: int | None
    round_trips: np.ndarray | None  # of a tempered chain's replicas, by chain
    chain_means: pd.DataFrame  # real quantity x chain


def measure(
    data: object,
    *,
    var_names: str | Iterable[str] | None = None,
    coords: Mapping[str, object] | None = None,
    segments: int = 5,
) -> Measurements:
    """Measure everything on which `diagnose` bases its verdict."""
    chosen = _chosen(data, var_names, coords)
    stats = compat.group(data, "sample_stats")
    n_chains, n_draws = chosen.sizes["chain"], chosen.sizes["draw"]
    real = chosen[[k for k, v in chosen.data_vars.items() if v.dtype.kind == "f"]]
    categorical = chosen[[k for k, v in chosen.data_vars.items() if v.dtype.kind != "f"]]
    densities = _log_densities(stats, real)

    parts: list[pd.DataFrame] = []
    families: dict[str, Family] = {}
    means = pd.DataFrame()
    if real.data_vars or densities.data_vars:
        numbers = xr.merge([real, densities], join="override", compat="override")
        kinds = {k: "log density" if k in densities else "real" for k in numbers.data_vars}
        frame, families["geweke"], means = _measure_real(numbers, kinds)
        parts.append(frame)
    if categorical.data_vars:
        frame, found = _measure_categorical(categorical, segments)
        parts.append(frame)
        families |= found
    return Measurements(
        n_chains=n_chains,
        n_draws=n_draws,
        table=pd.concat(parts),
        families=families,
        rates=_rates(stats),
        n_divergences=_divergences(stats),
        round_trips=_round_trips(stats),
        chain_means=means,
    )


def measure_independent(
    data: object,
    *,
    var_names: str | Iterable[str] | None = None,
    coords: Mapping[str, object] | None = None,
) -> Measurements:
    """Describe draws that are independent by construction, so that there is no chain to test.

    If draws are made only when needed, a few are made.
    """
    from anonbayes.inference.stored import DrawnLater

    if isinstance(data, DrawnLater):
        few = measure_independent(data.first(FEW_DRAWS), var_names=var_names, coords=coords)
        return replace(few, n_chains=data.size[0], n_draws=data.size[1])
    chosen = _chosen(data, var_names, coords)
    real = chosen[[k for k, v in chosen.data_vars.items() if v.dtype.kind == "f"]]
    n = chosen.sizes["chain"] * chosen.sizes["draw"]
    table = pd.DataFrame({"variable": [], "kind": [], "status": []})
    if real.data_vars:
        parts = []
        for key in real.data_vars:  # one by one, because together they may take gigabytes
            names, variables, draws = _flatten(real[[key]])
            flat = draws.reshape(n, -1)
            mean = flat.mean(axis=0)
            sd = np.full(len(names), np.nan)
            if n > 1:
                spread = sum(((part - mean) ** 2).sum(axis=0) for part in np.array_split(flat, 20))
                sd = np.sqrt(spread / (n - 1))
            parts.append(
                pd.DataFrame(
                    {
                        "variable": variables,
                        "kind": "real",
                        "status": "",
                        "mean": mean,
                        "sd": sd,
                        "mcse": sd / np.sqrt(n),
                        "ess_bulk": float(n),
                    },
                    index=pd.Index(names, name="quantity"),
                )
            )
        table = pd.concat(parts)
    return Measurements(
        n_chains=chosen.sizes["chain"],
        n_draws=chosen.sizes["draw"],
        table=table,
        families={},
        rates=pd.DataFrame(),
        n_divergences=None,
        round_trips=None,
        chain_means=pd.DataFrame(),
    )


def _chosen(
    data: object, var_names: str | Iterable[str] | None, coords: Mapping[str, object] | None
) -> xr.Dataset:
    chosen = compat.select(data, var_names=var_names, coords=coords)
    if not chosen.data_vars or 0 in (chosen.sizes["chain"], chosen.sizes["draw"]):
        what = "draws" if chosen.data_vars else "variables"
        raise AnonbayesError(f"The posterior contains no {what}, so there is nothing to diagnose.")
    return chosen


def _log_densities(stats: xr.Dataset | None, real: xr.Dataset) -> xr.Dataset:
    if stats is None:
        return xr.Dataset()
    return stats[
        [
            k
            for k in LOG_DENSITIES
            if k in stats and k not in real and set(stats[k].dims) == set(compat.SAMPLE_DIMS)
        ]
    ].astype(float)


def _flatten(dataset: xr.Dataset) -> tuple[list[str], list[str], np.ndarray]:
    """Return the names, the variables and the values (..., name) of all entries of a Dataset."""
    names: list[str] = []
    variables: list[str] = []
    values = []
    for key, variable in dataset.data_vars.items():
        labels = flat_labels(str(key), variable, compat.SAMPLE_DIMS)
        first = [dim for dim in compat.SAMPLE_DIMS if dim in variable.dims]
        ordered = variable.transpose(*first, ...)
        values.append(ordered.values.reshape(*ordered.shape[: len(first)], -1))
        names += labels
        variables += [str(key)] * len(labels)
    return names, variables, values[0] if len(values) == 1 else np.concatenate(values, axis=-1)


def _measure_real(
    dataset: xr.Dataset, kinds: Mapping[object, str]
) -> tuple[pd.DataFrame, Family, pd.DataFrame]:
    names, variables, draws = _flatten(dataset)
    n_chains, n_draws, _ = draws.shape
    finite = np.isfinite(draws).all(axis=(0, 1))
    draws = np.where(finite, draws, np.nan)  # infinite draws have no spread either
    varies = np.ptp(draws, axis=(0, 1)) > 0
    moves = (np.ptp(draws, axis=1) > 0).any(axis=0)
    status = np.where(moves, "", np.where(varies, "stuck", "constant"))
    frame = pd.DataFrame(
        {
            "variable": variables,
            "kind": [kinds[k] for k in variables],
            "status": np.where(finite, status, "not finite"),
            "mean": draws.mean(axis=(0, 1)),
            "sd": draws.std(axis=(0, 1), ddof=1),
        },
        index=pd.Index(names, name="quantity"),
    )
    sound = finite & moves
    if n_draws >= 4 and sound.any():  # ArviZ needs as many draws
        frame = frame.join(_arviz_statistics(draws[..., sound], frame.index[sound]))
    p_values = np.full((n_chains, len(names)), np.nan)
    if n_draws >= 40:  # with fewer, Geweke's first tenth has fewer than four draws
        series = draws.transpose(0, 2, 1).reshape(-1, n_draws).astype(float)
        compared = geweke_array(series, windows(n_draws, 0.1, 0.5, 1, "discard"))
        frame["geweke_z"] = _largest(compared.z.reshape(p_values.shape))
        p_values = compared.p_values.reshape(p_values.shape)
    means = pd.DataFrame(draws.mean(axis=1).T, index=frame.index)
    return frame, Family(names, p_values), means


def _arviz_statistics(draws: np.ndarray, names: pd.Index) -> pd.DataFrame:
    columns = {
        "mcse": compat.mcse(draws),
        "ess_bulk": compat.ess(draws),
        "ess_tail": compat.ess(draws, method="tail"),
    }
    if draws.shape[0] > 1:
        columns["r_hat"] = compat.rhat(draws)
    frame = pd.DataFrame({k: v["x"].values for k, v in columns.items()}, index=names)
    if "r_hat" in frame:
        frame["agreement_p"] = np.nan
        suspect = frame["r_hat"].to_numpy() > SUSPECT
        if suspect.any():
            frame.loc[suspect, "agreement_p"] = agreement_p(draws[..., suspect])
    return frame


def agreement_p(draws: np.ndarray) -> np.ndarray:
    """P-values for the hypothesis that all chains have the same location and spread.

    As in R-hat, the chain means of the rank-normalised draws, and of the folded ones, are compared,
    here with an F test in which a chain counts as its effective number of draws. Because that
    number is estimated, only a tenth of the degrees of freedom is used (in simulations, chi-square
    rejects slow but stationary chains too often).
    """
    from scipy.stats import f, rankdata  # slow to import

    n_chains, n_draws, n = draws.shape
    smallest = np.ones(n)
    for values in (draws, np.abs(draws - np.median(draws, axis=(0, 1)))):
        rank = rankdata(values.reshape(-1, n), axis=0).reshape(draws.shape)
        z = special.ndtri((rank - 0.375) / (n_chains * n_draws + 0.25))
        alone = z.swapaxes(0, 1).reshape(1, n_draws, -1)
        size = compat.ess(alone, method="mean")["x"].values.reshape(n_chains, n).mean(axis=0)
        size = np.minimum(size, n_draws)
        inside = z.var(axis=1, ddof=1).mean(axis=0)
        between = size * z.mean(axis=1).var(axis=0, ddof=1)
        left = n_chains * np.maximum(size / 10, 1.0)
        p = f.sf(between / inside, n_chains - 1, left)
        smallest = np.fmin(smallest, np.where(size < LEAST_SIZE, 1.0, p))
    return np.minimum(2.0 * smallest, 1.0)


def _largest(z: np.ndarray) -> np.ndarray:
    """Return the entry of largest magnitude in each column, NaN if a column has none."""
    size = np.where(np.isnan(z), -1.0, np.abs(z))
    return np.take_along_axis(z, size.argmax(axis=0)[None], axis=0)[0]


def _measure_categorical(
    dataset: xr.Dataset, segments: int
) -> tuple[pd.DataFrame, dict[str, Family]]:
    names: list[str] = []
    variables: list[str] = []
    between, within = [], []
    several = dataset.sizes["chain"] > 1
    for key, variable in dataset.data_vars.items():
        labels = flat_labels(str(key), variable, compat.SAMPLE_DIMS)
        names += labels
        variables += [str(key)] * len(labels)
        if several:
            between.append(_columns(weiss(variable, segments="chains")))
        if dataset.sizes["draw"] >= 2 * segments:
            within.append(_columns(weiss(variable, segments=segments)))
    frame = pd.DataFrame(
        {"variable": variables, "kind": "categorical", "status": ""},
        index=pd.Index(names, name="quantity"),
    )
    families: dict[str, Family] = {}
    if within:
        table = _join(within)
        families["weiss_within"] = Family(names, table["p_value"])
        frame["weiss_within_p"] = np.fmin.reduce(table["p_value"], axis=0)
        frame["n_categories"] = table["n_categories"].max(axis=0)
        frame["n_moves"] = table["n_moves"].sum(axis=0)
        frame["phi"] = np.fmax.reduce(table["phi"], axis=0)
    if between:
        table = _join(between)
        families["weiss_between"] = Family(names, table["p_value"])
        frame["weiss_between_p"] = table["p_value"]
        for column in ("n_categories", "n_moves", "phi"):
            frame[column] = table[column]
        frame["chain_share"] = _chain_share(table, dataset.sizes["chain"] * dataset.sizes["draw"])
    if "phi" in frame:
        n_draws = dataset.sizes["chain"] * dataset.sizes["draw"]
        frame["ess_bulk"] = n_draws * (1 - frame["phi"]) / (1 + frame["phi"])  # DAR(1) chain
        alone = frame["n_categories"] == 1
        frame.loc[alone, "status"] = "constant"
        if several:
            frame.loc[~alone & (frame["n_moves"] == 0), "status"] = "stuck"
    return frame, families


def _chain_share(table: dict[str, np.ndarray], n_draws: int) -> np.ndarray:
    """Return the share of a categorical variable's variation that lies between chains, 0 to 1.

    ``X^2 / (n (m - 1))``, Cramér's V squared up to normalisation. For two categories it is the
    variance of the chain means divided by p (1 - p), so that ``1 / sqrt(1 - share)`` is R-hat.
    Unlike a p-value it does not depend on the number of draws.
    """
    factor = (1 + table["phi"]) / (1 - table["phi"])
    degrees = np.where(table["n_categories"] > 1, table["n_categories"] - 1, np.nan)
    return table["statistic"] * factor / (n_draws * degrees)


def _columns(result: xr.Dataset) -> dict[str, np.ndarray]:
    leading = 1 if "chain" in result["p_value"].dims else 0
    return {str(k): v.values.reshape(*v.shape[:leading], -1) for k, v in result.data_vars.items()}


def _join(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {k: np.concatenate([part[k] for part in parts], axis=-1) for k in parts[0]}


def _rates(stats: xr.Dataset | None) -> pd.DataFrame:
    rows = {}
    for key, variable in (stats.data_vars if stats is not None else {}).items():
        if any(part in str(key).lower() for part in RATES) and "chain" in variable.dims:
            numbers = variable.astype(float)
            rows[str(key)] = numbers.mean([d for d in numbers.dims if d != "chain"]).values
    return pd.DataFrame.from_dict(rows, orient="index")


def _divergences(stats: xr.Dataset | None) -> int | None:
    return int(stats["diverging"].sum()) if stats is not None and "diverging" in stats else None


def _round_trips(stats: xr.Dataset | None) -> np.ndarray | None:
    if stats is None or "round_trips" not in stats:
        return None
    return stats["round_trips"].isel(draw=-1).values  # cumulative
