"""`anonbayes diagnose`: whether the draws in a file can be trusted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anonbayes.cli.options import AsJson

if TYPE_CHECKING:
    from anonbayes.diagnostics import DiagnosticReport

__all__ = ["diagnose"]


def diagnose(
    file: Annotated[Path, typer.Argument(help="netCDF file of a posterior, or of any ArviZ data.")],
    as_json: AsJson = False,
    plots: Annotated[
        Path | None, typer.Option(help="Directory for pictures of the chains (PNG).")
    ] = None,
    require_convergence: Annotated[
        bool,
        typer.Option("--require-convergence", help="Exit with 3 unless the chains can be trusted."),
    ] = False,
) -> None:
    """Judge whether draws can be trusted, and print why and what to do."""
    from anonbayes import compat
    from anonbayes.diagnostics import diagnose as judge

    data = compat.read_netcdf(file)
    report = judge(data)
    typer.echo(report.to_json() if as_json else report.text)
    if plots is not None:
        for picture in _draw(data, report, plots):
            typer.echo(str(picture), err=as_json)
    if require_convergence and not report.passed:
        raise typer.Exit(3)


def _draw(data: Any, report: DiagnosticReport, folder: Path) -> Iterator[Path]:
    """Save the pictures that the draws allow, and yield their files."""
    from anonbayes import compat
    from anonbayes import diagnostics as d
    from anonbayes.diagnostics.chain_plots import FEWEST_GEWEKE_DRAWS
    from anonbayes.figures import apart
    from anonbayes.scenario.outputs import save_plot

    if data.attrs.get("method") == "exact":
        return  # independent draws: there is no chain to look at
    draws = compat.posterior_dataset(data)
    kinds = {v.dtype.kind for v in draws.data_vars.values()}
    pictures: dict[str, Any] = {"worst": lambda: d.plot_worst(data, report=report, n=4)}
    if "f" in kinds:
        if draws.sizes["draw"] >= FEWEST_GEWEKE_DRAWS:
            pictures["geweke"] = lambda: d.plot_geweke(data)
        pictures["autocorrelation"] = lambda: d.plot_autocorrelation(data)
    if kinds & set("iub"):
        pictures["weiss"] = lambda: d.plot_weiss(data)
    folder.mkdir(parents=True, exist_ok=True)
    for name, plot in pictures.items():
        with apart():
            save_plot(folder / f"{name}.png", plot())
        yield folder / f"{name}.png"
