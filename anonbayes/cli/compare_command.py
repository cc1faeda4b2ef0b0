"""`anonbayes compare`: several releases of the same people side by side."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anonbayes.cli.options import (
    AsJson,
    Chains,
    Cleartext,
    Domains,
    Draws,
    Engine,
    Force,
    Group,
    Harm,
    Hierarchies,
    MaxCost,
    MaxRelativeThreat,
    MaxThreatened,
    Missing,
    Seed,
    Sensitive,
    Sep,
    complete_threat,
)
from anonbayes.cli.screen import print_json, say, show_table, working
from anonbayes.cli.shared import EXCEEDED, check_free, plot_writer, read_release
from anonbayes.errors import AnonbayesError, ConvergenceWarning
from anonbayes.io.files import write_files

if TYPE_CHECKING:
    import pandas as pd

    from anonbayes.risk.assessment import RiskAssessment
    from anonbayes.risk.comparison import Comparison
    from anonbayes.scenario.cleartext_file import People
    from anonbayes.tables.table import ReleasedTable

__all__ = ["compare"]
SHOWN = {
    "scheme": "scheme",
    "k": "smallest group (k)",
    "l": "fewest secrets (l)",
    "groups": "groups",
    "suppressed": "suppressed rows",
    "GT_A": "guessed by attacker (GT_A)",
    "GT_L": "guessed by learner (GT_L)",
    "RGT_A": "due to the release (RGT_A)",
    "max_Ti": "largest relative threat (max_Ti)",
    "Ti_q95": "its 95 % quantile (Ti_q95)",
    "doubled": "twice as certain (doubled)",
    "RF": "faithfulness (RF)",
    "efficient": "efficient",
    "converged": "converged",
    "acceptable": "keeps the limits",
}


@dataclass(frozen=True)
class _Source:
    """One release of the command line: ``[NAME=]FILE[+SENSITIVE_FILE]``."""

    name: str
    file: Path
    anatomy: Path | None

    @classmethod
    def of(cls, text: str) -> _Source:
        # A file may have either sign in its name; what exists is meant.
        name, equals, rest = ("", "", text) if Path(text).exists() else text.partition("=")
        if not equals:
            name, rest = "", text
        first, plus, second = (rest, "", "") if Path(rest).exists() else rest.partition("+")
        if not first or (plus and not second) or (equals and not name):
            raise AnonbayesError(
                f"{text!r} is not [NAME=]FILE, or [NAME=]FILE+SENSITIVE_FILE for an Anatomy."
            )
        return cls(name or Path(first).stem, Path(first), Path(second) if second else None)


def compare(
    releases: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]FILE...",
            help="Released tables; the two tables of an Anatomy as FILE+SENSITIVE_FILE.",
        ),
    ],
    cleartext: Cleartext,
    sensitive: Sensitive,
    hierarchies: Hierarchies = None,
    domain: Domains = None,
    group: Group = None,
    sep: Sep = ";",
    missing: Missing = "error",
    harm: Harm = None,
    method: Engine = "auto",
    draws: Draws = 1000,
    chains: Chains = 4,
    seed: Seed = None,
    threat: Annotated[
        str,
        typer.Option(
            help="Measure of threat that decides which are efficient.",
            autocompletion=complete_threat,
        ),
    ] = "RGT_A",
    plot: Annotated[
        Path | None, typer.Option(help="Draw threat against faithfulness, as PNG.")
    ] = None,
    max_relative_threat: MaxRelativeThreat = None,
    max_threatened: MaxThreatened = None,
    max_cost: MaxCost = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Compare releases of the same people: threats on one side, what can be learned on the other.

    The two tables of an Anatomy are one release: FILE+SENSITIVE_FILE. A release is efficient when
    no other is at least as good in both. With limits, the exit code is 3 when no release keeps
    them all. With --json: releases (a line each, with all measures), standard_errors, threat, best,
    limits, exceeded.
    """
    from anonbayes.risk.comparison import THREATS
    from anonbayes.risk.limits import check_limit_values
    from anonbayes.scenario.cleartext_file import read_people_of

    limits = {
        "max_relative_threat": max_relative_threat,
        "max_threatened": max_threatened,
        "max_cost": max_cost,
    }
    check_limit_values(**limits)
    if threat not in THREATS:
        raise AnonbayesError(
            f"--threat {threat!r} is not known; choose one of {', '.join(THREATS)}."
        )
    check_free([plot], force=force)
    tables = {
        source.name: _read(
            source, sensitive=sensitive, hierarchies=hierarchies, domain=domain,
            group=group, sep=sep, missing=missing,
        )
        for source in _sources(releases)
    }  # fmt: skip
    people = read_people_of(tables.values(), cleartext, sep=sep)
    for name, released in tables.items():
        with _naming(name):
            people.check(released)
    settings = {"method": method, "draws": draws, "chains": chains, "seed": seed}
    risks, converged = _answer(tables, people, harm, settings)
    found, table = _side_by_side(risks, converged, limits, threat)
    best = _best(table, limited=any(limit is not None for limit in limits.values()))
    if plot is not None:
        write_files({plot: plot_writer(lambda: found.plot(threat=threat))})
    if as_json:
        _print_json(found, table, threat, best, limits)
    else:
        shown = table[[name for name in SHOWN if name in table]].rename(columns=SHOWN)
        show_table(shown.T, title=f"{len(table)} releases of {cleartext.name}")
        say(_words(table, best))
        if plot is not None:
            say(str(plot))
    if best is None:
        raise typer.Exit(EXCEEDED)


