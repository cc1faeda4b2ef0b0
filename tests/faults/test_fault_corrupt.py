"""Damaged files: an error that names the file and says what to do, never a wrong number."""

import json
import shutil
from pathlib import Path

import fault_work
import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import anonbayes as ab
from anonbayes import compat
from anonbayes.errors import AnonbayesError, FileError
from anonbayes.io.text import read_csv_text
from anonbayes.scenario.load import load


@pytest.fixture(scope="module")
def post():
    settings = {"draws": 40, "tune": 10, "chains": 2, "seed": 1, "progressbar": False}
    return ab.fit(fault_work.table("vertical"), **settings)


@pytest.fixture(scope="module")
def whole(post, tmp_path_factory):
    return Path(post.to_netcdf(tmp_path_factory.mktemp("whole") / "post.nc"))


@pytest.fixture
def copy(whole, tmp_path):
    return Path(shutil.copy(whole, tmp_path / "copy.nc"))


def refused(file, match):
    for read in (ab.Posterior.from_netcdf, compat.read_groups):
        with pytest.raises(AnonbayesError, match=match) as caught:
            read(file)
        assert str(file) in str(caught.value)


def same(one, other):
    groups, others = compat.groups(one.idata), compat.groups(other.idata)
    return (
        one.table == other.table
        and groups.keys() == others.keys()
        and all(groups[name].equals(others[name]) for name in groups)
        and dict(one.idata.attrs) == dict(other.idata.attrs)
    )


@pytest.mark.parametrize("fold", [20, -1, 10**9])
def test_folds_that_a_file_makes_up_reach_no_kernel(fold, tmp_path):
    """A group of a fold without lifts was read, and counted, beyond the ends of arrays."""
    table = ab.datasets.load("clinic_anatomy")
    whole = ab.fit(table, evidence="weighted", draws=5, chains=1, seed=1, progressbar=False)
    file = Path(whole.to_netcdf(tmp_path / "post.nc"))
    file.write_bytes(file.read_bytes()[: -compat.LENGTH])
    with h5py.File(file, "r+") as content:
        content["averages"]["fold"][0, 0, 5] = fold
    with pytest.raises(AnonbayesError, match="not in 20 folds"):
        ab.Posterior.from_netcdf(file)


@pytest.mark.parametrize(
    "group, name", [("constant_data", "alpha"), ("constant_data", "beta_age"), ("evidence", "eta")]
)
@pytest.mark.parametrize("value", [np.nan, -1.0])
def test_weights_that_a_file_makes_up_are_no_weights(group, name, value, tmp_path):
    table = ab.datasets.load("clinic_local")
    post = ab.fit(table, evidence="weighted", draws=5, chains=1, seed=1, progressbar=False)
    file = Path(post.to_netcdf(tmp_path / "post.nc"))
    file.write_bytes(file.read_bytes()[: -compat.LENGTH])
    with h5py.File(file, "r+") as content:
        content[group][name][0] = value
    with pytest.raises(FileError, match="damaged"):
        ab.Posterior.from_netcdf(file)


@pytest.mark.parametrize("way", ["link", "external", "virtual", "soft", "filter"])
def test_a_file_that_would_have_others_read_or_loaded_is_not_opened(way, whole, copy, tmp_path):
    copy.write_bytes(whole.read_bytes()[: -compat.LENGTH])  # whoever writes it needs no seal
    other = tmp_path / "private.h5"
    with h5py.File(other, "w") as file:
        file["numbers"] = np.arange(4)
    with h5py.File(copy, "r+") as file:
        group = file["posterior"]
        if way == "link":
            group["more"] = h5py.ExternalLink(str(other), "numbers")
        elif way == "soft":
            group["more"] = h5py.SoftLink("/released_table")
        elif way == "external":
            parts = [(str(other), 0, 16)]
            group.create_dataset("more", shape=(16,), dtype="u1", external=parts)
        elif way == "virtual":
            layout = h5py.VirtualLayout(shape=(4,), dtype="i8")
            layout[:] = h5py.VirtualSource(str(other), "numbers", shape=(4,))
            group.create_virtual_dataset("more", layout)
        else:
            made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            made.set_chunk((4,))
            made.set_filter(32015, h5py.h5z.FLAG_OPTIONAL)  # Zstandard, a plugin
            space = h5py.h5s.create_simple((4,))
            h5py.h5d.create(group.id, b"more", h5py.h5t.NATIVE_INT64, space, made)
    refused(copy, "posterior/more' is in another file, or needs a plugin")


