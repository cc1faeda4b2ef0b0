"""`anonbayes budgets`, `pie` and `quantize`, against the functions that they call."""

import math

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab

COUNTS = {"clinic": 5, "park": 45, "station": 950}
ASK = ["budgets", "users.csv", "--column", "place", "--gamma", 10]


@pytest.fixture
def users(tmp_path):
    places = [place for place, n in COUNTS.items() for _ in range(n)]
    pd.DataFrame({"place": places}).to_csv(tmp_path / "users.csv", index=False, sep=";")
    table = pd.DataFrame({"place": COUNTS.keys(), "n": COUNTS.values()})
    table.to_csv(tmp_path / "counts.csv", index=False, sep=";")
    return ab.Domain("place", list(COUNTS))


def by_value(found, rule):
    return [math.inf if x is None else x for x in (line[rule] for line in found["budgets"])]


def test_budgets_of_all_users(run_json, users, tmp_path):
    found = run_json(*ASK, "--sensitive", "clinic", "--out", "b.csv")
    most = ab.budgets.from_counts(users, 10, COUNTS, sensitive=["clinic"])
    least = ab.budgets.worst_case(users, 1000, 10, sensitive=["clinic"])
    assert by_value(found, "counts") == most.epsilon.tolist() and most.epsilon[0] == 1
    assert by_value(found, "worst_case") == least.epsilon.tolist()
    assert (found["users"], found["bound"]) == (1000, 0.01)
    summary = {line["rule"]: line for line in found["rules"]}
    assert summary["counts"]["unprotected"] == 1 and summary["counts"]["capped"] == 1
    written = pd.read_csv(tmp_path / "b.csv", sep=";", converters={"counts": float})  # every digit
    assert written["counts"].tolist() == most.epsilon.tolist()  # infinity included
    same = run_json("budgets", "counts.csv", "--column", "place", "--counts", "n", "--gamma", 10,
                    "--sensitive", "clinic")  # fmt: skip
    assert same["budgets"] == found["budgets"]


def test_budgets_of_a_first_group(run_json, users):
    found = run_json(*ASK, "--users", 10_000, "--values", "clinic,park,station,zoo")
    domain = ab.Domain("place", [*COUNTS, "zoo"])
    assert list(found["budgets"][0]) == ["place", "worst_case", "prior", "confidence", "posterior"]
    prior = ab.budgets.from_prior(domain, 10_000, 10, COUNTS)
    ours = ab.budgets.from_posterior(domain, 10_000, 10, COUNTS)
    assert by_value(found, "prior") == prior.epsilon.tolist()
    assert by_value(found, "posterior") == ours.epsilon.tolist()
    assert by_value(found, "confidence")[1] < math.log(10 * 9700 / 7000)
    # Wilson's lower limit of 45 in 1000, by hand, scaled to all users.
    found = run_json(*ASK, "--users", 10_000, "--values", "clinic,park,station,zoo",
                     "--rule", "confidence", "--coverage", "pointwise")  # fmt: skip
    z = 1.959963984540054
    lower = (45 + z**2 / 2 - z * math.sqrt(45 * 955 / 1000 + z**2 / 4)) / (1000 + z**2)
    expected = ab.budgets.reidentification_budget([10_000 * lower], 10_000, 10)[0]
    assert by_value(found, "confidence")[1] == pytest.approx(expected)
    assert by_value(found, "confidence")[3] == pytest.approx(math.log(10))


def test_budgets_of_reports(run, run_json, users):
    run("budgets", "users.csv", "--column", "place", "--gamma", 10, "--users", 10_000,
        "--rule", "worst_case", "--out", "first.csv")  # fmt: skip
    own = ["-m", "input_discriminative_ue", "--budgets", "first.csv"]
    run("channel", "release", "users.csv", "--column", "place", *own, "--out", "r.csv", "--seed", 1)
    found = run_json("budgets", "r.csv", "--column", "report", "--gamma", 10, "--users", 10_000,
                     *own)  # fmt: skip
    first = ab.budgets.worst_case(users, 10_000, 10)
    channel = ab.InputDiscriminativeUE.optimal(users, first)
    sent = channel.release([p for p, n in COUNTS.items() for _ in range(n)], seed=1)
    tuned = ab.budgets.from_confidence(users, 10_000, 10, sent, channel)
    assert by_value(found, "confidence") == pytest.approx(tuned.epsilon.tolist())
    assert by_value(found, "worst_case") == pytest.approx([math.log(10)] * 3)