def _sources(texts: list[str]) -> list[_Source]:
    sources = [_Source.of(text) for text in texts]
    names = [source.name for source in sources]
    for name in names:
        if names.count(name) > 1:
            raise AnonbayesError(
                f"Two releases are called {name!r}; name them, as in first={texts[0]}."
            )
    return sources


def _read(
    source: _Source,
    *,
    sensitive: list[str],
    hierarchies: Path | None,
    domain: list[str] | None,
    group: str | None,
    sep: str,
    missing: str,
) -> ReleasedTable:
    vertical = source.anatomy is not None
    with _naming(source.name):
        return read_release(
            source.file, sensitive=sensitive, hierarchies=None if vertical else hierarchies,
            anatomy=source.anatomy, group=group if vertical else None, drop=None,
            domain=domain, sep=sep, missing=missing,
        )  # fmt: skip


@contextmanager
def _naming(release: str) -> Iterator[None]:
    """Say which of the releases an error is about."""
    try:
        yield
    except AnonbayesError as error:
        raise AnonbayesError(f"{release}: {error}") from None


def _answer(
    tables: dict[str, ReleasedTable],
    people: People,
    harm: list[str] | None,
    settings: dict[str, Any],
) -> tuple[dict[str, RiskAssessment], dict[str, bool]]:
    import anonbayes

    risks, converged = {}, {}
    with warnings.catch_warnings(), working("Fitting", len(tables)) as begin:
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is a column of the table
        for name, table in tables.items():
            begin(name)
            post = anonbayes.fit(table, progressbar=False, **settings)
            risks[name] = people.assess(post, harm=harm or None)
            converged[name] = anonbayes.diagnose(post).passed
    return risks, converged


def _side_by_side(
    risks: dict[str, RiskAssessment],
    converged: dict[str, bool],
    limits: dict[str, float | None],
    threat: str,
) -> tuple[Comparison, pd.DataFrame]:
    import pandas as pd

    import anonbayes

    found = anonbayes.compare(risks)
    table = found.table.assign(
        efficient=found.efficient(threat=threat), converged=pd.Series(converged)
    )
    if any(limit is not None for limit in limits.values()):
        kept = {
            name: not any(check.exceeded for check in anonbayes.check_limits(risk, **limits))
            for name, risk in risks.items()
        }
        table["acceptable"] = pd.Series(kept)
    return found, table


def _best(table: pd.DataFrame, *, limited: bool) -> str | None:
    """Most faithful of the releases that keep the limits, or of the efficient ones."""
    chosen = table[table["acceptable"]] if limited else table[table["efficient"]]
    return None if chosen.empty else str(chosen["RF"].idxmax())


def _words(table: pd.DataFrame, best: str | None) -> str:
    if best is None:
        return "No release keeps all limits."
    those = "that keep all limits" if "acceptable" in table else "that no other beats in both"
    line = table.loc[best]
    return (
        f"Among the releases {those}, {best} is the most faithful: RF = {line['RF']:.3f}, "
        f"{line['GT_A']:.1%} of the secrets guessed right, {line['RGT_A']:.1%} because of the "
        "release."
    )


def _print_json(
    found: Comparison,
    table: pd.DataFrame,
    threat: str,
    best: str | None,
    limits: dict[str, float | None],
) -> None:
    from anonbayes.scenario.outputs import records

    print_json(
        {
            "format": 1,
            "releases": records(table.rename_axis("release")),
            "standard_errors": records(found.standard_errors),
            "threat": threat,
            "best": best,
            "limits": limits,
            "exceeded": best is None,
        }
    )
