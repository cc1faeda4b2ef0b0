"""`anonbayes channel`: mechanisms of local privacy, from both sides."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anonbayes.cli.mechanisms import make_mechanism
from anonbayes.cli.options import (
    METHODS,
    AsJson,
    Bins,
    BudgetsFile,
    Chains,
    Draws,
    Epsilon,
    Force,
    Infinite,
    Mechanism,
    Protected,
    Rule,
    Sep,
    Subset,
    Symbols,
    Values,
    complete_method,
)
from anonbayes.cli.screen import print_json, say, show_figures, show_table
from anonbayes.cli.shared import (
    check_free,
    frame_writer,
    full_column,
    known_column,
    plot_writer,
    read_column,
)
from anonbayes.errors import AnonbayesError, DomainError, nearest, one_of
from anonbayes.io.files import write_files

if TYPE_CHECKING:
    import pandas as pd

    from anonbayes.notions.ldp import Notion

__all__ = ["advise", "describe", "estimate", "release"]
REPORT = "report"


def advise(
    values: Values = None,
    epsilon: Epsilon = None,
    sensitive: Protected = None,
    reports: Annotated[int, typer.Option(help="Number of reports that losses are for.")] = 10_000,
    norm: Annotated[str, typer.Option(help="Error to compare: l1 or l2 (squared).")] = "l2",
    plot: Annotated[Path | None, typer.Option(help="Picture of the losses, as PNG.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Compare all mechanisms that keep a guarantee: the most accurate first.

    Each is audited for the guarantee (LDP, or ULDP with --sensitive) and compared by its expected
    error in the worst case. With --json: notion, reports, norm, mechanisms (mechanism, loss,
    times_best, report).
    """
    from anonbayes.channels.advice import choose_channel
    from anonbayes.domains import Domain
    from anonbayes.io.text import parse_values

    check_free([plot], force=force)
    if epsilon is None or values is None:
        raise AnonbayesError("Give --epsilon, and --values: what people could hold.")
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


def describe(
    mechanism: Mechanism,
    values: Values = None,
    bins: Bins = None,
    epsilon: Epsilon = None,
    sensitive: Protected = None,
    g: Symbols = None,
    d: Subset = None,
    infinite: Infinite = None,
    budgets: BudgetsFile = None,
    rule: Rule = None,
    reports: Annotated[int, typer.Option(help="Number of reports that losses are for.")] = 10_000,
    sep: Sep = ";",
    as_json: AsJson = False,
) -> None:
    """Describe a mechanism: what it guarantees, audited, and how exact estimates will be.

    The audit looks at the exact probabilities and names the pair of values that comes closest to
    the limit. With --json: mechanism, values, epsilon, audits (notion, holds, epsilon, worst_ratio,
    limit, value, other, report), losses.
    """
    channel = make_mechanism(
        mechanism, epsilon=epsilon, values=values, sensitive=sensitive, g=g, d=d,
        budgets=budgets, rule=rule, sep=sep, numbers=not sensitive, bins=bins, infinite=infinite,
    )  # fmt: skip
    if reports < 1:
        raise AnonbayesError(f"--reports {reports} must be at least 1.")
    audits = [channel.satisfies(notion) for notion in _notions(channel, epsilon, sensitive)]
    if hasattr(channel, "permanent"):
        from anonbayes.notions.ldp import LDP

        audits.append(channel.permanent.satisfies(LDP(channel.infinite)))
    losses = _losses(channel, reports)
    if as_json:
        from anonbayes.scenario.outputs import audit_record

        print_json(
            {
                "format": 1,
                "mechanism": mechanism,
                "values": len(channel.domain),
                "epsilon": channel.epsilon,
                "audits": [audit_record(audit) for audit in audits],
                "losses": losses.reset_index().to_dict("records"),
            }
        )
        return
    figures: dict[str, Any] = {"values": len(channel.domain)}
    if hasattr(channel, "hit"):
        figures["true value supported with"] = _extent(channel.hit)
        figures["any other value with"] = _extent(channel.miss)
    show_figures(figures, title=mechanism)
    what = "mean" if hasattr(channel, "mean") else "shares"
    show_table(losses, title=f"Expected error of the {what} from {reports:,} reports")
    say(*map(str, audits))


