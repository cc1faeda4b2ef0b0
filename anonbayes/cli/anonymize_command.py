"""`anonbayes anonymize`: from a table in clear to what may be published."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anonbayes.cli.describe_command import show_release
from anonbayes.cli.options import SCHEMES, AsJson, Force, Hierarchies, Sep, complete_scheme
from anonbayes.cli.screen import is_terminal, print_json, say
from anonbayes.cli.shared import check_free, frame_writer
from anonbayes.errors import AnonbayesError, TableError, one_of
from anonbayes.io.files import write_files

if TYPE_CHECKING:
    import pandas as pd

    from anonbayes.anonymize.recode import Recoding
    from anonbayes.risk.assessment import RiskAssessment
    from anonbayes.tables.table import ReleasedTable

__all__ = ["anonymize"]
GROUP = "group"


def anonymize(
    people: Annotated[Path, typer.Argument(help="Table in clear, UTF-8 with a header line.")],
    sensitive: Annotated[str, typer.Option(help="Sensitive column, published unchanged.")],
    out: Annotated[Path, typer.Option(help="Released table to write.")],
    scheme: Annotated[
        str,
        typer.Option(help="mondrian, recode or anatomy.", autocompletion=complete_scheme),
    ] = "mondrian",
    k: Annotated[int | None, typer.Option("--k", "-k", help="Least size of a group.")] = None,
    l: Annotated[  # noqa: E741
        int | None, typer.Option("--l", "-l", help="Least number of sensitive values of a group.")
    ] = None,
    hierarchies: Hierarchies = None,
    local: Annotated[
        bool, typer.Option("--local", help="Recode suppressed rows again (recode).")
    ] = False,
    suppression: Annotated[
        float, typer.Option(help="Largest share of rows that may be suppressed (recode).")
    ] = 0.0,
    anatomy: Annotated[
        Path | None, typer.Option(help="Sensitive table to write beside --out (anatomy).")
    ] = None,
    quasi_identifier: Annotated[
        list[str] | None,
        typer.Option(help="Column to publish; may be repeated. By default all but --sensitive."),
    ] = None,
    missing: Annotated[
        str, typer.Option(help="What an empty cell means: error, category or drop (its row).")
    ] = "error",
    report: Annotated[
        Path | None, typer.Option(help="Assess the release, and write the HTML report here.")
    ] = None,
    keep_order: Annotated[
        bool,
        typer.Option(
            "--keep-order",
            help="Keep the order of the rows, which links them to the table in clear.",
        ),
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="For tests only; without it the secure source is used.")
    ] = None,
    sep: Sep = ";",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make a release of a table in clear: k-anonymous, l-diverse, or an Anatomy.

    Rows are published in random order. With --json: k, l, rows, groups, suppressed, loss, columns
    (what each shows), reidentification, measures (with --report), files.
    """
    from anonbayes.scenario.file_columns import read_people

    one_of("scheme", scheme, SCHEMES)
    _check_options(scheme, k, l, hierarchies, local, suppression, anatomy, keep_order)
    check_free((out, anatomy, report), force=force)
    frame = read_people(people, sep=sep, missing=missing, option="--missing")
    table, recoding = _make(
        frame, sensitive, scheme, k, l, hierarchies=hierarchies, local=local,
        suppression=suppression, quasi_identifiers=quasi_identifier or None, seed=seed, sep=sep,
    )  # fmt: skip
    writers = _writers(table, out, anatomy, sep=sep, seed=seed, keep_order=keep_order)
    risk = None
    if report is not None:
        risk, writers[report] = _assess(table, frame, seed, title=out.name)
    write_files(writers)
    if as_json:
        print_json(_content(table, recoding, risk) | {"files": [str(file) for file in writers]})
        return
    _print(table, recoding, risk, title=out.name)
    say(*map(str, writers))
    if is_terminal():
        say("Next: " + _next(table, people, out, anatomy, hierarchies, sep))


def _check_options(
    scheme: str,
    k: int | None,
    l: int | None,  # noqa: E741
    hierarchies: Path | None,
    local: bool,
    suppression: float,
    anatomy: Path | None,
    keep_order: bool,
) -> None:
    foreign: dict[str, object]
    if scheme == "anatomy":
        if l is None or anatomy is None:
            raise AnonbayesError("--scheme anatomy needs --l, and --anatomy for its second table.")
        foreign = {"--k": k, "--hierarchies": hierarchies, "--keep-order": keep_order}
    else:
        if k is None:
            raise AnonbayesError(f"--scheme {scheme} needs --k, the least size of a group.")
        if scheme == "recode" and hierarchies is None:
            raise AnonbayesError("--scheme recode needs --hierarchies.")
        foreign = {"--anatomy": anatomy}
    if scheme != "recode":
        foreign |= {"--local": local, "--suppression": suppression}
    for option, value in foreign.items():
        if value:
            raise AnonbayesError(f"{option} has no meaning with --scheme {scheme}.")


