"""`anonbayes run` and `anonbayes init`, as a user runs them."""

import json
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import anonbayes as ab
from anonbayes.cli.app import app, main
from anonbayes.errors import AnonbayesError
from anonbayes.scenario.load import load
from anonbayes.scenario.starter import starter

MODELS = Path(__file__).parents[2] / "models"
TEXT = """
kind = "assessment"
question = "Who is threatened?"
seed = 1
[cleartext]
dataset = "table1"
[release]
dataset = "table1_recoded"
[model]
draws = 100
"""


def invoke(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TEXT)
    return path


def test_run_writes_everything_to_one_directory(file):
    done = invoke("run", file)
    assert done.exit_code == 0, done.output
    out = file.parent / "out" / "mine"
    assert {p.name for p in out.iterdir()} == {
        "report.html", "result.json", "population.csv", "posterior.nc",
        "group_sizes.png", "beliefs.png", "relative_threat.png",
    }  # fmt: skip
    assert str(out / "report.html") in done.output
    assert ab.Posterior.from_netcdf(out / "posterior.nc").n_draws == 100
    assert (out / "beliefs.png").read_bytes().startswith(b"\x89PNG")
    assert "Who is threatened?" in (out / "report.html").read_text(encoding="utf-8")
    again = invoke("run", file)
    assert isinstance(again.exception, AnonbayesError)
    assert "--force" in str(again.exception)
    assert invoke("run", file, "--force").exit_code == 0


def test_limits_become_exit_codes(file, tmp_path):
    quiet = ["--set", "outputs.plots=false", "--set", "outputs.report=false"]
    ok = invoke("run", file, "--out", tmp_path / "a", "--set", "limits.max_threatened=1", *quiet)
    assert ok.exit_code == 0
    over = invoke(
        "run", file, "--out", tmp_path / "b", "--set", "limits.max_threatened=0.1", "--json", *quiet
    )
    assert over.exit_code == 3
    content = json.loads(over.stdout)
    assert content["exceeded"] is True
    assert content["limits"][0]["name"] == "max_threatened"
    assert content["scenario"]["content"]["limits"] == {"max_threatened": 0.1}
    assert (tmp_path / "b" / "result.json").is_file(), "results are kept all the same"


def test_bad_input_is_exit_code_2(file, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["anonbayes", "run", str(file), "--set", "model.drows=3"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert "Did you mean 'draws'" in capsys.readouterr().err
    assert not (file.parent / "out").exists()


def test_the_schema_is_at_hand():
    assert invoke("run", "--schema").stdout == (MODELS / "scenario.schema.json").read_text()


def test_check_runs_nothing(file, monkeypatch):
    monkeypatch.setattr("anonbayes.inference.fit.fit", None)
    done = invoke("run", file, "--check")
    assert done.exit_code == 0, done.output
    assert not (file.parent / "out").exists()


# -- init -----------------------------------------------------------------------------------------

PEOPLE = (
    "id,name,sex,age,income\n"
    + "\n".join(
        f'{i},"Person ""{i}""",{"fm"[i % 2]},{20 + (7 * i) % 40},{["low", "mid", "high"][i % 3]}'
        for i in range(24)
    )
    + "\n"
)


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(PEOPLE)
    return path


def test_init_writes_a_scenario_that_runs(people, tmp_path):
    file = tmp_path / "sub" / "first.toml"
    assert invoke("init", people, "--out", file).exit_code == 0
    content = tomllib.loads(file.read_text())
    assert content["cleartext"] == {"file": "../people.csv"}  # whose separator is plain to see
    assert content["release"]["sensitive"] == "income"
    assert content["release"]["quasi_identifiers"] == ["sex", "age"]  # neither id nor name
    done = invoke("run", file, "--set", "model.draws=50", "--set", "outputs.report=false")
    assert done.exit_code == 0, done.output
    found = json.loads((file.parent / "out" / "first" / "result.json").read_text())
    assert found["assessment"]["release"]["k"] >= 5
    told = json.loads(invoke("init", people, "--out", file, "--force", "--json").stdout)
    assert told["file"] == str(file)
    assert told["scenario"] == tomllib.loads(file.read_text(encoding="utf-8"))
    refused = invoke("init", people, "--out", file)
    assert "exists" in str(refused.exception)
    assert invoke("init", people, "--out", file, "--force", "--sensitive", "sex").exit_code == 0
    assert load(file).settings.release.sensitive == ("sex",)


def test_starter_uncommented_is_a_scenario(people):
    """What it suggests in comments must be right as well."""
    text = starter(people, folder=people.parent)
    head, tail = text.split("# [threats]")
    keep = "\n".join(
        line.removeprefix("# ") for line in ("# [threats]" + tail).splitlines()
        if not line.endswith(":")
    )  # fmt: skip
    file = people.parent / "x.toml"
    file.write_text(head + keep)
    settings = load(file).settings
    assert settings.limits.max_threatened == 0.5
    assert settings.sweep == {"release.k": [2, 5, 10, 20]}
    assert settings.threats.harm[0] in ("low", "mid", "high")


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("a;b\n1;2\n", {"sensitive": "c"}, "no column 'c'"),
        ("a\n1\n", {}, "a single column"),
        ("a;b\n1;2\n", {"sep": ","}, "a single column"),
    ],
)
def test_init_says_what_is_wrong(tmp_path, text, options, said):
    file = tmp_path / "t.csv"
    file.write_text(text)
    with pytest.raises(AnonbayesError, match=said):
        starter(file, folder=tmp_path, **options)