def _notions(channel: Any, epsilon: float | None, sensitive: list[str] | None) -> list[Notion]:
    from anonbayes.notions.ldp import LDP
    from anonbayes.notions.uldp import ULDP

    if epsilon is None:  # budgets of their own
        return [channel.notion]
    if sensitive:
        return [ULDP(sensitive, epsilon), LDP(epsilon)]
    return [LDP(epsilon)]


def _losses(channel: Any, n: int) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    if hasattr(channel, "mean"):
        ends = (channel.lower, (channel.lower + channel.upper) / 2, channel.upper)
        errors = [(channel.variance(number) / n) ** 0.5 for number in ends]
        columns = ("numbers at the lower end", "in the middle", "at the upper end")
        index = pd.Index(["standard error"], name="error")
        return pd.DataFrame([errors], index=index, columns=list(columns))
    size = len(channel.domain)
    even = np.full(size, 1.0 / size)
    rows = {
        name: {
            "evenly held values": channel.expected_loss(even, n, norm=norm),
            "worst case": channel.worst_case_loss(n, norm=norm),
        }
        for name, norm in (("l1", "l1"), ("squared", "l2"))
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("error")


def _extent(probabilities: Any) -> str:
    low, high = float(probabilities.min()), float(probabilities.max())
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"


def release(
    people: Annotated[Path, typer.Argument(help="Table with a person to a line.")],
    column: Annotated[str, typer.Option(help="Column to randomize.")],
    mechanism: Mechanism,
    out: Annotated[Path, typer.Option(help="File of reports to write.")],
    values: Values = None,
    bins: Bins = None,
    epsilon: Epsilon = None,
    sensitive: Protected = None,
    g: Symbols = None,
    d: Subset = None,
    infinite: Infinite = None,
    budgets: BudgetsFile = None,
    rule: Rule = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Further column to write, in clear; may be repeated."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="For tests only; without it the secure source is used.")
    ] = None,
    sep: Sep = ";",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Randomize a column, as people's devices would: one report per person, in column `report`.

    Bits are spelled as zeros and ones in the order of the values, hashed values as a/b/y. Other
    columns are left out unless kept. With --json: reports, column, files.
    """
    from anonbayes.io.text import read_csv_text

    check_free([out], force=force)
    channel = make_mechanism(
        mechanism, epsilon=epsilon, values=values, sensitive=sensitive, g=g, d=d,
        budgets=budgets, rule=rule, sep=sep, column=column, bins=bins, infinite=infinite,
    )  # fmt: skip
    frame = read_csv_text(people, sep=sep)
    held = full_column(frame, column, people, "--column")
    kept = {name: known_column(frame, name, people, "--keep") for name in keep or ()}
    if REPORT in kept:
        raise AnonbayesError(f"--keep {REPORT}: that is the name of the column of reports.")
    _check_held(channel, held)
    sent = channel.spell(channel.release(held.tolist(), seed=seed))
    write_files({out: frame_writer(_reports(sent, kept), sep)})
    if as_json:
        print_json({"format": 1, "reports": len(sent), "column": REPORT, "files": [str(out)]})
        return
    source = "the secure source" if seed is None else f"seed {seed}: not for publication"
    say(f"{len(sent):,} reports in column {REPORT!r}, drawn from {source}.", str(out))


def _show_mean(
    channel: Any, sent: Any, level: float, out: Path | None, plot: Path | None, *, as_json: bool
) -> None:
    for option, path in (("--out", out), ("--plot", plot)):
        if path is not None:
            raise AnonbayesError(f"{option} is for shares: give --method mle or bayes with it.")
    estimate = channel.mean(sent, level=level)
    low, high = estimate.interval
    numbers = {"mean": estimate.mean, "lower": low, "upper": high}
    if as_json:
        print_json(
            {"format": 1, "method": "mean", "reports": estimate.n, "level": level, **numbers}
        )
        return
    show_figures(numbers, title=f"{estimate.n:,} reports, {level:.0%} interval of the mean")


def _reports(sent: list[str], kept: dict[str, pd.Series]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({**kept, REPORT: sent})


def _check_held(channel: Any, held: pd.Series) -> None:
    for text in held.unique():
        if channel.domain.find(text) is None:
            row = int((held == text).to_numpy().argmax())
            raise DomainError(
                f"Column {held.name!r}, row {row}: {text!r} is none of the values. "
                f"{nearest(text, channel.domain.labels)}"
            )


def estimate(
    reports: Annotated[Path, typer.Argument(help="File with a report to a line.")],
    mechanism: Mechanism,
    values: Values = None,
    bins: Bins = None,
    epsilon: Epsilon = None,
    sensitive: Protected = None,
    g: Symbols = None,
    d: Subset = None,
    infinite: Infinite = None,
    budgets: BudgetsFile = None,
    rule: Rule = None,
    column: Annotated[str, typer.Option(help="Column of the reports.")] = REPORT,
    method: Annotated[
        str | None,
        typer.Option(
            help="empirical, norm_sub, threshold, shrinkage, mle, em or bayes; of numbers mean, "
            "ems, mle, em or bayes. By default mle, ems (square_wave) or mean.",
            autocompletion=complete_method,
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Probability of the intervals.")] = 0.95,
    draws: Draws = 1000,
    chains: Chains = 4,
    prior_weight: Annotated[
        float | None,
        typer.Option(help="Weight of the prior of bayes, in people; learnt by default."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Makes bayes reproducible.")] = None,
    out: Annotated[Path | None, typer.Option(help="File of shares to write.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Picture of the shares, as PNG.")] = None,
    sep: Sep = ";",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Estimate how frequent values are among those who sent reports, with intervals.

    The options of the mechanism must be those that the devices used; reports that can hardly come
    from it are pointed out. With --json: method, reports, level, shares (value, share, lower,
    upper), notes; with --method mean: method, reports, level, mean, lower, upper.
    """
    one_of("method", method or "mle", METHODS)
    check_free([out, plot], force=force)
    channel = make_mechanism(
        mechanism, epsilon=epsilon, values=values, sensitive=sensitive, g=g, d=d,
        budgets=budgets, rule=rule, sep=sep, bins=bins, infinite=infinite,
    )  # fmt: skip
    texts = read_column(reports, column, sep=sep).tolist()
    sent = channel.read_texts(texts, where=f"Column {column!r}")
    settings: dict[str, Any] = {"level": level}
    method = method or channel.default_method
    has_mean = hasattr(channel, "mean")
    if method == "mean":
        one_of("method", method, ("mean", *channel.methods) if has_mean else channel.methods)
        return _show_mean(channel, sent, level, out, plot, as_json=as_json)
    if method == "bayes":
        settings |= {"draws": draws, "chains": chains, "seed": seed}
        if prior_weight is not None:
            settings["prior_weight"] = prior_weight
    elif prior_weight is not None:
        raise AnonbayesError(f"--prior-weight has no meaning with --method {method}.")
    from anonbayes.scenario.outputs import BAYES, stage

    with stage(BAYES if method == "bayes" else "Estimating the shares"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = channel.estimate(sent, method=method, **settings)
    notes = [str(note.message) for note in caught]
    shares = found.summary().rename(columns={"p": "share"})
    writers = {}
    if out is not None:
        writers[out] = frame_writer(shares, sep, index=True)
    if plot is not None:
        from anonbayes.scenario.survey import plot_shares

        writers[plot] = plot_writer(lambda: plot_shares(found, None))
    write_files(writers)
    if as_json:
        print_json(
            {
                "format": 1,
                "method": method,
                "reports": found.n,
                "level": level,
                "shares": shares.reset_index().to_dict("records"),
                "notes": notes,
            }
        )
        return
    show_table(shares, title=f"{found.n:,} reports, {method}, {level:.0%} intervals")
    say(*notes, *map(str, writers))
