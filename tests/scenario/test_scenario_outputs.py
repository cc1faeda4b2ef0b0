"""Results are written whole, to one directory, and never over anything else."""

import json
import os
import sys

import numpy as np
import pandas as pd
import pytest

from anonbayes.errors import AnonbayesError
from anonbayes.formats import plain
from anonbayes.risk.measures import Limit
from anonbayes.scenario import outputs
from anonbayes.scenario.load import load
from anonbayes.scenario.outputs import Place, Result, content_of, told_of_compiling


@pytest.fixture
def scenario(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'kind = "query"\nquestion = "?"\nquality.largest_error = 1\n'
        "numbers = {lower = 0, upper = 10, values = [1, 2]}\n"
    )
    return load(file)


def result(**more):
    frame = pd.DataFrame({"x": [1.5, np.inf]}, index=pd.Index(["a", "b"], name="key"))
    return Result(text="found", measures={"m": float("nan"), "n": 2.0}, tables={"t": frame}, **more)


def write(scenario, found, directory, *, force=False):
    place = Place(directory, force=force)
    with place.claimed():
        return place.write(content_of(scenario, found), found, scenario.settings.outputs)


def test_one_directory_with_stable_names(scenario, tmp_path):
    out = tmp_path / "deep" / "out"
    limit = Limit("max_m", "n", 1.0, 2.0)
    files = write(scenario, result(limits=(limit,)), out)
    assert [file.name for file in files] == ["result.json", "t.csv"]
    content = json.loads(files[0].read_text())
    assert list(content) == [
        "format", "scenario", "versions", "text", "measures", "limits", "exceeded", "tables",
        "details",
    ]  # fmt: skip
    assert content["measures"] == {"m": None, "n": 2.0}
    assert content["tables"]["t"] == [{"key": "a", "x": 1.5}, {"key": "b", "x": None}]
    assert content["exceeded"] is True
    assert content["limits"] == [
        {"name": "max_m", "measure": "n", "limit": 1.0, "found": 2.0, "exceeded": True}
    ]
    assert sorted(os.listdir(out.parent)) == ["out"], "no temporary directory is left"


def test_an_earlier_run_stays_unless_told(scenario, tmp_path):
    out = tmp_path / "out"
    write(scenario, result(), out)
    (out / "old.csv").write_text("old")
    with pytest.raises(AnonbayesError, match="earlier run"):
        write(scenario, result(), out)
    assert (out / "old.csv").exists()
    write(scenario, result(), out, force=True)
    assert sorted(os.listdir(out)) == ["result.json", "t.csv"]


def test_force_spares_what_no_run_has_written(scenario, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(AnonbayesError, match="not results of a run"):
        write(scenario, result(), tmp_path, force=True)
    with pytest.raises(AnonbayesError, match="is a file"):
        Place(tmp_path / "thesis.txt", force=True).check()
    (tmp_path / "empty").mkdir()
    Place(tmp_path / "empty").check()


def test_a_failure_leaves_the_earlier_run(scenario, tmp_path):
    out = tmp_path / "out"
    write(scenario, result(), out)
    before = (out / "result.json").read_text()

    def fail(path):
        path.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write(scenario, result(netcdf=fail), out, force=True)
    assert (out / "result.json").read_text() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine.toml", "out"]


def test_limits():
    assert not Limit("a", "m", 1.0, float("nan")).exceeded
    assert not Limit("a", "m", 1.0, 1.0).exceeded
    assert Limit("a", "m", 1.0, 0.9, least=True).exceeded
    assert (
        Limit("a", "m", 1.0, 0.9, least=True).text == "m is 0.9, below the required minimum of 1."
    )


def test_plain():
    assert plain({1: np.bool_(True), "t": (np.float32(0.5), None)}) == {"1": True, "t": [0.5, None]}


def test_compiling_is_told_once():
    """What is compiled, not what is called again or was compiled before."""
    import numba

    said = []
    one, two = numba.njit(lambda x: x + 1), numba.njit(lambda x: x - 1)
    with told_of_compiling(said.append):
        assert one(1) + two(1) == 2
    assert len(said) == 1 and "Compiling" in said[0]
    with told_of_compiling(said.append):
        one(1)
    assert len(said) == 1


def test_later_stages_do_not_tell_of_compiling_again(capsys, monkeypatch):
    import numba

    monkeypatch.setattr(outputs, "SAID", set())
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for work in (lambda x: x + 1, lambda x: x - 1):
        with outputs.stage("Work"):
            numba.njit(work)(1)
    assert capsys.readouterr().err.count("Compiling") == 1
