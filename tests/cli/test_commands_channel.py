"""`anonbayes channel`: estimates undo releases, audits name their witness."""

import math

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab
from anonbayes.cli.shared import make_mechanism

VALUES = "a,b,c,d"
SHARES = {"a": 600, "b": 250, "c": 100, "d": 50}
BITS = ("rappor", "unary_encoding", "utility_optimized_rappor")


@pytest.fixture
def held(tmp_path):
    values = [value for value, n in SHARES.items() for _ in range(n)]
    frame = pd.DataFrame({"id": range(len(values)), "answer": values})
    frame.to_csv(tmp_path / "people.csv", sep=";", index=False)
    return values


def options(mechanism, epsilon=3):
    some = ["--sensitive", "a"] if mechanism.startswith("utility") else []
    return ["-m", mechanism, "--epsilon", epsilon, "--values", VALUES, *some]


@pytest.mark.parametrize(
    "mechanism",
    ["randomized_response", "utility_optimized_rr", "local_hashing", *BITS],
)
def test_estimate_undoes_release(run, run_json, held, tmp_path, mechanism):
    own = options(mechanism)
    run("channel", "release", "people.csv", "--column", "answer", *own, "--out", "r.csv",
        "--seed", 5)  # fmt: skip
    written = pd.read_csv(tmp_path / "r.csv", sep=";", dtype=str)
    assert list(written) == ["report"] and len(written) == 1000
    found = run_json(
        "channel", "estimate", "r.csv", *own, "--method", "empirical", "--level", 0.999
    )
    channel = make_mechanism(
        mechanism,
        epsilon=3.0,
        values=VALUES,
        column="answer",
        sensitive=["a"] if "utility" in mechanism else None,
    )
    # What the device sends is what the file says.
    sent = channel.release(held, seed=5)
    assert channel.spell(sent) == written["report"].tolist()
    same = channel.estimate(sent, method="empirical", level=0.999)
    assert [line["share"] for line in found["shares"]] == pytest.approx(same.p.tolist())
    for line in found["shares"]:
        assert line["lower"] - 1e-9 <= SHARES[line["value"]] / 1000 <= line["upper"] + 1e-9
    assert (found["reports"], found["level"]) == (1000, 0.999)


def test_bits_are_spelled_in_the_order_of_the_values():
    channel = ab.RAPPOR(ab.Domain("x", list("abc")), 1.0)
    bits = [[0, 1, 1], [0, 0, 0], [1, 0, 0], [1, 1, 1], [0, 0, 1]]
    texts = channel.spell(ab.BitReports.from_dense(bits))
    assert texts == ["011", "000", "100", "111", "001"]
    assert list(ab.BitReports.from_dense(bits).texts(rows=2)) == texts
    again = channel.read_texts(texts)
    assert again.to_dense().tolist() == bits


def test_release_draws_from_the_secure_source(run, held, tmp_path):
    for name in ("one", "two"):
        said = run("channel", "release", "people.csv", "--column", "answer", "--out", f"{name}.csv",
                   "--keep", "id", *options("randomized_response", 1))  # fmt: skip
        assert "secure source" in said
    one, two = (pd.read_csv(tmp_path / f"{n}.csv", sep=";") for n in ("one", "two"))
    assert list(one) == ["id", "report"] and one["id"].tolist() == list(range(1000))
    assert not one["report"].equals(two["report"])
    assert np.mean(one["report"] == held) < 0.6  # e / (3 + e) = 0.475 of the reports are true


def test_describe_names_the_witness(run_json):
    found = run_json("channel", "describe", *options("randomized_response", 1))
    (audit,) = found["audits"]
    assert audit["holds"] and audit["epsilon"] == pytest.approx(1.0)
    assert audit["worst_ratio"] == pytest.approx(math.e)
    assert {audit["value"], audit["other"]} <= set("abcd") and audit["report"] == audit["value"]
    losses = {line["error"]: line for line in found["losses"]}
    channel = ab.RandomizedResponse(ab.Domain("x", list("abcd")), 1.0)
    even = np.full(4, 0.25)
    assert losses["l1"]["evenly held values"] == channel.expected_loss(even, 10_000, norm="l1")
    assert losses["squared"]["worst case"] == channel.worst_case_loss(10_000)


def test_describe_tells_uldp_from_ldp(run_json, run):
    found = run_json("channel", "describe", *options("utility_optimized_rr", 1))
    uldp, ldp = found["audits"]
    assert uldp["holds"] and uldp["epsilon"] == pytest.approx(1.0)
    assert not ldp["holds"] and ldp["epsilon"] is None and ldp["other"] == "a"
    text = run("channel", "describe", *options("utility_optimized_rr", 1))
    assert "ULDP(['a'], epsilon=1.0): holds" in text and "LDP(epsilon=1.0): violated" in text


