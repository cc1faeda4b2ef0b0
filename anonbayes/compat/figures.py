"""Figures that pyplot does not know: nothing to close, nothing shown by surprise."""

from __future__ import annotations

import io
from typing import Any

from matplotlib.figure import Figure

__all__ = ["OwnFigure"]


class OwnFigure(Figure):
    """Figure of its own that a notebook shows all the same.

    IPython knows how to show a plain `Figure` only once pyplot has drawn one.

    Examples
    --------
    >>> OwnFigure(figsize=(2, 1))._repr_png_()[1:4]
    b'PNG'
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"layout": "constrained", **kwargs})

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png")
        return buffer.getvalue()
