"""``--attacker``, ``--also`` and ``--person``, and the same in scenarios."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab
from anonbayes.cli.shared import attacker_keys
from anonbayes.scenario.assessment_keys import Attacker
from anonbayes.scenario.load import load
from anonbayes.scenario.load import run as answer
from tests.conftest import ROOT

SHORT = ("--draws", "20", "--seed", "1")


@pytest.fixture(scope="module")
def editions(tmp_path_factory):
    """Two Anatomies of 240 people, with a key, their lines in another order than the tables'."""
    folder = tmp_path_factory.mktemp("editions")
    people = ab.datasets.load("clinic").iloc[:240].reset_index(drop=True)
    people.to_csv(folder / "people.csv", sep=";", index=False)
    for seed in (1, 2):
        table, where = ab.anonymize.anatomy(people, "diagnosis", l=3, seed=seed, return_truth=True)
        items, slots = table.to_frames()
        key = np.empty(len(people), dtype=int)
        key[where["item"].to_numpy()] = np.arange(len(people))
        items["pid"] = [f"p{k}" for k in key]
        items = items.sample(frac=1, random_state=seed)
        items.to_csv(folder / f"q{seed}.csv", sep=";", index=False)
        items.drop(columns="pid").to_csv(folder / f"plain{seed}.csv", sep=";", index=False)
        slots.to_csv(folder / f"s{seed}.csv", sep=";", index=False)
    return folder


def assess(run, folder, *more, quasi="q", out="out"):
    run(
        "assess", str(folder / f"{quasi}1.csv"), "--anatomy", str(folder / "s1.csv"),
        "--group", "group", "--cleartext", str(folder / "people.csv"),
        "--sensitive", "diagnosis", *SHORT, "--out", str(folder / out), *more,
    )  # fmt: skip
    return json.loads((folder / out / "risk.json").read_text(encoding="utf-8"))


def test_a_second_edition_linked_by_a_key(editions, run):
    also = f"{editions / 'q2.csv'}+{editions / 's2.csv'}"
    found = assess(run, editions, "--also", also, "--person", "pid", out="keys")
    lines = {line["attacker"]: line for line in found["attackers"]}
    both, alone = lines["all releases together"], lines["this release alone"]
    assert both["right"] > alone["right"] + 5 * alone["right_se"]
    assert both["right"] == pytest.approx(found["measures"]["GT_A"])
    assert both["learner_right"] == alone["learner_right"]
    assert not (editions / "keys" / "posterior.nc").exists()
    page = (editions / "keys" / "report.html").read_text(encoding="utf-8")
    assert 'id="attackers"' in page and "all releases together" in page
    # The same in Python: line by line of the files, in the order of the tables.
    tables, keys = [], []
    for seed in (1, 2):
        both_parts = [editions / f"{part}{seed}.csv" for part in ("q", "s")]
        table = ab.read_anatomy(*both_parts, sensitive="diagnosis", group="group", drop=["pid"])
        frame = pd.read_csv(both_parts[0], sep=";")
        keys.append(frame.sort_values("group", kind="stable")["pid"].tolist())
        tables.append(table)
    post = ab.fit(tables, people=keys, draws=20, seed=1, progressbar=False)
    people = ab.datasets.load("clinic").iloc[:240].astype(str)
    assert post.assess(people).summary["GT_A"] == pytest.approx(found["measures"]["GT_A"])


def test_a_key_must_be_named_for_all_and_columns_must_be_known(editions, refused):
    also = f"{editions / 'q2.csv'}+{editions / 's2.csv'}"  # has a column more
    message = refused(
        "assess", editions / "plain1.csv", "--anatomy", editions / "s1.csv", "--group", "group",
        "--cleartext", editions / "people.csv", "--sensitive", "diagnosis", "--also", also,
        "--out", "bad",
    )  # fmt: skip
    assert "'pid'" in message


def test_attackers_of_a_file(tmp_path):
    scenario = load(
        ROOT / "models" / "who_is_the_attacker.toml",
        overrides=["model.draws=20", "outputs.report=false"],
    )
    found = answer(scenario)
    table = found.tables["attackers"]
    assert table.index.tolist()[0] == "stranger"
    post = ab.fit(ab.datasets.load("clinic_local"), draws=20, seed=1, progressbar=False)
    people = ab.datasets.load("clinic")
    known = post.attacker(people[["age", "sex", "profession"]])
    best = known.to_numpy().argmax(axis=1)
    right = (known.columns.to_numpy()[best] == people["diagnosis"].to_numpy()).mean()
    assert table.loc["neighbour", "right"] == pytest.approx(right, abs=1e-3)  # ties are shared out
    (limit,) = [one for one in found.limits if one.name.startswith("neighbour")]
    assert limit.found == table.loc["neighbour", "right"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [("spy", ["spy:age,sex"]), ("neighbour:", ["NAME:COLUMN"]), ("x:agee", ["'agee'", "'age'"])],
)
def test_bad_attackers_are_named(refused, spec, words):
    message = refused(
        "assess", ROOT / "data/clinic_k4_l3_local.csv", "--sensitive", "diagnosis",
        "--hierarchies", ROOT / "data/clinic_hierarchies", "--attacker", spec, *SHORT,
        "--cleartext", ROOT / "data/clinic.csv", "--out", "x",
    )  # fmt: skip
    assert all(word in message for word in words)


def test_anonymize_says_what_an_earlier_edition_adds(editions, run):
    shown = run(
        "anonymize", str(editions / "people.csv"), "--sensitive", "diagnosis", "--scheme",
        "anatomy", "--l", "3", "--anatomy", str(editions / "s3.csv"), "--seed", "9",
        "--out", str(editions / "q3.csv"),
        "--also", f"{editions / 'plain1.csv'}+{editions / 's1.csv'}",
    )  # fmt: skip
    assert "All releases together" in shown
    assert "Warning: the releases of the same people undermine each other." in shown


def test_an_anatomy_beside_a_recoded_release(editions, run):
    """Hierarchies are then those of the other release."""
    people, trees = editions / "people.csv", ROOT / "data/clinic_hierarchies"
    ask = ["anonymize", people, "--sensitive", "diagnosis", "--seed", 1, "--hierarchies", trees]
    run(*ask, "-k", 5, "--out", editions / "recoded.csv")
    shown = json.loads(run(
        *ask, "--scheme", "anatomy", "-l", 3, "--anatomy", editions / "s4.csv", "--out",
        editions / "q4.csv", "--also", editions / "recoded.csv", "--json",
    ))  # fmt: skip
    together, alone = shown["attackers"]
    assert together["attacker"] == "all releases together" and together["right"] > alone["right"]


def test_names_say_what_is_held():
    """The same words on the command line and in a file."""
    texts = ["register_holder", "register", "insider", "collector", "neighbour:age"]
    found = [Attacker(**keys) for keys in attacker_keys(texts)]
    assert [one.name for one in found[:2]] == ["register holder"] * 2
    held = [(one.group, one.others, one.also) for one in found[1:]]
    assert held == [(0, 1, 0), (1, 0, 0), (0, 0, 1), (0, 0, 0)]
    assert not Attacker(name="collector", also=False).also
    with pytest.raises(ValueError, match="attributes that a neighbour knows"):
        Attacker(name="neighbour")
