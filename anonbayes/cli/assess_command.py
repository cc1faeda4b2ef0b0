"""`anonbayes assess`: from files to a report, a JSON file, a netCDF file and an exit code."""

from __future__ import annotations

import json
import shlex
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anonbayes.cli.options import (
    Anatomy,
    AsJson,
    Chains,
    Domains,
    Draws,
    Drop,
    Engine,
    File,
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
)
from anonbayes.cli.screen import is_terminal, say, show_table
from anonbayes.cli.shared import EXCEEDED, read_release
from anonbayes.errors import AnonbayesError, ConvergenceWarning
from anonbayes.io.files import locked, mend, needs_mending, write_text, write_together

if TYPE_CHECKING:
    from anonbayes.diagnostics import DiagnosticReport
    from anonbayes.inference.posterior import Posterior
    from anonbayes.risk.assessment import RiskAssessment
    from anonbayes.risk.limits import LimitCheck

__all__ = ["assess"]
REPORT, RISK, POSTERIOR = "report.html", "risk.json", "posterior.nc"
FILES = (REPORT, POSTERIOR, RISK)
"""In the order in which they get their names: where the last one is, the others belong to it."""


def assess(
    released: File,
    sensitive: Sensitive,
    out: Annotated[Path, typer.Option(help="Directory for the results; made when absent.")],
    cleartext: Annotated[
        Path | None, typer.Option(help="The people of the table, in clear; without it no threats.")
    ] = None,
    hierarchies: Hierarchies = None,
    anatomy: Anatomy = None,
    group: Group = None,
    drop: Drop = None,
    domain: Domains = None,
    sep: Sep = ";",
    missing: Missing = "error",
    harm: Harm = None,
    method: Engine = "auto",
    step: Annotated[str | None, typer.Option(help="Kind of Gibbs step, such as tempered.")] = None,
    draws: Draws = 1000,
    tune: Annotated[int | None, typer.Option(help="Sweeps before them.")] = None,
    chains: Chains = 4,
    seed: Seed = None,
    max_relative_threat: MaxRelativeThreat = None,
    max_threatened: MaxThreatened = None,
    max_cost: MaxCost = None,
    require_convergence: Annotated[
        bool,
        typer.Option("--require-convergence", help="Exit with 3 unless the chains can be trusted."),
    ] = False,
    show_values: Annotated[
        bool,
        typer.Option("--show-values", help="Show the values of threatened people in the report."),
    ] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Assess a release: who is threatened, how much more than anybody else, how surely.

    Writes report.html, risk.json and posterior.nc. Exit code 0; 3 when a limit is exceeded; 2 on
    bad input.
    """
    import anonbayes
    from anonbayes.risk.limits import check_limit_values, check_limits
    from anonbayes.scenario.cleartext_file import read_people_of

    # Everything that can be wrong is found before the expensive part.
    given = {
        "max_relative_threat": max_relative_threat,
        "max_threatened": max_threatened,
        "max_cost": max_cost,
    }
    check_limit_values(**given)
    if cleartext is None and any(value is not None for value in given.values()):
        raise AnonbayesError("Limits on threats need --cleartext to compare guesses with.")
    if cleartext is None and harm:
        raise AnonbayesError("--harm needs --cleartext.")
    if needs_mending(out):
        with locked(out):
            mend(out, FILES)
    _check_out(out, force=force)
    table = read_release(
        released, sensitive=sensitive, hierarchies=hierarchies, anatomy=anatomy, group=group,
        drop=drop, domain=domain, sep=sep, missing=missing,
    )  # fmt: skip
    people = None if cleartext is None else read_people_of([table], cleartext, sep=sep)
    if people is not None:
        people.check(table)

    with locked(out):
        mend(out, FILES)
        _check_out(out, force=force)  # another run may have ended meanwhile
        with warnings.catch_warnings():
            # The report says so in its verdict; twice would be once too often.
            warnings.simplefilter("ignore", ConvergenceWarning)
            post = anonbayes.fit(
                table, method=method, step=step, draws=draws, tune=tune, chains=chains, seed=seed,
                progressbar=sys.stderr.isatty(),
            )  # fmt: skip
        risk = None if people is None else people.assess(post, harm=harm or None)
        diagnostics = anonbayes.diagnose(post)
        limits = () if risk is None else check_limits(risk, **given)
        command = shlex.join(["anonbayes", *sys.argv[1:]])

        text = _as_json(post, risk, diagnostics, limits, command)
        write_together(
            out,
            {
                REPORT: lambda file: anonbayes.report(
                    post, risk, file, show_values=show_values, title=released.name,
                    diagnostics=diagnostics, limits=limits, command=command,
                ),
                POSTERIOR: post.to_netcdf,
                RISK: lambda file: write_text(file, text + "\n"),
            },
        )  # fmt: skip

    if as_json:
        typer.echo(text)
    else:
        _print(risk, diagnostics, limits, out)
    if any(check.exceeded for check in limits) or (require_convergence and not diagnostics.passed):
        raise typer.Exit(EXCEEDED)


def _check_out(out: Path, *, force: bool) -> None:
    if out.exists() and not out.is_dir():
        raise AnonbayesError(f"--out {str(out)!r} is a file; name a directory.")
    there = [name for name in (REPORT, RISK, POSTERIOR) if (out / name).exists()]
    if there and not force:
        raise AnonbayesError(
            f"--out {str(out)!r} holds an earlier run ({', '.join(there)}); name another "
            "directory, or use --force to replace it."
        )


def _as_json(
    post: Posterior,
    risk: RiskAssessment | None,
    diagnostics: DiagnosticReport,
    limits: tuple[LimitCheck, ...],
    command: str,
) -> str:
    """Return what goes into risk.json, a person to a line; docs/risk-json.md describes it."""
    attrs = post.attrs
    assessment = None if risk is None else risk.to_dict(rows=True)
    people = [] if assessment is None else assessment.pop("rows")
    content = {
        "format": 1,
        "command": command,
        "seed": str(attrs["entropy"]),
        "versions": {
            str(name).removesuffix("_version"): str(value)
            for name, value in attrs.items()
            if str(name).endswith("_version")
        },
        "assessment": assessment,
        "limits": [check.to_dict() for check in limits],
        "exceeded": any(check.exceeded for check in limits),
        "diagnostics": diagnostics.to_dict(),
    }
    head = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False).removesuffix("\n}")
    rows = ",\n".join(f"    {json.dumps(row, allow_nan=False)}" for row in people)
    return f'{head},\n  "rows": [\n{rows}\n  ]\n}}'


def _print(
    risk: RiskAssessment | None,
    diagnostics: DiagnosticReport,
    limits: tuple[LimitCheck, ...],
    out: Path,
) -> None:
    """Tables on a terminal; a few plain lines in a pipe."""
    if risk is not None:
        if is_terminal():
            show_table(risk.measures[["value", "standard error"]], title="Measures")
        say(risk.text)
    say(*(check.text for check in limits))
    say(f"Convergence {diagnostics.verdict}: {diagnostics.reason}")
    say(*(str(out / name) for name in (REPORT, RISK, POSTERIOR)))