def test_large_domains_are_not_listed(run_json):
    found = run_json("channel", "describe", "-m", "local_hashing", "--epsilon", 2, "--values",
                     "0-199999")  # fmt: skip
    assert found["values"] == 200_000 and found["audits"][0]["holds"]


def test_bayes_and_files(run_json, run, refused, held, tmp_path):
    own = options("rappor")
    run("channel", "release", "people.csv", "--column", "answer", *own, "--out", "r.csv")
    ask = ["channel", "estimate", "r.csv", *own, "--method", "bayes", "--draws", 50, "--seed", 1,
           "--out", "shares.csv", "--plot", "shares.png"]  # fmt: skip
    found = run_json(*ask)
    written = pd.read_csv(tmp_path / "shares.csv", sep=";")
    assert written["share"].tolist() == pytest.approx([line["share"] for line in found["shares"]])
    assert sum(written["share"]) == pytest.approx(1)
    assert (tmp_path / "shares.png").read_bytes().startswith(b"\x89PNG")
    assert "exists" in refused(*ask)


def test_budgets_of_their_own(run_json, run, held):
    run("budgets", "people.csv", "--column", "answer", "--gamma", 10, "--out", "b.csv")
    own = ["-m", "input_discriminative_ue", "--budgets", "b.csv", "--rule", "counts"]
    (audit,) = run_json("channel", "describe", *own)["audits"]
    assert audit["holds"] and audit["notion"].startswith("OneID")
    run("channel", "release", "people.csv", "--column", "answer", *own, "--out", "r.csv",
        "--seed", 1)  # fmt: skip
    found = run_json("channel", "estimate", "r.csv", *own, "--level", "0.999")
    for line in found["shares"]:
        assert line["lower"] - 1e-9 <= SHARES[line["value"]] / 1000 <= line["upper"] + 1e-9


def test_matrices_of_files(run_json, run, refused, held, tmp_path):
    (tmp_path / "q.csv").write_text("value;yes;no\na;0.9;0.1\nb;0.5;0.5\nc;0;1\nd;0;1\n")
    own = ["-m", "pram", "--matrix", "q.csv"]
    said = run("channel", "release", "people.csv", "--column", "answer", *own, "--out", "r.csv",
               "--seed", 1)  # fmt: skip
    assert "1,000 people" in said
    sent = pd.read_csv(tmp_path / "r.csv", sep=";")["report"]
    expected = 600 * 0.9 + 250 * 0.5
    assert abs((sent == "yes").sum() - expected) < 5 * np.sqrt(600 * 0.09 + 250 * 0.25)
    assert not run_json("channel", "describe", *own)["audits"]  # "yes" excludes c and d
    assert "gets its values from --matrix" in refused(
        "channel", "describe", *own, "--values", "a,b"
    )
    (tmp_path / "p.csv").write_text("value;share\na;6\nb;2\nc;1\nd;1\n")
    own = ["-m", "invariant_pram", "--shares", "p.csv", "--epsilon", 3]
    (audit,) = run_json("channel", "describe", *own)["audits"]
    assert audit["holds"] and audit["worst_ratio"] == pytest.approx(math.exp(3), rel=1e-6)
    run("channel", "release", "people.csv", "--column", "answer", *own, "--out", "i.csv",
        "--seed", 1)  # fmt: skip
    found = run_json("channel", "estimate", "i.csv", *own, "--level", 0.999)
    for line in found["shares"]:
        assert line["lower"] - 1e-9 <= SHARES[line["value"]] / 1000 <= line["upper"] + 1e-9


def test_sets_in_a_column(run_json, run, refused, tmp_path):
    pd.DataFrame({"bought": ["a,b", "a", "", "c, b"] * 300}).to_csv(
        tmp_path / "baskets.csv", sep=";", index=False
    )
    own = ["-m", "padded_sets", "--length", 2, "--epsilon", 3, "--values", "a,b,c"]
    ask = ["channel", "release", "baskets.csv", "--column", "bought", "--out", "s.csv"]
    run(*ask, *own, "--seed", 1)
    found = run_json("channel", "estimate", "s.csv", *own, "--level", 0.999)
    for line, truth in zip(found["shares"], (0.5, 0.5, 0.25), strict=True):
        assert line["lower"] <= truth <= line["upper"]
    assert run_json("channel", "describe", *own)["audits"][0]["holds"]
    few = ["-m", "padded_sets", "--length", 2, "--epsilon", 3, "--values", "a,b"]
    assert "row 3: 'c' is not one of the values" in refused(*ask, *few, "--force")


