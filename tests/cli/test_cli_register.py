"""``anonbayes assess --register`` and ``[register]`` in scenarios."""

from __future__ import annotations

import json

import anonbayes as ab
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
