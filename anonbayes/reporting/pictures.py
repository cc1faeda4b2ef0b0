"""Plots as images inside the page.

An image in an ``img`` element cannot run scripts nor load anything, whatever text it shows.
"""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anonbayes.figures import apart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from anonbayes.diagnostics import DiagnosticReport
    from anonbayes.inference.posterior import Posterior
    from anonbayes.risk.actors import Attackers
    from anonbayes.risk.assessment import RiskAssessment
    from anonbayes.uniqueness.identity import Identity
    from anonbayes.uniqueness.membership import Membership

__all__ = ["Picture", "chain_pictures", "draw", "risk_pictures"]
MANY_POINTS = 400
"""Points from which on a curve or a cloud becomes a bitmap inside the drawing."""
COORDINATE = re.compile(rb"(?<=[ \"])(-?\d+\.\d\d)\d+(?=[ \"\n])")
"""Hundredths of a point, and the digits behind them that no eye sees, of a place in an SVG."""
MISSING_GLYPH = "missing from font"
"""What matplotlib warns of when its font lacks a letter."""
SETTINGS: Any = {
    "text.parse_math": False,  # labels are data: a dollar sign is a dollar sign
    "svg.hashsalt": "anonbayes",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass(frozen=True)
class Picture:
    """An image, what it shows, and how to read it."""

    uri: str
    title: str
    caption: str
    wide: bool = False


def draw(plot: Callable[[], Any], title: str, caption: str, *, wide: bool = False) -> Picture:
    """Draw axes as SVG; what has very many points is a bitmap inside it.

    Parameters
    ----------
    plot : callable
        Returns matplotlib Axes, or an array of them.
    title, caption : str
        What it shows, and how to read it.
    wide : bool
        Whether it takes the whole width of the page.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> draw(Figure().subplots, "Nothing", "Empty axes.").uri[:26]
    'data:image/svg+xml;base64,'
    """
    import matplotlib as mpl

    with mpl.rc_context(SETTINGS), apart():
        drawn = plot()
        figure = np.ravel(drawn)[0].figure
        if (layout := figure.get_layout_engine()) is not None:
            # Once: saving would lay out a figure twice, and draw it once in vain.
            layout.execute(figure)
            figure.set_layout_engine("none")
        for ax in figure.axes:
            for part in (*ax.lines, *ax.collections):
                points = part.get_xydata() if part in ax.lines else part.get_offsets()
                part.set_rasterized(len(points) > MANY_POINTS)
        content, unknown = _saved(figure)
        if unknown:  # letters that matplotlib cannot draw, but a browser can
            with mpl.rc_context({"svg.fonttype": "none"}):
                content, _ = _saved(figure)
    image = COORDINATE.sub(rb"\1", content)
    text = base64.b64encode(image).decode("ascii")
    return Picture(f"data:image/svg+xml;base64,{text}", title, caption, wide)


def _saved(figure: Figure) -> tuple[bytes, bool]:
    """Content of a drawing, and whether it has letters that the font lacks."""
    content = io.BytesIO()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure.savefig(content, format="svg", metadata={"Date": None}, dpi=100)
    lacking = [w for w in caught if MISSING_GLYPH in str(w.message)]
    for other in caught:
        if other not in lacking:
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    return content.getvalue(), bool(lacking)


def risk_pictures(risk: RiskAssessment) -> Iterator[Picture]:
    """Yield the pictures of an assessment."""
    yield draw(
        risk.plot_beliefs,
        "Attacker against learner",
        "Each mark is a person whose secret the attacker guesses right. Above the diagonal the "
        "attacker is surer of the secret than somebody who only learned about the population.",
    )
    yield draw(
        risk.plot_relative_threat,
        "Relative threat",
        "How many times surer the attacker is than the learner, on a scale of doublings: ×1 means "
        "equally sure, ×2 twice as sure.",
    )
    yield draw(
        risk.plot_reliability,
        "Stated against observed certainty",
        "Each mark stands for people about whom somebody is about equally sure. On the diagonal "
        "best guesses are right as often as stated; below it, certainty is exaggerated.",
    )
    yield draw(
        risk.plot_thresholds,
        "Candidate thresholds",
        "Share of all people whose relative threat lies above a threshold; the dots mark quantiles "
        "among threatened people that may serve as one.",
    )
    yield draw(
        risk.plot_group_sizes,
        "Group sizes",
        "How many people share a group with how many others; groups with one secret expose all "
        "their members.",
    )
    if len(risk.threatened):
        yield draw(
            risk.plot_top_rows,
            "Rows with the largest relative threat",
            "For each row the learner's and the attacker's belief in the true secret; whiskers "
            "are two standard errors.",
        )
    if (risk.rows["threatened_L"] > 0).any():
        yield draw(
            lambda: risk.plot_beliefs("L"),
            "People whom the population model already gives away",
            "The same for those whose secret the learner guesses right: below the diagonal, being "
            "in the table protects rather than exposes.",
        )


def standing_out(found: Mapping[str, Identity]) -> Iterator[Picture]:
    """Yield a picture of who stands out in the population, for the release and the cleartext."""
    for name, who in found.items():
        yield draw(
            who.plot,
            f"Who stands out: {name}",
            "How often a record occurs in the table, against the probability that its owner is the "
            "only such person of the population, and that a match to somebody who has it is right.",
        )


def attackers_picture(found: Attackers) -> Picture:
    """Return how many secrets each attacker guesses right, with the table and without."""
    return draw(
        found.plot,
        "Who is the attacker?",
        "Share of secrets that each attacker guesses right, and the share that the same knowledge "
        "gives away without the table.",
    )


def membership(found: Membership) -> Picture:
    """Return how many of the table's people are found, against how many others wrongly."""
    return draw(
        found.plot_roc,
        "Who is in the table?",
        "Each point is a threshold of the stated probability. On the dashed line the table helps "
        "nobody; far above it at the left, people are found with hardly a mistake.",
    )


def evidence_picture(post: Posterior) -> Picture | None:
    """Return what each attribute tells, alone and beside the others; None where nobody asked."""
    if post.evidence_weights is None:
        return None
    return draw(
        post.plot_weights,
        "What each attribute tells",
        "How much better held-out secrets are predicted with the attribute alone, and by adding it "
        "to the others. Where the second bar is much shorter, it repeats what the others tell.",
    )


def chain_pictures(post: Posterior, report: DiagnosticReport) -> Iterator[Picture]:
    """Yield the pictures of convergence; none where there is no chain."""
    from anonbayes.diagnostics import plot_autocorrelation, plot_geweke, plot_weiss, plot_worst
    from anonbayes.diagnostics.chain_plots import FEWEST_GEWEKE_DRAWS
    from anonbayes.diagnostics.quantities import rank_quantities

    if not post.simulated or not rank_quantities(report.table):
        return
    yield draw(
        lambda: plot_worst(post, report=report, n=4),
        "The quantities that give most reason to worry",
        "Left, the draws of each chain; right, how they spread over the ranks of all draws. Chains "
        "that agree overlap on the left and are flat on the right.",
        wide=True,
    )
    if post.draws.sizes["draw"] >= FEWEST_GEWEKE_DRAWS:
        yield draw(
            lambda: plot_geweke(post),
            "Early against late draws",
            "Geweke's z for later and later starts: 95% of them lie in the grey band "
            "when chains have settled.",
        )
    yield draw(
        lambda: plot_autocorrelation(post),
        "How long draws remember",
        "Autocorrelation by lag: the sooner it falls to zero, the more each draw is worth.",
    )
    if any(v.dtype.kind in "iub" for v in post.draws.data_vars.values()):
        yield draw(
            lambda: plot_weiss(post),
            "Rows whose hidden values chains agree on",
            "p-values of the Weiß test against those expected: on the diagonal, chains agree.",
        )
