"""Plots of convergence for any ArviZ object, with matplotlib."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import xarray as xr

#: More quantities than this are shown by the range that contains 95% of them.
from anonbayes import compat
from anonbayes.diagnostics.geweke import geweke
from anonbayes.diagnostics.quantities import (
    draws_of,
    idata_of,
    in_words,
    rank_quantities,
    summarize_tests,
)
from anonbayes.diagnostics.verdict import DiagnosticReport, diagnose
from anonbayes.diagnostics.weiss import weiss
from anonbayes.errors import AnonbayesError
from anonbayes.figures import SERIES, legend_below, make_axes, make_panels, plain_log_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
#: Below, the last window of `plot_geweke`, as it is by default, holds less than four draws.
FEWEST_GEWEKE_DRAWS = 43
#: More quantities than that are shown by the range that holds 95% of them.
MANY_DOTS = 60


def plot_geweke(
    post: object,
    *,
    var_names: str | Iterable[str] | None = None,
    coords: Mapping[str, object] | None = None,
    intervals: int = 20,
    ax: Axes | None = None,
    **kwargs: Any,
) -> Axes:
    """Plot Geweke's z for increasingly late starts, one dot per quantity, chain and start.

    For a stationary chain, 95% of the dots lie in the grey band; an initial transient shows as dots
    outside the band on the left that move inside to the right. For more than 60 quantities, lines
    show the middle 95% of them, which should coincide with the edges of the band.

    Parameters
    ----------
    post : Posterior, or anything that `geweke` accepts
        Draws.
    var_names, coords
        Part of the posterior, as in ArviZ.
    intervals : int, default 20
        Number of starts.
    ax : matplotlib Axes, optional
        Where to draw.
    **kwargs
        Passed to `geweke`.

    Examples
    --------
    >>> draws = np.random.default_rng(0).normal(size=(2, 500, 3))
    >>> plot_geweke(draws).get_ylabel()
    "Geweke's z"
    """
    z = geweke(idata_of(post), var_names=var_names, coords=coords, intervals=intervals, **kwargs)
    ax = make_axes(ax, 7, 3.8)
    ax.axhspan(-1.96, 1.96, color="0.92", zorder=0, label="95% expected here")
    ax.axhline(0.0, color="0.4", linewidth=0.8)
    parts = [v.transpose("chain", "interval", ...).values for v in z.data_vars.values()]
    heights = np.concatenate([part.reshape(*part.shape[:2], -1) for part in parts], axis=2)
    starts, many = z["start"].values, heights.shape[2] > MANY_DOTS
    for i, (chain, found) in enumerate(zip(z["chain"].values, heights, strict=True)):
        colour, label = SERIES[i % len(SERIES)], f"chain {chain}"
        if many:
            ends = np.nanquantile(found, [0.025, 0.975], axis=1)
            for height, once in zip(ends, (label, "_"), strict=True):  # one entry in the legend
                ax.plot(starts, height, linewidth=1.2, color=colour, label=once)
        else:
            at = np.broadcast_to(starts[:, None], found.shape).ravel()
            ax.plot(at, found.ravel(), ".", markersize=5, alpha=0.6, color=colour, label=label)
    outside = (np.abs(heights) > 1.96).sum() / max(np.isfinite(heights).sum(), 1)
    ax.set(
        xlabel="First draw of the early window",
        ylabel="Geweke's z" + (", middle 95%" if many else ""),
        title=f"Early and late draws: {outside:.1%} outside",
    )
    legend_below(ax, 5)
    return ax


def plot_weiss(
    post: object,
    *,
    var_names: str | Iterable[str] | None = None,
    coords: Mapping[str, object] | None = None,
    segments: int | str | None = None,
    ax: Axes | None = None,
    **kwargs: Any,
) -> Axes:
    """Plot the sorted p-values of the Weiß test against those expected of stationary chains.

    Points should lie on the diagonal; a curve below it has too many small p-values. Both axes are
    logarithmic, because the small p-values matter.

    Parameters
    ----------
    post : Posterior, or anything that `weiss` accepts
        Draws.
    var_names, coords
        Part of the posterior, as in ArviZ.
    segments : int or "chains", optional
        As in `weiss`; by default both between chains (if there are several) and within each.
    ax : matplotlib Axes, optional
        Where to draw.
    **kwargs
        Passed to `weiss`.

    Examples
    --------
    >>> rows = np.random.default_rng(0).integers(0, 3, size=(2, 500, 40))
    >>> [line.get_label() for line in plot_weiss(rows).get_lines()][1]
    'between chains: 5% below 0.05'
    """
    data = idata_of(post)
    chains = compat.posterior_dataset(data).sizes["chain"]
    ax = make_axes(ax, 4.8, 5.0)
    curves: dict[str, np.ndarray] = {}
    chosen = {"var_names": var_names, "coords": coords, **kwargs}
    if segments == "chains" or (segments is None and chains > 1):
        curves["between chains"] = weiss(data, segments="chains", **chosen)["p_value"].values
    if segments != "chains":
        within = weiss(data, segments=segments if segments is not None else 5, **chosen)
        curves |= {f"chain {c.item()}": p.values for c, p in _by_chain(within["p_value"])}
    fewest = min((0.5 / np.isfinite(p).sum() for p in curves.values() if p.size), default=1e-3)
    ax.plot([fewest, 1], [fewest, 1], color="0.4", linewidth=0.8, label="expected")
    for i, (name, values) in enumerate(curves.items()):
        p = np.sort(values[~np.isnan(values)].ravel())
        expected = (np.arange(p.size) + 0.5) / max(p.size, 1)
        share = summarize_tests(p).share_below if p.size else float("nan")
        ax.plot(
            expected,
            np.maximum(p, 1e-16),
            color=SERIES[i % len(SERIES)],
            linewidth=2 if name == "between chains" else 1,
            linestyle="-" if name == "between chains" else "--",
            label=f"{name}: {share:.0%} below 0.05",
        )
    ax.set(
        xlabel="p-value expected of stationary chains",
        ylabel="Observed p-value",
        title="Weiß test of every categorical quantity",
    )
    plain_log_axis(ax, "xy")
    legend_below(ax, 2)
    return ax


def _by_chain(p_value: xr.DataArray) -> Iterator[tuple[xr.DataArray, xr.DataArray]]:
    return zip(p_value["chain"], p_value.transpose("chain", ...), strict=True)


def plot_worst(
    post: object, *, report: DiagnosticReport | None = None, n: int = 4, bins: int = 20
) -> npt.NDArray[np.object_]:
    """Plot traces and ranks of the quantities that give most cause for concern.

    Left: the draws of each chain. Right: the distribution of each chain's draws over the ranks of
    all draws (real quantities) or over the categories; equal heights mean that the chains agree.

    Parameters
    ----------
    post : Posterior, or anything that `diagnose` accepts
        Draws.
    report : DiagnosticReport, optional
        The result of `diagnose`, if you have it, to save time.
    n : int, default 4
        Number of quantities.
    bins : int, default 20
        Number of bins of the ranks.

    Returns
    -------
    numpy.ndarray of matplotlib Axes
        One row per quantity: trace, ranks.

    Examples
    --------
    >>> draws = np.random.default_rng(0).normal(size=(2, 200, 3))
    >>> draws[1, :, 2] += 1.0
    >>> plot_worst(draws, n=1)[0, 0].get_title(loc="left")
    'x[2]'
    """
    report = diagnose(post) if report is None else report
    names = rank_quantities(report.table)[:n]
    if not names:
        raise AnonbayesError(
            "No quantity in the report could be tested, so there is nothing to plot."
        )
    panels = make_panels(len(names), 2, width=8, height=0.5 + 1.9 * len(names), width_ratios=(2, 1))
    for name, (trace, ranks) in zip(names, panels, strict=True):
        draws = draws_of(post, name)
        for ax in (trace, ranks):
            ax.tick_params(labelsize="small")
        categorical = report.table["kind"].to_dict()[name] == "categorical"
        if categorical:
            values, codes = np.unique(draws, return_inverse=True)
            _category_trace(trace, codes.reshape(draws.shape), values)
            _category_bars(ranks, codes.reshape(draws.shape), values)
        else:
            _trace(trace, draws)
            _rank_bars(ranks, draws, bins)
        trace.set_title(_shortened(in_words(post, name)), fontsize="small", loc="left")
    panels[0, 1].set_title("Draws of each chain by rank or category", fontsize="small")
    panels[-1, 0].set_xlabel("Draw")
    for i, line in enumerate(panels[0, 0].get_lines()):
        line.set_label(f"chain {i}")
    handles = panels[0, 0].get_legend_handles_labels()
    panels[0, 0].figure.legend(
        *handles, loc="outside lower center", ncols=8, frameon=False, fontsize="small",
        markerscale=2.5,
    )  # fmt: skip
    return panels


def _shortened(name: str, most: int = 56) -> str:
    """Leave out the middle of a long name, so that titles side by side keep apart."""
    half = (most - 3) // 2
    return name if len(name) <= most else f"{name[:half]} … {name[-half:]}"


def _trace(ax: Axes, draws: np.ndarray) -> None:
    for i, chain in enumerate(draws):
        ax.plot(chain, color=SERIES[i % len(SERIES)], linewidth=0.5, alpha=0.8)


def _category_trace(ax: Axes, codes: np.ndarray, values: np.ndarray) -> None:
    for i, chain in enumerate(codes):  # each chain has its own line within a category
        height = chain + 0.7 * (i / len(codes) - 0.5)
        ax.plot(height, "|", color=SERIES[i % len(SERIES)], markersize=3, alpha=0.5)
    ax.set_yticks(np.arange(values.size), [str(v) for v in values])


def _rank_bars(ax: Axes, draws: np.ndarray, bins: int) -> None:
    from scipy.stats import rankdata  # slow to import

    edges = np.linspace(0, 1, bins + 1)
    ranks = rankdata(draws).reshape(draws.shape) / draws.size
    heights = [np.histogram(r, bins=edges)[0] * bins / draws.shape[1] for r in ranks]
    _stairs(ax, heights, edges)
    ax.axhline(1.0, color="0.4", linewidth=0.8, linestyle="--")
    ax.set_xticks([0, 0.5, 1], ["lowest", "middle", "highest"])


def _category_bars(ax: Axes, codes: np.ndarray, values: np.ndarray) -> None:
    heights = [np.bincount(c, minlength=values.size) / codes.shape[1] for c in codes]
    _stairs(ax, heights, np.arange(values.size + 1) - 0.5)
    names = [str(v) for v in values]
    long = sum(map(len, names)) > 24  # number of characters that fit under a panel
    ax.set_xticks(np.arange(values.size), names, rotation=30 if long else 0,
                  ha="right" if long else "center")  # fmt: skip


def _stairs(ax: Axes, heights: list[np.ndarray], edges: np.ndarray) -> None:
    for i, height in enumerate(heights):
        ax.stairs(height, edges, color=SERIES[i % len(SERIES)], linewidth=1.2)
    ax.set_ylim(bottom=0)
    ax.set_yticks([])


def plot_autocorrelation(
    posts: object,
    *,
    var_names: str | Iterable[str] | None = None,
    coords: Mapping[str, object] | None = None,
    max_lag: int = 50,
    ax: Axes | None = None,
) -> Axes:
    """Plot the autocorrelation of the draws, for one run or for several step methods.

    The line is the median over quantities and chains; the band contains 90% of them. For
    categorical variables it is the probability of the same category again, minus that of
    independent draws, so that labels do not matter.

    Parameters
    ----------
    posts : Posterior, ArviZ object, or dict of names to these
        ``{"block": post_1, "swap": post_2}`` draws a line and a band for each.
    var_names, coords
        Part of the posterior, as in ArviZ.
    max_lag : int, default 50
        Largest lag.
    ax : matplotlib Axes, optional
        Where to draw.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> quick = rng.normal(size=(2, 400))
    >>> slow = np.cumsum(quick, axis=1)
    >>> ax = plot_autocorrelation({"quick": quick, "slow": slow}, max_lag=10)
    >>> [line.get_label() for line in ax.get_lines()][:2]
    ['quick', 'slow']
    """
    named = posts if isinstance(posts, dict) else {"draws": posts}
    ax = make_axes(ax, 7, 3.6)
    for i, (name, post) in enumerate(named.items()):
        dataset = compat.select(idata_of(post), var_names=var_names, coords=coords)
        lags = min(max_lag, dataset.sizes["draw"] - 1)
        curves = np.concatenate([_autocorrelations(v, lags) for v in dataset.data_vars.values()])
        curves = curves[~np.isnan(curves).any(axis=1)]
        if not len(curves):
            raise AnonbayesError(
                f"posts: no quantity in {name!r} varies, so there is no autocorrelation."
            )
        low, middle, high = np.quantile(curves, [0.05, 0.5, 0.95], axis=0)
        ax.plot(middle, color=SERIES[i % len(SERIES)], label=str(name))
        ax.fill_between(
            np.arange(lags + 1), low, high, color=SERIES[i % len(SERIES)], alpha=0.2, linewidth=0
        )
    ax.axhline(0.0, color="0.4", linewidth=0.8)
    ax.set(
        xlabel="Lag in draws",
        ylabel="Autocorrelation",
        title="Autocorrelation: median, and 90% of quantities",
    )
    legend_below(ax)
    return ax


def _autocorrelations(variable: xr.DataArray, lags: int, most: int = 500) -> np.ndarray:
    """Return the autocorrelation (series, lag) of each chain and entry, of at most `most`."""
    ordered = variable.transpose("chain", ..., "draw").values
    series = ordered.reshape(-1, ordered.shape[-1])
    series = series[np.linspace(0, len(series) - 1, min(most, len(series))).astype(int)]
    n = series.shape[1]
    if variable.dtype.kind == "f":
        centred = series - series.mean(axis=1, keepdims=True)
        spectrum = np.fft.rfft(centred, n=2 * n, axis=1)
        covariance = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, : lags + 1]
        again, chance = covariance, np.zeros(len(series))
    else:
        again = np.stack(
            [(series[:, : n - lag] == series[:, lag:]).mean(axis=1) for lag in range(lags + 1)],
            axis=1,
        )
        counts = [np.unique(x, return_counts=True)[1] for x in series]
        chance = np.array([((c / n) ** 2).sum() for c in counts])
    with np.errstate(divide="ignore", invalid="ignore"):
        return (again - chance[:, None]) / (again[:, 0] - chance)[:, None]
