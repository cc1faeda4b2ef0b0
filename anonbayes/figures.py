"""Where pictures are drawn: pyplot's current axes for people, figures of their own for files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "SERIES", "apart", "make_axes", "make_figure"]
SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
"""Colours of Okabe and Ito, which stay apart for colour-blind readers."""
COLOURS = {"less": SERIES[0], "more": SERIES[1], "ideal": SERIES[2], "other": "#7F7F7F"}
"""Learner above attacker; attacker above learner; ideal; anything else."""

_APART: ContextVar[bool] = ContextVar("figures apart from pyplot", default=False)


@contextmanager
def apart() -> Iterator[None]:
    """Draw into figures that pyplot does not know: nothing to close, nothing shown by surprise.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> with apart():
    ...     ax = make_axes(None)
    >>> plt.fignum_exists(getattr(ax.figure, "number", -1))
    False
    """
    token = _APART.set(True)
    try:
        yield
    finally:
        _APART.reset(token)


def make_figure(width: float, height: float) -> Figure:
    """Return a new figure, which is pyplot's current one unless drawing is `apart`."""
    if _APART.get():
        from matplotlib.figure import Figure

        return Figure(figsize=(width, height), layout="constrained")
    import matplotlib.pyplot as plt

    return plt.figure(figsize=(width, height), layout="constrained")


def make_axes(ax: Axes | None, width: float = 5.0, height: float = 4.0) -> Axes:
    """Return `ax`; or pyplot's current axes while they are empty; or axes of a new figure.

    So a picture goes where ``plt.figure()`` or ``plt.subplot()`` made room for it, and the next
    one does not go on top of it.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> room = plt.figure(figsize=(3, 2))
    >>> first = make_axes(None)
    >>> first.figure is room, plt.gca() is first
    (True, True)
    >>> _ = first.plot([0, 1])
    >>> make_axes(None).figure is room
    False
    >>> plt.close("all")
    """
    if ax is not None:
        return ax
    if not _APART.get():
        import matplotlib.pyplot as plt

        if plt.get_fignums():
            figure = plt.gcf()
            if not figure.axes or _is_empty(figure.gca()):
                return figure.gca()
    return make_figure(width, height).subplots()


def _is_empty(ax: Axes) -> bool:
    return not (ax.has_data() or ax.get_title() or ax.get_xlabel() or ax.get_ylabel())
