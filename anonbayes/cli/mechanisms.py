"""Mechanisms on the command line, and how their reports are spelled in a file.

======================================  =====================================================
randomized response and its relatives   the reported value
unary encodings                         a text of zeros and ones, in the order of ``--values``
local hashing                           ``a/b/y``, the hash function and the symbol
======================================  =====================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anonbayes.cli.options import MECHANISMS, parse_number, parse_values
from anonbayes.errors import AnonbayesError, ChannelError, nearest, one_of

if TYPE_CHECKING:
    import pandas as pd

    from anonbayes.channels.pure import PureChannel

__all__ = ["make_mechanism", "read_reports", "spell_reports"]
ROWS = 50_000
"""Bit reports that are spelled at a time."""


def make_mechanism(
    name: str,
    *,
    epsilon: float | None,
    values: str | None,
    sensitive: list[str] | None,
    budgets: Path | None = None,
    rule: str | None = None,
    sep: str = ";",
    column: str = "value",
    numbers: bool = False,
) -> PureChannel:
    """Return the channel that the options of a command describe.

    Parameters
    ----------
    name : str
        One of `MECHANISMS`.
    epsilon, values, sensitive, budgets, rule
        Options of the command.
    sep : str
        Separator of the file of budgets.
    column : str
        Name of the domain.
    numbers : bool
        Whether ``--values 0-N`` may stay numbers, of which none is ever listed.

    Examples
    --------
    >>> make_mechanism("rappor", epsilon=1.0, values="a,b,c", sensitive=None).epsilon
    1.0
    """
    from anonbayes.domains import Domain, IntegerDomain
    from anonbayes.scenario.kinds import PROTECTS_SOME

    one_of("mechanism", name, MECHANISMS)
    if sensitive and name not in PROTECTS_SOME:
        raise AnonbayesError(f"--sensitive has no meaning with --mechanism {name}.")
    if name == "input_discriminative_ue":
        return _with_budgets(budgets, rule, epsilon, values, sep=sep, column=column)
    if budgets is not None or rule is not None:
        raise AnonbayesError(f"--budgets and --rule have no meaning with --mechanism {name}.")
    if epsilon is None:
        raise AnonbayesError(f"--mechanism {name} needs --epsilon.")
    if values is None:
        raise AnonbayesError(
            "--values is missing: list what people could hold, whether or not anybody does."
        )
    if name in PROTECTS_SOME and not sensitive:
        raise AnonbayesError(f"--mechanism {name} needs --sensitive, the values to protect.")
    listed = parse_values(values)
    if numbers and isinstance(listed, range) and listed.start == 0:
        domain: Domain = IntegerDomain(len(listed), column)
    else:
        domain = Domain(column, [str(value) for value in listed])
    return _make(name, domain, epsilon, sensitive or [])


def _make(name: str, domain: Any, epsilon: float, sensitive: Sequence[str]) -> PureChannel:
    if name == "local_hashing":
        from anonbayes.channels.hashing import LocalHashing

        return LocalHashing.invertible(domain, epsilon)
    from anonbayes.scenario.table_files import make_channel

    return make_channel(name, domain, epsilon, sensitive)


def _with_budgets(
    file: Path | None,
    rule: str | None,
    epsilon: float | None,
    values: str | None,
    *,
    sep: str,
    column: str,
) -> PureChannel:
    from anonbayes.channels.discriminative import InputDiscriminativeUE
    from anonbayes.domains import Domain
    from anonbayes.io.text import read_csv_text

    if file is None or epsilon is not None or values is not None:
        raise AnonbayesError(
            "--mechanism input_discriminative_ue takes values and budgets from the file of "
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
                f"{file.name!r}, column {chosen!r}, row {row}: {text!r} is no budget."
            )
        budgets.append(number)
    return InputDiscriminativeUE.optimal(Domain(column, frame[first].tolist()), budgets)


def spell_reports(channel: PureChannel, reports: Any) -> list[str]:
    """Return the reports as texts, one to a line.

    Examples
    --------
    >>> import anonbayes as ab
    >>> channel = ab.RAPPOR(ab.Domain("x", "abc"), 1.0)
    >>> spell_reports(channel, ab.BitReports.from_dense([[0, 1, 1], [0, 0, 0]]))
    ['011', '000']
    """
    from anonbayes.channels.hashing import LocalHashing
    from anonbayes.channels.reports import BitReports

    if isinstance(reports, BitReports):
        return [text for part in _blocks(reports) for text in part]
    if isinstance(channel, LocalHashing):
        parts = (reports.a.tolist(), reports.b.tolist(), reports.y.tolist())
        return [f"{a}/{b}/{y}" for a, b, y in zip(*parts, strict=True)]
    return [str(value) for value in reports]


def _blocks(reports: Any) -> Any:
    from anonbayes.channels.reports import BitReports

    for start in range(0, len(reports), ROWS):
        ends = reports.indptr[start : start + ROWS + 1]
        part = BitReports.trusted(ends - ends[0], reports.indices[ends[0] : ends[-1]], reports.size)
        letters = part.to_dense() + ord("0")
        yield letters.view(f"S{reports.size}").ravel().astype(str).tolist()


def read_reports(channel: PureChannel, column: pd.Series) -> Any:
    """Return the reports that the texts of a column spell; errors name the row.

    Examples
    --------
    >>> import pandas as pd
    >>> import anonbayes as ab
    >>> channel = ab.RAPPOR(ab.Domain("x", "abc"), 1.0)
    >>> read_reports(channel, pd.Series(["011", "000"], name="report")).counts().tolist()
    [0, 1, 1]
    """
    from anonbayes.channels.hashing import LocalHashing
    from anonbayes.channels.unary import BitChannel

    if isinstance(channel, BitChannel):
        return _read_bits(len(channel.domain), column)
    if isinstance(channel, LocalHashing):
        return _read_hashes(column)
    domain = channel.domain
    for text in column.unique():
        if domain.find(text) is None:
            row = int((column == text).to_numpy().argmax())
            raise ChannelError(
                f"Column {column.name!r}, row {row}: {text!r} is none of the values. "
                f"{nearest(text, domain.labels)}"
            )
    return column.tolist()


def _read_bits(size: int, column: pd.Series) -> Any:
    import numpy as np

    from anonbayes.channels.reports import BitReports

    wrong = ~column.str.fullmatch(f"[01]{{{size}}}").to_numpy(dtype=bool)
    if wrong.any():
        row = int(wrong.argmax())
        shown = column.iloc[row][:40]
        raise ChannelError(
            f"Column {column.name!r}, row {row}: {shown!r} is not a text of {size} zeros and ones, "
            "one for each value."
        )
    letters = np.frombuffer("".join(column).encode("ascii"), dtype=np.uint8)
    return BitReports.from_dense(letters.reshape(-1, size) - ord("0"))


def _read_hashes(column: pd.Series) -> Any:
    from anonbayes.channels.hashing import HashReports

    parts = column.str.extract(r"^(\d+)/(\d+)/(\d+)$")
    wrong = parts[0].isna().to_numpy()
    if wrong.any():
        row = int(wrong.argmax())
        raise ChannelError(
            f"Column {column.name!r}, row {row}: {column.iloc[row]!r} is not a/b/y, three whole "
            "numbers."
        )
    numbers = parts.to_numpy().astype("int64")
    return HashReports(numbers[:, 0], numbers[:, 1], numbers[:, 2])
