"""Where figures are drawn (in pyplot or apart from it), and how they look."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.ticker import Locator

    from anonbayes.arrays import Floats

SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
"""Colours of Okabe and Ito, which colour-blind readers can tell apart."""
COLOURS = {"less": SERIES[0], "more": SERIES[1], "ideal": SERIES[2], "other": "#7F7F7F"}
"""Learner above attacker; attacker above learner; ideal; anything else."""

NARROW = 4.5
"""Inches below which texts get smaller, as in a column of a journal."""

_APART: ContextVar[bool] = ContextVar("figures apart from pyplot", default=False)


@contextmanager
def apart() -> Iterator[None]:
    """Draw into figures outside pyplot: nothing to close, and nothing pops up."""
    token = _APART.set(True)
    try:
        yield
    finally:
        _APART.reset(token)


def make_figure(width: float, height: float) -> Figure:
    """Return pyplot's current figure if it has no axes, or a new one, which becomes the current.

    A new figure of the user's gets a layout that keeps labels and legend inside. Figures that are
    drawn `apart` are always new.
    """
    if _APART.get():
        from matplotlib.figure import Figure

        return Figure(figsize=(width, height), layout="constrained")
    import matplotlib.pyplot as plt

    if not plt.get_fignums() or plt.gcf().axes:
        return plt.figure(figsize=(width, height), layout="constrained")
    figure = plt.gcf()
    if figure.get_layout_engine() is None:
        figure.set_layout_engine("constrained")
    return figure


def make_axes(ax: Axes | None, width: float = 5.0, height: float = 4.0) -> Axes:
    """Return `ax`, or pyplot's current axes if they are empty, or the axes of a new figure.

    So a plot goes where ``plt.figure()`` or ``plt.subplot()`` made room for it.
    """
    if ax is not None:
        return ax
    if not _APART.get():
        import matplotlib.pyplot as plt

        if plt.get_fignums() and plt.gcf().axes and _is_empty(plt.gca()):
            return tidy(plt.gca())
    return tidy(make_figure(width, height).subplots())


def make_panels(
    rows: int, columns: int = 1, *, width: float, height: float, **how: Any
) -> npt.NDArray[Any]:
    """Return axes (rows, columns); `how` are further arguments of ``Figure.subplots``."""
    figure = make_figure(width, height)
    panels: npt.NDArray[Any] = figure.subplots(rows, columns, squeeze=False, **how)
    for ax in panels.flat:
        tidy(ax)
    return panels


def _is_empty(ax: Axes) -> bool:
    return not (ax.has_data() or ax.get_title() or ax.get_xlabel() or ax.get_ylabel())


def can_show_bars() -> bool:
    """Whether progress bars can be shown; in Jupyter they need ipywidgets."""
    from rich.console import Console

    return not Console().is_jupyter or find_spec("ipywidgets") is not None


# -------------------------------------------------------------------------------------------------
# How figures look.


def tidy(ax: Axes) -> Axes:
    """Hide the top and right edges of the frame, wrap long titles, take colours from `SERIES`."""
    ax.spines[["top", "right"]].set_visible(False)
    for text in (ax.title, ax.yaxis.label):
        text.set_wrap(True)
    if is_narrow(ax):
        ax.tick_params(labelsize=min(8, ax.xaxis.label.get_fontsize()))
        for text in (ax.xaxis.label, ax.yaxis.label):
            text.set_fontsize(min(8, text.get_fontsize()))
    ax.set_prop_cycle(color=SERIES)
    return ax


def _width(ax: Axes) -> float:
    """Inches that the axes and their margins have in the figure."""
    return float(ax.get_position(original=True).width * ax.figure.bbox.width) / (
        0.775 * ax.figure.dpi
    )


def is_narrow(ax: Axes) -> bool:
    """Whether texts are to be small, the title (which has been set) as well."""
    narrow = _width(ax) < NARROW
    if narrow:
        ax.title.set_fontsize(min(9, ax.title.get_fontsize()))
    return narrow


def next_colour(ax: Axes) -> str:
    """Return the next colour for axes that several results may share."""
    return SERIES[len(ax.get_legend_handles_labels()[0]) % len(SERIES)]


def legend_below(ax: Axes, columns: int = 2) -> None:
    """Put the legend below the axes, where it cannot cover any data, in columns that fit."""
    from matplotlib.transforms import ScaledTranslation

    depth = 0.36 + 0.16 * len(ax.get_xlabel().splitlines()) if ax.get_xlabel() else 0.3
    down = ScaledTranslation(0, -depth, ax.figure.dpi_scale_trans)
    small = is_narrow(ax)
    for ncols in range(columns, 0, -1):
        legend = ax.legend(
            frameon=False,
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            bbox_transform=ax.transAxes + down,
            fontsize=7 if small else "small",
            labelspacing=0.3 if small else 0.5,
            columnspacing=1.2 if small else 2.0,
            ncols=ncols,
        )
        if legend.get_window_extent().width <= _width(ax) * ax.figure.dpi:
            return


def in_lines(labels: Iterable[object], width: int = 24, lines: int = 2) -> list[str]:
    """Break long labels into lines, and leave out what does not fit."""
    import textwrap

    broken = (textwrap.wrap(str(label), width, break_long_words=False) for label in labels)
    return ["\n".join(parts[:lines]) + " …" * (len(parts) > lines) for parts in broken]


def number_points(ax: Axes, names: Sequence[str]) -> list[str]:
    """Return names that fit beside points: as they are, or numbers that the legend explains."""
    if 4.9 * max(map(len, names)) / 72 < 0.3 * _width(ax):
        return list(names)
    numbers = [str(i) for i in range(1, len(names) + 1)]
    for i, name in zip(numbers, names, strict=True):
        ax.plot([], [], " ", marker=f"${i}$", color="black", markersize=5 * len(i),
                markeredgewidth=0.1, label=name)  # fmt: skip
    return numbers


def percent_axis(*axes: Axis) -> None:
    """Show shares as percentages."""
    from matplotlib.ticker import Formatter

    class Percent(Formatter):
        """As many decimals on every tick as one of them needs."""

        decimals = 4

        def set_locs(self, locs: Sequence[float]) -> None:
            ticks = [100 * float(tick) for tick in locs]
            exact = (d for d in range(4) if all(abs(t - round(t, d)) < 1e-6 for t in ticks))
            self.decimals = next(exact, 4)

        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{100 * x:.{self.decimals}f}%"

    for axis in axes:
        axis.set_major_formatter(Percent())


def times_axis(ax: Axes, which: str = "x", *, logs: bool = False) -> None:
    """Label factors as ×1, ×2, ×4; with `logs`, the data are logarithms to base 2."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    axis: Axis = getattr(ax, f"{which}axis")
    if logs:
        axis.set_major_locator(MaxNLocator(8, integer=True, steps=[1, 2, 5, 10]))
    else:
        getattr(ax, f"set_{which}scale")("log", base=2)
        axis.set_major_locator(_log_locator(base=2, numticks=9))
        axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(
        FuncFormatter(lambda x, _: f"×{_power(round(2.0**x if logs else x, 4))}")
    )


