"""Scenarios on a Dask cluster answer what they answer on one machine."""

import contextlib
import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from anonbayes import cluster
from anonbayes.cli.app import app
from anonbayes.errors import AnonbayesError
from anonbayes.scenario.load import load, run

SINGLE = """
kind = "assessment"
question = "Who is threatened?"
seed = 1
cleartext.dataset = "table1"
model = {draws = 60, tune = 10, chains = 2, method = "gibbs"}
"""
SWEEP = SINGLE + (
    'release = {scheme = "mondrian", sensitive = "Dis", k = 2}\n'
    '[sweep]\n"release.k" = [2, 4]\n"release.l" = [1, 9]\n'
)
RELEASED = SINGLE + 'release.dataset = "table1_recoded"\n'


@pytest.fixture
def write(tmp_path):
    def make(text):
        file = tmp_path / "mine.toml"
        file.write_text(text)
        return load(file)

    return make


def assert_same(one, two):
    assert one.text == two.text
    assert pd.Series(one.measures).equals(pd.Series(two.measures))
    assert one.details == two.details
    assert list(one.tables) == list(two.tables)
    for name, table in one.tables.items():
        pd.testing.assert_frame_equal(table, two.tables[name], check_exact=True)


@pytest.mark.parametrize("text", [SWEEP, RELEASED])
def test_a_cluster_finds_the_same(client, write, text):
    scenario = write(text)
    here, there = run(scenario), run(scenario, client=client)
    assert_same(there, here)
    assert here.plots.keys() == there.plots.keys()


def test_limits_of_a_sweep_hold_on_a_cluster(client, write):
    text = SWEEP.replace("[sweep]", "[limits]\nmax_threatened = 0.01\n[sweep]")
    found = run(write(text), client=client)
    assert found.exceeded and "No release keeps all limits." in found.text


def test_the_command_line_starts_workers_when_asked(tmp_path, write, client, monkeypatch):
    """The files of both runs are the same, to the letter."""
    file, asked = write(SWEEP).path, []

    def those_of_the_tests(workers):
        asked.append(workers)
        return contextlib.nullcontext(client)

    monkeypatch.setattr(cluster, "local_client", those_of_the_tests)
    for workers, out in (((), "one"), (("--workers", "2"), "two")):
        command = ["run", str(file), "--out", str(tmp_path / out), *workers]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
    assert asked == [2]
    names = sorted(p.name for p in (tmp_path / "one").iterdir())
    assert names == sorted(p.name for p in (tmp_path / "two").iterdir())
    for name in ("result.json", "comparison.csv"):
        assert (tmp_path / "one" / name).read_text() == (tmp_path / "two" / name).read_text()
    assert len(json.loads((tmp_path / "two" / "result.json").read_text())["tables"]) == 1


def test_workers_are_refused_where_they_are_of_no_use(client):
    models = Path(__file__).parents[2] / "models"
    with pytest.raises(AnonbayesError, match="kind 'survey' cannot use several workers"):
        run(load(models / "uldp_survey.toml"), client=client)
    done = CliRunner().invoke(app, ["run", str(models / "uldp_survey.toml"), "--workers", "2"])
    assert "cannot use several workers" in str(done.exception)
    assert CliRunner().invoke(app, ["run", "any.toml", "--workers", "0"]).exit_code == 2


def test_an_error_in_one_release_is_that_of_one_machine(client, write):
    scenario = write(SWEEP.replace("chains = 2", 'chains = 2, step = "block"'))
    with pytest.raises(AnonbayesError) as here:
        run(scenario)
    with pytest.raises(AnonbayesError) as there:
        run(scenario, client=client)
    assert str(there.value) == str(here.value)
