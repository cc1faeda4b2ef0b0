"""`anonbayes pie`: how much reports reveal about who sent them, in bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anonbayes.cli.options import MECHANISM, SEED, AsJson, Asked, Force, asks, completer, option
from anonbayes.cli.screen import finish, print_json, say, show_figures, show_table
from anonbayes.cli.shared import check_free, make_mechanism, plot_writer
from anonbayes.errors import AnonbayesError, ChannelError, one_of
from anonbayes.formats import number
from anonbayes.io.files import write_files
from anonbayes.scenario.choices import SEPARATORS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from anonbayes.channels.pure import PureChannel

BOUNDS = {
    "theorem": "from the channel's contraction",
    "exact": "the supremum itself",
    "general": "from the budget alone",
}


@asks(
    "survey",
    *(replace(flag, needed=flag.name != "sensitive") for flag in MECHANISM[:4]),
    *MECHANISM[4:6],
)
def bound(
    asked: Asked,
    users: Annotated[int, typer.Option(help="Number of users who may be the sender.")],
    reports: Annotated[int, typer.Option(help="Number of reports per user.")] = 1,
    target_error: Annotated[
        float | None,
        typer.Option(help="Find the largest budget that keeps the adversary's error above this."),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="Bound used for --target-error: best, theorem, exact or general.",
            autocompletion=completer({"best": "exact where known", **BOUNDS}),
        ),
    ] = "best",
    plot: Annotated[Path | None, typer.Option(help="Plot of the bounds by budget, as PNG.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Bound what reports reveal about their sender, whatever an adversary knows about the users.

    Prints personal information entropy (PIE) in bits, and a lower bound of the error of anyone who
    guesses senders. --json prints bounds (kind, bits, error), worst_case (bits, error,
    error_of_every_report), choice (epsilon, bits, error; null without --target-error).
    """
    from anonbayes import pie

    one_of("kind", kind, ["best", *BOUNDS])
    check_free([plot], force=force)
    channel = make_mechanism(**asked.values, numbers=not asked.values["sensitive"])
    bounds, left_out = _bounds(channel, users, reports)
    worst = pie.worst_case(channel, users, reports)
    choice = None
    if target_error is not None:
        chosen = pie.choose(channel, users, target_error, t=reports, kind=kind)
        choice = {"epsilon": chosen.epsilon, "bits": chosen.bits, "error": chosen.error}
    if plot is not None:
        write_files({plot: plot_writer(lambda: _plot(channel, users, reports, bounds))})
    if as_json:
        from anonbayes.formats import records

        print_json(
            {"format": 1, "bounds": records(bounds), "worst_case": vars(worst), "choice": choice}
        )
        return
    show_table(bounds, title=f"At most, among {users:,} users, reports of each: {reports:,}")
    say(*left_out)
    say(
        f"A guess identifies the sender with a probability of at most {number(1 - worst.error)} on "
        "average over reports, and of at most "
        f"{number(1 - worst.error_of_every_report)} for any single report."
    )
    if choice is not None:
        say(
            f"Largest budget for an error of {target_error:g}: epsilon = {choice['epsilon']:.4g} "
            f"({choice['bits']:.4g} bits)."
        )
    if plot is not None:
        say(str(plot))


def _bounds(channel: PureChannel, users: int, reports: int) -> tuple[pd.DataFrame, list[str]]:
    """Compute all bounds that the channel has, and the reasons why it lacks others."""
    import pandas as pd

    from anonbayes import pie

    rows, left_out = {}, []
    for kind in BOUNDS:
        try:
            bits = pie.bound(channel, users, reports, kind=kind)
        except ChannelError as error:
            left_out.append(f"No bound of kind {kind}: {error}")
            continue
        rows[kind] = {"bits": bits, "error": pie.bayes_error(bits, users)}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("kind"), left_out


def _plot(channel: PureChannel, users: int, reports: int, bounds: pd.DataFrame) -> Axes:
    import numpy as np

    from anonbayes import pie

    kinds = tuple(bounds.index)
    grid = np.geomspace(channel.epsilon / 16, channel.epsilon * 16, 33)
    return pie.plot_bounds(pie.bounds_by_budget(channel, users, grid, t=reports, kinds=kinds))


@asks(
    "traces",
    option("population.file", "file"),
    option("mechanism.epsilon"),
    option("population.user"),
    option("population.region"),
    option("population.users"),
    option("population.regions"),
    option("mechanism.compare"),
    option("limits.max_bits"),
    option("limits.max_identified"),
    SEED,
    option("population.sep", values=SEPARATORS),
)
def traces(
    asked: Asked,
    plot: Annotated[Path | None, typer.Option(help="Plot for several budgets, as PNG.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Measure what reported visits reveal about who sent them, and try to identify the senders.

    The adversary knows the first half of everybody's visits; the second half is reported. Results
    are personal information entropy (PIE) and, for the matcher's scores, PSE, in bits. --json
    prints text, measures, budgets, limits, exceeded.
    """
    check_free([plot], force=force)
    file, compare = asked.values["file"], asked.values["compare"]
    if plot is not None and not compare:
        raise AnonbayesError("--plot compares several budgets; give --compare as well.")
    result = asked.prepare().run()
    if plot is not None:
        write_files({plot: plot_writer(result.plots["budgets"])})

    def show() -> None:
        show_figures(result.measures, title="Simulated users" if file is None else file.name)
        if compare:
            show_table(result.tables["budgets"], title="Budgets")

    files = [] if plot is None else [plot]
    finish(result, "budgets", as_json=as_json, show=show, files=files)
