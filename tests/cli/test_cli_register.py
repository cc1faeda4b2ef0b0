"""``anonbayes assess --register`` and ``[register]`` in scenarios."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab
from anonbayes.scenario.release_assessment import PreparedAssessment
from tests.conftest import ROOT


def test_command_file_and_python_agree(tmp_path, run):
    people = ab.datasets.load("clinic")
    others = people.sample(400, random_state=2)
    file = tmp_path / "others.csv"
    others.assign(name="somebody").to_csv(file, sep=";", index=False)
    release = ROOT / "data" / "clinic_k4_l3_local.csv"
    shared = ["--sensitive", "diagnosis", "--hierarchies", str(ROOT / "data/clinic_hierarchies")]
    out = tmp_path / "out"
    run(
        "assess", str(release), "--cleartext", str(ROOT / "data" / "clinic.csv"), *shared,
        "--register", str(file), "--seed", "1", "--out", str(out),
    )  # fmt: skip
    result = json.loads((out / "risk.json").read_text(encoding="utf-8"))
    assert not (out / "posterior.nc").exists()  # it would hold the register's people
    assert any("400 other people" in r for r in result["assessment"]["remarks"])
    assert "400 other people" in (out / "report.html").read_text(encoding="utf-8")
    table = ab.read_arx(
        release, sensitive="diagnosis", hierarchies=ROOT / "data/clinic_hierarchies"
    )
    post = ab.fit(table, register=others.astype(str), seed=1, progressbar=False)
    risk = post.assess(people.astype(str))
    assert result["measures"]["GT_A"] == risk.summary["GT_A"]


@pytest.mark.parametrize("scheme", ["recode", "anatomy"])
def test_who_is_in_the_table(tmp_path, run, refused, monkeypatch, scheme):
    """Register and size of the population together: membership, in both kinds of release."""
    monkeypatch.setattr(PreparedAssessment, "_standing_out", lambda self: {})
    told = {}
    monkeypatch.setattr(
        "anonbayes.reporting.page.render", lambda *_, **more: str(told.update(more))
    )
    clinic = pd.read_csv(ROOT / "data" / "clinic.csv", sep=";", dtype=str)
    clinic = clinic[["age", "sex", "profession", "diagnosis"]]
    clinic[:300].to_csv("in.csv", sep=";", index=False)
    clinic[300:700].to_csv("out.csv", sep=";", index=False)
    clinic[300:350].to_csv("few.csv", sep=";", index=False)
    trees = ["--hierarchies", str(ROOT / "data/clinic_hierarchies")]
    ask = ["assess", "r.csv", "--cleartext", "in.csv", "--sensitive", "diagnosis"]
    if scheme == "recode":
        run("anonymize", "in.csv", "--sensitive", "diagnosis", "-k", 5, *trees, "--out", "r.csv")
        table = ab.read_arx("r.csv", sensitive="diagnosis", hierarchies=trees[1])
        ask += trees
    else:
        more = ["--scheme", "anatomy", "-l", 3, "--anatomy", "s.csv", "--seed", 1]
        run("anonymize", "in.csv", "--sensitive", "diagnosis", *more, "--out", "r.csv")
        ask += ["--anatomy", "s.csv", "--group", "group", "--draws", 5, "--chains", 2]
        for name in ("age", "profession", "sex"):
            ask += ["--domain", name + "=" + ",".join(sorted(set(clinic[name])))]
        table = ab.read_anatomy("r.csv", "s.csv", sensitive="diagnosis", group="group", domains={
            name: sorted(set(clinic[name])) for name in clinic.columns if name != "diagnosis"
        })  # fmt: skip
    ask += [
        "--population",
        3000,
        "--out",
        "o",
        "--max-membership-tpr",
        0.001,
        "--register",
    ]
    assert "50 people" in refused(*ask, "few.csv") and not (tmp_path / "o").exists()
    run(*ask, "out.csv", code=3)
    result = json.loads((tmp_path / "o" / "risk.json").read_text(encoding="utf-8"))
    found = ab.membership(table, clinic[:300], register=clinic[300:700], population=3000)
    assert result["membership"] == json.loads(found.to_json())
    stated = [row["p_member"] for row in result["rows"]]
    assert stated == found.probability(clinic[:300]).tolist()
    curve = pd.DataFrame(result["membership"]["roc"])
    fpr, tpr = np.array([0, *curve["fpr"]]), np.array([0, *curve["tpr"]])
    area = np.diff(fpr) @ (tpr[1:] + tpr[:-1]) / 2
    assert area == pytest.approx(found.summary.loc["auc", "estimate"], abs=0.01)
    (limit,) = (x for x in result["limits"] if x["name"] == "max_membership_tpr")
    assert limit["found"] == found.summary.loc["tpr_at_1_percent", "high"] and limit["exceeded"]
    assert found.text in result["text"]
    assert told["membership"].text == found.text and told["minimality"] is None


def test_limits_on_membership_need_their_inputs(tmp_path, refused):
    release = ROOT / "data" / "clinic_k4_l3_local.csv"
    ask = ["assess", release, "--sensitive", "diagnosis", "--out", "o", "--max-membership-tpr", 1]
    trees = ["--hierarchies", str(ROOT / "data/clinic_hierarchies")]
    assert "--population" in refused(*ask, *trees)
    assert "--register" in refused(*ask, *trees, "--population", 9000)


def test_what_the_choice_of_the_anonymizer_tells(tmp_path, run, refused):
    """Both in the coast would have been shown as such: the README of `downcoding` in a file."""
    people = pd.DataFrame({"home": list("acdd"), "ill": ["flu", "cold", "flu", "cold"]})
    people.to_csv("p.csv", sep=";", index=False)
    (tmp_path / "h").mkdir()
    tree = ["a;coast;south;*", "b;coast;south;*", "c;c;south;*", "d;d;d;*"]
    (tmp_path / "h" / "home.csv").write_text("\n".join(tree) + "\n")
    ask = ["anonymize", "p.csv", "--sensitive", "ill", "-k", 2, "--hierarchies", "h"]
    assert "--report" in refused(*ask, "--out", "r.csv", "--minimality")
    said = run(*ask, "--out", "r.csv", "--report", "r.html", "--minimality", "--seed", 1)
    assert "2 of 2 cells" in said
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert 'id="minimality"' in page and "44.4% of the compatible cleartexts" in page
    none = ["--scheme", "anatomy", "-l", 2, "--anatomy", "s.csv", "--report", "x.html"]
    assert "minimality" in refused(*ask[:4], *none, "--out", "q.csv", "--minimality")
