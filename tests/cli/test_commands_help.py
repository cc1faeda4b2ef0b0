"""Help, examples, start-up and completion of the command line."""

import inspect
import os
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pandas as pd
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import anonbayes as ab
from anonbayes.cli import options
from anonbayes.cli.app import app
from anonbayes.cli.options import MECHANISMS, completer
from anonbayes.cli.screen import EXAMPLES
from anonbayes.inference.fit import fit
from anonbayes.uniqueness.identity import identity

ROOT = Path(__file__).parents[2]
NAMES = {"assess", "run", "init", "anonymize", "diagnose", "compare", "channel", "budgets", "pie",
         "quantize", "datasets", "describe", "identity", "hierarchy"}  # fmt: skip


def commands(group=None, path=()):
    """Every command by its words."""
    for name, command in (group or get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def test_all_commands_are_there():
    assert set(get_command(app).commands) == NAMES
    assert {name for name, _ in commands()} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_help_shows_the_examples(name):
    done = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "400"})
    assert done.exit_code == 0
    for line in EXAMPLES[name]:
        assert line in done.output
        assert shlex.split(line)[1 : 1 + len(name.split())] == name.split()
    assert "\x1b[" not in done.output
    assert max(map(ord, done.output)) < 0x2600  # nothing was taken for an emoji


def test_every_parameter_is_explained():
    for name, command in commands():
        for parameter in command.params:
            assert parameter.help, f"{name}: {parameter.name}"
        narrow = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "80"})
        assert "…" not in narrow.output, name  # no name of an option is cut


FEW = {"draws": 20, "chains": 2}


def test_every_example_runs(tmp_path, monkeypatch):
    """In the order of the help, in an empty directory; fewer patients and draws, for time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("anonbayes.reporting.page.render", lambda *_, **__: "<!doctype html>")

    def short(table, **settings):
        return fit(table, **{**settings, **FEW})

    monkeypatch.setattr("anonbayes.inference.fit.fit", short)
    monkeypatch.setattr(
        "anonbayes.uniqueness.identity.identity",
        lambda sample, **settings: identity(sample, **{**settings, **FEW, "tune": 20}),
    )
    fetched = []
    monkeypatch.setattr(
        "anonbayes.datasets.download", lambda name, source: fetched.append(name) or Path("adult")
    )
    for line in (line for lines in EXAMPLES.values() for line in lines):
        done = CliRunner().invoke(app, shlex.split(line)[1:])
        assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception!r}"
        assert done.stdout.strip(), f"{line} says nothing"
        if line == "anonbayes datasets export clinic":
            frame = pd.read_csv("clinic.csv", sep=";", dtype=str)
            frame.head(100).to_csv("clinic.csv", sep=";", index=False)
    assert fetched == ["adult"]
    written = {file.name for file in tmp_path.iterdir()}
    made = "released boxes qit st reports budgets binned".split()
    expected = {f"{name}.csv" for name in made} | {"results", "tradeoff.png", "clinic.toml", "out"}
    assert expected <= written


def test_help_is_quick():
    """Neither PyMC nor pandas nor NumPy is loaded to print help."""
    code = (
        "import sys\nfrom anonbayes.cli.app import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "large = {'pymc', 'pytensor', 'arviz', 'pandas', 'numpy', 'scipy', 'numba', 'matplotlib'}\n"
        "print('loaded:', sorted(large & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.splitlines()[-1] == "loaded: []"


# -- completion -----------------------------------------------------------------------------------


def test_completed_names_are_those_of_the_package():
    from anonbayes.risk import comparison, measures
    from anonbayes.scenario import choices, release

    assert ab.datasets.available()["kind"].to_dict() == choices.DATASETS
    assert set(release.CHANNELS) <= set(MECHANISMS)
    assert set(choices.THREATS) == set(comparison.THREATS)
    assert set(choices.USEFULNESS) == set(comparison.KEPT)
    assert set(choices.PRESETS) == set(measures.PRESETS)
    channel = ab.RandomizedResponse(ab.Domain("x", "ab"), 1.0)
    assert set(choices.ESTIMATORS) >= set(channel.methods)
    assert set(choices.SCHEMES) == {name for name in ab.anonymize.__all__ if name.islower()}
    assert completer(choices.RULES)("w") == [("worst_case", "nothing is known (W)")]


def test_options_are_keys_and_look_them_up_late():
    """Switches are known without the keys, which completion does not load."""
    for name, command in commands():
        function = inspect.unwrap(command._declared).__dict__["function"]
        if "asks" not in function.__dict__:
            continue
        kind, flags = function.__dict__["asks"]
        for flag in flags:
            declared = options._declared(kind, flag.keys[0])
            is_switch = bool in (declared.outer, flag.hint)
            assert is_switch == (flag.sets is not None), (name, flag.names)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ano", ["anonymize"]),
        ("channel ", ["describe", "release", "estimate", "advise"]),
        ("datasets show clinic_", ["clinic_global", "clinic_local", "clinic_anatomy"]),
        ("channel describe -m utility", ["utility_optimized_rr", "utility_optimized_rappor"]),
        (
            "assess --max-",
            [
                "--max-relative-threat",
                "--max-threatened",
                "--max-cost",
                "--max-doubled",
                "--max-log-loss-gain",
                "--max-belief",
                "--max-unique-in-population",
                "--max-match-probability",
                "--max-membership-tpr",
            ],
        ),
        ("channel estimate x.csv --method ba", ["bayes"]),
    ],
)
def test_bash_completes(tmp_path, words, expected):
    """The generated function itself is called, in a real bash."""
    program = tmp_path / "anonbayes"
    program.write_text(
        f"#!/bin/sh\nexec {shlex.quote(sys.executable)} "
        f"-c 'from anonbayes.cli.app import main; main()' \"$@\"\n"
    )
    program.chmod(0o755)
    script = textwrap.dedent("""
        eval "$(_ANONBAYES_COMPLETE=source_bash anonbayes)"
        COMP_WORDS=(anonbayes "$@"); COMP_CWORD=$#
        "$(complete -p anonbayes | sed -E 's/.*-F ([^ ]+) .*/\\1/')" anonbayes
        printf '%s\\n' "${COMPREPLY[@]}"
    """)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script, "bash", *words.split(" ")],
        capture_output=True, text=True, check=True, cwd=ROOT,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert sorted(done.stdout.split()) == sorted(expected), done.stderr
