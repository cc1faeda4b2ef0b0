"""`report`: everything about a release in one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from anonbayes import compat, formats
from anonbayes.arrays import one_thread
from anonbayes.diagnostics import (
    DiagnosticReport,
    diagnose,
    plot_autocorrelation,
    plot_geweke,
    plot_weiss,
    plot_worst,
)
from anonbayes.diagnostics.chain_plots import FEWEST_GEWEKE_DRAWS
from anonbayes.diagnostics.quantities import flat_labels, rank_quantities
from anonbayes.errors import AnonbayesError
from anonbayes.figures import apart
from anonbayes.inference.posterior import Posterior
from anonbayes.io.files import write_text
from anonbayes.nonstochastic.relations import table_leakage
from anonbayes.reporting import sections
from anonbayes.reporting.sections import by_number, row_contributions, row_table
from anonbayes.reporting.words import officers_page, verdict
from anonbayes.risk.assessment import RiskAssessment
from anonbayes.risk.measures import GROUPS, MEASURES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from anonbayes.diagnostics import DiagnosticReport
    from anonbayes.inference.posterior import Posterior
    from anonbayes.risk.actors import Attackers
    from anonbayes.risk.assessment import RiskAssessment
    from anonbayes.risk.comparison import Comparison, Recommendation
    from anonbayes.risk.measures import Limit
    from anonbayes.risk.minimality import Downcoding
    from anonbayes.uniqueness.identity import Identity
    from anonbayes.uniqueness.membership import Membership


def report(
    post: Posterior,
    risk: RiskAssessment | None = None,
    path: str | os.PathLike[str] = "report.html",
    *,
    show_values: bool = False,
    title: str | None = None,
    diagnostics: DiagnosticReport | None = None,
    limits: Sequence[Limit] = (),
    command: str | None = None,
    max_rows: int = 5000,
    standing_out: Mapping[str, Identity] | None = None,
    attackers: Attackers | None = None,
    membership: Membership | None = None,
    minimality: Downcoding | str | None = None,
) -> Path:
    """Write a report on a release: one HTML file that loads nothing and sends nothing.

    Parameters
    ----------
    post : Posterior
        What was learned from the release.
    risk : RiskAssessment, optional
        Its assessment. Without one the report shows what the release alone can tell.
    path : path
        The file; one that exists is replaced once the new one is complete.
    show_values : bool
        Whether to show the values of threatened people, and values of domains that the release
        does not show. By default people are row numbers, counted from 0 in the order of the
        cleartext, and such values are left out (`Posterior.published`).
    title : str, optional
        Name of the release, for instance that of its file.
    diagnostics : DiagnosticReport, optional
        Spares the work of making it again.
    limits : sequence of Limit
        Limits to report on; see `check_limits`.
    command : str, optional
        What made the report, for the section on how to repeat it.
    max_rows : int
        Largest number of threatened rows in the interactive table.
    standing_out : mapping of str to Identity, optional
        Who stands out in the population (`anonbayes.identity`) by the ``release`` and, if known, by
        the ``cleartext``; adds a section.
    attackers : Attackers, optional
        Attackers side by side (`anonbayes.attackers`); adds a section.
    membership : Membership, optional
        How surely it can be told who is in the table (`anonbayes.membership`); adds a section.
    minimality : Downcoding or str, optional
        What the anonymizer's choice gives away (`anonbayes.downcoding`), or why that cannot be
        computed; adds a section.

    Returns
    -------
    pathlib.Path
        The file.

    Examples
    --------
    >>> import anonbayes as ab
    >>> import pathlib, tempfile
    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> risk = post.assess(ab.datasets.load("table1"))
    >>> file = ab.report(post, risk, pathlib.Path(tempfile.mkdtemp()) / "report.html")
    >>> "Being in the table raises" in file.read_text(encoding="utf-8")
    True
    """
    file = Path(path)
    if file.is_dir():
        raise AnonbayesError(f"path={str(file)!r} is a directory; give the name of a file.")
    if not file.absolute().parent.is_dir():
        raise AnonbayesError(f"path={str(file)!r}: there is no directory {str(file.parent)!r}.")
    text = render(
        post,
        risk,
        show_values=show_values,
        title=title,
        diagnostics=diagnostics,
        limits=limits,
        command=command,
        max_rows=max_rows,
        standing_out=standing_out,
        attackers=attackers,
        membership=membership,
        minimality=minimality,
    )
    write_text(file, text)
    return file


@one_thread
def render(
    post: Posterior,
    risk: RiskAssessment | None = None,
    *,
    show_values: bool = False,
    title: str | None = None,
    diagnostics: DiagnosticReport | None = None,
    limits: Sequence[Limit] = (),
    command: str | None = None,
    max_rows: int = 5000,
    standing_out: Mapping[str, Identity] | None = None,
    attackers: Attackers | None = None,
    membership: Membership | None = None,
    minimality: Downcoding | str | None = None,
) -> str:
    """Return the page that `report` writes."""
    _check(post, risk, max_rows)
    versions = sections.versions_table(post, _settings(risk))  # of the release as it was fitted
    if not show_values:
        post = post.published()
    table = post.table
    checks = diagnostics
    if checks is None or not _about(post, checks):
        checks = diagnose(post)
    labels = None
    if risk is not None:
        labels, risk = risk.rows.index if show_values else None, by_number(risk)
        leakage = risk.leakage
    else:
        leakage = table_leakage(table) if table.secrets_known and table.n_groups else None
    context: dict[str, Any] = {
        "title": title or f"Release of {table.sensitive}",
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "table": table,
        "show_values": show_values,
        "verdict": verdict(post, risk, checks, leakage, limits),
        "limits": limits,
        "overview": sections.overview_tables(table),
        "population": list(sections.population_tables(post)),
        "officers": officers_page(post, risk),
        "model": sections.model_table(post),
        "evidence": sections.evidence_section(post),
        "dependence": sections.dependence(post),
        "prior_range": None,
        "evidence_picture": evidence_picture(post),
        "diagnostics": checks,
        "checks": sections.check_table(checks),
        "worst": sections.worst_table(checks) if post.simulated else None,
        "chain_pictures": list(chain_pictures(post, checks)),
        "versions": versions,
        "command": command or _call(post, risk),
        "is_command": command is not None,
        "standing_out": sections.standing_out(standing_out or {}),
        "standing_out_pictures": list(standing_out_pictures(standing_out or {})),
        "attackers": None if attackers is None else sections.attackers_table(attackers),
        "further": [] if attackers is None else sections.attackers_notes(attackers, risk),
        "attackers_picture": None if attackers is None else attackers_picture(attackers),
        "membership": membership,
        "membership_table": None if membership is None else sections.found_table(membership),
        "members_table": None if membership is None else sections.members_table(membership),
        "membership_picture": None if membership is None else membership_picture(membership),
        "minimality": None if minimality is None else str(minimality),
        "minimality_table": None
        if minimality is None or isinstance(minimality, str)
        else sections.found_table(minimality),
        "risk": None,
    }
    if risk is not None:
        context |= _assessed(risk, labels=labels, max_rows=max_rows)
    return _environment().get_template("report.html").render(context)


def _about(post: Posterior, checks: DiagnosticReport) -> bool:
    """Whether a report names these draws; one made before values were hidden names others."""
    names = {
        label
        for name, draws in post.one_draw.data_vars.items()
        for label in flat_labels(str(name), draws, compat.SAMPLE_DIMS)
    }
    return all(str(q) in names for q in checks.table.index if str(q).startswith("pi_"))


def comparison_report(
    compared: Comparison,
    path: str | Path,
    *,
    table: pd.DataFrame,
    chosen: Recommendation | None,
    text: str,
    threat: str,
    usefulness: str,
    title: str,
) -> None:
    """Write several releases side by side as one page that loads nothing."""
    page = (
        _environment()
        .get_template("comparison.html")
        .render(
            title=title,
            made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            headline="No release keeps all limits."
            if chosen is None
            else f"Recommended: {' or '.join([chosen.best, *chosen.ties])}",
            sentences=text.splitlines(),
            comparison=sections.comparison_table(compared, table, threat),
            picture=draw(
                lambda: compared.plot(threat=threat, usefulness=usefulness),
                "Privacy against usefulness",
                "A release further to the right is more useful, one further down threatens people "
                "less. Whiskers are two standard errors of the simulation.",
            ),
        )
    )
    write_text(Path(path), page)


def _assessed(risk: RiskAssessment, *, labels: pd.Index | None, max_rows: int) -> dict[str, Any]:
    """Return what an assessment, its rows numbered, adds; with `labels` the values of people."""
    return {
        "risk": risk,
        "headings": {
            group: dict.fromkeys(
                risk.cautions[m.name]
                for m in MEASURES.values()
                if m.group == group and m.name in risk.cautions
            )
            for group in GROUPS
        },
        "measures": tuple(MEASURES.values()),
        "calibration": sections.calibration_section(risk),
        "prior_range": sections.prior_range(risk),
        "rows": row_table(risk, labels=labels, most=max_rows),
        "contributions": row_contributions(risk),
        "thresholds": sections.threshold_table(risk),
        "breakdown": sections.breakdown_table(risk),
        "pictures": list(risk_pictures(risk)),
    }


def _check(post: Posterior, risk: RiskAssessment | None, max_rows: int) -> None:
    if not isinstance(post, Posterior):
        raise AnonbayesError(f"report needs a Posterior, got {type(post).__name__}.")
    if max_rows < 1:
        raise AnonbayesError(f"max_rows={max_rows!r} must be at least 1.")
    if risk is not None and not isinstance(risk, RiskAssessment):
        raise AnonbayesError(
            f"risk={risk!r} is not a RiskAssessment (post.assess(...)); name the file with path=."
        )
    if risk is not None and risk.post.table.fingerprint != post.table.fingerprint:
        raise AnonbayesError("risk= assesses another release than post; pass risk.post with risk.")


def _settings(risk: RiskAssessment | None) -> pd.Series:
    settings = {} if risk is None else dict(risk.settings)
    names = {
        "kind": "Learner's belief",
        "samples": "Samples for faithfulness",
        "seed": "Their seed",
    }
    return pd.Series({names.get(k, k): v for k, v in settings.items()}, dtype=object)


def _call(post: Posterior, risk: RiskAssessment | None) -> str:
    """Return the Python code that repeats the run, the table being given."""
    attrs = post.attrs
    step = f", step={post.step!r}" if post.step and post.method == "gibbs" else ""
    register = "" if post.register is None else " register=register,"
    lines = [
        "import anonbayes as ab",
        f"# table: the release with fingerprint {post.table.fingerprint}",
        f"post = ab.fit(table,{register} evidence={post.evidence!r}, method={post.method!r}{step}, "
        f"draws={post.n_draws}, "
        f"chains={post.n_chains}, tune={attrs.get('tune')}, seed={attrs.get('entropy')})",
    ]
    if risk is not None:
        lines.append("risk = post.assess(cleartext)")
    lines.append(f"ab.report(post{', risk' if risk is not None else ''})")
    return "\n".join(lines)


# -- the template ------------------------------------------------------------------------------


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("anonbayes.reporting", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": formats.count,
        "share": formats.share,
        "ratio": formats.ratio,
        "number": formats.number,
    }
    style, script = (_part(environment, name) for name in ("report.css", "table.js"))
    environment.globals |= {
        "style": Markup(style),
        "script": Markup(script),
        # Nothing may be loaded or sent, and no script but ours may run.
        "policy": "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src '{_digest(style)}'; script-src '{_digest(script)}'",
    }
    return environment


def _part(environment: Environment, name: str) -> str:
    """Return a file of the package that goes into the page as it is."""
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _digest(text: str) -> str:
    found = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(found).decode('ascii')}"


# -------------------------------------------------------------------------------------------------
# Plots as images inside the page. An image in an ``img`` element cannot run scripts nor load
# anything, whatever text it shows.

MANY_POINTS = 1000
"""Points from which on a curve becomes a bitmap in the drawing; a mark takes ten times as much."""
COORDINATE = re.compile(rb"(?:(?<=[ \"])|(?<=translate\())(-?\d+\.\d\d)\d+(?=[ \")\n])")
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
    """Draw axes as SVG; what has very many points is a bitmap inside it."""
    import matplotlib as mpl

    with mpl.rc_context(SETTINGS), apart():
        drawn = plot()
        figure = np.ravel(drawn)[0].figure
        if (layout := figure.get_layout_engine()) is not None:
            # Once: saving would lay out a figure twice, and draw it once in vain.
            layout.execute(figure)
            figure.set_layout_engine(None)
        for ax in figure.axes:
            for line in ax.lines:
                line.set_rasterized(len(line.get_xydata()) > MANY_POINTS)
            for cloud in ax.collections:
                cloud.set_rasterized(len(cloud.get_offsets()) > MANY_POINTS / 10)
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
        figure.savefig(content, format="svg", metadata={"Date": None}, dpi=80)
    lacking = [w for w in caught if MISSING_GLYPH in str(w.message)]
    for other in caught:
        if other not in lacking:
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    return content.getvalue(), bool(lacking)


RISK_PICTURES = {
    "plot_beliefs": (
        "Attacker against learner",
        "Each mark stands for people whose secret the attacker guesses right; the larger the mark, "
        "the more people. Above the diagonal, the attacker is surer of the secret than the "
        "learner.",
    ),
    "plot_relative_threat": (
        "Relative threat",
        "The attacker's belief divided by the learner's, on a logarithmic scale: ×1 means equally "
        "sure, ×2 twice as sure.",
    ),
    "plot_reliability": (
        "Stated against observed certainty",
        "Each mark stands for people about whom the attacker, or the learner, is equally sure. On "
        "the diagonal, best guesses are right as often as stated; below it, certainty is "
        "exaggerated.",
    ),
    "plot_thresholds": (
        "Candidate thresholds",
        "Share of all people whose relative threat lies above a threshold. The dots mark quantiles "
        "among threatened people, which may serve as thresholds.",
    ),
    "plot_group_sizes": (
        "Group sizes",
        "How many people are in groups of each size. A group with a single secret exposes all its "
        "members.",
    ),
    "plot_top_rows": (
        "Rows with the largest relative threat",
        "For each row, the learner's and the attacker's belief in the true secret. Whiskers, where "
        "beliefs are averages of draws, are two standard errors.",
    ),
}
"""Plots of an assessment in their order, each with its title and how to read it."""


def risk_pictures(risk: RiskAssessment) -> Iterator[Picture]:
    """Yield the pictures of an assessment."""
    for name, (title, caption) in RISK_PICTURES.items():
        if name != "plot_top_rows" or len(risk.threatened):
            yield draw(getattr(risk, name), title, caption)
    if (risk.rows["threatened_L"] > 0).any():
        yield draw(
            lambda: risk.plot_beliefs("L"),
            "People whom the population model already gives away",
            "The same for those whose secret the learner guesses right: below the diagonal, being "
            "in the table protects rather than exposes.",
        )


def standing_out_pictures(found: Mapping[str, Identity]) -> Iterator[Picture]:
    """Yield a picture of who stands out in the population, for the release and the cleartext."""
    for name, who in found.items():
        yield draw(
            who.plot,
            f"Who stands out: {name}",
            "How often a record occurs in the table, against the probability that its owner is the "
            "only such person in the population, and the probability that a match is correct.",
        )


def attackers_picture(found: Attackers) -> Picture:
    """Return how many secrets each attacker guesses right, with the table and without."""
    return draw(
        found.plot,
        "Attackers side by side",
        "Share of secrets that each attacker guesses right, and the share guessed right with the "
        "same knowledge by somebody who does not know that the person is in the table.",
    )


def membership_picture(found: Membership) -> Picture:
    """Return how many of the table's people are found, against how many others wrongly."""
    return draw(
        found.plot_roc,
        "Members found against others taken for members",
        "Each point is a threshold for the stated probability. On the dashed line, the table tells "
        "nothing about membership; where the curve rises steeply at the left, members are found "
        "with hardly a mistake.",
    )


