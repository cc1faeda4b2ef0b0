"""Detection error tradeoff: who is wrongly accepted against who is wrongly rejected (PIE 5.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.arrays import Floats
from anonbayes.risk.plots import make_axes
from anonbayes.risk.system_entropy import read_scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DetCurve", "det_curve"]


# Points drawn of a curve; a million would look the same.
DRAWN = 600


@dataclass(frozen=True, eq=False)
class DetCurve:
    """Error rates of a matcher at every threshold that matters.

    Attributes
    ----------
    threshold : ndarray
        Ascending similarity; a pair is accepted at or above it. For distances their negatives.
    far, frr : ndarray
        False acceptance rate (impostors accepted) and false rejection rate (genuine rejected).
    """

    threshold: Floats = field(repr=False)
    far: Floats = field(repr=False)
    frr: Floats = field(repr=False)

    @property
    def equal_error_rate(self) -> float:
        """Rate at which both errors are the same, between two thresholds by a straight line."""
        gap = self.frr - self.far
        after = int(np.argmax(gap >= 0))
        if after == 0:
            return float(self.far[0])
        weight = gap[after] / (gap[after] - gap[after - 1])
        return float((1 - weight) * self.frr[after] + weight * self.frr[after - 1])

    def frr_at(self, far: float) -> float:
        """Smallest false rejection rate with a false acceptance rate of at most `far`."""
        return float(self.frr[int(np.argmax(self.far <= far))])

    def to_frame(self) -> pd.DataFrame:
        """Return the curve as a table."""
        return pd.DataFrame({"threshold": self.threshold, "far": self.far, "frr": self.frr})

    def plot(self, *, ax: Axes | None = None, label: str | None = None) -> Axes:
        """Plot FRR against FAR on logarithmic axes, with the equal error rate."""
        ax = make_axes(ax, 4.6, 4.4)
        shown = (self.far > 0) & (self.frr > 0)
        index = np.flatnonzero(shown)
        if len(index) > DRAWN:
            # Evenly along the logarithm of the rates, in which the curve is drawn.
            along = np.log(self.frr[index]) - np.log(self.far[index])
            wanted = np.linspace(along[0], along[-1], DRAWN)
            index = index[np.unique(np.searchsorted(along, wanted).clip(0, len(along) - 1))]
        eer = self.equal_error_rate
        text = f"EER {eer:.3g}" if label is None else f"{label} (EER {eer:.3g})"
        (line,) = ax.plot(self.far[index], self.frr[index], label=text)
        if eer > 0:
            ax.plot(eer, eer, "o", color=line.get_color(), markersize=5)
        ax.set(xscale="log", yscale="log", xlabel="false acceptance rate")
        ax.set_ylabel("false rejection rate")
        ax.grid(alpha=0.3)
        ax.legend()
        return ax


def det_curve(
    genuine: npt.ArrayLike, impostor: npt.ArrayLike, *, similarity: bool = True
) -> DetCurve:
    """Detection error tradeoff of scores.

    Parameters
    ----------
    genuine, impostor : array-like
        Scores of pairs that belong together, and of others.
    similarity : bool
        Whether high scores speak for the same user; False for distances.

    Examples
    --------
    >>> import anonbayes as ab
    >>> curve = ab.pie.det_curve([0.9, 0.8, 0.4, 0.7], [0.1, 0.5, 0.3, 0.2, 0.75])
    >>> curve.to_frame()
       threshold  far   frr
    0        0.4  0.4  0.00
    1        0.7  0.2  0.25
    2        0.8  0.0  0.50
    3        0.9  0.0  0.75
    4        inf  0.0  1.00
    >>> round(curve.equal_error_rate, 4)
    0.2222
    """
    sign = 1.0 if similarity else -1.0
    own = np.sort(sign * read_scores("genuine", genuine))
    other = np.sort(sign * read_scores("impostor", impostor))
    # Only where a genuine score is about to be rejected is there anything to trade.
    steps, before = np.unique(own, return_index=True)
    rejected = np.append(before, len(own)) / len(own)
    accepted = np.append(len(other) - np.searchsorted(other, steps, side="left"), 0) / len(other)
    return DetCurve(np.append(steps, np.inf), accepted, rejected)