@pytest.mark.parametrize("share", [0.0001, 0.1, 0.5, 0.9, 0.998])
def test_truncated(share, whole, copy):
    copy.write_bytes(whole.read_bytes()[: int(share * whole.stat().st_size)])
    refused(copy, "damaged|not a netCDF 4 file")


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 5000, b"PK\3\4 is a zip file", b"a;b\n1;2\n", bytes(range(256)) * 20],
    ids=["empty", "zeros", "zip", "csv", "bytes"],
)
def test_other_content(content, tmp_path):
    file = tmp_path / "other.nc"
    file.write_bytes(content)
    refused(file, "is not a netCDF 4 file; give that of a posterior")


def test_damage_anywhere_is_noticed(whole, post, tmp_path):
    """Flipped bits, and zeros as a failing disk leaves them, all over the file."""
    good = whole.read_bytes()
    rng = np.random.default_rng(7)
    noticed = 0
    for trial in range(60):
        bad = bytearray(good)
        place = int(rng.integers(len(good)))
        if trial % 3:
            bad[place] ^= 1 << int(rng.integers(8))
        else:
            bad[place : place + 512] = bytes(len(bad[place : place + 512]))
        file = tmp_path / f"{trial}.nc"
        file.write_bytes(bad)
        try:
            found = ab.Posterior.from_netcdf(file)
        except AnonbayesError as error:
            assert str(file) in str(error)
            noticed += 1
        else:  # HDF5 keeps room that it does not use
            assert same(found, post), f"byte {place} of {len(good)} changed the result in silence"
    assert noticed > 20


def test_a_number_changed_by_the_disk(whole, copy, post):
    """HDF5 has nothing against it; the digest at the end has."""
    number = post.draws["pi_ill"].to_numpy()[1, 3, 0].tobytes()
    good = whole.read_bytes()
    assert good.count(number) == 1
    copy.write_bytes(good.replace(number, number[::-1]))
    refused(copy, "damaged: its content has changed. Restore it from a backup, or make it again")


def test_a_number_changed_on_purpose(copy, post):
    """HDF5 removes the digest when it changes a file: that is no damage."""
    with h5py.File(copy, "r+") as file:
        file["posterior/pi_ill"][1, 3, 0] = 0.5
    assert ab.Posterior.from_netcdf(copy).draws["pi_ill"][1, 3, 0] == 0.5


def rewritten(copy, change):
    """Write the content again after a change, as another program does: without the digest."""
    tree = xr.open_datatree(copy, engine="h5netcdf").load()
    tree.close()
    change(tree)
    tree.to_netcdf(copy, engine="h5netcdf")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda tree: tree.attrs.pop("method"), "something is missing .'method'"),
        (
            lambda tree: tree.children["constant_data"].orphan(),
            r"something is missing .*constant_data",
        ),
        (lambda tree: tree.children["posterior"].orphan(), r"something is missing .*posterior"),
        (lambda tree: tree.children["averages"].orphan(), r"something is missing .*averages"),
        (lambda tree: tree["posterior"].__delitem__("pi_age"), r"something is missing .*pi_age"),
        (
            lambda tree: tree["constant_data"].__delitem__("beta_sex"),
            r"something is missing .*beta_sex",
        ),
        (
            lambda tree: tree["released_table"].attrs.clear(),
            r"something is missing .*released_table",
        ),
        (
            lambda tree: tree["released_table"].__delitem__("codes_0"),
            r"something is missing .*codes_0",
        ),
        (lambda tree: tree.children["released_table"].orphan(), "contains no released table"),
        (lambda tree: tree.attrs.update(fingerprint="0" * 16), "draws of another table"),
        (
            lambda tree: tree["released_table"].update(
                {"group_codes": tree["released_table"]["group_codes"] * 0}
            ),
            r"table in .* is damaged \(its fingerprint does not match\)",
        ),
        (
            lambda tree: tree["released_table"].attrs.update(released_table="{half"),
            "table in .* is damaged",
        ),
        (
            lambda tree: tree["released_table"].update(
                {"codes_1": tree["released_table"]["codes_1"] + 90}
            ),
            "table in .* is damaged",
        ),
    ],
)
def test_files_of_which_something_is_missing(change, match, copy):
    rewritten(copy, change)
    with pytest.raises(AnonbayesError, match=match) as caught:
        ab.Posterior.from_netcdf(copy)
    assert str(copy) in str(caught.value)