def test_starter_notes_empty_cells_and_odd_names(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text('a "b";c\nx;1\n;2\ny;1\n')
    text = starter(file, folder=tmp_path)
    assert tomllib.loads(text)["release"]["quasi_identifiers"] == ['a "b"']
    assert "1 EMPTY CELLS" in text


ROWS = [(20 + (7 * i) % 23, "fm"[i % 2], ["flu", "cold", "asthma"][i % 3]) for i in range(40)]


def written(sep=",", *, header=("age", "sex", "ill"), gap=None):
    """Text of a table; every ninth cell of the column `gap` is empty."""
    lines = [["" if j == gap and i % 9 == 0 else str(c) for j, c in enumerate(row)]
             for i, row in enumerate(ROWS)]  # fmt: skip
    return "\n".join(sep.join(line) for line in [header, *lines]) + "\n"


@pytest.mark.parametrize(
    "content",
    [
        written("\t").encode(),
        written("|").encode(),
        written().encode("utf-8-sig"),  # as Excel writes it
        written().replace("\n", "\r\n").encode(),
        written(header=('"a;b;c;d"', "sex", "ill")).encode(),  # not four separators
        written(";", header=("Größe", "sex", "ill")).encode(),
        written(gap=0).encode(),  # among numbers
        written(gap=1).encode(),
        written(gap=2).encode(),  # among the secrets
    ],
)
def test_what_init_writes_runs_as_it_is(tmp_path, content):
    (tmp_path / "t.csv").write_bytes(content)
    assert invoke("init", tmp_path / "t.csv").exit_code == 0
    few = ["model.draws=20", "model.chains=2", "outputs.report=false", "outputs.plots=false",
           "outputs.netcdf=false"]  # fmt: skip
    done = invoke("run", tmp_path / "t.toml", *(w for text in few for w in ("--set", text)))
    assert done.exit_code == 0, (done.output, done.exception)
    found = json.loads((tmp_path / "out" / "t" / "result.json").read_text(encoding="utf-8"))
    assert len(found["scenario"]["content"]["release"]["quasi_identifiers"]) == 2
    assert found["assessment"]["release"]["rows"] == len(ROWS)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        ("a,b\nGr\xfcn,2\n".encode("latin-1"), "not UTF-8"),
        (b"a,b,c\n1,2,3\n1,2\n", "line 3: 2 cells where 3 are expected"),
        (b"a,a\n1,2\n", "column 'a' appears twice"),
        (b"a,b\n", "has a header but no rows"),
    ],
)
def test_init_refuses_what_is_no_table(tmp_path, content, said):
    (tmp_path / "t.csv").write_bytes(content)
    done = invoke("init", tmp_path / "t.csv")
    assert isinstance(done.exception, AnonbayesError) and said in str(done.exception)
    assert not (tmp_path / "t.toml").exists()


def test_empty_cells_are_a_mistake_until_explained(tmp_path):
    (tmp_path / "t.csv").write_text(written(gap=0))
    text = starter(tmp_path / "t.csv", folder=tmp_path)
    file = tmp_path / "t.toml"
    file.write_text(text.replace('missing = "category"', 'missing = "error"'))
    done = invoke("run", file, "--check")
    for part in ("column 'age'", "row 0", "age 5", "cleartext.missing: 'category'", "'drop'"):
        assert part in str(done.exception)
    assert invoke("run", file, "--check", "--set", "cleartext.missing=drop").exit_code == 0


def test_starter_remarks_on_secrets_that_nobody_shares(tmp_path):
    lines = "".join(f"{i % 3},{1000 + 7 * i}\n" for i in range(60))
    (tmp_path / "t.csv").write_text("ward,income\n" + lines)
    assert "few are shared" in starter(tmp_path / "t.csv", folder=tmp_path)
    assert "hardly ever" not in starter(tmp_path / "t.csv", folder=tmp_path, sensitive="ward")
