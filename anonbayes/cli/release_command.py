"""`anonbayes anonymize`, `describe` and `hierarchy`: make and describe releases."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anonbayes.cli.options import (
    FILES,
    RELEASE,
    AsJson,
    Asked,
    Decimal,
    Encoding,
    Force,
    Sep,
    argument,
    asks,
    option,
    parse_number,
    switch,
)
from anonbayes.cli.screen import is_terminal, print_json, say, show_figures, show_table
from anonbayes.cli.shared import (
    check_free,
    frame_writer,
    further_releases,
    hierarchy_writer,
    read_release,
)
from anonbayes.errors import AnonbayesError, TableError
from anonbayes.io.files import Writer, write_files
from anonbayes.scenario.choices import ENCODINGS, EVIDENCE, GROUP, MISSING, SCHEMES, SEPARATORS

if TYPE_CHECKING:
    from anonbayes.anonymize.recode import Recoding
    from anonbayes.risk.assessment import RiskAssessment
    from anonbayes.tables.table import ReleasedTable


@asks(
    "assessment",
    argument("cleartext.file", "people", about="Table in clear, with a header line."),
    option(
        "release.sensitive",
        needed=True,
        about="Sensitive column, published unchanged; may be repeated, each is made l-diverse.",
    ),
    option("release.scheme", values=SCHEMES, default="mondrian"),
    option("release.k", "--k", "-k"),
    option("release.l", "--l", "-l"),
    option("release.hierarchies"),
    switch("release.local"),
    option("release.suppression"),
    option("release.quasi_identifiers", "--quasi-identifier"),
    option(
        "cleartext.missing", values={k: MISSING[k] for k in MISSING if k != "unknown"},
        default="error", about="How to treat empty cells: error, category, or drop the row.",
    ),
    option("also", hint=list[str], metavar="FILE"),
    switch("threats.minimality"),
    option("model.evidence", values=EVIDENCE),
    option("seed", about="For tests only; by default, the secure random source is used."),
    option("cleartext.sep", also=("release.sep",), values=SEPARATORS),
    option("cleartext.encoding", also=("release.encoding",), values=ENCODINGS),
    option("cleartext.decimal"),
)  # fmt: skip
def anonymize(
    asked: Asked,
    out: Annotated[Path, typer.Option(help="Released table to write.")],
    anatomy: Annotated[
        Path | None, typer.Option(help="Sensitive table to write in addition to --out (Anatomy).")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Assess the release, and write the HTML report here.")
    ] = None,
    keep_order: Annotated[
        bool,
        typer.Option(
            "--keep-order",
            help="Keep the order of the rows, which links them to the cleartext table.",
        ),
    ] = False,
    drop: Annotated[
        list[str] | None,
        typer.Option(help="Column to leave out; may be repeated.", rich_help_panel=FILES),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make a release of a cleartext table: k-anonymous, l-diverse, or Anatomy.

    Rows are published in random order. With --also, which names earlier releases of the same
    people, it also reports what somebody with all of them learns, and warns if the releases
    undermine each other. --json prints k, l, rows, groups, suppressed, loss, columns,
    reidentification, measures (with --report or --also), attackers (with --also), minimality,
    files.
    """
    check_free((out, anatomy, report), force=force)
    also = further_releases(asked, missing=asked.keys["cleartext.missing"])
    vertical = also and asked.values["scheme"] == "anatomy"  # hierarchies belong to the others
    request = asked.request(
        out.name,
        release={"quasi_identifiers": _chosen(asked, drop)}
        | ({"hierarchies": None} if vertical else {}),
        also=also,
    )
    settings = request.settings
    _check_files(settings.release.scheme, anatomy, keep_order=keep_order)
    if settings.threats.minimality and report is None:
        raise AnonbayesError("--minimality needs --report, which shows its results.")
    with asked.in_options():
        prepared = settings.make()
    table, recoding = prepared.made.table, prepared.made.recoding
    writers = _writers(asked, table, out, anatomy, keep_order=keep_order)
    risk = choice = attackers = None
    lines: list[str] = []
    if report is not None or settings.also:
        result = prepared.run()
        risk, choice, attackers = (
            result.answer.risk, result.fields["minimality"], result.answer.attackers
        )  # fmt: skip
        lines = [] if attackers is None else attackers.text.splitlines()
        lines += [] if choice is None else [str(result.answer.minimality)]
    if report is not None:
        writers[report] = result.files["report.html"]
    write_files(writers)
    if as_json:
        who = [] if attackers is None else attackers.to_dict()
        content = _content(table, recoding, risk) | {"attackers": who, "minimality": choice}
        print_json(content | {"files": [str(file) for file in writers]})
        return
    _print(table, recoding, risk, title=out.name)
    say(*lines, *map(str, writers))
    if is_terminal():
        say(f"Next: {_next(asked, out, anatomy)}")


