"""`anonbayes assess`: from files to a report, a JSON file, a netCDF file and an exit code."""

from __future__ import annotations

import json
import shlex
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anonbayes.commands.options import (
    Anatomy,
    AsJson,
    Drop,
    File,
    Group,
    Hierarchies,
    Missing,
    Sensitive,
    Sep,
)
from anonbayes.commands.shared import console, frame_table, read_release
from anonbayes.errors import AnonbayesError, ConvergenceWarning
from anonbayes.files import remove_leftovers, write_text, write_together
from anonbayes.locks import locked

if TYPE_CHECKING:
    import pandas as pd

    from anonbayes.diagnostics import DiagnosticReport
    from anonbayes.inference.posterior import Posterior
    from anonbayes.release.table import ReleasedTable
    from anonbayes.reporting.limits import LimitCheck
    from anonbayes.risk.assessment import RiskAssessment

__all__ = ["assess"]

REPORT, RISK, POSTERIOR = "report.html", "risk.json", "posterior.nc"
EXCEEDED = 3


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
    sep: Sep = ";",
    missing: Missing = "error",
    harm: Annotated[
        list[str] | None, typer.Option(help="Harmful sensitive value; repeat for several.")
    ] = None,
    method: Annotated[str, typer.Option(help="Engine: auto, exact, gibbs or nuts.")] = "auto",
    step: Annotated[str | None, typer.Option(help="Kind of Gibbs step, such as tempered.")] = None,
    draws: Annotated[int, typer.Option(help="Draws per chain.")] = 1000,
    tune: Annotated[int | None, typer.Option(help="Sweeps before them.")] = None,
    chains: Annotated[int, typer.Option(help="Number of chains.")] = 4,
    seed: Annotated[int | None, typer.Option(help="Makes the run reproducible.")] = None,
    max_relative_threat: Annotated[
        float | None, typer.Option(help="Exit with 3 if anybody's relative threat is larger.")
    ] = None,
    max_threatened: Annotated[
        float | None, typer.Option(help="Exit with 3 if a larger share (0 to 1) is threatened.")
    ] = None,
    require_convergence: Annotated[
        bool, typer.Option(help="Exit with 3 unless the chains can be trusted.")
    ] = False,
    show_values: Annotated[
        bool, typer.Option(help="Show the values of threatened people in the report.")
    ] = False,
    force: Annotated[bool, typer.Option(help="Replace the results of an earlier run.")] = False,
    as_json: AsJson = False,
) -> None:
    """Assess a release: who is threatened, how much more than anybody else, how surely.

    Writes report.html, risk.json and posterior.nc. Exit code 0; 3 when a limit is exceeded; 2 on
    bad input.
    """
    import anonbayes
    from anonbayes.reporting.limits import check_limit_values, check_limits
    from anonbayes.textfiles import read_csv_text

    # Everything that can be wrong is found before the expensive part.
    given = {"max_relative_threat": max_relative_threat, "max_threatened": max_threatened}
    check_limit_values(**given)
    if cleartext is None and any(value is not None for value in given.values()):
        raise AnonbayesError("Limits on threats need --cleartext to compare guesses with.")
    if cleartext is None and harm:
        raise AnonbayesError("--harm needs --cleartext.")
    _check_out(out, force=force)
    table = read_release(
        released, sensitive=sensitive, hierarchies=hierarchies, anatomy=anatomy, group=group,
        drop=drop, sep=sep, missing=missing,
    )  # fmt: skip
    people = None if cleartext is None else read_csv_text(cleartext, sep=sep)
    if people is not None:
        _check_cleartext(table, people)

    with locked(out):
        _check_out(out, force=force)  # another run may have ended meanwhile
        for name in (REPORT, RISK, POSTERIOR):
            remove_leftovers(out, name)
        with warnings.catch_warnings():
            # The report says so in its verdict; twice would be once too often.
            warnings.simplefilter("ignore", ConvergenceWarning)
            post = anonbayes.fit(
                table, method=method, step=step, draws=draws, tune=tune, chains=chains, seed=seed,
                progressbar=sys.stderr.isatty(),
            )  # fmt: skip
        risk = None if people is None else post.assess(people, harm=harm or None)
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
                RISK: lambda file: write_text(file, text + "\n"),
                POSTERIOR: post.to_netcdf,
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


def _check_cleartext(table: ReleasedTable, people: pd.DataFrame) -> None:
    """Find mistakes in the cleartext before the model is fitted."""
    from anonbayes.risk.truth import check_same_secrets, read_truth

    check_same_secrets(table, read_truth(table, people))


def _as_json(
    post: Posterior,
    risk: RiskAssessment | None,
    diagnostics: DiagnosticReport,
    limits: tuple[LimitCheck, ...],
    command: str,
) -> str:
    """Return what goes into risk.json, a person to a line; docs/risk-json.md describes it."""
    attrs = post.idata.attrs
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
    screen = console()
    if risk is not None:
        if screen.is_terminal:
            shown = risk.measures[["value", "standard error"]].map("{:.4g}".format)
            screen.print(frame_table(shown, title="Measures"))
        screen.print(risk.text, markup=False, soft_wrap=True)
    for check in limits:
        screen.print(check.text, markup=False, soft_wrap=True)
    screen.print(
        f"Convergence {diagnostics.verdict}: {diagnostics.reason}", markup=False, soft_wrap=True
    )
    for name in (REPORT, RISK, POSTERIOR):
        screen.print(str(out / name), markup=False, soft_wrap=True)
