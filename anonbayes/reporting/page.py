"""`report`: everything about a release in one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from anonbayes import compat, formats
from anonbayes.diagnostics import DiagnosticReport, diagnose
from anonbayes.diagnostics.quantities import flat_labels
from anonbayes.errors import AnonbayesError
from anonbayes.inference.posterior import Posterior
from anonbayes.io.files import write_text
from anonbayes.nonstochastic.relations import table_leakage
from anonbayes.reporting import pictures, sections
from anonbayes.reporting.sections import by_number, row_contributions, row_table
from anonbayes.reporting.words import officers_page, verdict
from anonbayes.risk.assessment import RiskAssessment

if TYPE_CHECKING:
    from anonbayes.risk.actors import Attackers
    from anonbayes.risk.comparison import Comparison, Recommendation
    from anonbayes.risk.limits import Limit
    from anonbayes.risk.minimality import Downcoding
    from anonbayes.uniqueness.identity import Identity
    from anonbayes.uniqueness.membership import Membership

__all__ = ["comparison_report", "render", "report"]


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
        "evidence_picture": pictures.evidence_picture(post),
        "diagnostics": checks,
        "checks": sections.check_table(checks),
        "worst": sections.worst_table(checks) if post.simulated else None,
        "chain_pictures": list(pictures.chain_pictures(post, checks)),
        "versions": versions,
        "command": command or _call(post, risk),
        "is_command": command is not None,
        "standing_out": sections.standing_out(standing_out or {}),
        "standing_out_pictures": list(pictures.standing_out(standing_out or {})),
        "attackers": None if attackers is None else sections.attackers_table(attackers),
        "attackers_picture": None if attackers is None else pictures.attackers_picture(attackers),
        "membership": membership,
        "membership_table": None if membership is None else sections.found_table(membership),
        "membership_picture": None if membership is None else pictures.membership(membership),
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
        for name, draws in post.draws.data_vars.items()
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
    title: str,
) -> None:
    """Write several releases side by side as one page that loads nothing.

    Parameters
    ----------
    compared : Comparison
        The releases.
    path : path
        File to write.
    table : pandas.DataFrame
        Its table, with what limits say of each release.
    chosen : Recommendation or None
        Which one to publish; None if none keeps the limits.
    text : str
        The finding, a sentence per line.
    threat : str
        The measure of threat that was weighed.
    title : str
        The question.
    """
    page = (
        _environment()
        .get_template("comparison.html")
        .render(
            title=title,
            made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            headline="No release keeps all limits."
            if chosen is None
            else f"Publish {chosen.best}.",
            sentences=text.splitlines(),
            comparison=sections.comparison_table(compared, table, threat),
            picture=pictures.draw(
                lambda: compared.plot(threat=threat),
                "Privacy against usefulness",
                "A release further to the right keeps more of the two-way tables, one further down "
                "threatens less. Whiskers are two standard errors of simulation.",
            ),
        )
    )
    write_text(Path(path), page)


def _assessed(risk: RiskAssessment, *, labels: pd.Index | None, max_rows: int) -> dict[str, Any]:
    """Return what an assessment, its rows numbered, adds; with `labels` the values of people."""
    return {
        "risk": risk,
        "measures": sections.measure_groups(risk),
        "calibration": sections.calibration_section(risk),
        "prior_range": sections.prior_range(risk),
        "rows": row_table(risk, labels=labels, most=max_rows),
        "contributions": row_contributions(risk),
        "thresholds": sections.threshold_table(risk),
        "breakdown": sections.breakdown_table(risk),
        "pictures": list(pictures.risk_pictures(risk)),
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