def test_budgets_of_a_posterior(run_json, refused, tmp_path):
    post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, draws=100, progressbar=False)
    post.to_netcdf(tmp_path / "p.nc")
    found = run_json("budgets", "p.nc", "--column", "Nat", "--gamma", 900, "--users", 1000)
    own = ab.budgets.from_posterior(post.table.domains["Nat"], 1000, 900, post)
    assert by_value(found, "posterior") == own.epsilon.tolist()
    ask = ["budgets", "p.nc", "--gamma", 9, "--column"]
    assert "--users is missing" in refused(*ask, "Nat")
    assert "Did you mean 'Nat'" in refused(*ask, "nat", "--users", 99)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--gamma", 0.5], "gamma=0.5 must be between 1"),
        (["--rule", "magic"], "--rule 'magic' is not valid"),
        (["--users", 9999, "--coverage", "each"], "'simultaneous', 'pointwise'"),
        (["--rule", "posterior"], "these do: worst_case, counts"),
        (["--users", 10], "is less than the 1000"),
        (["--column", "plase"], "Did you mean 'place'"),
        (["--values", "park,station"], "row 0: 'clinic' is not among --values"),
        (["--counts", "place"], "'clinic' is not a number of users"),
        (["--sensitive", "zoo"], "'zoo'"),
        (
            ["-m", "rappor", "--epsilon", 1, "--values", "a,b"],
            "the number of all users with --users",
        ),
    ],
)
def test_bad_budgets(refused, users, more, said):
    assert said in refused(*ASK, *more)


# -- pie ------------------------------------------------------------------------------------------

RESPONSE = ["-m", "randomized_response", "--values", "0-999", "--epsilon", 6]


def test_pie_bound(run_json, run, tmp_path):
    found = run_json("pie", "bound", *RESPONSE, "--users", 5000, "--target-error", 0.8,
                     "--plot", "p.png")  # fmt: skip
    channel = ab.RandomizedResponse(ab.IntegerDomain(1000), 6.0)
    bits = {line["kind"]: line["bits"] for line in found["bounds"]}
    assert bits == {k: ab.pie.bound(channel, 5000, kind=k) for k in ("theorem", "exact", "general")}
    choice = ab.pie.choose(channel, 5000, 0.8)
    assert found["choice"]["epsilon"] == choice.epsilon
    assert found["worst_case"]["error"] == ab.pie.worst_case(channel, 5000).error
    assert (tmp_path / "p.png").is_file()
    # A channel whose reports cannot be listed has no exact bound, and says so.
    text = run("pie", "bound", "-m", "rappor", "--values", "0-39", "--epsilon", 1, "--users", 100)
    assert "No bound of kind exact" in text and "theorem" in text


@pytest.fixture
def visits(tmp_path):
    traces = ab.reidentify.synthetic_traces(30, 20, 12, seed=3)
    rows = [(f"u{u:02d}", f"r{r:02d}") for u, trace in enumerate(traces) for r in trace]
    pd.DataFrame(rows, columns=["user", "region"]).to_csv(
        tmp_path / "visits.csv", sep=",", index=False
    )
    return traces


def test_pie_of_traces(run_json, visits):
    ask = ["pie", "traces", "visits.csv", "--user", "user", "--region", "region", "--epsilon", 3,
           "--seed", 1, "--sep", ","]  # fmt: skip
    found = run_json(*ask, "--compare", 1)
    sent = [np.asarray(trace)[10:] for trace in visits]
    names = sorted({int(r) for trace in visits for r in trace})
    joint = np.zeros((30, len(names)))
    for u, trace in enumerate(sent):
        for region in trace:
            joint[u, names.index(region)] += 1 / 300
    channel = ab.RandomizedResponse(ab.IntegerDomain(len(names)), 3.0)
    assert found["measures"]["bits"] == pytest.approx(float(ab.pie.information(joint, channel)))
    assert [line["epsilon"] for line in found["budgets"]] == [1, 3]
    assert "system_entropy" in found["measures"] and not found["exceeded"]
    limited = run_json(*ask, "--max-bits", 0.001, code=3)
    assert limited["limits"][0]["name"] == "max_bits" and limited["exceeded"]


def test_bad_pie(refused, visits):
    ask = ["pie", "traces", "visits.csv", "--epsilon", 3, "--sep", ","]
    assert "Give either --users and --regions" in refused(*ask)
    assert "Did you mean 'user'" in refused(*ask, "--user", "usr", "--region", "region")
    assert "give --compare" in refused(*ask, "--plot", "p.png")
    assert "kind='magic'" in refused("pie", "bound", *RESPONSE, "--users", 5, "--kind", "magic")
    assert "even an uninformative report" in refused(
        "pie", "bound", *RESPONSE, "--users", 50, "--target-error", 0.999
    )


# -- quantize -------------------------------------------------------------------------------------


@pytest.fixture
def incomes(tmp_path):
    text = "name,income,note\nann,38,x\nbob,52.5,y\ncho,0,\ndan,200,z\n"
    (tmp_path / "incomes.csv").write_text(text)
    return ["incomes.csv", "--column", "income", "--lower", 0, "--upper", 200, "--sep", ","]