def _chosen(asked: Asked, drop: list[str] | None) -> list[str]:
    """Return the quasi-identifiers asked for, without columns that are dropped."""
    chosen: list[str] = asked.values["quasi_identifier"] or []
    if not drop:
        return chosen
    from anonbayes.tables.build import open_source

    how = {name: asked.values[name] for name in ("sep", "encoding", "decimal")}
    names = open_source(asked.values["people"], drop=drop, **how).names
    secret = asked.values["sensitive"]
    return [name for name in chosen or names if name in names and name not in secret]


def _check_files(scheme: str, anatomy: Path | None, *, keep_order: bool) -> None:
    if scheme == "anatomy" and anatomy is None:
        raise AnonbayesError("--scheme anatomy needs --anatomy for its second table.")
    for name, value in (("--anatomy", anatomy), ("--keep-order", keep_order)):
        if value and (scheme == "anatomy") == (name == "--keep-order"):
            raise AnonbayesError(f"{name} does not apply to --scheme {scheme}; leave it out.")


def _writers(
    asked: Asked, table: ReleasedTable, out: Path, anatomy: Path | None, *, keep_order: bool
) -> dict[Path, Writer]:
    """Return what writes the release, with the separator of the cleartext table if it has one."""
    from anonbayes.anonymize.cleartext import is_misread
    from anonbayes.io.text import is_binary, separator

    people, sensitive, seed = (asked.values[name] for name in ("people", "sensitive", "seed"))
    sep, encoding = asked.values["sep"], asked.values["encoding"]
    sep = ";" if is_binary(people) else separator(people, sep, encoding=encoding)
    if anatomy is not None:
        items, slots = table.to_frames()
        return {out: frame_writer(items, sep), anatomy: frame_writer(slots, sep)}
    for name, column in table.columns.items():
        if any(isinstance(label, tuple) for label in column.evidence.labels):
            bad = next(filter(is_misread, column.evidence.domain.labels))
            raise TableError(
                f"Column {name!r}: the value {bad!r} could be misread in a set such as {{a, b}}; "
                "rename it, or give the column a hierarchy."
            )
    frame = table.to_frame()
    if len(sensitive) > 1:  # joined in the table, separate in the file
        import pandas as pd

        joined = frame.pop(table.sensitive)
        frame = frame.join(pd.DataFrame(joined.tolist(), columns=sensitive, index=frame.index))
    if not keep_order:
        from anonbayes.channels.randomness import randomness

        frame = frame.iloc[
            randomness(seed, "order of rows").random(len(frame)).argsort(kind="stable")
        ]
    return {out: frame_writer(frame, sep)}


def _content(
    table: ReleasedTable, recoding: Recoding | None, risk: RiskAssessment | None
) -> dict[str, object]:
    from anonbayes import reidentification_risk
    from anonbayes.formats import records

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


def _next(asked: Asked, out: Path, anatomy: Path | None) -> str:
    """Return the command that assesses the release."""
    import shlex

    given = asked.values
    words = ["anonbayes", "assess", str(out), "--cleartext", str(given["people"])]
    words += [word for name in given["sensitive"] for word in ("--sensitive", name)]
    if anatomy is not None:
        words += ["--anatomy", str(anatomy), "--group", GROUP]
    elif given["hierarchies"] is not None:
        words += ["--hierarchies", str(given["hierarchies"])]
    for name, usual in (("encoding", "utf-8"), ("decimal", "."), ("missing", "error")):
        words += [f"--{name}", given[name]] if given[name] != usual else []
    return shlex.join([*words, "--out", "results"])


# -- a released table ------------------------------------------------------------------------------


