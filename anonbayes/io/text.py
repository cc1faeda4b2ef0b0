"""Reading tables from files of all usual kinds, with errors that name file and place."""

from __future__ import annotations

import codecs
import csv
import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from anonbayes.errors import AnonbayesError, TableError, nearest
from anonbayes.formats import count

AUTO = "auto"
"""Separator that is detected from the first line."""
SEPARATORS = (";", ",", "\t", "|")
UTF_8 = "utf-8"
SHEET_READERS = {".xlsx": "openpyxl", ".xls": "xlrd", ".ods": "odf"}
"""Packages that read spreadsheets."""
EXCEL, SPSS, STATA = tuple(SHEET_READERS), (".sav", ".zsav"), (".dta",)
PARQUET = (".parquet", ".pq")
# Every cell is text, so nothing is guessed or dropped.
_AS_TEXT: dict[str, Any] = {
    "header": None,
    "dtype": str,
    "keep_default_na": False,
    "na_filter": False,
    "skip_blank_lines": True,
}
_BROKEN_END = re.compile(rb"\r[ \t]")
NEWLINE = b"\n"
ROW = "row"
"""Name of an index of row numbers, which are not identifiers, so reports show them. Other labels of
a cleartext may be names of people."""


def _how(sep: str) -> dict[str, Any]:
    """Options for pandas, whose C parser only supports separators of one byte."""
    return {**_AS_TEXT, "sep": sep, "engine": "c" if sep.isascii() else "python"}


def read_csv_text(
    path: str | Path,
    *,
    sep: str = ";",
    header: bool = True,
    encoding: str = UTF_8,
    decimal: str = ".",
) -> pd.DataFrame:
    """Read a table with every cell as text, so that nothing is guessed or dropped.

    Empty cells become empty texts and blank lines are skipped; short or long lines, a wrong
    encoding, duplicate column names and files without rows are errors. Excel, SPSS, Stata and
    parquet files can be read if their readers are installed; they have neither separator nor
    encoding. Numbers with a `decimal` comma are returned with points.
    """
    if not isinstance(path, str | Path):
        raise TableError(f"{path!r} is not a file; give its path.")
    file = Path(path)
    if header and is_binary(file):
        body = _read_binary(file)
        check_names(body.columns.tolist(), str(file))
        if body.empty:
            raise TableError(f"{str(file)!r} has no rows.")
        return body
    encoding = _encoding(file, encoding)
    sep = separator(file, sep, encoding=encoding)
    with _clear_errors(file, sep, encoding):
        frame = pd.read_csv(file, encoding=_codec(encoding), **_how(sep))
    if (frame.iloc[:, -1] == "").any():  # pandas fills short lines with empty cells
        _check_lengths(file, sep, frame.shape[1], encoding)
    if not header:
        return frame
    body = _named(frame, frame.iloc[0].tolist(), file, skip=1)
    if body.empty:
        raise TableError(f"{str(file)!r} has a header but no rows.")
    return body if decimal == "." else _with_points(body, decimal)


def separator(file: Path, sep: str, *, encoding: str = UTF_8) -> str:
    r"""Return the actual separator for ``"tab"`` and ``"auto"``, and others as they are.

    ``"auto"`` is the one that gives the first line most cells; a line without any is one cell.
    """
    if sep in ("tab", "\\t"):
        return "\t"
    if sep != AUTO:
        return sep
    with _clear_errors(file, ";", encoding):
        with file.open(encoding=_codec(encoding), errors="replace", newline="") as lines:
            header = lines.readline()
    if not header.strip():
        return ";"
    # Characters inside quotation marks do not separate.
    cells = {s: len(next(csv.reader([header], delimiter=s), ())) for s in SEPARATORS}
    return max(SEPARATORS, key=cells.__getitem__)


