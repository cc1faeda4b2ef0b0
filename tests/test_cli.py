"""The command line, run as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import anonbayes
from anonbayes.cli.app import app, main

ROOT = Path(__file__).parents[1]
WARDS = ROOT / "tests" / "data" / "wards" / "wards.csv"
TREES = WARDS.parent / "hierarchies"
DESCRIBE = ["describe", str(WARDS), "--sensitive", "diagnosis", "--hierarchies", str(TREES)]


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_describe_prints_the_anatomy():
    done = run(*DESCRIBE)
    assert done.exit_code == 0, done.output
    for part in ("suppressed rows\t1", "smallest group (k)\t2", "postcode\t9", "diagnosis\t4"):
        assert part in done.output


def test_json():
    done = run(*DESCRIBE, "--json")
    found = json.loads(done.stdout)
    assert (found["n_rows"], found["n_groups"], found["n_suppressed"]) == (12, 4, 1)
    assert (found["k"], found["l"], found["is_nested"]) == (2, 2, True)
    assert found["group_sizes"] == {"2": 2, "3": 1, "4": 1}
    assert found["attributes"]["age"]["values"] == 70


def test_anatomy(tmp_path):
    (tmp_path / "q.csv").write_text("sex,g\nf,1\nm,1\n")
    (tmp_path / "s.csv").write_text("g,ill\n1,flu\n1,cold\n")
    both = [str(tmp_path / "q.csv"), "--anatomy", str(tmp_path / "s.csv"), "--sep", ","]
    done = run("describe", *both, "--group", "g", "--sensitive", "ill", "--json")
    assert json.loads(done.stdout)["scheme"] == "vertical"


def failing(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["anonbayes", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    shown = capsys.readouterr()
    return stop.value.code, shown.out, shown.err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["describe", "absent.csv", "--sensitive", "x"], "There is no file 'absent.csv'"),
        (["describe", str(WARDS), "--sensitive", "diag"], "Did you mean 'diagnosis'"),
        (["describe", str(WARDS), "--sensitive", "diagnosis"], "stands for several values"),
        (
            ["describe", str(WARDS), "--sensitive", "x", "--group", "g"],
            "both --anatomy and --group",
        ),
        (
            ["describe", str(WARDS), "--sensitive", "x", "--anatomy", "y.csv"],
            "both --anatomy and --group",
        ),
        (
            [*DESCRIBE, "--anatomy", "y.csv", "--group", "g"],
            "--hierarchies does not apply",
        ),
        ([*DESCRIBE, "--sep", ""], "single character"),
        ([*DESCRIBE, "--missing", "maybe"], "--missing 'maybe' is not valid"),
    ],
)
def test_errors_are_friendly(monkeypatch, capsys, arguments, part):
    code, out, err = failing(monkeypatch, capsys, *arguments)
    assert code == 2 and out == ""
    assert part in err and err.startswith("anonbayes: ") and "Traceback" not in err


def test_usage_errors_exit_with_2(monkeypatch, capsys):
    assert failing(monkeypatch, capsys, "describe", str(WARDS))[0] == 2
    assert failing(monkeypatch, capsys, "no-such-command")[0] == 2


def test_version_and_help():
    assert run("--version").stdout.strip() == f"anonbayes {anonbayes.__version__}"
    assert "describe" in run("--help").stdout


def test_pipes_are_plain_and_may_close():
    command = [sys.executable, "-c", "from anonbayes.cli.app import main; main()", *DESCRIBE]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert "\x1b[" not in done.stdout and done.stderr == ""
    closed = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    closed.stdout.close()
    assert closed.stderr.read() == ""
    closed.stderr.close()
    closed.wait(timeout=60)


def test_the_package_can_be_run_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "anonbayes", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert anonbayes.__version__ in done.stdout