def _make(
    frame: pd.DataFrame,
    sensitive: str,
    scheme: str,
    k: int | None,
    l: int | None,  # noqa: E741
    *,
    hierarchies: Path | None,
    local: bool,
    suppression: float,
    quasi_identifiers: list[str] | None,
    seed: int | None,
    sep: str,
) -> tuple[ReleasedTable, Recoding | None]:
    from anonbayes import anonymize as schemes
    from anonbayes.tables.readers import read_hierarchies

    chosen: dict[str, Any] = {"quasi_identifiers": quasi_identifiers}
    if scheme == "anatomy":
        assert l is not None
        return schemes.anatomy(frame, sensitive, l, seed, group=GROUP, **chosen), None
    assert k is not None
    trees = read_hierarchies(hierarchies, frame.columns, sep=sep)
    if scheme == "mondrian":
        return schemes.mondrian(frame, sensitive, k, l or 1, hierarchies=trees, **chosen), None
    assert trees is not None
    return schemes.recode(
        frame, sensitive, trees, k, l or 1,
        suppression=suppression, local=local, return_recoding=True, **chosen,
    )  # fmt: skip


def _writers(
    table: ReleasedTable,
    out: Path,
    anatomy: Path | None,
    *,
    sep: str,
    seed: int | None,
    keep_order: bool,
) -> dict[Path, Any]:
    if anatomy is not None:
        items, slots = table.to_frames()
        return {out: frame_writer(items, sep), anatomy: frame_writer(slots, sep)}
    for name, column in table.columns.items():
        if odd := [label for label in column.evidence.labels if isinstance(label, tuple)]:
            bad = next(str(v) for v in odd[0] if any(c in str(v) for c in ",{}") or not str(v))
            raise TableError(
                f"Column {name!r}: the value {bad!r} could be misread in a set such as {{a, b}}; "
                "rename it, or give the column a hierarchy."
            )
    frame = table.to_frame()
    if not keep_order:
        from anonbayes.channels.randomness import randomness

        frame = frame.iloc[randomness(seed).random(len(frame)).argsort(kind="stable")]
    return {out: frame_writer(frame, sep)}


def _assess(
    table: ReleasedTable, people: pd.DataFrame, seed: int | None, *, title: str
) -> tuple[RiskAssessment, Any]:
    import warnings

    import anonbayes
    from anonbayes.errors import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the report says so
        post = anonbayes.fit(table, seed=seed, progressbar=sys.stderr.isatty())
    risk = post.assess(people)
    return risk, lambda file: anonbayes.report(post, risk, file, title=title)


def _content(
    table: ReleasedTable, recoding: Recoding | None, risk: RiskAssessment | None
) -> dict[str, Any]:
    from anonbayes import reidentification_risk
    from anonbayes.scenario.outputs import records

    return {
        "format": 1,
        "scheme": table.scheme,
        "sensitive": table.sensitive,
        "rows": table.n_rows,
        "groups": table.n_groups,
        "suppressed": table.n_suppressed,
        "k": table.k,
        "l": table.l,
        "loss": None if recoding is None else recoding.loss,
        "levels": None if recoding is None else recoding.levels,
        "columns": records(table.describe().rename_axis("column")),
        "reidentification": records(reidentification_risk(table).table),
        "measures": None if risk is None else risk.summary.to_dict(),
    }


def _print(
    table: ReleasedTable, recoding: Recoding | None, risk: RiskAssessment | None, *, title: str
) -> None:
    figures: dict[str, object] = {}
    if recoding is not None:
        figures["loss (0 all in clear, 1 nothing shown)"] = recoding.loss
        if len(recoding.passes) == 1:
            shown = (f"{name} {level}" for name, level in recoding.levels.items())
            figures["levels"] = ", ".join(shown)
    show_release(table, title=title, more=figures)
    if risk is not None:
        say(risk.text)


def _next(
    table: ReleasedTable,
    people: Path,
    out: Path,
    anatomy: Path | None,
    hierarchies: Path | None,
    sep: str,
) -> str:
    """Return the command that assesses the release."""
    import shlex

    words = ["anonbayes", "assess", str(out), "--cleartext", str(people)]
    words += ["--sensitive", table.sensitive]
    if anatomy is not None:
        words += ["--anatomy", str(anatomy), "--group", GROUP]
    elif hierarchies is not None:
        words += ["--hierarchies", str(hierarchies)]
    for name, domain in table.domains.items():
        if anatomy is None and domain.hierarchy is None and domain.is_numeric:
            whole = all(float(v).is_integer() for v in domain.values)
            if whole and name != table.sensitive:
                low, high = int(min(domain.values)), int(max(domain.values))
                words += ["--domain", f"{name}={low}-{high}"]
    if sep != ";":
        words += ["--sep", sep]
    return shlex.join([*words, "--out", "results"])