def _encoding(file: Path, encoding: str) -> str:
    """Check the bytes of a file once; valid UTF-8 is never read as anything else.

    Bytes that pandas silently misreads are refused: a zero byte would end its cell, and a lone
    carriage
    return before a blank would create thousands of rows.
    """
    codec = _codec(encoding)
    if codec.startswith(("utf-16", "utf-32")) or not file.is_file():
        return codec
    decoder = codecs.getincrementaldecoder(UTF_8)()
    lines, unsound, last = 1, 0, b""
    with _clear_errors(file, ";", encoding), file.open("rb") as opened:
        block = b"to begin with"
        while block:
            block = opened.read(2**24)
            zero, broken = block.find(0), _BROKEN_END.search(last + block)
            if zero >= 0:
                raise TableError(
                    f"{str(file)!r}, line {lines + block.count(NEWLINE, 0, zero)}: a zero byte, "
                    "which cannot be part of text; the file is damaged or not UTF-8. Get a fresh "
                    "copy, or save it as UTF-8."
                )
            if broken:
                raise TableError(
                    f"{str(file)!r}, line {lines + block.count(NEWLINE, 0, broken.start())}: a "
                    "carriage return comes before a blank; save the file with usual line ends."
                )
            if not unsound:
                try:
                    decoder.decode(block, final=not block)
                except UnicodeDecodeError as error:
                    unsound = lines + block.count(NEWLINE, 0, error.start)
            lines += block.count(NEWLINE)
            last = block[-1:]
    if not unsound:
        return "utf-8-sig"
    if codec == "utf-8-sig":
        raise TableError(
            f"{str(file)!r} is not UTF-8 text (line {unsound}). If it comes from Windows, try "
            "--encoding cp1252 (encoding='cp1252'), or save it as UTF-8."
        )
    return codec


def _codec(encoding: str) -> str:
    try:
        name = codecs.lookup(encoding).name
    except (LookupError, TypeError, ValueError):  # unknown, no text, a text with a zero byte
        raise TableError(
            f"encoding={encoding!r} is not known; the usual ones are utf-8, latin-1 and cp1252."
        ) from None
    return "utf-8-sig" if name == UTF_8 else name


# -- files of other programs -------------------------------------------------------------------


def is_binary(file: Path) -> bool:
    """Whether a file is an Excel, SPSS, Stata or parquet file, by its extension."""
    return file.suffix.lower() in (*EXCEL, *SPSS, *STATA, *PARQUET)


def _read_binary(file: Path) -> pd.DataFrame:
    """Read every cell as text; coded values are replaced by their labels."""
    kind = file.suffix.lower()
    if not file.exists():
        raise TableError(f"There is no file {str(file)!r}.")

    # Texts in Excel stay texts: 01067 is a code, and NA may be a value.
    def excel(sheet: Path) -> pd.DataFrame:
        return pd.read_excel(sheet, dtype=object, keep_default_na=False, na_values=[""])

    readers: dict[tuple[str, ...], tuple[Callable[..., pd.DataFrame], str, str]] = {
        EXCEL: (excel, SHEET_READERS.get(kind, ""), "A spreadsheet"),
        SPSS: (pd.read_spss, "pyreadstat", "An SPSS file"),
        STATA: (pd.read_stata, "", "A Stata file"),
        PARQUET: (pd.read_parquet, "pyarrow", "A parquet file"),
    }
    read, package, what = next(reader for ends, reader in readers.items() if kind in ends)
    try:
        if package and importlib.util.find_spec(package) is None:
            raise ImportError
        frame = read(file)
    except ImportError:
        raise TableError(
            f"Reading {what[:1].lower()}{what[1:]} ({str(file)!r}) needs {package}: pip install "
            f"{'odfpy' if package == 'odf' else package}. Or save the table as CSV (UTF-8)."
        ) from None
    except Exception as error:  # each reader raises its own errors
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise TableError(f"{str(file)!r} cannot be read: {reason}.") from None
    return as_text(frame.set_axis([str(name) for name in frame.columns], axis=1))


