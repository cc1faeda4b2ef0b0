"""A disk that is full: nothing half-written, nothing lost, and a message that says what to do."""

import contextlib
import os
from types import SimpleNamespace

import fault_work
import matplotlib.figure
import numpy as np
import pandas as pd
import pytest

import anonbayes as ab
from anonbayes.diagnostics import diagnose
from anonbayes.errors import FileError
from anonbayes.io import files
from anonbayes.reporting.page import render

MESSAGE = r"{}' could not be written: No space left on device \([\d.,]+ MB free in .*Free some"


@pytest.fixture(scope="module")
def found():
    """A posterior, its assessment, its diagnostics and its report."""
    post = ab.fit(ab.datasets.load("table1_recoded"), draws=2000, seed=1, progressbar=False)
    risk, judged = post.assess(ab.datasets.load("table1")), diagnose(post)
    return SimpleNamespace(
        post=post, risk=risk, judged=judged, page=render(post, risk, diagnostics=judged)
    )


def noise():
    figure = matplotlib.figure.Figure()
    figure.subplots().imshow(np.random.default_rng(1).random((200, 200)))
    return figure


WRITERS = {
    "posterior.nc": lambda file, found: found.post.to_netcdf(file),
    "report.html": lambda file, found: ab.report(found.post, found.risk, file),
    "risk.json": lambda file, found: found.risk.to_json(file, rows=True),
    "diagnostics.json": lambda file, found: found.judged.to_json(file),
    "table.csv": lambda file, found: files.write_frame(file, pd.concat([found.risk.rows] * 500)),
    "plot.png": lambda file, found: files.save_figure(file, noise()),
}


