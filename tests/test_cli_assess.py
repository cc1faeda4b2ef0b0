"""`anonbayes assess` and `anonbayes diagnose`, run as a user runs them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import anonbayes as ab
from anonbayes import compat
from anonbayes.cli.app import app, main
from anonbayes.io.files import write_together

ROOT = Path(__file__).parents[1]
DATA = ROOT / "data"
SETTINGS = ["--sensitive", "Dis", "--cleartext", str(DATA / "table1.csv"), "--draws", "50"]
ANATOMY = [
    "assess", str(DATA / "table1_qit.csv"), "--anatomy", str(DATA / "table1_st.csv"), "--group",
    "GID", *SETTINGS, "--seed", "3",
]  # fmt: skip
FILES = {"report.html", "risk.json", "posterior.nc"}


@pytest.fixture(autouse=True)
def plain_report(request, monkeypatch):
    """Most tests look at anything but the page, which takes longest."""
    if "whole_page" not in request.keywords:
        monkeypatch.setattr("anonbayes.reporting.page.render", lambda *_, **__: "<!doctype html>")


@pytest.fixture
def recoded(tmp_path):
    """Files of an exact release: two groups of two, in the second one secret only."""
    people = pd.DataFrame({"sex": ["f", "m", "f", "m"], "ill": ["flu", "cold", "flu", "flu"]})
    people.insert(0, "ward", ["1", "1", "2", "2"])
    people.to_csv(tmp_path / "people.csv", sep=";", index=False)
    people.assign(sex="{f, m}").to_csv(tmp_path / "released.csv", sep=";", index=False)
    return [
        "assess", str(tmp_path / "released.csv"), "--cleartext", str(tmp_path / "people.csv"),
        "--sensitive", "ill", "--draws", "50", "--seed", "1",
    ]  # fmt: skip


def test_remarks_are_made_once(tmp_path):
    """Ranges without a domain are told of once, also if the file is read again for its errors."""
    frame = pd.DataFrame({"age": ["1-3", "2-4"], "x": ["a", "b"], "s": ["p", "q"]})
    frame.to_csv(tmp_path / "r.csv", sep=";", index=False)
    asked = ["assess", "r.csv", "--sensitive", "s", "--domain", "x=c,d", "--out", "out"]
    done = subprocess.run(
        [sys.executable, "-c", "from anonbayes.cli.app import main; main()", *asked],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 2 and "Column 'x'" in done.stderr
    assert done.stderr.count("Column 'age' has no domain") == 1


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def failing(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["anonbayes", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    shown = capsys.readouterr()
    return stop.value.code, shown.out, shown.err


@pytest.mark.whole_page
def test_three_files_and_exit_code_0(recoded, tmp_path):
    done = run(*recoded, "--out", tmp_path / "new" / "out")
    assert done.exit_code == 0, done.output
    out = tmp_path / "new" / "out"
    assert {file.name for file in out.iterdir()} == FILES
    post = ab.Posterior.from_netcdf(out / "posterior.nc")
    found = json.loads((out / "risk.json").read_text(encoding="utf-8"))
    again = post.assess(pd.read_csv(tmp_path / "people.csv", sep=";", dtype=str))
    assert found["assessment"]["measures"]["GT_A"] == again.summary["GT_A"]
    assert found["assessment"]["homogeneous_groups"] == 1
    assert [row["Ti"] for row in found["rows"]] == again.rows["Ti"].tolist()
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "released.csv" in page and "2 people are in groups that show a single" in page
    assert str(out / "report.html") in done.stdout


def test_same_seed_same_numbers(tmp_path):
    texts = []
    for name in ("one", "two"):
        assert run(*ANATOMY, "--out", tmp_path / name).exit_code == 0
        found = json.loads((tmp_path / name / "risk.json").read_text())
        texts.append({k: v for k, v in found.items() if k != "command"})
    assert texts[0] == texts[1] and texts[0]["seed"] == "3"


def test_limits_decide_the_exit_code(recoded, tmp_path):
    codes = {}
    for limits in (
        ("--max-threatened", "1"),
        ("--max-threatened", "0.1"),
        ("--max-relative-threat", "1e6"),
        ("--max-relative-threat", "1.0"),
        ("--max-relative-threat", "1e6", "--max-threatened", "0.1"),
        ("--max-threatened", "1", "--max-cost", "0"),  # the learner guesses as well
    ):
        done = run(*recoded, "--out", tmp_path / "out", "--force", "--json", *limits)
        codes[limits] = done.exit_code
        content = json.loads(done.stdout)
        assert content["exceeded"] == (done.exit_code == 3)
        assert len(content["limits"]) == len(limits) // 2
        assert {f.name for f in (tmp_path / "out").iterdir()} == FILES  # written all the same
    assert list(codes.values()) == [0, 3, 0, 3, 3, 0]


def test_the_cost_of_being_in_the_table_can_be_limited(tmp_path):
    clinic = [
        "assess", DATA / "clinic_k4_l3_local.csv", "--hierarchies", DATA / "clinic_hierarchies",
        "--cleartext", DATA / "clinic.csv", "--sensitive", "diagnosis", "--draws", 10, "--seed", 1,
        "--out", tmp_path / "out", "--force", "--json",
    ]  # fmt: skip
    for limit, code in (("0.05", 3), ("0.06", 0)):  # README: RGT_A is 0.058
        done = run(*clinic, "--max-cost", limit)
        content = json.loads(done.stdout)
        assert done.exit_code == code
        assert content["limits"] == [
            {
                "name": "max_cost", "measure": "RGT_A", "limit": float(limit),
                "found": content["assessment"]["measures"]["RGT_A"], "exceeded": code == 3,
            }
        ]  # fmt: skip


@pytest.mark.whole_page
@pytest.mark.parametrize("release", ["local", "anatomy"])
def test_the_clinic_s_results_take_less_than_2_megabytes(release, tmp_path):
    """Draws from a closed form are made again, not stored; crowded plots are bitmaps."""
    files = {
        "local": ["clinic_k4_l3_local.csv", "--hierarchies", DATA / "clinic_hierarchies"],
        "anatomy": [
            "clinic_l3_qit.csv",
            "--anatomy",
            DATA / "clinic_l3_st.csv",
            "--group",
            "group",
        ],
    }[release]
    done = run(
        "assess", DATA / files[0], *files[1:], "--cleartext", DATA / "clinic.csv",
        "--sensitive", "diagnosis", "--seed", 1, "--out", tmp_path / "out",
    )  # fmt: skip
    assert done.exit_code == 0
    assert 1e6 < sum(file.stat().st_size for file in (tmp_path / "out").iterdir()) < 2e6


def test_convergence_can_be_required(tmp_path):
    one_chain = [*ANATOMY, "--chains", "1", "--out", tmp_path / "out", "--force"]
    assert run(*one_chain).exit_code == 0
    assert run(*one_chain, "--require-convergence").exit_code == 3
    stored = tmp_path / "out" / "posterior.nc"
    done = run("diagnose", stored)
    assert done.exit_code == 0 and "NOT ASSESSED: a single chain" in done.stdout
    assert run("diagnose", stored, "--require-convergence").exit_code == 3
    assert json.loads(run("diagnose", stored, "--json").stdout)["verdict"] == "not assessed"


def test_diagnose_draws_what_the_draws_allow(tmp_path):
    table = ab.datasets.load("table1_anatomy")
    settings = {"draws": 60, "tune": 20, "seed": 1, "progressbar": False}
    post = ab.fit(table, keep_cleartext=True, **settings)
    post.to_netcdf(tmp_path / "chains.nc")
    done = run("diagnose", tmp_path / "chains.nc", "--plots", tmp_path / "plots")
    assert done.exit_code == 0, done.output
    drawn = {file.stem for file in (tmp_path / "plots").iterdir()}
    assert drawn == {"worst", "geweke", "autocorrelation", "weiss"}
    ab.fit(ab.datasets.load("clinic_local"), **settings).to_netcdf(tmp_path / "exact.nc")
    assert run("diagnose", tmp_path / "exact.nc", "--plots", tmp_path / "none").exit_code == 0
    assert not (tmp_path / "none").exists()  # no chain, nothing to look at


def test_diagnose_reads_any_arviz_file(tmp_path):
    draws = np.random.default_rng(0).normal(size=(4, 500))
    compat.write_groups(
        compat.make_groups({"posterior": {"mu": draws}}), tmp_path / "mu.nc", attrs={}
    )
    done = run("diagnose", tmp_path / "mu.nc", "--require-convergence")
    assert done.exit_code == 0 and done.stdout.startswith("PASSED")


def test_an_earlier_run_stays(recoded, tmp_path, monkeypatch, capsys):
    assert run(*recoded, "--out", tmp_path / "out").exit_code == 0
    before = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    code, out, err = failing(monkeypatch, capsys, *recoded, "--out", tmp_path / "out")
    assert code == 2 and out == "" and "contains an earlier run" in err and "--force" in err
    assert {f.name: f.read_bytes() for f in (tmp_path / "out").iterdir()} == before
    assert run(*recoded, "--out", tmp_path / "out", "--force", "--seed", "2").exit_code == 0
    assert json.loads((tmp_path / "out" / "risk.json").read_text())["seed"] == "2"


def test_files_appear_together_or_not_at_all(tmp_path):
    (tmp_path / "a").write_text("old")

    def fail(file):
        file.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_together(tmp_path, {"a": lambda file: file.write_text("new"), "b": fail})
    assert [(f.name, f.read_text()) for f in tmp_path.iterdir()] == [("a", "old")]


def test_without_cleartext(recoded, tmp_path):
    arguments = [a for a in recoded if a != "--cleartext" and not a.endswith("people.csv")]
    done = run(*arguments, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "out" / "risk.json").read_text())["assessment"] is None
    assert json.loads((tmp_path / "out" / "risk.json").read_text())["rows"] == []


def test_harmful_values(recoded, tmp_path):
    done = run(*recoded, "--harm", "cold", "--out", tmp_path / "out", "--json")
    assert "cold" in json.loads(done.stdout)["assessment"]["threat"]


@pytest.mark.parametrize(
    ("extra", "part"),
    [
        (["--max-threatened", "30"], "--max-threatened 30.0 must be at most 1"),
        (["--max-cost", "7"], "--max-cost 7.0 must be at most 1"),
        (["--max-relative-threat", "-1"], "--max-relative-threat -1.0 must be larger than 0"),
        (["--method", "magic"], "--method 'magic' is not valid"),
        (["--draws", "0"], "--draws 0 must be at least 1"),
        (["--harm", "plague"], "plague"),
        (["--group", "g"], "needs both --anatomy and --group"),
    ],
)
def test_bad_input_exits_with_2(recoded, tmp_path, monkeypatch, capsys, extra, part):
    code, out, err = failing(monkeypatch, capsys, *recoded, "--out", tmp_path / "out", *extra)
    assert (code, out) == (2, "") and part in err and "Traceback" not in err
    assert not (tmp_path / "out").exists()


def test_bad_files_exit_with_2(recoded, tmp_path, monkeypatch, capsys):
    out = ["--out", tmp_path / "out"]
    others = tmp_path / "others.csv"
    others.write_text("ward;sex;ill\n1;f;flu\n1;m;cold\n2;f;cold\n2;m;flu\n")
    (tmp_path / "file").write_text("")
    cleartext = recoded.index("--cleartext") + 1
    for place, value, part in (
        (1, "absent.csv", "There is no file 'absent.csv'"),
        (cleartext, "absent.csv", "There is no file 'absent.csv'"),
        (cleartext, str(others), "not a release of this cleartext"),
    ):
        arguments = [*recoded[:place], value, *recoded[place + 1 :], *out]
        code, _, err = failing(monkeypatch, capsys, *arguments)
        assert code == 2 and part in err, err
    code, _, err = failing(monkeypatch, capsys, *recoded, "--out", tmp_path / "file")
    assert code == 2 and "is a file; give a directory" in err
    code, _, err = failing(monkeypatch, capsys, "diagnose", tmp_path / "file")
    assert code == 2 and "is not a netCDF 4 file" in err
    alone = [a for a in recoded if a != "--cleartext" and "people" not in a]
    for limit in ("--max-threatened", "--max-cost"):
        code, _, err = failing(monkeypatch, capsys, *alone, limit, "0.5", *out)
        assert code == 2 and "need --cleartext" in err


def test_pipes_are_plain_and_quiet(recoded, tmp_path):
    command = [sys.executable, "-c", "from anonbayes.cli.app import main; main()", *recoded]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "out"), "--max-threatened", "0.1"],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 3 and done.stderr == "" and "\x1b[" not in done.stdout
    assert "above the limit of 10.0%" in done.stdout and "│" not in done.stdout
    assert "--max-threatened 0.1" in (tmp_path / "out" / "risk.json").read_text()


def test_every_field_is_documented(recoded, tmp_path):
    done = run(*recoded, "--out", tmp_path / "out", "--json", "--max-threatened", "1")
    content = json.loads(done.stdout)
    known = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "risk-json.md").read_text()))
    assessment = content["assessment"]
    for part in (
        content, content["limits"][0], content["diagnostics"], content["diagnostics"]["checks"][0],
        assessment, assessment["measures"], assessment["thresholds"][0], assessment["release"],
        assessment["engine"], assessment["settings"], content["rows"][0],
    ):  # fmt: skip
        assert set(part) <= known, set(part) - known
    assert set(assessment["measures"]) == set(assessment["standard_errors"])


@pytest.mark.whole_page
def test_who_stands_out_before_and_after_the_release(recoded, tmp_path, monkeypatch, capsys):
    """Report and risk.json have both; limits are about the release."""
    out = tmp_path / "out"
    limit = ["--max-match-probability", 0.0001]
    done = run(*recoded, "--population", 40, "--out", out, *limit)
    assert done.exit_code == 3, done.output
    content = json.loads((out / "risk.json").read_text())
    assert set(content["identity"]) == {"release", "cleartext"}
    assert content["identity"]["release"]["population"] == 40
    released, clear = (content["identity"][k]["measures"]["bits"] for k in ("release", "cleartext"))
    assert released["estimate"] < clear["estimate"]
    (kept,) = content["limits"]
    assert kept["found"] == content["measures"]["largest_match"] > 0.0001
    assert 'id="standing-out"' in (out / "report.html").read_text()
    for more in (["--population", 3], limit):
        code, _, said = failing(monkeypatch, capsys, *recoded, "--out", tmp_path / "two", *more)
        assert code == 2 and "population" in said
