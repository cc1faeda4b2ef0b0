"""Two runs that want one directory: one has it, the other is told who has it."""

import errno
import fcntl
import json
import os
import signal
import time

import fault_work
import pytest

import anonbayes as ab
from anonbayes.errors import FileError
from anonbayes.io import files
from anonbayes.io.files import locked
from anonbayes.scenario.outputs import Place

IN_USE = r"is being written to by process {} on .* \(since 20.*wait for it to end, or choose"


def wait_until(condition, process):
    deadline = time.monotonic() + 150
    while not condition():
        assert process.is_alive() and time.monotonic() < deadline
        time.sleep(0.01)


def test_a_run_is_continued_by_one_only(start, tmp_path):
    run = tmp_path / "run"
    first = start(fault_work.fit, "horizontal", 10_000_000, run)
    wait_until(lambda: list(run.glob("chain-*/state.npz")), first)
    with pytest.raises(FileError, match=IN_USE.format(first.pid)):
        fault_work.fit("horizontal", 20, run)
    assert first.is_alive()
    first.kill()
    first.join(150)
    assert (tmp_path / ".run.lock").exists(), "what a killed run leaves behind"
    # The system has let go of it: nobody has to be asked, nothing has to be removed by hand.
    fault_work.fit("horizontal", 20, run)
    assert not (tmp_path / ".run.lock").exists()


def test_one_assessment_wins_the_other_is_told(start, tmp_path):
    out = tmp_path / "out"
    settings = [fault_work.assess(out, "--draws", "3000"), fault_work.assess(out)]
    first = start(fault_work.command, settings[0], tmp_path / "first")
    wait_until(lambda: (tmp_path / ".out.lock").exists(), first)
    second = start(fault_work.command, settings[1], tmp_path / "second")
    second.join(150)
    assert second.exitcode == 2
    assert f"is being written to by process {first.pid} on" in (tmp_path / "second").read_text()
    first.join(120)
    assert first.exitcode == 0, (tmp_path / "first").read_text()
    assert ab.Posterior.from_netcdf(out / "posterior.nc").n_draws == 3_000
    assert "--draws 3000" in json.loads((out / "risk.json").read_text())["command"]
    assert sorted(f.name for f in out.iterdir()) == ["posterior.nc", "report.html", "risk.json"]
    assert sorted(f.name for f in tmp_path.iterdir()) == ["first", "out", "second"]
    third = start(fault_work.command, settings[1], tmp_path / "third")
    third.join(150)
    assert third.exitcode == 2 and "contains an earlier run" in (tmp_path / "third").read_text()


def test_two_scenarios(start, tmp_path):
    file, out = fault_work.scenario(tmp_path), tmp_path / "out"
    with Place(out).claimed():
        process = start(
            fault_work.command, ["run", str(file), "--out", str(out)], tmp_path / "said"
        )
        process.join(150)
    assert process.exitcode == 2
    assert f"is being written to by process {os.getpid()} on" in (tmp_path / "said").read_text()
    assert not out.exists()


def test_many_who_want_it_at_once(start, tmp_path):
    """Each adds to a number that it reads and writes: lost additions would show overlapping."""
    (tmp_path / "number").write_text("0")
    processes = [
        start(fault_work.add_up, tmp_path / "place", tmp_path / "number", 25) for _ in range(4)
    ]
    for process in processes:
        process.join(150)
        assert process.exitcode == 0
    assert (tmp_path / "number").read_text() == "100"