def plain_log_axis(ax: Axes, which: str = "x") -> None:
    """Make x, y or both ("xy") logarithmic, with plainly written, non-overlapping tick labels."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    is_narrow(ax)
    for name in which:
        ax.set(**{f"{name}scale": "log"})
        axis: Axis = getattr(ax, f"{name}axis")
        low, high = sorted(axis.get_view_interval())
        axis.set_major_locator(_log_locator(subs=(1.0, 2.0, 5.0) if high < 200 * low else (1.0,)))
        axis.set_major_formatter(FuncFormatter(lambda x, _: _power(x)))
        axis.set_minor_formatter(NullFormatter())


def _log_locator(**how: Any) -> Locator:
    """Return a locator of powers, or of round numbers where fewer than two powers are in view."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    class Powers(LogLocator):
        def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
            ticks = super().tick_values(vmin, vmax)
            inside = sum(vmin <= tick <= vmax for tick in ticks)
            return ticks if inside > 1 else MaxNLocator(3).tick_values(vmin, vmax)

    return Powers(**how)


def _power(value: float) -> str:
    """Write a number in full if it is short, else as a power of ten."""
    if value <= 0 or 1e-3 <= value < 1e6:
        return f"{value:,.6g}"
    power = math.floor(math.log10(value) + 1e-9)
    raised = f"10{power}".translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))[2:]
    front = value / 10.0**power
    return f"10{raised}" if abs(front - 1) < 1e-6 else f"{front:.3g}×10{raised}"


def name_points(ax: Axes, x: Floats, y: Floats, names: Sequence[str]) -> None:
    """Write names beside points, placed so that they cover neither each other nor a point."""
    import numpy as np
    from matplotlib.figure import Figure

    if isinstance(figure := ax.figure, Figure):
        figure.draw_without_rendering()  # lays out; drawing on no screen does nothing
    points = ax.transData.transform(np.column_stack([x, np.nan_to_num(y)]))
    scale, size = ax.figure.dpi / 72, 7 if is_narrow(ax) else 8
    room = ax.get_window_extent()
    dots = [(px - 4 * scale, py - 4 * scale, px + 4 * scale, py + 4 * scale) for px, py in points]
    taken: list[tuple[float, float, float, float]] = []
    for i in np.argsort(-points[:, 1], kind="stable"):
        width, height = 0.61 * size * len(names[i]) * scale, (size + 1) * scale
        best = (math.inf, 0, 0, (0.0, 0.0, 0.0, 0.0))
        for dy, dx in itertools.product((4, -12, 14, -22, 24, -32), (6, -6)):
            left = points[i, 0] + dx * scale - (width if dx < 0 else 0)
            low = points[i, 1] + dy * scale
            box = (left, low, left + width, low + height)
            hidden = sum(
                box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3]
                for b in (*taken, *dots)
            )
            hidden += box[0] < room.x0 or box[2] > room.x1 or box[1] < room.y0 or box[3] > room.y1
            if hidden < best[0]:
                best = (hidden, dx, dy, box)
        _, dx, dy, box = best
        taken.append(box)
        ax.annotate(names[i], (x[i], y[i]), textcoords="offset points", xytext=(dx, dy),
                    ha="right" if dx < 0 else "left", fontsize=size,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})  # fmt: skip
