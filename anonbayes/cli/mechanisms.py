"""Mechanisms on the command line: from options to a channel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from anonbayes.channels.registry import MechanismKind, find_mechanism
from anonbayes.cli.options import parse_number
from anonbayes.errors import AnonbayesError, nearest

if TYPE_CHECKING:
    from anonbayes.domains import Domain

__all__ = ["make_mechanism"]


def make_mechanism(
    name: str,
    *,
    epsilon: float | None,
    values: str | None,
    sensitive: list[str] | None = None,
    g: int | None = None,
    d: int | None = None,
    budgets: Path | None = None,
    rule: str | None = None,
    sep: str = ";",
    column: str = "value",
    numbers: bool = False,
    bins: str | None = None,
    infinite: float | None = None,
) -> Any:
    """Return the channel that the options of a command describe.

    Parameters
    ----------
    name : str
        A mechanism of `anonbayes.channels.registry`.
    epsilon, values, sensitive, g, d, budgets, rule
        Options of the command.
    sep : str
        Separator of the file of budgets.
    column : str
        Name of the domain.
    numbers : bool
        Whether ``--values 0-N`` may stay numbers, of which none is ever listed.
    bins, infinite : optional
        Options of commands that know numeric and longitudinal mechanisms.

    Examples
    --------
    >>> make_mechanism("rappor", epsilon=1.0, values="a,b,c").epsilon
    1.0
    """
    from anonbayes.domains import Domain, IntegerDomain
    from anonbayes.io.text import parse_values

    mechanism = find_mechanism(name)
    given: dict[str, object] = {"sensitive": sensitive, "g": g, "d": d, "infinite": infinite}
    if mechanism.takes_epsilon:
        given["budgets"] = budgets
    mechanism.check(given, prefix="--")
    if not mechanism.takes_epsilon:
        return _with_budgets(mechanism, budgets, rule, epsilon, values, sep=sep, column=column)
    if rule is not None:
        raise AnonbayesError(f"--rule has no meaning with --mechanism {name}.")
    if epsilon is None:
        raise AnonbayesError(f"--mechanism {name} needs --epsilon.")
    if bins is not None or mechanism.numeric:
        return mechanism.make(_numeric_domain(mechanism, bins, values, column), epsilon)
    if values is None:
        raise AnonbayesError(
            "--values is missing: list what people could hold, whether or not anybody does."
        )
    listed = parse_values(values)
    if numbers and isinstance(listed, range) and listed.start == 0:
        domain: Domain = IntegerDomain(len(listed), column)
    else:
        domain = Domain(column, [str(value) for value in listed])
    return mechanism.make(domain, epsilon, sensitive=sensitive, g=g, d=d, infinite=infinite)


def _numeric_domain(
    mechanism: MechanismKind, bins: str | None, values: str | None, column: str
) -> Domain:
    from anonbayes.channels.numbers import BinnedDomain
    from anonbayes.domains import Domain, number_place
    from anonbayes.io.text import parse_values

    if not mechanism.numeric:
        raise AnonbayesError(f"--bins has no meaning with --mechanism {mechanism.name}.")
    if (bins is None) == (values is None):
        raise AnonbayesError(
            f"--mechanism {mechanism.name} needs --bins lower:upper:number, or numbers as --values."
        )
    if bins is not None:
        parts = [parse_number(part) for part in bins.split(":")]
        if len(parts) != 3 or None in parts:
            raise AnonbayesError(f"--bins {bins!r} must be lower:upper:number, such as 0:100:50.")
        return BinnedDomain(column, *parts)  # type: ignore[arg-type]
    listed = [number_place(value) for value in parse_values(values or "")]
    if None in listed:
        wrong = parse_values(values or "")[listed.index(None)]
        raise AnonbayesError(f"--values has {wrong!r}; {mechanism.name} is for numbers.")
    return Domain(column, sorted(listed))  # type: ignore[type-var]


def _with_budgets(
    mechanism: MechanismKind,
    file: Path | None,
    rule: str | None,
    epsilon: float | None,
    values: str | None,
    *,
    sep: str,
    column: str,
) -> Any:
    from anonbayes.domains import Domain
    from anonbayes.io.text import read_csv_text

    if file is None or epsilon is not None or values is not None:
        raise AnonbayesError(
            f"--mechanism {mechanism.name} takes values and budgets from the file of "
            "`anonbayes budgets`: give --budgets, and neither --epsilon nor --values."
        )
    frame = read_csv_text(file, sep=sep)
    first, *rules = frame.columns
    chosen = rule or (rules[0] if len(rules) == 1 else None)
    if chosen not in rules:
        what = "--rule is missing" if rule is None else f"--rule {rule!r} is not in {file.name!r}"
        raise AnonbayesError(f"{what}. {nearest(rule or '', rules)}")
    budgets = []
    for row, text in enumerate(frame[chosen]):
        number = parse_number(text)
        if number is None or number < 0:
            raise AnonbayesError(
                f"{file.name!r}, column {chosen!r}, row {row}: {text!r} is not a budget."
            )
        budgets.append(number)
    return mechanism.make(Domain(column, frame[first].tolist()), budgets=budgets)