def test_quantize_a_column(run_json, incomes, tmp_path):
    found = run_json(
        "quantize", "column", *incomes, "--bins", 4, "--out", "q.csv", "--drop", "name"
    )
    written = (tmp_path / "q.csv").read_text().splitlines()
    assert written == ["income,note", "25,x", "75,y", "25,", "175,z"]
    assert found["leakage"] == pytest.approx(math.log(4)) and found["largest_error"] == 25
    by_error = run_json("quantize", "column", *incomes, "--largest-error", 25, "--out", "p.csv")
    assert by_error["bins"] == 4


def test_quantized_average(run_json, run, incomes, tmp_path):
    ask = ["quantize", "average", *incomes, "--largest-error", 20]
    found = run_json(*ask, "--compare", 50, "--plot", "t.png")
    box = ab.nonstochastic.Box.cube(0, 200, 4)
    policy = ab.nonstochastic.optimal_policy([0.25] * 4, box, 1 / 20)
    assert found["measures"]["answer"] == policy.answer([38, 52.5, 0, 200]) == 60
    assert found["measures"]["leakage"] == pytest.approx(policy.leakage)
    assert [line["largest_error"] for line in found["tradeoff"]] == [50, 20]
    assert (tmp_path / "t.png").is_file()
    assert "72.625" not in run(*ask)  # the true average stays a secret
    assert run_json(*ask, "--max-leakage", 0.1, code=3)["exceeded"]
    typed = ["--numbers", "38,52.5,0,200", *incomes[3:], "--largest-error", 20]
    assert run_json("quantize", "average", *typed)["measures"] == found["measures"]


def test_leakage_of_a_release(run_json, run, tmp_path):
    (tmp_path / "r.csv").write_text("ward;ill\n1;flu\n1;flu\n2;flu\n2;cold\n")
    ask = ["quantize", "leakage", "r.csv", "--sensitive", "ill"]
    found = run_json(*ask)
    assert (found["is_private"], found["exposed"]) == (False, 2)
    assert found["leakage"] == pytest.approx(math.log(2))
    run(*ask, "--require-private", code=3)
    assert "above the limit of 0.5" in run(*ask, "--max-leakage", 0.5, code=3)
    run(*ask, "--max-leakage", 0.7)


@pytest.mark.parametrize(
    ("command", "more", "said"),
    [
        ("column", ["--out", "x.csv"], "either --bins or --largest-error"),
        ("column", ["--out", "x.csv", "--bins", 0], "bins=0 must be"),
        ("column", ["--out", "x.csv", "--bins", 2, "--upper", 100], "row 3: '200' lies outside"),
        (
            "column",
            ["--out", "x.csv", "--bins", 2, "--column", "name"],
            "row 0: 'ann' is not a number",
        ),
        (
            "column",
            ["--out", "x.csv", "--bins", 2, "--column", "note"],
            "(rows are counted from 0): the cell",
        ),
        ("average", ["--largest-error", -1], "must be larger than 0"),
        ("average", ["--largest-error", 5, "--numbers", "1,2"], "either a table and --column"),
        ("average", ["--largest-error", 5, "--lower", 300], "must be smaller than --upper"),
    ],
)
def test_bad_quantize(refused, incomes, command, more, said):
    assert said in refused("quantize", command, *incomes, *more)


# -- identity -------------------------------------------------------------------------------------


@pytest.fixture
def sample(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.integers(20, 60, 200), "zip": rng.integers(0, 9, 200)})
    frame.assign(ill="flu").to_csv(tmp_path / "s.csv", sep=";", index=False)
    return ["identity", "s.csv", "--drop", "ill", "--draws", 40, "--chains", 2, "--seed", 3], frame


def test_identity_is_the_function(run_json, run, sample, tmp_path):
    ask, frame = sample
    answer = run_json(*ask, "--population", 4000, "--rows", "r.csv", "--plot", "p.png")
    who = ab.identity(
        frame.astype(str), population=4000, draws=40, chains=2, seed=3, progressbar=False
    )
    assert answer["measures"]["matches"] == pytest.approx(who.summary.loc["matches", "estimate"])
    rows = pd.read_csv(tmp_path / "r.csv", sep=";")
    np.testing.assert_allclose(rows["match"], who.rows["match"])
    assert set(rows.columns) == {"row", *who.rows.columns}
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    high = who.summary["high"]
    between = (high["unique_in_population"] + high["population_uniques"]) / 2
    over = run(*ask, "--population", 4000, "--max-population-uniques", between, code=3)
    assert "above the limit" in over  # a limit is about the measure of its name
    run(*ask, "--population", 4000, "--max-unique-in-population", between)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "--population"),
        (["--population", 100], "smaller than the sample"),
        (["--population", 900, "--weights", "agee"], "'age'"),
    ],
)
def test_bad_identity(refused, sample, more, said):
    assert said in refused(*sample[0], *more)


def test_an_empty_cell_is_no_value(refused, tmp_path):
    (tmp_path / "gap.csv").write_text("x;y\na;1\n;2\nb;3\n")
    assert "'x': row 1" in refused("identity", "gap.csv", "--population", 100)
