"""The short form of the fuzzer: odd inputs give results or errors of ours, nothing else."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from anonbayes.errors import AnonbayesError
from tests import fuzz

CASES = {"readers": 120, "api": 300, "cli": 60, "scenarios": 80}


@pytest.mark.parametrize("area", CASES)
def test_no_foreign_errors(area):
    found = [fuzz.run_case(area, number, 20) for number in range(CASES[area])]
    assert [foreign for _, foreign in found if foreign] == []
    outcomes = [outcome for outcome, _ in found]
    assert min(outcomes.count("result"), outcomes.count("our error")) >= 5  # of both kinds


def test_no_kernel_reads_past_its_arrays():
    """As plain Python every index is checked, and nothing has to be compiled first."""
    words = "--area kernels --cases 90 --seed 4 --minutes 60".split()
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *words],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        cwd=fuzz.ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "idle: []" in done.stdout  # every kernel of the package has run
    counted = dict(zip(fuzz.OUTCOMES, map(int, done.stdout.split()[-4:]), strict=True))
    assert counted["result"] >= 75 and sum(counted.values()) == 90


@pytest.mark.parametrize("words", fuzz.COMMANDS, ids=lambda words: " ".join(words)[:30])
def test_commands_work_before_they_are_changed(words, tmp_path):
    fuzz.furnish(tmp_path)
    assert fuzz.command(words, tmp_path) in (0, 3)


def test_functions_work_before_they_are_given_odd_things():
    for _, function, good in fuzz.calls():
        function(**good)


def test_a_case_depends_on_its_number_only():
    def told(number):
        fuzz.run_case("cli", number, 3)
        return list(fuzz.described)

    assert told(5) == told(5) != told(6)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(None, "result"), (AnonbayesError("x"), "our error"), (KeyError("x"), "foreign error")],
)
def test_outcomes_are_told_apart(error, outcome, monkeypatch):
    def work():
        if error:
            raise error

    monkeypatch.setitem(fuzz.AREAS, "made up", lambda rng, desk: work)
    found, foreign = fuzz.run_case("made up", 0, 1)
    assert found == outcome
    assert (foreign is not None) == (outcome == "foreign error")