def as_text(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert typed cells to the texts that a delimited file would contain.

    Missing cells become empty texts; whole numbers have no decimals, dates no hours.
    """
    return pd.DataFrame({name: _column_text(frame[name]) for name in frame.columns}).reset_index(
        drop=True
    )


def pandas_frame(frame: Any) -> Any:
    """Convert a frame of another library (polars, pyarrow, any that narwhals knows) to pandas.

    Anything else is returned unchanged, for others to refuse.
    """
    if isinstance(frame, pd.DataFrame | pd.Series) or hasattr(frame, "to_delayed"):  # Dask: counted
        return frame
    frame = frame.collect() if hasattr(frame, "collect") else frame  # a lazy frame
    if hasattr(frame, "to_pandas"):
        return frame.to_pandas()
    if not hasattr(frame, "__arrow_c_stream__"):
        return frame
    import pyarrow

    return pyarrow.table(frame).to_pandas()


def _column_text(column: pd.Series) -> pd.Series:
    full = column.dropna().infer_objects()
    if pd.api.types.is_datetime64_any_dtype(full.dtype):
        days = bool((full == full.dt.normalize()).all())
        texts = full.dt.strftime("%Y-%m-%d" if days else "%Y-%m-%d %H:%M:%S")
    elif pd.api.types.is_float_dtype(full.dtype) and bool((full % 1 == 0).all()):
        texts = (full + 0.0).map("{:.0f}".format)  # no type of whole numbers holds all of them
    else:
        texts = full.map(str)
    return texts.astype(object).reindex(column.index, fill_value="")


_COMMA = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d+)?")

_THOUSANDS = re.compile(r"[+-]?(?:\d+|[1-9]\d{0,2}(?:,\d{3})+)(?:\.\d+)?")


def has_decimal_commas(values: Iterable[object]) -> bool:
    """Whether nearly all filled cells are numbers and some have a decimal comma."""
    texts = [text for value in values if (text := str(value).strip())]
    numbers = [text for text in texts if _COMMA.fullmatch(text)]
    return any("," in text for text in numbers) and len(numbers) >= max(2, 0.9 * len(texts))


def may_separate_thousands(values: Iterable[object]) -> bool:
    """Whether all filled cells are numbers whose commas could separate thousands, as in 1,000."""
    texts = [text for value in values if (text := str(value).strip())]
    return any("," in text for text in texts) and all(map(_THOUSANDS.fullmatch, texts))


def _with_points(frame: pd.DataFrame, decimal: str) -> pd.DataFrame:
    """Write numbers with a decimal point, in columns whose filled cells are all numbers."""
    if decimal != ",":
        raise TableError(f"decimal={decimal!r} must be '.' or ','.")
    out = frame.copy()
    for name in frame.columns:
        texts = [text for text in frame[name].unique().tolist() if text.strip()]
        if any("," in text for text in texts) and all(map(_COMMA.fullmatch, texts)):
            out[name] = frame[name].str.replace(".", "").str.replace(",", ".")
    return out


def read_csv_parts(path: str | Path, *, sep: str = ";", rows: int) -> Iterator[pd.DataFrame]:
    """Read a file with a header like `read_csv_text`, but `rows` rows at a time.

    The index numbers the rows consecutively from 0. The last part may be empty.
    """
    file = Path(path)
    names: list[str] = []
    seen, checked = 0, False
    encoding = _encoding(file, UTF_8)
    sep = separator(file, sep)
    with (
        _clear_errors(file, sep),
        pd.read_csv(file, chunksize=rows, encoding=encoding, **_how(sep)) as parts,
    ):
        for part in parts:
            if not checked and (part.iloc[:, -1] == "").any():
                _check_lengths(file, sep, part.shape[1])
                checked = True
            first = not names
            names = names or part.iloc[0].tolist()
            body = _named(part, names, file, skip=int(first))
            body.index = pd.RangeIndex(seen, seen + len(body))
            seen += len(body)
            yield body
    if not seen:
        raise TableError(f"{str(file)!r} has a header but no rows.")


def read_csv_names(path: str | Path, *, sep: str = ";", encoding: str = UTF_8) -> list[str]:
    """Return the column names of a file, from its first line."""
    file = Path(path)
    if is_binary(file):
        return _read_binary(file).columns.tolist()
    encoding = _encoding(file, encoding)
    sep = separator(file, sep, encoding=encoding)
    with _clear_errors(file, sep, encoding):
        first = pd.read_csv(file, nrows=1, encoding=_codec(encoding), **_how(sep))
    names: list[str] = first.iloc[0].tolist()
    check_names(names, str(file))
    return names


@contextmanager
def _clear_errors(file: Path, sep: str, encoding: str = UTF_8) -> Iterator[None]:
    if not isinstance(sep, str) or len(sep) != 1:
        raise TableError(
            f"sep={sep!r} must be a single character, for example ';' or ',', or 'tab' or 'auto'."
        )
    try:
        yield
    except TableError:
        raise
    except FileNotFoundError:
        raise TableError(f"There is no file {str(file)!r}.") from None
    except OSError as error:
        raise TableError(f"{str(file)!r} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise TableError(f"{str(file)!r} is not {encoding} text; try another encoding.") from None
    except pd.errors.EmptyDataError:
        raise TableError(f"{str(file)!r} is empty.") from None
    except (pd.errors.ParserError, csv.Error, ValueError) as error:
        reason = str(error).removeprefix("Error tokenizing data. C error: ").strip().rstrip(".")
        raise TableError(f"{str(file)!r} is not a table separated by {sep!r}: {reason}.") from None


def _named(frame: pd.DataFrame, names: list[str], file: Path, *, skip: int) -> pd.DataFrame:
    check_names(names, str(file))
    body = frame.iloc[skip:].reset_index(drop=True)
    body.columns = pd.Index(names)
    return body


def row_name(index: pd.Index, position: int) -> str:
    """Describe a row for messages; if labels are row numbers, say from where they count."""
    label = index[position]
    counted = isinstance(index, pd.RangeIndex) or index.name == ROW
    return f"row {label} (rows are counted from 0)" if counted else f"row {label!r}"


def check_names(names: Sequence[str], where: str) -> None:
    """Raise `TableError` if a column name is not text, is empty, or appears twice."""
    seen: set[str] = set()
    for i, name in enumerate(names, start=1):
        if not isinstance(name, str):
            raise TableError(f"{where}: column name {name!r} is not text; rename it.")
        if not name.strip():
            raise TableError(f"{where}: column {i} has no name.")
        if name in seen:
            raise TableError(f"{where}: column {name!r} appears twice; rename one of them.")
        seen.add(name)


def _check_lengths(file: Path, sep: str, width: int, encoding: str = UTF_8) -> None:
    with file.open(encoding=_codec(encoding), newline="") as lines:
        reader = csv.reader(lines, delimiter=sep)
        for cells in reader:
            if len(cells) < width and "".join(cells).strip():
                raise TableError(
                    f"{str(file)!r}, line {reader.line_num}: {len(cells)} cells where "
                    f"{width} are expected."
                )


# -------------------------------------------------------------------------------------------------
# Columns named by the user.


def read_columns(
    file: Path, columns: Mapping[str, str], *, sep: str, encoding: str = UTF_8, decimal: str = "."
) -> pd.DataFrame:
    r"""Read a file and return the columns that options or keys name, as texts."""
    frame = read_csv_text(file, sep=sep, encoding=encoding, decimal=decimal)
    for name, column in columns.items():
        column_of(frame, column, file=file, name=name)
    return frame[list(columns.values())]


def column_of(frame: pd.DataFrame, column: str, *, file: Path, name: str) -> pd.Series:
    """Return a column of a file; raise `TableError` with suggestions if it does not exist."""
    if column not in frame.columns:
        equals = " " if name.startswith("--") else " = "
        raise TableError(
            f"{name}{equals}{column!r} is not a column of {file.name!r}. "
            f"{nearest(column, frame.columns)}"
        )
    return frame[column]


def filled(column: pd.Series, *, advice: str = "", people: pd.Series | None = None) -> pd.Series:
    """Return the column; raise `TableError` if a cell is empty, with the label of the first one.

    The error also gives the number of empty cells, or of `people` if each stands for several.
    """
    empty = (column == "").to_numpy()
    if empty.any():
        n = int(empty.sum() if people is None else people[empty].sum())
        row = row_name(column.index, int(empty.argmax()))
        raise TableError(
            f"Column {column.name!r}, {row}: the cell is empty ({count(n, 'such row')}). Fill it. "
            f"{advice}".rstrip()
        )
    return column


# -------------------------------------------------------------------------------------------------
# Lists of values in a text: ``a,b,c``, ``0-99``, or ``@file``.

RANGE = re.compile(r"(-?\d+)-(-?\d+)")


def parse_values(
    text: str, *, option: str = "--values", encoding: str = UTF_8, decimal: str = "."
) -> Sequence[str | int]:
    """Return the values that a text lists, or a file with the given spelling."""
    if text.startswith("@"):
        values = _lines(Path(text[1:]), option, encoding)
        if decimal != ".":
            values = _with_points(pd.DataFrame({"value": values}), decimal)["value"].tolist()
    elif ends := RANGE.fullmatch(text.strip()):
        low, high = int(ends[1]), int(ends[2])
        if low > high:
            raise AnonbayesError(f"{option} {text!r}: the first number is larger than the second.")
        return range(low, high + 1)
    else:
        values = [value.strip() for value in text.split(",")]
    if "" in values:
        raise AnonbayesError(f"{option} {text!r} has an empty value.")
    seen: set[str] = set()
    for number, value in enumerate(values, start=1):
        if value in seen and text.startswith("@"):  # perhaps a file of people by mistake
            raise AnonbayesError(f"{option} {text!r}: value {number} repeats an earlier one.")
        if value in seen:
            raise AnonbayesError(f"{option} {text!r} has {value!r} twice.")
        seen.add(value)
    return values


def _lines(file: Path, option: str, encoding: str) -> list[str]:
    try:
        text = file.read_text(encoding="utf-8-sig" if encoding == UTF_8 else encoding)
    except (OSError, UnicodeDecodeError) as error:
        raise AnonbayesError(f"{option} @{file} cannot be read: {error}.") from None
    return [line.strip() for line in text.splitlines() if line.strip()]