def test_files_of_other_programs(tmp_path, post):
    """They open as draws, and are no posterior."""
    file = str(tmp_path / "other.nc")
    xr.Dataset({"x": (("chain", "draw"), np.zeros((2, 9)))}).to_netcdf(
        file, group="posterior", engine="h5netcdf"
    )
    assert compat.read_groups(file)[0]["posterior"].sizes["draw"] == 9
    with pytest.raises(AnonbayesError, match="no released table"):
        ab.Posterior.from_netcdf(file)
    with h5py.File(file, "w") as plain:
        plain["x"] = np.zeros(5)
    with pytest.raises(AnonbayesError, match=r"contains no released table|damaged"):
        ab.Posterior.from_netcdf(file)


def test_content_is_the_same_whoever_wrote_it(copy, post):
    rewritten(copy, lambda tree: None)
    assert same(ab.Posterior.from_netcdf(copy), post)


def test_the_command_says_it_without_a_traceback(start, copy, tmp_path):
    copy.write_bytes(copy.read_bytes()[:9000])
    process = start(fault_work.command, ["diagnose", str(copy)], tmp_path / "said")
    process.join(150)
    assert process.exitcode == 2
    said = (tmp_path / "said").read_text()
    assert said.startswith(f"anonbayes: path={str(copy)!r} is damaged") and said.count("\n") == 1


# -- runs that are to be continued -------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    run = tmp_path_factory.mktemp("finished") / "run"
    fault_work.fit("vertical", 30, run)
    return run