def evidence_picture(post: Posterior) -> Picture | None:
    """Picture the evidence of each attribute, alone and with the others; None without weights."""
    if post.evidence_weights is None:
        return None
    return draw(
        post.plot_weights,
        "What each attribute tells",
        "How much better held-out secrets are predicted with the attribute alone, and when it is "
        "added to the others. Where the second bar is much shorter, the attribute repeats what "
        "the others tell.",
    )


def chain_pictures(post: Posterior, report: DiagnosticReport) -> Iterator[Picture]:
    """Yield the pictures of convergence; none where there is no chain."""
    if not post.simulated or not rank_quantities(report.table):
        return
    yield draw(
        lambda: plot_worst(post, report=report, n=4),
        "The quantities with the worst diagnostics",
        "Left, the draws of each chain; right, the ranks of its draws among all draws. Chains "
        "that agree overlap on the left and are flat on the right.",
        wide=True,
    )
    if post.draws.sizes["draw"] >= FEWEST_GEWEKE_DRAWS:
        yield draw(
            lambda: plot_geweke(post),
            "Early against late draws",
            "Geweke's z when more and more of the beginning is left out: once chains have settled, "
            "95% of the values lie in the grey band.",
        )
    yield draw(
        lambda: plot_autocorrelation(post),
        "Autocorrelation",
        "Correlation between draws by their distance (lag): the sooner it falls to zero, the more "
        "each draw is worth.",
    )
    if any(v.dtype.kind in "iub" for v in post.draws.data_vars.values()):
        yield draw(
            lambda: plot_weiss(post),
            "Do chains agree on hidden values?",
            "p-values of the Weiß test against those expected by chance: on the diagonal, the "
            "chains agree.",
        )
