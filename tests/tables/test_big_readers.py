"""Engines for large files give the same table as reading everything into memory, bit for bit."""

import contextlib
import datetime
import itertools
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

import anonbayes as ab
from anonbayes.cluster import local_client
from anonbayes.errors import TableError
from anonbayes.io.text import read_csv_parts
from anonbayes.tables import build, counting
from anonbayes.tables.groups import given_groups

TREE = ab.Hierarchy([20, 21, 60, 61], [["young", "young", 'o\'ld "age"', "ält; ü"], ["*"] * 4])
ENGINES = ("duckdb", "dask")
HOW = {
    "domains": {"zip": [f"{i:05d}" for i in range(100, 130)], "number": range(0, 10)},
    "hierarchies": {"age": TREE},
    "missing": {"age": "unknown", "flag": "category", "number": "unknown"},
}


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Many parts and batches, even of small files."""
    monkeypatch.setattr(counting, "ROWS", 100)
    monkeypatch.setattr(counting, "BATCH", 64)
    import dask

    with dask.config.set(scheduler="synchronous"):
        yield


def made_up(n=700, seed=0):
    """Everything that a column may hold."""
    rng = np.random.default_rng(seed)

    def pick(values, p=None):
        items = np.empty(len(values), dtype=object)
        items[:] = values
        return items[rng.choice(len(values), n, p=p)]

    frame = pd.DataFrame(
        {
            "age": pick(["20", "young", 'o\'ld "age"', "ält; ü", "*", "", "61"]),
            "zip": pick(["0010*", "001**", "00115", "{00100, 00101}", "*", "{00101,00100}"]),
            "number": pick([3.0, 7.0, np.nan, 9.0]).astype(float),
            "whole": rng.integers(-2, 3, n),
            "flag": pick([True, False, None]),
            "kind": pd.Categorical(pick(["b", "a", "b, c"]), categories=["z", "b, c", "a", "b"]),
            "ill": pick(["flu", "Grippe ü", "q\"uote'd", "line\nbreak"]),
        }
    )
    frame.loc[rng.random(n) < 0.05, ["age", "zip"]] = "*"
    return frame


def same(one, two):
    """Equal down to types, labels, order of cells, groups and counts."""
    assert one == two
    assert (one.n_rows, one.n_suppressed, one.k, one.l) == (
        two.n_rows, two.n_suppressed, two.k, two.l
    )  # fmt: skip
    assert one.attributes == two.attributes
    for name in one.attributes:
        a, b = one.columns[name], two.columns[name]
        assert a.domain.values == b.domain.values
        assert [type(v) for v in a.domain] == [type(v) for v in b.domain]
        assert list(map(repr, a.evidence.labels)) == list(map(repr, b.evidence.labels))
        assert a.codes.dtype == b.codes.dtype
        x, y = one.counts[name], two.counts[name]
        for part in ("data", "indices", "indptr"):
            assert getattr(x, part).tobytes() == getattr(y, part).tobytes(), (name, part)
    assert one.secret_counts.tobytes() == two.secret_counts.tobytes()
    pd.testing.assert_series_equal(one.group_sizes, two.group_sizes)
    pd.testing.assert_series_equal(one.group_diversity, two.group_diversity)
    assert one.records.count.tolist() == two.records.count.tolist()


def read(source, engine, sensitive="ill", monkeypatch=None, **how):
    found = build.open_source(source, engine=engine, progressbar=False)
    return ab.ReleasedTable.from_parts(found.parts(sensitive, **{**HOW, **how}))


def split(frame, folder, cuts=(0, 1, 250, 250, 699, 700), **how):
    """Several files, one of them without rows, each in several row groups."""
    for i, (start, stop) in enumerate(itertools.pairwise(cuts)):
        frame.iloc[start:stop].to_parquet(
            folder / f"part-{i}.parquet", index=False, row_group_size=90, **how
        )
    return folder


# -- parquet ----------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_one_parquet_file(engine, tmp_path):
    frame = made_up()
    file = tmp_path / 'it\'s "one".parquet'
    frame.to_parquet(file, index=False, row_group_size=100)
    want = ab.ReleasedTable.horizontal(frame, "ill", **HOW)
    found = read(file, engine)
    assert found.n_lines < found.n_rows == len(frame)
    same(want, found)
    same(want, read(file, "pandas"))
    assert found.domains["kind"].values == ("z", "b, c", "a", "b")


@pytest.mark.parametrize("engine", ("pandas", *ENGINES))
@pytest.mark.parametrize("source", ["folder", "glob", "list"])
def test_several_files_and_empty_ones(engine, source, tmp_path):
    frame = made_up(seed=1)
    split(frame, tmp_path)
    given_ = {
        "folder": tmp_path,
        "glob": str(tmp_path / "part-*.parquet"),
        "list": sorted(tmp_path.iterdir()),
    }[source]
    same(ab.ReleasedTable.horizontal(frame, "ill", **HOW), read(given_, engine))


@pytest.mark.parametrize("engine", ENGINES)
def test_suppressed_rows(engine, tmp_path):
    """A star is more than the whole domain in other words: only stars hide a row."""
    frame = made_up()[["age", "zip", "ill"]]
    frame.loc[5:50:9, ["age", "zip"]] = "*"
    frame.loc[51:90:9, "age"] = ""
    frame.loc[51:90:9, "zip"] = "00***"
    split(frame, tmp_path)
    how = {"domains": {"zip": HOW["domains"]["zip"]}, "missing": {"age": "unknown"}}
    want = ab.ReleasedTable.horizontal(frame, "ill", hierarchies=HOW["hierarchies"], **how)
    assert want.n_suppressed > 40
    same(want, read(tmp_path, engine, **how))


@pytest.mark.parametrize("engine", ENGINES)
def test_the_order_of_files_is_the_order_of_rows(engine, tmp_path):
    frame = made_up(seed=2)
    files = sorted(split(frame, tmp_path).iterdir())[::-1]
    backwards = frame.iloc[[699, *range(250, 699), *range(1, 250), 0]]
    same(ab.ReleasedTable.horizontal(backwards, "ill", **HOW), read(files, engine))


@pytest.mark.parametrize("engine", ENGINES)
def test_types_of_parquet_are_respected(engine, tmp_path):
    rng = np.random.default_rng(4)
    n = 300
    days = [datetime.date(2020, 1, 1), datetime.date(2021, 5, 6)]
    table = pa.table(
        {
            "small": pa.array(rng.integers(0, 3, n), pa.int8()),
            "gaps": pa.array([None if x == 0 else int(x) for x in rng.integers(0, 4, n)]),
            "real": pa.array(rng.choice([0.5, 1.0, -0.0, 0.0], n)),
            "text_number": pa.array(rng.choice(["1", "01", "1.0"], n)),
            "day": pa.array([days[i] for i in rng.integers(0, 2, n)]),
            "moment": pa.array(rng.choice(pd.date_range("2020", periods=3), n)),
            "truth": pa.array(rng.integers(0, 2, n).astype(bool)),
            "set": pa.array([[["a", "b"], ["b", "a"], ["a"]][i] for i in rng.integers(0, 3, n)]),
            "large": pa.array(rng.choice(["x", "y"], n), pa.large_string()),
            "ordered": pa.DictionaryArray.from_arrays(
                rng.integers(0, 2, n).astype("int32"), ["hi", "lo", "never"], ordered=True
            ),
            "ill": pa.array(rng.choice(["flu", "cold"], n)),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=70)
    how = {"domains": {}, "hierarchies": {}, "missing": {"gaps": "unknown"}}
    want = ab.ReleasedTable.horizontal(table.to_pandas(), "ill", missing={"gaps": "unknown"})
    found = read(tmp_path / "a.parquet", engine, **how)
    same(want, found)
    assert found.domains["ordered"].values == ("hi", "lo", "never")
    assert found.domains["gaps"].values == (1, 2, 3)
    assert found.domains["text_number"].values == ("01", "1", "1.0")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_column_that_is_empty_in_one_file(engine, tmp_path):
    frame = pd.DataFrame({"age": [1, 2, 2], "x": list("aab"), "ill": ["flu", "cold", "flu"]})
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    frame.assign(age=None).to_parquet(tmp_path / "b.parquet", index=False)
    both = pd.concat([frame, frame.assign(age=np.nan)], ignore_index=True)
    how = {"domains": {}, "hierarchies": {}, "missing": {"age": "category"}}
    same(
        ab.ReleasedTable.horizontal(both, "ill", missing={"age": "category"}),
        read(tmp_path, engine, **how),
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_names_that_databases_do_not_like(engine, tmp_path):
    frame = made_up().rename(columns={"whole": "file_row_number", "flag": 'a "b" c', "kind": "n"})
    frame = frame.assign(**{'a "b" c': "x"})
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    how = {"missing": {"age": "unknown", "number": "unknown"}}
    same(
        ab.ReleasedTable.horizontal(frame, "ill", **{**HOW, **how}),
        read(tmp_path / "a.parquet", engine, **how),
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_named_groups_dropped_columns_and_several_secrets(engine, tmp_path):
    frame = made_up().assign(g=lambda f: np.arange(len(f)) % 5, extra="x")
    frame.loc[(frame["age"] == "*") & (frame["zip"] == "*"), "g"] = 0
    frame.index = frame.index.rename("person")
    frame.to_parquet(tmp_path / "a.parquet")  # the index is not a column of the table
    given_ = {**HOW, "group": "g"}
    want = ab.ReleasedTable.horizontal(
        frame.drop(columns=["extra", "number"]), ["ill", "whole"],
        **{**given_, "domains": {"zip": HOW["domains"]["zip"]},
           "missing": {"age": "unknown", "flag": "category"}},
    )  # fmt: skip
    found = ab.ReleasedTable.from_parquet(
        tmp_path / "a.parquet", ["ill", "whole"], drop=["extra", "number"],
        domains={"zip": HOW["domains"]["zip"]}, hierarchies=HOW["hierarchies"], group="g",
        missing={"age": "unknown", "flag": "category"}, progressbar=False,
        engine=engine,
    )  # fmt: skip
    same(want, found)
    assert found.group_name == "g" and found.sensitive == "ill & whole"


def test_channels(tmp_path):
    channel = ab.RandomizedResponse(ab.Domain("age", [20, 21, 22]), epsilon=1.0)
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.choice([22, 20, 21], 300), "ill": rng.choice(["a", "b"], 300)})
    frame.to_parquet(tmp_path / "a.parquet")
    want = ab.ReleasedTable.horizontal(frame, "ill", channels={"age": channel})
    found = ab.ReleasedTable.from_parquet(
        tmp_path / "a.parquet", "ill", channels={"age": channel}, engine="duckdb", progressbar=False
    )
    same(want, found)


# -- Dask -------------------------------------------------------------------------------------


def test_a_dask_dataframe(tmp_path):
    import dask.dataframe as dd

    frame = made_up().drop(columns="flag")  # which Dask turns into text
    how = {**HOW, "missing": {"age": "unknown", "number": "unknown"}}
    want = ab.ReleasedTable.horizontal(frame, "ill", **how)
    partitioned = dd.from_pandas(frame, npartitions=9, sort=False)
    same(want, ab.ReleasedTable.from_parquet(partitioned, "ill", **how, progressbar=False))
    split(frame, tmp_path)
    parts = dd.read_parquet(str(tmp_path / "*.parquet"))
    same(want, ab.ReleasedTable.from_parquet(parts, "ill", **how, progressbar=False))
    frame["whole"] = np.where(np.arange(len(frame)) < 200, 2, frame["whole"])
    few = dd.from_pandas(frame, npartitions=9, sort=False)
    few = few[few["whole"] < 2]  # the first partitions have no rows
    same(
        ab.ReleasedTable.horizontal(frame[frame["whole"] < 2], "ill", **how),
        ab.ReleasedTable.from_parquet(few, "ill", **how, progressbar=False),
    )
    with pytest.raises(ab.AnonbayesError, match=r"Column 'zip', row 1 of partition 0: .*'0020[*]'"):
        bad = dd.from_pandas(frame.assign(zip=["00100", *["0020*"] * 699]), npartitions=3)
        ab.ReleasedTable.from_parquet(bad, "ill", **how, progressbar=False)


def test_a_cluster(tmp_path):
    """A given client, and the current one; auto means Dask when a client is given."""
    from distributed import Client

    frame = made_up()
    split(frame, tmp_path)
    want = ab.ReleasedTable.horizontal(frame, "ill", **HOW)
    with Client(
        processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None
    ) as client:
        by_client = ab.ReleasedTable.from_parquet(
            tmp_path, "ill", **HOW, client=client, progressbar=False
        )
        by_current = ab.ReleasedTable.from_parquet(
            tmp_path, "ill", **HOW, engine="dask", progressbar=False
        )
    same(want, by_client)
    same(want, by_current)
    assert by_client.weights is not None


def _die_once(frame, mark):
    with contextlib.suppress(FileExistsError):
        Path(mark).touch(exist_ok=False)
        os.kill(os.getpid(), signal.SIGKILL)
    return frame


def test_a_worker_that_is_killed_changes_nothing(tmp_path):
    """Parts that were counted by the dead worker are counted again."""
    import dask.dataframe as dd

    frame = made_up().drop(columns="flag")
    how = {**HOW, "missing": {"age": "unknown", "number": "unknown"}}
    parts = dd.from_pandas(frame, npartitions=7, sort=False)
    mark = tmp_path / "died"
    parts = parts.map_partitions(_die_once, str(mark), meta=parts._meta)
    with local_client(2) as client:
        found = ab.ReleasedTable.from_parquet(parts, "ill", **how, client=client, progressbar=False)
    assert mark.exists()
    same(ab.ReleasedTable.horizontal(frame, "ill", **how), found)


# -- delimited text ---------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "spelling",
    [
        {"lineterminator": "\n"},
        {"lineterminator": "\r\n"},
        {"encoding": "utf-8-sig"},
        {"quoting": 1},
    ],
    ids=["LF", "CRLF", "BOM", "quotes"],
)
def test_text(engine, spelling, tmp_path):
    frame = made_up().drop(columns=["flag"])
    frame.to_csv(tmp_path / "a.csv", sep=";", index=False, **spelling)
    how = {"missing": {"age": "unknown", "number": "unknown"}, "drop": ["whole"]}
    want = ab.read_arx(tmp_path / "a.csv", sensitive="ill", hierarchies=HOW["hierarchies"],
                       domains=HOW["domains"], engine="pandas", **how)  # fmt: skip
    found = build.open_source(tmp_path / "a.csv", engine="duckdb", progressbar=False)
    found = replace(found.without(how.pop("drop")), engine=engine)
    same(want, ab.ReleasedTable.from_parts(found.parts("ill", **{**HOW, **how})))


def test_columns_of_text_files_in_another_order(tmp_path):
    frame = made_up().drop(columns=["flag", "number"])
    frame[:300].to_csv(tmp_path / "a.csv", sep=";", index=False)
    frame[300:][frame.columns[::-1]].to_csv(tmp_path / "b.csv", sep=";", index=False)
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    how = {"domains": {"zip": HOW["domains"]["zip"]}, "missing": {"age": "unknown"}}
    one, *others = (read(files, engine, **how) for engine in ("pandas", *ENGINES))
    for other in others:
        same(one, other)
    assert one.n_rows == len(frame)


cells = st.one_of(
    st.sampled_from(["a", "", '"q;q"', '"a""b"', " a ", "NULL", '"x\ny"', "20-29", '""', "é", "#"]),
    st.text('ab "\t;\n\réx\x00', max_size=4),
)
text_files = st.builds(
    lambda lines, end, mark: mark + "x;y" + end + end.join(";".join(line) for line in lines) + end,
    st.lists(st.lists(cells, min_size=2, max_size=2), min_size=1, max_size=5),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\ufeff"]),
)


@pytest.fixture(scope="module")
def database():
    with counting.open_duckdb() as opened:
        yield opened


# -- Anatomy ----------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["duckdb", "auto"])
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_anatomy(engine, counted, kind, tmp_path, monkeypatch):
    rng = np.random.default_rng(8)
    n = 400
    qit = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m ü"], n),
            "age": rng.choice(range(20, 60), n),
            "gid": np.arange(n) % 50,
        }
    )
    slots = pd.DataFrame({"gid": np.arange(n) % 50, "ill": rng.choice(["flu", "cold", "x;y"], n)})
    if counted:
        slots = slots.groupby(["gid", "ill"], as_index=False).size().rename(columns={"size": "n"})
    if kind == "csv":
        qit.to_csv(tmp_path / "q.csv", sep=";", index=False)
        slots.to_csv(tmp_path / "s.csv", sep=";", index=False)
        files = tmp_path / "q.csv", tmp_path / "s.csv"
    else:
        qit[:150].to_parquet(tmp_path / "q0.parquet")
        qit[150:].to_parquet(tmp_path / "q1.parquet")
        slots.to_parquet(tmp_path / "s.parquet")
        files = [tmp_path / "q0.parquet", tmp_path / "q1.parquet"], tmp_path / "s.parquet"
    monkeypatch.setattr(build, "LARGE_ROWS", 100)
    monkeypatch.setattr(build, "LARGE_BYTES", 100)
    given_ = {"sensitive": "ill", "group": "gid", "progressbar": False}
    want = ab.read_anatomy(*files, **given_, engine="pandas")
    found = ab.read_anatomy(*files, **given_, engine=engine)
    assert found == want and found.group_labels.tolist() == want.group_labels.tolist()
    for name in want.attributes:
        assert found.columns[name].codes.tobytes() == want.columns[name].codes.tobytes()
    assert found.secret.codes.tobytes() == want.secret.codes.tobytes()


@pytest.mark.parametrize("values", [[3, 1, 2, 1], [5], [0, 7, 0]])
@pytest.mark.parametrize("kind", ["int64", "int8", "uint16", "uint64"])
def test_numbered_groups_are_those_of_any_labels(values, kind):
    codes, labels = given_groups(pd.Series(values, dtype=kind), "g")
    want, names = given_groups(pd.Series(values, dtype=object), "g")
    assert codes.tolist() == want.tolist() and codes.dtype == want.dtype
    pd.testing.assert_index_equal(labels, names)


# -- choosing ---------------------------------------------------------------------------------


def test_the_engine_is_chosen_by_size(tmp_path, monkeypatch):
    frame = made_up()
    frame.to_parquet(tmp_path / "a.parquet")
    small = ab.ReleasedTable.from_parquet(tmp_path / "a.parquet", "ill", **HOW)
    assert small.weights is None
    monkeypatch.setattr(build, "LARGE_ROWS", 100)
    assert build.open_source(tmp_path / "a.parquet").engine == "duckdb"
    large = ab.ReleasedTable.from_parquet(tmp_path / "a.parquet", "ill", **HOW)
    assert large.weights is not None
    same(small, large)
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: None)
    assert build.open_source(tmp_path / "a.parquet").engine == "pandas"


def test_count_records_of_files(tmp_path):
    frame = made_up()[["age", "kind", "ill"]]
    split(frame, tmp_path)
    want = ab.count_records(frame, ["age", "ill"])
    assert want["rows"].sum() == len(frame)
    for engine in ("pandas", "duckdb", "dask"):
        found = ab.count_records(tmp_path, ["age", "ill"], engine=engine, progressbar=False)
        pd.testing.assert_frame_equal(found, want, check_dtype=False)  # texts: object or str


def test_a_quote_that_is_never_closed_is_named(tmp_path):
    """pandas reads separators beyond ASCII in Python, whose errors are those of `csv`."""
    file = tmp_path / "open.csv"
    file.write_text('a§b\n1§2\n"3§4\n', encoding="utf-8")
    with pytest.raises(TableError, match=r"open\.csv' is not a table separated by '§'"):
        list(read_csv_parts(file, sep="§", rows=1))