def test_damage_anywhere_in_a_run_is_noticed(finished, tmp_path):
    rng = np.random.default_rng(3)
    expected = fault_work.fit("vertical", 40).draws
    files = [f.relative_to(finished) for f in finished.rglob("*") if f.is_file()]
    noticed = 0
    for trial in range(40):
        run = tmp_path / str(trial)
        shutil.copytree(finished, run)
        file = run / files[trial % len(files)]
        bad = bytearray(file.read_bytes())
        place = int(rng.integers(len(bad)))
        if trial % 4 == 0:
            bad = bad[:place]
        else:
            bad[place] ^= 1 << int(rng.integers(8))
        file.write_bytes(bad)
        try:
            found = fault_work.fit("vertical", 40, run)
        except AnonbayesError as error:
            assert str(run) in str(error)
            noticed += 1
        else:
            assert found.draws.equals(expected), f"{file}, byte {place}"
    assert noticed > 20


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"\xff\xfe", b"null"])
def test_run_json(content, finished, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    (run / "run.json").write_bytes(content)
    with pytest.raises(FileError, match=r"run.json' is damaged.*Start it again with another path"):
        fault_work.fit("vertical", 40, run)


def test_parts_that_are_gone_or_of_another_kind(finished, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    next(run.glob("chain-0/part-*.npz")).unlink()
    with pytest.raises(FileError, match=r"part-00000.npz' is damaged or incomplete"):
        fault_work.fit("vertical", 40, run)
    np.savez(run / "chain-0" / "state.npz", other=1)
    with pytest.raises(FileError, match=r"state.npz' is damaged or incomplete .*parts"):
        fault_work.fit("vertical", 40, run)


@pytest.mark.parametrize(
    "state",
    [{"bit_generator": "test"}, {"bit_generator": "seed"}, {}, [], 3, {"bit_generator": []}],
)
def test_a_run_cannot_choose_what_is_called(state, finished, tmp_path, monkeypatch):
    """`numpy.random` has more names than generators, and one of them starts pytest."""
    monkeypatch.setattr(np.random, "test", lambda: pytest.fail("a file has called a function"))
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    file = run / "chain-0" / "state.npz"
    with np.load(file) as saved:
        np.savez(file, **{**saved, "generators": np.array(json.dumps([state]))})
    with pytest.raises(FileError, match=r"state.npz' is damaged"):
        fault_work.fit("vertical", 40, run)


def test_rows_of_another_run_are_not_taken_over(tmp_path):
    """As many rows, but others: their draws must not be continued under the wrong names."""
    settings = fault_work.SETTINGS | {"step": "collapsed"}
    table = fault_work.table("vertical")
    ab.fit(table, draws=5, resume=tmp_path / "run", keep_cleartext=[1, 4], **settings)
    with pytest.raises(AnonbayesError, match="holds a run with rows="):
        ab.fit(table, draws=9, resume=tmp_path / "run", keep_cleartext=[1, 5], **settings)


# -- tables and scenarios ----------------------------------------------------------------------

PEOPLE = {"ward": ["1", "2"] * 20, "sex": ["f", "m"] * 20, "ill": ["flu", "hiv"] * 20}
FRAME = pd.DataFrame(PEOPLE)


@pytest.mark.parametrize("read", ["table", "cleartext"])
@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda good: good[:-7], "1 cells where 3"),
        (lambda good: good[:40] + b"\0" * 4 + good[44:], "a zero byte"),
        (lambda good: b"", "is empty"),
        (lambda good: good[:30] + b"\xff" + good[31:], "not UTF-8 text"),
        (lambda good: np.random.default_rng(1).bytes(3000), "UTF-8|zero byte"),
        (lambda good: b"PAR1" + bytes(200) + b"PAR1", "zero byte|not a readable parquet"),
    ],
    ids=["truncated", "zeroed", "empty", "flipped", "random", "parquet"],
)
def test_tables(read, damage, match, tmp_path):
    file = tmp_path / "t.csv"
    file.write_bytes(damage(FRAME.to_csv(sep=";", index=False).encode()))
    with pytest.raises(AnonbayesError, match=match) as caught:
        if read == "table":
            ab.read_arx(file, sensitive="ill")
        else:
            read_csv_text(file)
    assert "t.csv" in str(caught.value)


@pytest.mark.parametrize(
    "damage",
    [
        lambda good: good[: len(good) // 2],
        lambda good: good[:20] + b"\0" * 8 + good[28:],
        lambda good: b"\xff" * 50,
        lambda good: b"",
    ],
    ids=["truncated", "zeroed", "bytes", "empty"],
)
def test_scenarios(damage, tmp_path):
    file = fault_work.scenario(tmp_path)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(AnonbayesError, match=r"mine\.toml"):
        load(file)


def test_parquet(tmp_path):
    """With the checksums that a writer may store, no damage to the values goes unnoticed."""
    pytest.importorskip("pyarrow")
    file = tmp_path / "t.parquet"
    FRAME.to_parquet(file, write_page_checksum=True, store_schema=False)
    good, expected = file.read_bytes(), ab.ReleasedTable.from_parquet(file, "ill")
    rng = np.random.default_rng(4)
    damaged = [good[: len(good) // 2], b"", rng.bytes(500), good[:60] + bytes(60) + good[120:]]
    for _ in range(40):
        bad = bytearray(good)
        bad[int(rng.integers(len(bad)))] ^= 1 << int(rng.integers(8))
        damaged.append(bytes(bad))
    noticed = 0
    for bad in damaged:
        file.write_bytes(bad)
        try:
            found = ab.ReleasedTable.from_parquet(file, "ill")
        except AnonbayesError as error:
            noticed += "t.parquet" in str(error) or "column" in str(error)
        else:
            assert found == expected or set(found.domains) != set(expected.domains)
    assert noticed > 15