@pytest.mark.parametrize("how", ["sample", "split"])
def test_several_columns_under_one_budget(run_json, run, refused, tmp_path, how):
    rng = np.random.default_rng(1)
    people = pd.DataFrame({"sex": rng.choice(["f", "m"], 2000, p=[0.7, 0.3]),
                           "region": rng.integers(0, 4, 2000)})  # fmt: skip
    people.to_csv(tmp_path / "two.csv", sep=";", index=False)
    own = ["--column", "sex", "--column", "region", "-m", "rr", "--epsilon", 4, "--how", how]
    known = ["--domain", "sex=f,m", "--domain", "region=0-3"]
    run("channel", "release", "two.csv", *own, *known, "--out", "r.csv", "--seed", 1)
    sent = pd.read_csv(tmp_path / "r.csv", sep=";", dtype=str)
    empty = sent.isna().sum(axis=1)
    assert (empty == (1 if how == "sample" else 0)).all()
    found = run_json("channel", "estimate", "r.csv", *own, *known, "--level", 0.999)
    assert found["reports"] == 2000 and len(found["shares"]) == 6
    for line in found["shares"]:
        truth = (people[line["attribute"]].astype(str) == line["value"]).mean()
        assert line["lower"] - 1e-9 <= truth <= line["upper"] + 1e-9
    assert "--domain" in refused("channel", "estimate", "r.csv", *own)
    one = ["channel", "release", "two.csv", "--column", "sex", "--out", "x.csv", "-m", "rr"]
    assert "--how applies to several" in refused(
        *one, "--epsilon", 1, "--values", "f,m", "--how", how
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-m", "magic", "--epsilon", 1, "--values", VALUES], "mechanism='magic' is not valid"),
        (["-m", "rappor", "--values", VALUES], "needs --epsilon"),
        (["-m", "rappor", "--epsilon", 1], "--values is missing"),
        (["-m", "rappor", "--epsilon", -1, "--values", VALUES], "epsilon"),
        (["-m", "rappor", "--epsilon", 1, "--values", "a,,b"], "has an empty value"),
        (["-m", "rappor", "--epsilon", 1, "--values", "a,b,a"], "has 'a' twice"),
        (["-m", "rappor", "--epsilon", 1, "--values", "9-3"], "is larger than the second"),
        (["-m", "rappor", "--epsilon", 1, "--values", "@no.txt"], "@no.txt cannot be read"),
        (
            ["-m", "rappor", "--epsilon", 1, "--values", VALUES, "--sensitive", "a"],
            "cannot be used with",
        ),
        (["-m", "utility_optimized_rr", "--epsilon", 1, "--values", VALUES], "needs --sensitive"),
        ([*options("utility_optimized_rr"), "--sensitive", "z"], "'z'"),
        (["-m", "input_discriminative_ue", "--epsilon", 1], "needs --budgets"),
        (["-m", "padded_sets", "--epsilon", 1, "--values", VALUES], "needs --length"),
        (["-m", "matrix", "--values", VALUES], "needs --matrix"),
        ([*options("rappor"), "--reports", 0], "at least 1"),
    ],
)
def test_bad_mechanisms(refused, arguments, said):
    assert said in refused("channel", "describe", *arguments)


def test_bad_columns(refused, held, tmp_path):
    release = ["channel", "release", "people.csv", "--out", "x.csv", *options("rappor")]
    assert "Did you mean 'answer'" in refused(*release, "--column", "anser")
    said = refused("channel", "release", "people.csv", "--out", "x.csv", "--column", "answer",
                   "-m", "rappor", "--epsilon", 1, "--values", "a,b,c")  # fmt: skip
    assert "Column 'answer', row 950: 'd' is not one of the values" in said
    (tmp_path / "r.csv").write_text("report;other\n0101;a\n01x1;b\n;c\n")
    estimate = ["channel", "estimate", "r.csv"]
    assert "row 2 (rows are counted from 0): the cell is empty" in refused(
        *estimate, *options("rappor")
    )
    (tmp_path / "r.csv").write_text("report;other\n0101;a\n01x1;e\n")
    assert "row 1: '01x1' is not a string of 4 zeros" in refused(*estimate, *options("rappor"))
    assert "row 0: '0101' is not a/b/y" in refused(*estimate, *options("local_hashing"))
    other = [*estimate, *options("randomized_response"), "--column", "other"]
    assert "Column 'other', row 1: 'e' is not one of the values" in refused(*other)
