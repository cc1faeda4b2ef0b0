"""`anonbayes channel`: mechanisms of local privacy, for devices and for the collector."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anonbayes.channels.registry import find_mechanism
from anonbayes.cli.options import (
    MECHANISM,
    SEVERAL,
    AsJson,
    Asked,
    Encoding,
    Force,
    Sep,
    asks,
    by_name,
    completer,
    option,
)
from anonbayes.cli.screen import print_json, say, show_figures, show_table
from anonbayes.cli.shared import (
    check_free,
    frame_writer,
    full_column,
    known_column,
    make_mechanism,
    plot_writer,
    read_column,
)
from anonbayes.errors import AnonbayesError, ChannelError, one_of
from anonbayes.formats import count
from anonbayes.io.files import write_files
from anonbayes.scenario.choices import ESTIMATORS

if TYPE_CHECKING:
    import pandas as pd

    from anonbayes.arrays import Floats
    from anonbayes.notions.ldp import Notion

REPORT = "report"
METHODS = {**ESTIMATORS, "mean": "the mean of numbers"}


@asks("survey", *MECHANISM[1:4])
def advise(
    asked: Asked,
    reports: Annotated[
        int, typer.Option(help="Number of reports for which to compute losses.")
    ] = 10_000,
    norm: Annotated[str, typer.Option(help="Error to compare: l1 or l2 (squared).")] = "l2",
    plot: Annotated[Path | None, typer.Option(help="Plot of the losses, as PNG.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Compare all mechanisms that provide a guarantee, the most accurate first.

    Each is audited for the guarantee (LDP, or ULDP with --sensitive) and compared by its worst-case
    expected error. --json prints notion, reports, norm, mechanisms (mechanism, loss, times_best,
    report).
    """
    from anonbayes.channels.registry import choose_channel
    from anonbayes.domains import Domain
    from anonbayes.io.text import parse_values

    check_free([plot], force=force)
    epsilon, values, sensitive = (asked.values[n] for n in ("epsilon", "values", "sensitive"))
    if epsilon is None or values is None:
        raise AnonbayesError("Give --epsilon and --values, the list of possible values.")
    domain = Domain("value", [str(value) for value in parse_values(values)])
    advice = choose_channel(domain, epsilon, reports, sensitive=sensitive or None, norm=norm)
    if plot is not None:
        write_files({plot: plot_writer(advice.plot)})
    if as_json:
        mechanisms = advice.table.reset_index().to_dict("records")
        print_json(
            {
                "format": 1,
                "notion": str(advice.notion),
                "reports": reports,
                "norm": norm,
                "mechanisms": mechanisms,
            }
        )
        return
    show_table(
        advice.table, title=f"Expected error ({norm}) in the worst case, {reports:,} reports"
    )
    say(f"{advice.notion} holds for all of them.", *([] if plot is None else [str(plot)]))


@asks("survey", *MECHANISM)
def describe(
    asked: Asked,
    reports: Annotated[
        int, typer.Option(help="Number of reports for which to compute losses.")
    ] = 10_000,
    sep: Sep = "auto",
    as_json: AsJson = False,
) -> None:
    """Describe a mechanism: its guarantee, audited, and the accuracy of estimates from it.

    The audit computes exact probabilities and names the pair of values that comes closest to the
    limit. --json prints mechanism, values, epsilon, audits (notion, holds, epsilon, worst_ratio,
    limit, value, other, report), losses, shuffled (the central guarantee if nobody knows who sent
    which report; null without LDP).
    """
    import math

    from anonbayes.notions.consequences import shuffled

    mechanism, epsilon, sensitive = (
        asked.values[name] for name in ("mechanism", "epsilon", "sensitive")
    )
    channel = make_mechanism(**asked.values, sep=sep, numbers=not sensitive)
    if reports < 1:
        raise AnonbayesError(f"--reports {reports} must be at least 1.")
    audits = [channel.satisfies(notion) for notion in _notions(channel, epsilon, sensitive)]
    audits += channel.further_audits()
    losses, mixed = _losses(channel, reports), None
    if math.isfinite(channel.ldp_budget()):
        mixed = shuffled(channel, reports)
    if as_json:
        from dataclasses import asdict

        from anonbayes.scenario.outputs import audit_record

        print_json(
            {
                "format": 1,
                "mechanism": mechanism,
                "values": len(channel.domain),
                "epsilon": channel.epsilon,
                "audits": [audit_record(audit) for audit in audits],
                "losses": losses.reset_index().to_dict("records"),
                "shuffled": None if mixed is None else asdict(mixed),
            }
        )
        return
    figures: dict[str, object] = {"values": len(channel.domain)}
    if channel.hit is not None:
        figures["true value supported with"] = _extent(channel.hit)
        figures["any other value with"] = _extent(channel.miss)
    show_figures(figures, title=mechanism)
    what = "mean" if channel.tells_mean else "shares"
    show_table(losses, title=f"Expected error of the {what} from {reports:,} reports")
    say(*map(str, audits) if audits else ["Some reports exclude a value, so no LDP budget holds."])
    if mixed is not None:
        say(f"{mixed}.")


