"""`anonbayes diagnose`: whether the draws in a file can be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anonbayes.commands.options import AsJson

__all__ = ["diagnose"]


def diagnose(
    file: Annotated[Path, typer.Argument(help="netCDF file of a posterior, or of any ArviZ data.")],
    as_json: AsJson = False,
    require_convergence: Annotated[
        bool, typer.Option(help="Exit with 3 unless the chains can be trusted.")
    ] = False,
) -> None:
    """Judge whether draws can be trusted, and print why and what to do."""
    from anonbayes import compat
    from anonbayes.diagnostics import diagnose as judge

    report = judge(compat.read_netcdf(file))
    typer.echo(report.to_json() if as_json else report.text)
    if require_convergence and not report.passed:
        raise typer.Exit(3)
