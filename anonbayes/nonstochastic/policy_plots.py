"""Pictures of quantized queries: regions of a plane, and what quality costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.errors import ChannelError
from anonbayes.nonstochastic.geometry import Box
from anonbayes.nonstochastic.policies import Policy, optimal_policy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_regions", "plot_tradeoff", "tradeoff"]


def plot_regions(policy: Policy, ax: Axes | None = None, *, resolution: int = 401) -> Axes:
    """Draw which secrets of a plane give which answer (Quantize Figures 1 and 2).

    Shades order the answers; the numbers on the scale are the answers themselves, and the region
    that gives most away (or several of the same size) is hatched.
    """
    import matplotlib.pyplot as plt
    from matplotlib.colors import BoundaryNorm

    if policy.dimension != 2:
        raise ChannelError(
            f"The regions of a secret with {policy.dimension} coordinates cannot be drawn; this "
            "picture is for two."
        )
    if ax is None:
        _, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
    axes = [
        np.linspace(a, b, resolution)
        for a, b in zip(policy.box.lower, policy.box.upper, strict=True)
    ]
    values = policy.query(np.stack(np.meshgrid(*axes), axis=-1))
    # Contours of the query itself, not of the answers, keep the borders smooth; the ends of the
    # range get some room, so that the extreme answers are not left blank.
    borders = np.array([*(r.lower for r in policy.regions), policy.regions[-1].upper])
    room = 1e-6 * max(float(np.ptp(borders)), float(np.abs(borders).max()), 1e-6)
    inner = borders[1:-1]
    shown = np.array([borders[0] - room, *inner, borders[-1] + room])
    filled = ax.contourf(*axes, values, levels=shown, cmap="viridis", norm=BoundaryNorm(shown, 256))
    solid: dict[str, Any] = {"linestyles": "solid"}
    if len(inner):
        ax.contour(*axes, values, levels=inner, colors="white", linewidths=0.8, **solid)
    least = policy.smallest_region
    for i, region in enumerate(policy.regions):
        if region.log_measure <= least.log_measure + 1e-9:
            with plt.rc_context({"hatch.color": "crimson"}):
                ax.contourf(*axes, values, levels=shown[i : i + 2], colors="none", hatches=["////"])
            if len(own := inner[max(i - 1, 0) : i + 1]):
                ax.contour(*axes, values, levels=own, colors="crimson", **solid)
    bar = ax.figure.colorbar(
        filled, ax=ax, ticks=policy.levels, label="answer", spacing="proportional"
    )
    bar.ax.set_yticklabels([f"{level:g}" for level in policy.levels])
    n = len(policy.regions)
    elongated = np.max(policy.box.widths) > 4 * np.min(policy.box.widths)
    ax.set(xlabel="$x_1$", ylabel="$x_2$", aspect="auto" if elongated else "equal")
    ax.set_title(
        f"{n} answer{'s' if n > 1 else ''}; the smallest region (hatched) has area "
        f"{least.measure:.3g}",
        fontsize="medium",
    )
    return ax


def tradeoff(query: Any, box: Box, gammas: npt.ArrayLike, **settings: Any) -> pd.DataFrame:
    """Tabulate what an adversary gains as the quality of the answers rises (Quantize Figure 3).

    Parameters
    ----------
    query, box
        As in `optimal_policy`; further settings are passed on.
    gammas : array_like of float
        Qualities to compare.

    Returns
    -------
    DataFrame
        Indexed by ``gamma``: ``answers``, ``leakage``, ``maximin_information``,
        ``adversary_error`` and ``adversary_error_bound``.

    Examples
    --------
    >>> frame = tradeoff([0.5, 0.5], Box.cube(-2, 2, 2), [0.5, 1, 2])
    >>> frame["adversary_error"].round(4).tolist()
    [2.8284, 2.8284, 1.4142]
    """
    rows = []
    for gamma in np.atleast_1d(np.asarray(gammas, dtype=float)):
        policy = optimal_policy(query, box, float(gamma), **settings)
        rows.append(
            {
                "gamma": float(gamma),
                "answers": len(policy.regions),
                "leakage": policy.leakage,
                "maximin_information": policy.maximin_information,
                "adversary_error": policy.adversary_error,
                "adversary_error_bound": policy.adversary_error_bound,
            }
        )
    return pd.DataFrame(rows).set_index("gamma")


def plot_tradeoff(frame: pd.DataFrame, axes: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
    """Draw the curves of `tradeoff`: leaked information above, the adversary's error below."""
    import matplotlib.pyplot as plt

    if axes is None:
        _, axes = plt.subplots(2, 1, figsize=(6, 5.6), sharex=True, layout="constrained")
    above, below = axes
    # The number of bins is a ceiling: a value holds from the quality before up to its own.
    above.step(frame.index, frame["leakage"], where="pre", label="leakage $L_0$")
    above.step(
        frame.index,
        frame["maximin_information"],
        where="pre",
        linestyle="--",
        label="maximin information $I_*$",
    )
    above.set(ylabel="leaked information (nats)")
    below.step(frame.index, frame["adversary_error"], where="pre", label="adversary's error")
    below.step(
        frame.index,
        frame["adversary_error_bound"],
        where="pre",
        linestyle="--",
        label="lower bound from the volume",
    )
    below.set(xlabel=r"quality $\gamma$", ylabel="worst-case error", ylim=(0, None))
    for ax in (above, below):
        ax.grid(alpha=0.3)
        ax.legend(frameon=False)
    return np.asarray(axes)