def _notions(channel: Any, epsilon: float | None, sensitive: list[str] | None) -> list[Notion]:
    from anonbayes.notions.ldp import LDP
    from anonbayes.notions.selective import ULDP

    if epsilon is None:  # it has its own budgets
        return [] if channel.notion is None else [channel.notion]
    if sensitive:
        return [ULDP(sensitive, epsilon), LDP(epsilon)]
    return [LDP(epsilon)]


def _losses(channel: Any, n: int) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    if channel.tells_mean:
        ends = (channel.lower, (channel.lower + channel.upper) / 2, channel.upper)
        errors = [(channel.variance(number) / n) ** 0.5 for number in ends]
        columns = ("numbers at the lower end", "in the middle", "at the upper end")
        index = pd.Index(["standard error"], name="error")
        return pd.DataFrame([errors], index=index, columns=list(columns))
    even = np.full(len(channel.domain), 1.0 / len(channel.domain))

    def known(loss: Callable[..., float], *given: Any, norm: str) -> float:
        try:
            return loss(*given, norm=norm)
        except ChannelError:  # no unbiased estimate, or no known worst case
            return float("nan")

    rows = {
        name: {
            "evenly held values": known(channel.expected_loss, even, n, norm=norm),
            "worst case": known(channel.worst_case_loss, n, norm=norm),
        }
        for name, norm in (("l1", "l1"), ("squared", "l2"))
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("error")


def _extent(probabilities: Floats) -> str:
    low, high = float(probabilities.min()), float(probabilities.max())
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"


@asks(
    "survey",
    *MECHANISM,
    *SEVERAL,
    option("seed", about="For tests only; by default, the secure random source is used."),
)
def release(
    asked: Asked,
    people: Annotated[Path, typer.Argument(help="Table with one person per line.")],
    column: Annotated[
        list[str], typer.Option(help="Column to randomize; repeat it for several under one budget.")
    ],
    out: Annotated[Path, typer.Option(help="File for the reports.")],
    keep: Annotated[
        list[str] | None, typer.Option(help="Column to add in clear; may be repeated.")
    ] = None,
    sep: Sep = "auto",
    encoding: Encoding = "utf-8",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Randomize a column as people's devices would: one report per person, in the column `report`.

    Bits are written as zeros and ones in the order of the values, hashed values as a/b/y, and sets
    of values (padded_sets) with commas. Several columns keep their names: each person reports one
    of them, or all with a part of the budget (--how), and --domain lists the values of each. Other
    columns are left out unless named with --keep. --json prints report, column, files.
    """
    from anonbayes.io.text import read_csv_text

    check_free([out], force=force)
    frame = read_csv_text(people, sep=sep, encoding=encoding)
    names = column if len(column) > 1 else [REPORT]
    kept = {name: known_column(frame, name, people, "--keep") for name in keep or ()}
    if set(names) & kept.keys():
        raise AnonbayesError(f"--keep {names[0]}: the file has a column of reports with that name.")
    seed = asked.values["seed"]
    if len(column) > 1:
        survey = _several(asked, column)
        held = {name: full_column(frame, name, people, "--column") for name in column}
        for name, channel in survey.channels.items():
            channel.read_values(held[name].tolist(), where=f"Column {name!r}")
        sent = survey.spell(survey.release(held, seed=seed))
        n = len(frame)
    else:
        channel = _single(asked, sep=sep, column=column[0])
        texts = known_column(frame, column[0], people, "--column")
        if find_mechanism(asked.values["mechanism"]).sets:  # the empty set is not missing
            texts = texts.fillna("")
        else:
            texts = full_column(frame, column[0], people, "--column")
        true = channel.read_values(texts.tolist(), where=f"Column {column[0]!r}")
        sent = {REPORT: channel.spell(channel.release(true, seed=seed))}
        n = len(true)
    write_files({out: frame_writer(_reports(sent, kept), sep)})
    if as_json:
        print_json({"format": 1, "reports": n, "column": ", ".join(names), "files": [str(out)]})
        return
    source = "the secure source" if seed is None else f"seed {seed}: not for publication"
    people_said = count(n, "person", "people")
    say(
        f"Reports of {people_said} in {', '.join(map(repr, names))}, drawn from {source}.", str(out)
    )


def _show_mean(
    channel: Any, sent: Any, level: float, out: Path | None, plot: Path | None, *, as_json: bool
) -> None:
    for name, path in (("--out", out), ("--plot", plot)):
        if path is not None:
            raise AnonbayesError(f"{name} applies to shares; use it with --method mle or bayes.")
    estimate = channel.mean(sent, level=level)
    low, high = estimate.interval
    numbers = {"mean": estimate.mean, "lower": low, "upper": high}
    if as_json:
        print_json(
            {"format": 1, "method": "mean", "reports": estimate.n, "level": level, **numbers}
        )
        return
    show_figures(numbers, title=f"{estimate.n:,} reports, {level:.0%} interval of the mean")


def _reports(sent: dict[str, list[str]], kept: dict[str, pd.Series]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({**kept, **sent})


def _several(asked: Asked, columns: list[str]) -> Any:
    """Build the mechanism of several attributes under one budget."""
    from anonbayes.channels.several import Attributes
    from anonbayes.domains import Domain
    from anonbayes.io.text import parse_values

    mechanism, epsilon, how = (asked.values[name] for name in ("mechanism", "epsilon", "how"))
    given = by_name(asked.values["domain"], option="--domain")
    if epsilon is None or set(given) != set(columns):
        raise AnonbayesError(
            "Several columns need --epsilon, the budget of everything that one person sends, and "
            "--domain COLUMN=VALUES for each of them."
        )
    domains = [Domain(name, [str(v) for v in parse_values(given[name])]) for name in columns]
    return Attributes(
        domains, epsilon, how=how or "sample", mechanism=find_mechanism(mechanism).name
    )


def _single(asked: Asked, **more: Any) -> Any:
    """Build the mechanism of a single column."""
    for name in ("domain", "how"):
        if asked.values[name]:
            raise AnonbayesError(f"--{name} applies to several columns; give --column repeatedly.")
    names = [flag.name for flag in MECHANISM]
    return make_mechanism(**{name: asked.values[name] for name in names}, **more)


@asks(
    "survey",
    *MECHANISM,
    *SEVERAL,
    option("estimation.level"),
    option("estimation.draws"),
    option("estimation.chains"),
    option("estimation.prior_weight"),
    option("seed"),
)
def estimate(
    asked: Asked,
    reports: Annotated[Path, typer.Argument(help="File of reports, one person per line.")],
    column: Annotated[
        list[str], typer.Option(help="Column of the reports; repeat it for several attributes.")
    ] = [REPORT],  # noqa: B006
    method: Annotated[
        str | None,
        typer.Option(
            help="empirical, norm_sub, threshold, shrinkage, mle, em or bayes; for numbers mean, "
            "ems, mle, em or bayes. By default mle, ems (square_wave) or mean.",
            autocompletion=completer(METHODS),
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File for the shares.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Plot of the shares, as PNG.")] = None,
    sep: Sep = "auto",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Estimate the frequency of each value among the senders of reports, with intervals.

    The options of the mechanism must be those used by the devices; a warning points out reports
    that are unlikely under them. --json prints method, reports, level, shares (value, share, lower,
    upper; for several columns also attribute), notes; with --method mean: method, reports, level,
    mean, lower, upper.
    """
    import pandas as pd

    from anonbayes.io.text import read_csv_text

    one_of("method", method or "mle", METHODS)
    check_free([out, plot], force=force)
    if len(column) > 1:
        frame = read_csv_text(reports, sep=sep)
        survey = _several(asked, column)
        columns = {name: known_column(frame, name, reports, "--column") for name in column}
        parts = survey.read_texts(
            {name: each.fillna("").tolist() for name, each in columns.items()}
        )
        sources = {name: (survey.channels[name], parts.reports[name]) for name in column}
    else:
        channel = _single(asked, sep=sep)
        texts = read_column(reports, column[0], sep=sep).tolist()
        sources = {"": (channel, channel.read_texts(texts, where=f"Column {column[0]!r}"))}
    channel, sent = next(iter(sources.values()))
    level, prior_weight = asked.values["level"], asked.values["prior_weight"]
    settings: dict[str, Any] = {"level": level}
    method = method or channel.default_method
    if method == "mean":
        means = ("mean",) if channel.tells_mean else ()
        one_of("method", method, (*means, *channel.methods))
        return _show_mean(channel, sent, level, out, plot, as_json=as_json)
    if method == "bayes":
        settings |= {name: asked.values[name] for name in ("draws", "chains", "seed")}
        if prior_weight is not None:
            settings["prior_weight"] = prior_weight
    elif prior_weight is not None:
        raise AnonbayesError(f"--prior-weight does not apply to --method {method}; leave it out.")
    from anonbayes.scenario.outputs import BAYES, stage

    with (
        stage(BAYES if method == "bayes" else "Estimating the shares"),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        found = {
            name: made.estimate(each, method=method, **settings)
            for name, (made, each) in sources.items()
        }
    notes = [str(note.message) for note in caught]
    tables = {name: each.summary().rename(columns={"p": "share"}) for name, each in found.items()}
    table = tables[""] if "" in tables else pd.concat(tables, names=["attribute", "value"])
    writers = {}
    if out is not None:
        writers[out] = frame_writer(table, sep, index=True)
    if plot is not None:
        from anonbayes.scenario.survey import plot_shares

        if len(found) > 1:
            raise AnonbayesError("--plot applies to a single column; leave it out.")
        writers[plot] = plot_writer(lambda: plot_shares(found[""], None))
    write_files(writers)
    n = (
        max(each.n for each in found.values())
        if asked.values["how"] == "split"
        else sum(e.n for e in found.values())
    )
    if as_json:
        print_json(
            {
                "format": 1,
                "method": method,
                "reports": n,
                "level": level,
                "shares": table.reset_index().to_dict("records"),
                "notes": notes,
            }
        )
        return
    show_table(table, title=f"{n:,} reports, {method}, {level:.0%} intervals")
    say(*notes, *map(str, writers))
