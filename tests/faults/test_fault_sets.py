"""Files that belong together are those of one run, whenever the run that writes them dies."""

import json
import os
import signal

import fault_work
import pytest

from anonbayes.errors import FileError
from anonbayes.io.files import mend, needs_mending, write_together

FUNCTIONS = ["replace", "unlink", "fsync", "rename"]


def content(folder):
    """Texts of the files that have their names, by name; None without a directory."""
    if not folder.exists():
        return None
    return {f.name: f.read_text() for f in folder.iterdir() if not f.name.startswith(".")}


def whole(text, **others):
    return dict.fromkeys(fault_work.SET, text) | others


def hidden(folder):
    return [f.name for f in folder.rglob("*") if f.name.startswith(".")]


def killed_everywhere(start, make, function):
    """Kill a run at each call of a function in turn; yield the directory that each has left."""
    for nth in range(1, 100):
        folder = make(nth)
        process = start(fault_work.write_set, folder, "new", function, nth)
        process.join(150)
        if process.exitcode == 0:  # there is no such call any more
            assert content(folder).items() >= whole("new").items()
            return
        assert process.exitcode == -signal.SIGKILL
        yield folder


@pytest.mark.parametrize("function", FUNCTIONS)
def test_an_earlier_run_or_the_new_one(function, start, tmp_path):
    def make(nth):
        folder = tmp_path / f"run{nth}"
        fault_work.write_set(folder, "old")
        (folder / "notes").write_text("mine")
        return folder

    outcomes = []
    for folder in killed_everywhere(start, make, function):
        seen = content(folder)
        if "seal" in seen:  # who looks now sees one run
            assert seen in (whole("old", notes="mine"), whole("new", notes="mine"))
        mend(folder)
        outcomes.append(content(folder))
        assert hidden(folder) == [] and not needs_mending(folder)
    both = [whole("old", notes="mine"), whole("new", notes="mine")]
    assert all(outcome in both for outcome in outcomes)
    if function == "replace":  # three parts, a note, three earlier files, three new ones
        assert outcomes == [both[0]] * 10
    if function == "unlink":
        assert both[1] in outcomes, "killed after the last rename, the new ones stay"


@pytest.mark.parametrize("function", FUNCTIONS)
def test_none_or_all_beside_other_files(function, start, tmp_path):
    def make(nth):
        folder = tmp_path / f"run{nth}"
        folder.mkdir()
        (folder / "notes").write_text("mine")
        return folder

    for folder in killed_everywhere(start, make, function):
        assert "seal" not in content(folder) or content(folder) == whole("new", notes="mine")
        mend(folder)
        assert content(folder) in ({"notes": "mine"}, whole("new", notes="mine"))
        assert hidden(folder) == []


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_new_directory_is_complete_or_not_there(function, start, tmp_path):
    folders = []
    for folder in killed_everywhere(start, lambda nth: tmp_path / f"run{nth}" / "out", function):
        assert content(folder) in (None, whole("new"))
        mend(folder)
        assert hidden(folder.parent) == []
        folders.append(folder)
    assert folders or function == "unlink"


def test_mending_may_be_killed_as_well(start, tmp_path):
    for first in (6, 9, 10):  # calls of `replace`: hiding the earlier files, naming the new ones
        for nth in range(1, 5):
            folder = tmp_path / f"run{first}-{nth}"
            fault_work.write_set(folder, "old")
            start(fault_work.write_set, folder, "new", "replace", first).join(150)
            assert needs_mending(folder)
            start(fault_work.mend_set, folder, "replace", nth).join(150)
            start(fault_work.mend_set, folder, "unlink", nth).join(150)
            mend(folder)
            assert content(folder) == whole("old") and hidden(folder) == []


@pytest.mark.parametrize("nth", range(1, 7))
def test_an_error_between_the_renames(nth, tmp_path, monkeypatch):
    """The disk refuses the nth rename: the earlier files are back before the error is told."""
    folder = tmp_path / "run"
    fault_work.write_set(folder, "old")
    real, count = os.replace, iter(range(1, 100))

    def refusing(one, other):
        if next(count) == nth:
            raise PermissionError(13, "Permission denied")
        real(one, other)

    def write(file):
        file.write_text("new")

    writers = dict.fromkeys(fault_work.SET, write)
    monkeypatch.setattr("anonbayes.io.files.write_text", lambda file, text: file.write_text(text))
    monkeypatch.setattr(os, "replace", refusing)
    with pytest.raises(FileError, match="run' could not be written: Permission denied"):
        write_together(folder, writers)
    assert content(folder) == whole("old") and hidden(folder) == []


def test_a_note_cannot_reach_beyond_its_directory(tmp_path):
    """Names are those of the command; what a directory from elsewhere says does not count."""
    (tmp_path / "precious").write_text("mine")
    folder = tmp_path / "run"
    folder.mkdir()
    new = folder / ".run.abcd.part"
    new.mkdir()
    note = {"names": ["../precious", "seal"], "others": ["../precious"], "earlier": []}
    (new / ".earlier.json").write_text(json.dumps(note))
    (new / "seal").write_text("")
    assert needs_mending(folder)
    mend(folder)
    assert (tmp_path / "precious").read_text() == "mine" and hidden(folder) == []


def test_an_assessment_that_was_killed_between_the_renames(start, tmp_path):
    out = tmp_path / "out"
    first = start(fault_work.command, fault_work.assess(out), tmp_path / "first")
    first.join(150)
    assert first.exitcode == 0, (tmp_path / "first").read_text()
    before = {f.name: f.read_bytes() for f in out.iterdir()}
    again = fault_work.assess(out, "--force", "--draws", "60")
    process = start(
        fault_work.stopped_command, again, tmp_path / "said", "replace", 9, signal.SIGKILL
    )
    process.join(150)
    assert process.exitcode == -signal.SIGKILL
    assert (out / "report.html").exists() and not (out / "risk.json").exists()
    refused = start(fault_work.command, fault_work.assess(out), tmp_path / "refused")
    refused.join(150)
    assert refused.exitcode == 2
    assert "contains an earlier run" in (tmp_path / "refused").read_text()
    assert {f.name: f.read_bytes() for f in out.iterdir()} == before
    assert not (tmp_path / ".out.lock").exists()