def test_results_moved_aside_by_a_killed_run_come_back(tmp_path):
    """Killed between two renames: the earlier results are there under another name only."""
    out = tmp_path / "out"
    aside = out / ".run.abc.part" / ".old"
    aside.mkdir(parents=True)
    (aside / "result.json").write_text("earlier")
    (aside / "old.csv").write_text("earlier")
    note = {"names": ["result.json"], "others": ["old.csv"], "earlier": ["old.csv", "result.json"]}
    (aside.parent / ".earlier.json").write_text(json.dumps(note))
    (aside.parent / "result.json").write_text("new")
    (tmp_path / ".out.xyz.part").mkdir()
    (tmp_path / ".outer.xyz.part").mkdir()
    with Place(out, force=True).claimed():
        assert {f.name: f.read_text() for f in out.iterdir()} == {
            "result.json": "earlier",
            "old.csv": "earlier",
        }
    assert sorted(f.name for f in tmp_path.iterdir()) == [".outer.xyz.part", "out"]


def test_threads_of_one_process_count_as_two(tmp_path):
    with (
        locked(tmp_path / "a"),
        locked(tmp_path / "b"),
        pytest.raises(FileError, match=IN_USE.format(os.getpid())),
        locked(tmp_path / "a"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_lock_file_without_an_owner_is_taken(tmp_path):
    (tmp_path / ".a.lock").write_text("nonsense from a crash")
    with locked(tmp_path / "a"):
        assert json.loads((tmp_path / ".a.lock").read_text())["process"] == os.getpid()
    handle = os.open(tmp_path / ".a.lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(FileError, match="by another run; wait"), locked(tmp_path / "a"):
        pass
    os.close(handle)


def test_disks_without_locks_are_used_with_a_warning(tmp_path, monkeypatch, caplog):
    def refuse(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked(tmp_path / "a"):
        pass
    assert "has no locks (Function not implemented)" in caplog.text
    assert files.log.name == "anonbayes"


# -- Ctrl-C and termination --------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("what", ["assess", "run"])
def test_a_stopped_command_leaves_the_earlier_results(number, what, start, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    name = {"assess": "risk.json", "run": "result.json"}[what]
    (out / name).write_text("earlier")
    if what == "assess":
        arguments = fault_work.assess(out, "--force", "--draws", "100000000")
    else:
        file = fault_work.scenario(tmp_path, draws=100_000_000)
        arguments = ["run", str(file), "--out", str(out), "--force"]
    process = start(fault_work.command, arguments, tmp_path / "said")
    wait_until(lambda: (tmp_path / ".out.lock").exists(), process)
    os.kill(process.pid, number)
    process.join(150)
    assert process.exitcode == 128 + number
    said = (tmp_path / "said").read_text()
    assert "anonbayes: stopped" in said and "Traceback" not in said
    assert [(f.name, f.read_text()) for f in out.iterdir()] == [(name, "earlier")]
    # A signal in the very moment in which the lock is made leaves its file, which nobody holds.
    with locked(out):
        pass
    assert not [f.name for f in tmp_path.iterdir() if f.name.startswith(".")]


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_stopped_while_writing(function, start, tmp_path):
    """The signal comes with the first file written, or while they get their names."""
    out = tmp_path / "out"
    process = start(
        fault_work.stopped_command, fault_work.assess(out), tmp_path / "said", function, 2
    )
    process.join(150)
    assert process.exitcode == 128 + signal.SIGTERM
    assert not [f for f in tmp_path.rglob("*") if f.name.startswith(".")]
    assert not out.exists() or list(out.iterdir()) == []


def test_killed_while_writing_and_run_again(start, tmp_path):
    out = tmp_path / "out"
    process = start(
        fault_work.stopped_command, fault_work.assess(out), tmp_path / "said", "fsync", 2,
        signal.SIGKILL,
    )  # fmt: skip
    process.join(150)
    assert process.exitcode == -signal.SIGKILL
    assert not out.exists() and list(tmp_path.glob(".out.*.part")), "it has no name yet"
    again = start(fault_work.command, fault_work.assess(out), tmp_path / "again")
    again.join(150)
    assert again.exitcode == 0, (tmp_path / "again").read_text()
    assert not list(tmp_path.glob(".out.*"))
    assert sorted(f.name for f in out.iterdir()) == ["posterior.nc", "report.html", "risk.json"]
    assert not (tmp_path / ".out.lock").exists()