@asks("assessment", argument("release.file", "released"), *RELEASE)
def describe(
    asked: Asked,
    population: Annotated[
        Path | None,
        typer.Option(
            help="Table with the attributes of the whole population, from which the people in the "
            "release come; adds delta-presence.",
            rich_help_panel=FILES,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Describe a released table: groups, k, l and other privacy models, and its columns."""
    table = read_release(asked)
    models = _models(table, population, asked)
    if as_json:
        print_json(_as_json(table) | {"privacy_models": models})
    else:
        shown: dict[str, object] = {MODELS[name]: value for name, value in models.items()}
        show_release(table, title=asked.values["released"].name, more=shown)


MODELS = {
    "entropy_l": "entropy l-diversity",
    "recursive_c": "recursive (c, 2)-diversity: c",
    "t": "t-closeness: t",
    "delta_low": "delta-presence, lowest",
    "delta_high": "delta-presence, highest",
}


def _models(table: ReleasedTable, population: Path | None, asked: Asked) -> dict[str, float]:
    from anonbayes.risk.syntactic import privacy_models
    from anonbayes.scenario.people_in_clear import PeopleInClear, read_people

    if not table.secrets_known or not table.n_groups:
        return {}
    everybody = None
    if population is not None:
        how = {name: asked.values[name] for name in ("sep", "encoding", "decimal", "missing")}
        source = PeopleInClear(file=population, **how)
        spelled = {**asked.options, "cleartext.missing": "--missing"}
        with replace(asked, options=spelled).in_options():
            everybody = read_people(source, used=table.attributes).frame
    return privacy_models(table, population=everybody)


def _as_json(table: ReleasedTable) -> dict[str, object]:
    sizes = table.group_sizes
    return {
        "scheme": table.scheme,
        "sensitive": table.sensitive,
        "n_rows": table.n_rows,
        "n_suppressed": table.n_suppressed,
        "n_groups": table.n_groups,
        "k": table.k,
        "l": table.l,
        "is_nested": table.is_nested,
        "group_sizes": {str(size): n for size, n in sizes.value_counts().sort_index().items()},
        "attributes": json.loads(table.describe().to_json(orient="index")),
    }


def show_release(table: ReleasedTable, *, title: str, more: dict[str, object]) -> None:
    """Print the figures of a released table, and a table of its columns."""
    figures = {str(name): value for name, value in table.overview().items()}
    show_figures({**figures, "sensitive column": table.sensitive, **more}, title=title)
    columns = table.describe().drop(columns=["role", "evidence"])
    show_table(
        columns.rename(
            columns={"distinct cells": "cells", "average values per cell": "values per cell"}
        ).rename_axis("column"),
        title="Columns",
    )


# -- hierarchies -----------------------------------------------------------------------------------


def hierarchy(
    table: Annotated[Path, typer.Argument(help="Table in clear, with a header line.")],
    column: Annotated[str, typer.Option(help="Column whose values are the leaves.")],
    out: Annotated[Path, typer.Option(help="Hierarchy file to write, such as trees/age.csv.")],
    widths: Annotated[
        str | None,
        typer.Option(help="Widths of bands, each a multiple of the one before, such as 5,10,20."),
    ] = None,
    prefix: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of further characters that each level masks, from the right."
        ),
    ] = None,
    sep: Sep = "auto",
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    force: Force = False,
) -> None:
    """Build a hierarchy of a column's values: bands of numbers, or codes masked from the right.

    The file is in ARX's format: a line per value, from the value to the root.
    """
    from anonbayes.domains import Domain
    from anonbayes.hierarchies import Hierarchy
    from anonbayes.io.text import read_columns

    if (widths is None) == (prefix is None):
        raise AnonbayesError("Give either --widths, for numbers, or --prefix, for codes.")
    check_free([out], force=force)
    texts = read_columns(table, {"--column": column}, sep=sep, encoding=encoding, decimal=decimal)
    values = Domain.infer(column, [text for text in texts[column] if text]).values
    if prefix is not None:
        tree = Hierarchy.from_prefix([str(value) for value in values], prefix)
    else:
        bands = [parse_number(text) for text in str(widths).split(",")]
        if None in bands:
            raise AnonbayesError(f"--widths {widths} must be numbers, such as 5,10,20.")
        first, *wider = (float(band) for band in bands if band is not None)
        tree = Hierarchy.from_intervals(values, first, *wider)
    write_files({out: hierarchy_writer(tree, ";")})
    say(f"{out}: {len(tree.leaves):,} values, {len(tree.levels) + 1} levels")
