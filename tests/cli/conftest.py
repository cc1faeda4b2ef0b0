"""Running commands as a user does, and the files they need."""

import json
import sys
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from anonbayes.cli.app import app, main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command in an empty directory and return its text; any exit code but 0 fails."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments, code=0):
        done = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
        assert done.exit_code == code, done.output
        return done.stdout

    return call


@pytest.fixture
def run_json(run):
    """Run a command with --json and return what it says."""
    return lambda *arguments, code=0: json.loads(run(*arguments, "--json", code=code))


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """Run a command that must be refused; return the message."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["anonbayes", *map(str, arguments)])
        before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
        with pytest.raises(SystemExit) as stop:
            main()
        shown = capsys.readouterr()
        assert (stop.value.code, shown.out) == (2, ""), shown
        assert shown.err.startswith("anonbayes: ") and "Traceback" not in shown.err
        # Bad input is found before anything is written.
        assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")} == before
        return shown.err

    return call


@pytest.fixture
def people(tmp_path):
    """A small part of the clinic, as people.csv beside its hierarchies."""
    frame = pd.read_csv(ROOT / "data" / "clinic.csv", sep=";", dtype=str).head(120)
    frame.to_csv(tmp_path / "people.csv", sep=";", index=False)
    return frame


@pytest.fixture
def trees():
    return ROOT / "data" / "clinic_hierarchies"
