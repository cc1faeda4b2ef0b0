"""Large files that are damaged, malformed or too large: what is said, and what is left behind."""

import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anonbayes as ab
from anonbayes.errors import AnonbayesError, CellError, DomainError, TableError
from anonbayes.io.text import read_csv_text
from anonbayes.tables import counting

ENGINES = ("pandas", "duckdb", "dask")


@pytest.fixture(autouse=True)
def one_thread():
    import dask

    with dask.config.set(scheduler="synchronous"):
        yield


def good(n=60):
    ages = [f"{20 + i % 10}" for i in range(n)]
    return pd.DataFrame({"age": ages, "ill": ["flu", "cold", "gout"] * (n // 3)})


def read(source, engine, **how):
    how = {"domains": {"age": range(20, 30)}, "progressbar": False, **how}
    return ab.ReleasedTable.from_parquet(source, "ill", engine=engine, **how)


# -- malformed cells --------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_a_bad_cell_is_named_with_its_file(engine, tmp_path):
    good().to_parquet(tmp_path / "a.parquet")
    frame = good()
    frame.loc[[17, 40], "age"] = "2x"
    frame.to_parquet(tmp_path / "b.parquet")
    message = r"Column 'age', row 17 of '.*b\.parquet': cell '2x' is not a value"
    with pytest.raises(CellError, match=message):
        read(tmp_path, engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_missing_cell_is_named_with_its_file(engine, tmp_path):
    frame = good()
    frame.loc[33, "age"] = None
    frame.to_parquet(tmp_path / "b.parquet")
    with pytest.raises(CellError, match=r"'age', row 33 of '.*b\.parquet': .*missing='unknown'"):
        read(tmp_path, engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_missing_group_is_named_with_its_file(engine, tmp_path):
    good().assign(g=[1.0] * 59 + [np.nan]).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(TableError, match=r"'g', row 59 of '.*b\.parquet': the group is missing"):
        read(tmp_path, engine, group="g")


@pytest.mark.parametrize("engine", ENGINES)
def test_text_errors_are_those_of_small_files(engine, tmp_path):
    file = tmp_path / "a.csv"
    how = {"sensitive": "ill", "domains": {"age": range(20, 30)}, "progressbar": False}

    def raises(content, message, kind=TableError):
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        with pytest.raises(kind, match=message):
            ab.read_arx(file, engine=engine, **how)

    raises("age;ill\n20;flu\n2x;cold\n", r"Column 'age', row 1 of '.*a\.csv': cell '2x'", CellError)
    raises("age;ill\n20;flu\n21\n", r"a\.csv', line 3: 1 cells where 2 are expected")
    raises("age;ill\n20;flu\n21;flu;x\n", r"a\.csv' is not a table separated by ';': Expected 2")
    raises(b"age;ill\n20;flu\n21;\xff\n", r"a\.csv' is not UTF-8 text \(line 3\)")
    raises("age;ill\n", "header but no rows")
    raises("age;age\n20;flu\n", "'age' appears twice")
    raises("", "is empty")
    raises("age;ill\n20;flu\n\r 21;cold\n", "line 3: a carriage return comes before a blank")
    raises("age,ill\n20,flu\n", "sensitive column 'ill'|no column other than the sensitive")


def test_a_carriage_return_before_a_blank_is_refused(tmp_path):
    """pandas 2.3 makes 262,144 empty rows of it."""
    (tmp_path / "a.csv").write_bytes(b"x;y\n\r a;b\n")
    with pytest.raises(TableError, match="line 2: a carriage return"):
        read_csv_text(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_bytes(b"x;y\rc;d\ra;b\r")
    assert read_csv_text(tmp_path / "a.csv")["x"].tolist() == ["c", "a"]


# -- damaged and ill-matched files ------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_damaged_files(engine, tmp_path):
    good().to_parquet(tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    for name, content in (
        ("cut", whole[: len(whole) // 2]),
        ("garbage", b"PAR1" + b"x" * 100),
        ("empty", b""),
    ):
        bad = tmp_path / f"{name}.parquet"
        bad.write_bytes(content)
        with pytest.raises(TableError, match=rf"{name}\.parquet' is not a readable parquet file"):
            read([tmp_path / "a.parquet", bad], engine)
        bad.unlink()


@pytest.mark.parametrize("engine", ENGINES)
def test_damaged_pages(engine, tmp_path):
    """The directory at the end is whole, the data before it is not."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(20, 30, 5000), "ill": rng.choice(["a", "b"], 5000)})
    frame.to_parquet(tmp_path / "a.parquet", compression="snappy")
    frame.to_parquet(tmp_path / "b.parquet", compression="snappy")
    content = bytearray((tmp_path / "b.parquet").read_bytes())
    content[20:600] = bytes(580)
    (tmp_path / "b.parquet").write_bytes(content)
    with pytest.raises(TableError, match=r"b\.parquet' is damaged"):
        read(tmp_path, engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_files_that_do_not_go_together(engine, tmp_path):
    good().to_parquet(tmp_path / "a.parquet")
    good().rename(columns={"age": "Age"}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(TableError, match=r"Column '[aA]ge' is in '.*' but not in"):
        read(tmp_path, engine)
    good().assign(age=range(60)).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(
        TableError, match=r"'age' has type string in '.*a.* and int64 in '.*b\.parqu"
    ):
        read(tmp_path, engine)
    (tmp_path / "c.csv").write_text("age;ill\n20;flu\n")
    with pytest.raises(TableError, match="files of one kind"):
        ab.read_arx([tmp_path / "a.parquet", tmp_path / "c.csv"], sensitive="ill", engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_to_read(engine, tmp_path):
    good()[:0].to_parquet(tmp_path / "a.parquet")
    with pytest.raises(TableError, match=r"no rows|is empty"):
        read(tmp_path / "a.parquet", engine)
    with pytest.raises(TableError, match=r"no file '.*gone\.parquet'"):
        read(tmp_path / "gone.parquet", engine)
    with pytest.raises(TableError, match="No file matches the pattern"):
        read(tmp_path / "x*.parquet", engine)
    with pytest.raises(TableError, match="No file was given"):
        read([], engine)
    (tmp_path / "folder").mkdir()
    with pytest.raises(TableError, match="contains no parquet file"):
        read(tmp_path / "folder", engine)


def test_arguments(tmp_path):
    good().to_parquet(tmp_path / "a.parquet")
    with pytest.raises(AnonbayesError, match="engine='spark'"):
        read(tmp_path / "a.parquet", "spark")
    with pytest.raises(TableError, match=r"ReleasedTable\.horizontal"):
        read(good(), "duckdb")
    with pytest.raises(TableError, match=r"'agee' is not in the table.*'age'"):
        read(tmp_path / "a.parquet", "duckdb", drop=["agee"])
    with pytest.raises(AnonbayesError, match="memory_limit='lots'"):
        read(tmp_path / "a.parquet", "duckdb", memory_limit="lots")
    with pytest.raises(AnonbayesError, match="temp_directory='/no/such'"):
        read(tmp_path / "a.parquet", "duckdb", temp_directory="/no/such")
    with pytest.raises(DomainError, match="stands for several values"):
        ab.ReleasedTable.from_parquet(_ranges(tmp_path), "ill", engine="duckdb")
    import dask.dataframe as dd

    with pytest.raises(AnonbayesError, match=r"client= must be a distributed\.Client, got str"):
        read(tmp_path / "a.parquet", "dask", client="tcp://127.0.0.1:1")
    with pytest.raises(TableError, match="engine='dask', not 'duckdb'"):
        read(dd.from_pandas(good(), npartitions=2), "duckdb")


def _ranges(folder):
    good().assign(age=">=20").to_parquet(folder / "ranges.parquet")
    return folder / "ranges.parquet"


@pytest.mark.parametrize("name", ["duckdb", "dask", "pyarrow.parquet"])
def test_extras_that_are_not_installed(name, tmp_path, monkeypatch):
    good().to_parquet(tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, name, None)
    if name == "pyarrow.parquet":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    engine = "duckdb" if name != "dask" else name
    with pytest.raises(TableError, match=r"pip install 'anonbayes\[big\]'"):
        read(tmp_path / "a.parquet", engine)


# -- the database -----------------------------------------------------------------------------


def test_nothing_reaches_for_a_network():
    wanted = {**counting.SETTINGS}
    with counting.open_duckdb() as (con, _):
        found = dict(con.execute("SELECT name, value FROM duckdb_settings()").fetchall())
        assert {name: found[name] for name in wanted} == wanted
        assert set(wanted.values()) == {"false"}
        with pytest.raises(Exception, match="httpfs"):
            con.execute("SELECT * FROM read_parquet('http://127.0.0.1:9/x.parquet')")


def test_temporary_files_go(tmp_path):
    folder = tmp_path / "temp"
    folder.mkdir()
    good().to_csv(tmp_path / "a.csv", sep=";", index=False)
    how = {"sensitive": "ill", "domains": {"age": range(20, 30)}, "progressbar": False}
    table = ab.read_arx(tmp_path / "a.csv", engine="duckdb", temp_directory=folder, **how)
    assert table.n_rows == 60 and list(folder.iterdir()) == []
    (tmp_path / "a.csv").write_text("age;ill\n20;flu\n2x;cold\n")
    with pytest.raises(CellError):
        ab.read_arx(tmp_path / "a.csv", engine="duckdb", temp_directory=folder, **how)
    assert list(folder.iterdir()) == []


def test_memory_is_limited(tmp_path):
    """More distinct rows than fit: they are counted on disk, or the limit is named."""
    n = 400_000
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "age": rng.integers(20, 30, n),
            "zip": rng.integers(0, 10**6, n),
            "street": rng.integers(0, 10**6, n),
            "ill": rng.choice(["flu", "cold"], n),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    wide = ab.count_records(tmp_path / "a.parquet", engine="duckdb", progressbar=False)
    tight = ab.count_records(
        tmp_path / "a.parquet", engine="duckdb", memory_limit="120MB", progressbar=False
    )
    pd.testing.assert_frame_equal(wide, tight)
    with pytest.raises(TableError, match="do not fit into memory_limit='8MB'"):
        ab.count_records(
            tmp_path / "a.parquet", engine="duckdb", memory_limit="8MB", progressbar=False
        )


def test_an_interrupted_query_stops(monkeypatch, tmp_path):
    """Ctrl-C arrives in the main thread while the database works in another."""
    from contextlib import contextmanager

    @contextmanager
    def interrupted(*_, **__):
        def done(share):
            raise KeyboardInterrupt

        yield done

    monkeypatch.setattr(counting, "reading", interrupted)
    with counting.open_duckdb() as (con, _), pytest.raises(KeyboardInterrupt):
        query = "SELECT count(*) FROM range(100000) a, range(100000) b WHERE a.range % 7 = b.range"
        counting._run(con, lambda: con.sql(query).fetchall(), "counting", True)


def test_progress_is_for_terminals_only(capsys, monkeypatch, tmp_path):
    good().to_parquet(tmp_path / "a.parquet")
    read(tmp_path, "duckdb", progressbar=True)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal, for rich
    for engine in ("duckdb", "dask"):
        read(tmp_path, engine, progressbar=True)
        out, error = capsys.readouterr()
        assert out == "" and "counting rows" in error
        read(tmp_path, engine, progressbar=False)
        assert capsys.readouterr() == ("", "")