@pytest.mark.parametrize("earlier", [None, b"earlier"])
@pytest.mark.parametrize("name", WRITERS)
def test_a_file_is_whole_or_not_there(name, earlier, found, small_disk, tmp_path, monkeypatch):
    monkeypatch.setattr("anonbayes.reporting.page.render", lambda *_, **__: found.page)
    write = WRITERS[name]
    write(tmp_path / name, found)
    needed = (tmp_path / name).stat().st_size
    place = small_disk(max(4, needed // 1024 * 3 // 4))
    if earlier is not None:
        (place / name).write_bytes(earlier)
    if needed <= 4096:  # a page is the smallest disk there is: fill it
        with open(place / "ballast", "wb", buffering=0) as ballast, contextlib.suppress(OSError):
            while True:
                ballast.write(bytes(1024))
    before = {f.name: f.read_bytes() for f in place.iterdir()}
    with pytest.raises(FileError, match=MESSAGE.format(name)):
        write(place / name, found)
    assert {f.name: f.read_bytes() for f in place.iterdir()} == before
    small_disk(2 * needed // 1024 + 100)  # somebody makes room
    write(place / name, found)
    assert (place / name).stat().st_size == pytest.approx(needed, rel=0.02)


def test_a_file_that_hdf5_could_not_close(start, small_disk, tmp_path):
    """HDF5 alone crashes the process when it ends; a crash would show in the exit code."""
    place = small_disk(64)
    process = start(fault_work.fill_up, place / "post.nc", tmp_path / "said")
    process.join(150)
    assert (tmp_path / "said").read_text() == "FileError"
    assert process.exitcode == 0
    assert list(place.iterdir()) == []


def test_devices_are_written_to_not_replaced(found):
    with pytest.raises(FileError, match=r"'/dev/full' could not be written: No space left"):
        found.risk.to_json("/dev/full")
    found.risk.to_json(os.devnull)
    assert not os.path.isfile("/dev/full") and not os.path.isfile(os.devnull)


@pytest.mark.parametrize("earlier", [False, True])
def test_an_assessment_needs_room_for_all_files(earlier, start, small_disk, tmp_path):
    """The report fits, the netCDF file does not: neither gets its name."""
    place = small_disk(10_000)
    out = place / "out"
    if earlier:
        process = start(fault_work.command, fault_work.assess(out), tmp_path / "first")
        process.join(150)
        assert process.exitcode == 0, (tmp_path / "first").read_text()
    else:
        out.mkdir()
    before = {f.name: f.read_bytes() for f in out.iterdir()}
    used = (lambda s: (s.f_blocks - s.f_bfree) * s.f_frsize // 1024)(os.statvfs(place))
    small_disk(used + 400)
    process = start(fault_work.command, fault_work.assess(out, "--force"), tmp_path / "said")
    process.join(150)
    said = (tmp_path / "said").read_text()
    assert process.exitcode == 2
    assert "No space left on device" in said and "MB free" in said and str(out) in said
    assert ".part" not in said and "Traceback" not in said
    assert {f.name: f.read_bytes() for f in out.iterdir()} == before
    assert [f.name for f in place.iterdir()] == ["out"], "no lock is left"


@pytest.mark.parametrize(
    ("name", "limit", "wanted"),
    [
        ("report.html", 100_000, "report"),
        ("result.json", 1_000, ""),
        (".png", 18_000, "plots"),
        ("posterior.nc", 60_000, "netcdf"),
    ],
)
def test_a_scenario_leaves_the_earlier_results(name, limit, wanted, start, tmp_path):
    """Files may not grow beyond a limit: so each kind of file meets its end in turn."""
    file, out = fault_work.scenario(tmp_path, draws=300), tmp_path / "out"
    out.mkdir()
    (out / "result.json").write_text("earlier")
    arguments = ["run", str(file), "--out", str(out), "--force"]
    for kind in ("report", "plots", "netcdf"):
        arguments += ["--set", f"outputs.{kind}={str(kind == wanted).lower()}"]
    process = start(fault_work.command, arguments, tmp_path / "said", limit)
    process.join(150)
    said = (tmp_path / "said").read_text()
    assert process.exitcode == 2, said
    assert str(out) in said and f"{name}' could not be written: File too large (" in said, said
    assert [(f.name, f.read_text()) for f in out.iterdir()] == [("result.json", "earlier")]
    assert sorted(f.name for f in tmp_path.iterdir()) == ["mine.toml", "out", "said"]


@pytest.mark.parametrize("kind", ["horizontal", "vertical"])
def test_a_run_goes_on_when_there_is_room_again(kind, start, small_disk, tmp_path):
    run = small_disk(150) / "run"
    with pytest.raises(FileError, match=r"\.npz' could not be written: No space left on device"):
        fault_work.fit(kind, 10_000_000, run)
    assert not [f for f in run.rglob("*") if f.name.endswith(".part")]
    done = [int(np.load(f)["done"]) - 40 for f in run.glob("chain-*/state.npz")]
    assert max(done) > 20
    small_disk(50_000)
    draws = max(*done, 300)
    assert fault_work.fit(kind, draws, run).draws.equals(fault_work.fit(kind, draws).draws)


def test_places_that_do_not_exist_or_are_directories(found, tmp_path):
    with pytest.raises(FileError, match=r"directory '.*nowhere' does not exist; create it first"):
        found.risk.to_json(tmp_path / "nowhere" / "risk.json")
    with pytest.raises(FileError, match="is a directory"):
        found.risk.to_json(tmp_path)


def test_links_and_permissions_stay(found, tmp_path):
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "real.json").chmod(0o640)
    (tmp_path / "link.json").symlink_to("real.json")
    found.risk.to_json(tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text().startswith("{")
    assert (tmp_path / "real.json").stat().st_mode & 0o777 == 0o640


def modes(folder):
    """Permissions of a directory and of everything in it."""
    return {oct(p.stat().st_mode & 0o777) for p in (folder, *folder.rglob("*"))}


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
@pytest.mark.parametrize("shared", [False, True])
def test_results_are_their_owners_alone(shared, tmp_path, monkeypatch):
    """Results and checkpoints; what is made to be handed on has the permissions of the umask."""
    monkeypatch.setenv("ANONBAYES_SHARE_FILES", "1" if shared else "0")
    before = os.umask(0o022)
    try:
        table = ab.datasets.load("table1_recoded")
        run = tmp_path / "run"
        post = ab.fit(table, method="gibbs", evidence="independent", draws=5, tune=1, chains=1,
                      seed=1, progressbar=False, resume=run)  # fmt: skip
        files.write_together(
            tmp_path / "results", {"p.nc": post.to_netcdf, "t": lambda f: files.write_text(f, "x")}
        )
        assert modes(run) | modes(tmp_path / "results") == (
            {"0o755", "0o644"} if shared else {"0o700", "0o600"}
        )
        files.write_files({tmp_path / "release.csv": lambda f: files.write_text(f, "x")})
        assert (tmp_path / "release.csv").stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(before)
