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
    sep: str = ";",
    column: str = "value",
    numbers: bool = False,
    bins: str | None = None,
    rule: str | None = None,
    **options: Any,
) -> Any:
    """Return the channel that the options of a command describe.

    Parameters
    ----------
    name : str
        A mechanism of `anonbayes.channels.registry`.
    epsilon, values, bins, rule
        Options of the command.
    sep : str
        Separator of files.
    column : str
        Name of the domain.
    numbers : bool
        Whether ``--values 0-N`` may stay numbers, of which none is ever listed.
    **options
        Those of `anonbayes.channels.registry.OPTIONS` that the command has. Budgets, matrix and
        shares are files, which also list the values.

    Examples
    --------
    >>> make_mechanism("rappor", epsilon=1.0, values="a,b,c").epsilon
    1.0
    """
    from anonbayes.domains import Domain, IntegerDomain
    from anonbayes.io.text import parse_values

    mechanism = find_mechanism(name)
    mechanism.check({**dict.fromkeys(mechanism.needs), **options}, prefix="--")
    if (epsilon is None) == mechanism.takes_epsilon:
        what = "needs" if mechanism.takes_epsilon else "has budgets of its own, without"
        raise AnonbayesError(f"--mechanism {mechanism.name} {what} --epsilon.")
    if rule is not None and "budgets" not in mechanism.needs:
        raise AnonbayesError(f"--rule has no meaning with --mechanism {name}.")
    if bins is not None or mechanism.numeric:
        return mechanism.make(_numeric_domain(mechanism, bins, values, column), epsilon)
    for option, read in READERS.items():
        if option not in mechanism.needs:
            continue
        if values is not None:
            raise AnonbayesError(f"--mechanism {mechanism.name} takes values from --{option}.")
        listed, options[option] = read(options[option], sep, rule)
        return mechanism.make(Domain(column, listed), epsilon, **options)
    if values is None:
        raise AnonbayesError(
            "--values is missing: list what people could hold, whether or not anybody does."
        )
    held = parse_values(values)
    if numbers and isinstance(held, range) and held.start == 0:
        domain: Domain = IntegerDomain(len(held), column)
    else:
        domain = Domain(column, [str(value) for value in held])
    return mechanism.make(domain, epsilon, **options)


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


def _budgets(file: Path, sep: str, rule: str | None) -> tuple[list[str], Any]:
    """Values and budgets in the file of `anonbayes budgets`."""
    listed, table = _read(file, sep)
    chosen = rule or (next(iter(table)) if len(table) == 1 else None)
    if chosen not in table:
        what = "--rule is missing" if rule is None else f"--rule {rule!r} is not in {file.name!r}"
        raise AnonbayesError(f"{what}. {nearest(rule or '', table)}")
    return listed, table[chosen]


def _rows(file: Path, sep: str, rule: str | None) -> tuple[list[str], Any]:
    """Values, and the probabilities of their reports."""
    listed, table = _read(file, sep)
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    return listed, dict(zip(listed, rows, strict=True))


def _shares(file: Path, sep: str, rule: str | None) -> tuple[list[str], Any]:
    """Values and shares, which are made to sum to one."""
    listed, table = _read(file, sep)
    if len(table) != 1:
        raise AnonbayesError(f"{file.name!r} must have two columns: values and shares.")
    (shares,) = table.values()
    total = sum(shares)
    return listed, [share / total for share in shares] if total else shares


def _read(file: Path, sep: str) -> tuple[list[str], dict[str, list[float]]]:
    """First column of a file as texts, all others as numbers of at least 0."""
    from anonbayes.io.text import read_csv_text

    frame = read_csv_text(file, sep=sep)
    first, *others = frame.columns
    table: dict[str, list[float]] = {}
    for name in others:
        table[name] = []
        for row, text in enumerate(frame[name]):
            number = parse_number(text)
            if number is None or number < 0:
                raise AnonbayesError(
                    f"{file.name!r}, column {name!r}, row {row}: {text!r} is no number from 0 on."
                )
            table[name].append(number)
    return frame[first].tolist(), table


READERS = {"budgets": _budgets, "matrix": _rows, "shares": _shares}
