"""`anonbayes budgets`: a budget for each value, so that no report identifies its sender (OneID)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anonbayes.cli.options import (
    MECHANISM,
    MECHANISMS,
    AsJson,
    Asked,
    Encoding,
    Force,
    asks,
    completer,
    option,
)
from anonbayes.cli.screen import print_json, say, show_table
from anonbayes.cli.shared import check_free, frame_writer, full_column, make_mechanism, read_column
from anonbayes.errors import AnonbayesError, TableError, nearest
from anonbayes.io.files import write_files
from anonbayes.scenario.choices import COVERAGES, RULES, SEPARATORS

if TYPE_CHECKING:
    import pandas as pd

    from anonbayes.budgets import Budgets
    from anonbayes.domains import Domain


@dataclass(frozen=True)
class _Known:
    """What is known about the users' values, and which rules can use it."""

    domain: Domain
    users: int
    rules: tuple[str, ...]
    counts: dict[str, int] | None = None
    evidence: object = None
    channel: Any = None


@asks(
    "checkins",
    option("protocol.gamma"),
    *(
        replace(flag, keys=(f"survey:{flag.keys[0]}",), default=None)
        for flag in MECHANISM
        if flag.name in ("values", "epsilon", "budgets")
    ),
    option("protocol.alpha"),
    option("protocol.coverage", values=COVERAGES),
    option("population.sensitive"),
    option("protocol.cap"),
    option("population.sep", values=SEPARATORS),
)
def budgets(
    asked: Asked,
    file: Annotated[
        Path, typer.Argument(help="Table of users, of counts or of reports, or posterior.nc.")
    ],
    column: Annotated[
        str, typer.Option(help="Column of values or reports; attribute of a posterior.")
    ],
    counts: Annotated[
        str | None, typer.Option(help="Column of counts, if the table has one value per line.")
    ] = None,
    users: Annotated[
        int | None,
        typer.Option(help="Number of all users, if the table contains only a first group of them."),
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            help=f"{', '.join(RULES)}; may be repeated. By default all that apply.",
            autocompletion=completer(RULES),
        ),
    ] = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            "--mechanism",
            "-m",
            help="Mechanism of the reports in the table.",
            autocompletion=completer(MECHANISMS),
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File for the budgets.")] = None,
    encoding: Encoding = "utf-8",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Tune budgets so that no report identifies its sender with more than gamma / users.

    A table of all users' values allows the rules worst_case and counts. With --users the table is
    a first group whose values are known, which allows worst_case, prior, confidence and posterior.
    Reports of a first group, or posterior.nc, allow the rules for which they suffice. --json prints
    users, gamma, bound, rules (smallest, median, largest, unprotected, capped), budgets (null
    where none is needed).
    """
    check_free([out], force=force)
    given = asked.values
    text = {"sep": given["sep"], "encoding": encoding}
    known = (
        _of_posterior(file, column, users)
        if file.suffix == ".nc"
        else _of_reports(file, column, users, mechanism, asked)
        if mechanism is not None
        else _of_users(file, column, counts, users, given["values"], text)
    )
    tuned = {name: _tune(name, known, asked) for name in _chosen(rule, known.rules)}
    frame = _frame(known.domain, tuned)
    if out is not None:
        write_files({out: frame_writer(frame, given["sep"], index=True)})
    summary = _summary(tuned)
    bound = given["gamma"] / known.users
    if as_json:
        from anonbayes.formats import records

        print_json(
            {
                "format": 1,
                "users": known.users,
                "gamma": given["gamma"],
                "bound": bound,
                "rules": records(summary),
                "budgets": records(frame),
            }
        )
        return
    show_table(summary, title=f"Budgets of {len(known.domain):,} values, {known.users:,} users")
    say(f"No report identifies its sender with a probability above {bound:.4g} (gamma / users).")
    if out is not None:
        say(str(out))


# -- what is known ---------------------------------------------------------------------------------


def _of_users(
    file: Path,
    column: str,
    counts: str | None,
    users: int | None,
    values: str | None,
    text: dict[str, str],
) -> _Known:
    from anonbayes.domains import Domain
    from anonbayes.io.text import parse_values, read_csv_text

    frame = read_csv_text(file, sep=text["sep"], encoding=text["encoding"])
    held = full_column(frame, column, file, "--column")
    if counts is None:
        found = {str(value): int(n) for value, n in held.value_counts(sort=False).items()}
    else:
        found = _count_column(held, full_column(frame, counts, file, "--counts"))
    listed = sorted(found) if values is None else [str(v) for v in parse_values(values)]
    known = set(listed)
    for value in found:
        if value not in known:
            row = int((held == value).to_numpy().argmax())
            raise TableError(
                f"Column {column!r}, row {row}: {value!r} is not among --values. "
                f"{nearest(value, listed)}"
            )
    total = sum(found.values())
    if users is not None and users < total:
        raise AnonbayesError(f"--users {users} is less than the {total} in the table.")
    rules: tuple[str, ...] = ("worst_case", "counts")
    if users is not None and users > total:
        rules = ("worst_case", "prior", "confidence", "posterior")
    return _Known(Domain(column, listed), users or total, rules, found, evidence=found)


def _count_column(held: pd.Series, counts: pd.Series) -> dict[str, int]:
    found: dict[str, int] = {}
    for row, (value, text) in enumerate(zip(held, counts, strict=True)):
        if not (text.isascii() and text.isdigit()):
            raise TableError(
                f"Column {counts.name!r}, row {row}: {text!r} is not a number of users."
            )
        if value in found:
            raise TableError(f"Column {held.name!r}, row {row}: {value!r} appears twice.")
        found[value] = int(text)
    return found


def _of_reports(file: Path, column: str, users: int | None, mechanism: str, asked: Asked) -> _Known:
    if users is None:
        raise AnonbayesError(
            "The reports come from a first group of users; give the number of all users with "
            "--users."
        )
    first, sep = asked.values["budgets"], asked.values["sep"]
    channel = make_mechanism(
        mechanism, epsilon=asked.values["epsilon"], values=asked.values["values"], sensitive=None,
        budgets=first, rule=None if first is None else "worst_case", sep=sep,
    )  # fmt: skip
    texts = read_column(file, column, sep=sep).tolist()
    reports = channel.read_texts(texts, where=f"Column {column!r}")
    rules = ("worst_case", "confidence", "posterior")
    return _Known(channel.domain, users, rules, evidence=reports, channel=channel)


def _of_posterior(file: Path, column: str, users: int | None) -> _Known:
    import anonbayes

    if users is None:
        raise AnonbayesError("--users is missing: give the number of people who will send reports.")
    post = anonbayes.Posterior.from_netcdf(file)
    domains = post.table.domains
    if column not in domains:
        raise AnonbayesError(
            f"--column {column!r} is not a column of the table in {file.name!r}. "
            f"{nearest(column, domains)}"
        )
    return _Known(domains[column], users, ("worst_case", "posterior"), evidence=post)


# -- the rules -------------------------------------------------------------------------------------


def _chosen(wanted: list[str] | None, possible: tuple[str, ...]) -> tuple[str, ...]:
    for name in wanted or ():
        if name not in RULES:
            raise AnonbayesError(f"--rule {name!r} is not valid. {nearest(name, RULES)}")
        if name not in possible:
            raise AnonbayesError(
                f"--rule {name} does not apply here; these do: {', '.join(possible)}. "
                "With --users the table is a first group; without, all users."
            )
    return tuple(dict.fromkeys(wanted)) if wanted else possible


def _tune(name: str, known: _Known, asked: Asked) -> Budgets:
    from anonbayes import budgets as rules
    from anonbayes.channels.reports import SupportCounts
    from anonbayes.channels.unary import BitChannel

    domain, n = known.domain, known.users
    gamma, alpha = asked.values["gamma"], asked.values["alpha"]
    more = {"sensitive": asked.values["sensitive"] or (), "cap": asked.values["cap"]}
    if name == "worst_case":
        return rules.worst_case(domain, n, gamma, **more)
    if name == "counts":
        return rules.from_counts(domain, gamma, known.counts, **more)
    if name == "prior":
        return rules.from_prior(domain, n, gamma, known.counts, **more)
    more["coverage"] = asked.values["coverage"]
    if name == "posterior":
        return rules.from_posterior(domain, n, gamma, known.evidence, known.channel, alpha, **more)
    reports, channel = known.evidence, known.channel
    if channel is None:  # values in clear: reports without noise
        import numpy as np

        assert known.counts is not None
        held = np.array([known.counts.get(value, 0) for value in domain.values])
        reports, channel = SupportCounts(held, int(held.sum())), BitChannel(domain, 1.0, 0.0)
    return rules.from_confidence(domain, n, gamma, reports, channel, alpha, **more)


def _frame(domain: Domain, tuned: dict[str, Budgets]) -> pd.DataFrame:
    import pandas as pd

    index = pd.Index(domain.labels, name=domain.name)
    return pd.DataFrame({name: b.epsilon for name, b in tuned.items()}, index=index)


def _summary(tuned: dict[str, Budgets]) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    rows = {
        name: {
            "smallest": float(b.epsilon.min()),
            "median": float(np.median(b.epsilon)),
            "largest": float(b.epsilon.max()),
            "unprotected": int(np.isinf(b.epsilon).sum()),
            "capped": int(b.sensitive.sum()),
        }
        for name, b in tuned.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("rule")
