"""`anonbayes anonymize` and `anonbayes compare`."""

import pandas as pd
import pytest

import anonbayes as ab

ASK = ["anonymize", "people.csv", "--sensitive", "diagnosis"]


def test_recoded_files_say_what_the_table_says(run_json, people, trees, tmp_path):
    found = run_json(
        *ASK, "--scheme", "recode", "-k", 4, "-l", 2, "--hierarchies", trees, "--suppression",
        "0.1", "--out", "r.csv", "--seed", 1,
    )  # fmt: skip
    table, how = ab.anonymize.recode(
        people, "diagnosis", trees, 4, 2, suppression=0.1, return_recoding=True
    )
    again = ab.read_arx(tmp_path / "r.csv", sensitive="diagnosis", hierarchies=trees)
    # The rows are shuffled: the same rows in another order.
    assert sorted(again.to_frame().itertuples(index=False)) == sorted(
        table.to_frame().itertuples(index=False)
    )
    assert again != table
    assert (found["k"], found["l"], found["suppressed"]) == (again.k, again.l, again.n_suppressed)
    assert found["loss"] == how.loss and found["levels"] == how.levels
    assert found["reidentification"][0]["highest"] == 1 / table.k
    assert found["files"] == ["r.csv"]


def test_rows_keep_their_order_only_on_request(run, people, tmp_path):
    settings = [*ASK, "-k", 5, "--out"]
    run(*settings, "kept.csv", "--keep-order")
    run(*settings, "one.csv", "--seed", 1)
    run(*settings, "two.csv", "--seed", 1)
    run(*settings, "any.csv")
    read = {n: (tmp_path / f"{n}.csv").read_text() for n in ("kept", "one", "two", "any")}
    kept = pd.read_csv(tmp_path / "kept.csv", sep=";", dtype=str)
    assert kept["diagnosis"].tolist() == people["diagnosis"].tolist()
    assert read["one"] == read["two"] and len(set(read.values())) == 3
    assert len({tuple(sorted(text.splitlines())) for text in read.values()}) == 1


def test_boxes_are_read_back_with_a_domain(run_json, people, tmp_path):
    run_json(*ASK, "-k", 6, "--out", "b.csv", "--quasi-identifier", "age")
    ages = people["age"].astype(int)
    domain = f"age={ages.min()}-{ages.max()}"
    found = run_json("describe", "b.csv", "--sensitive", "diagnosis", "--domain", domain)
    assert found["k"] >= 6 and list(found["attributes"]) == ["age", "diagnosis"]
    assert found["attributes"]["age"]["values"] == ages.max() - ages.min() + 1


def test_anatomy_makes_two_tables(run_json, people, tmp_path):
    found = run_json(*ASK, "--scheme", "anatomy", "-l", 2, "--out", "q.csv", "--anatomy", "s.csv")
    table = ab.read_anatomy(
        tmp_path / "q.csv", tmp_path / "s.csv", sensitive="diagnosis", group="group"
    )
    assert found["scheme"] == "vertical" and table.l == found["l"] >= 2
    assert table.n_rows == len(people) and found["loss"] is None


def test_report_measures_utility(run_json, people, trees, tmp_path, monkeypatch):
    monkeypatch.setattr("anonbayes.reporting.page.render", lambda *_, **__: "<!doctype html>")
    found = run_json(
        *ASK, "--scheme", "recode", "-k", 3, "--hierarchies", trees, "--suppression", "0.2",
        "--out", "r.csv", "--report", "r.html", "--seed", 1,
    )  # fmt: skip
    assert 0 < found["measures"]["RF"] < 1 and (tmp_path / "r.html").is_file()


def test_empty_cells(run_json, refused, tmp_path):
    (tmp_path / "people.csv").write_text("age;diagnosis\n30;flu\n;cold\n31;flu\n33;cold\n")
    said = refused(*ASK, "-k", 2, "--out", "x.csv")
    assert "column 'age', row 1 (rows are counted from 0)" in said and "age 1" in said
    assert "--missing: 'category'" in said and "'drop'" in said
    found = run_json(*ASK, "-k", 2, "--out", "x.csv", "--missing", "category")
    assert found["rows"] == 4 and found["k"] >= 2
    assert run_json(*ASK, "-k", 1, "--out", "y.csv", "--missing", "drop")["rows"] == 3


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "needs --k"),
        (["-k", 2, "--scheme", "magic"], "--scheme 'magic' is not valid"),
        (["-k", 2, "--scheme", "recode"], "needs --hierarchies"),
        (["-k", 2, "--local"], "--local does not apply to --scheme 'mondrian'"),
        (["-k", 2, "--anatomy", "s.csv"], "--anatomy does not apply"),
        (["--scheme", "anatomy", "-l", 2], "--anatomy for its second table"),
        (["--scheme", "anatomy", "-l", 50, "--anatomy", "s.csv"], "l=50 is not possible"),
        (["-k", 1000], "k=1000 is not possible: the table has only 120 rows"),
        (["-k", 2, "--quasi-identifier", "agee"], "Did you mean 'age'"),
        (["-k", 2, "--drop", "agee"], "Did you mean 'age'"),
        (["-k", 2, "--sep", ","], "'diagnosis'"),
        (["-k", 2, "--report", "x.csv"], "Two output files have the same name"),
        (["-k", 2, "--missing", "unknown"], "--missing 'unknown' cannot be used"),
    ],
)
def test_bad_input(refused, people, more, said):
    assert said in refused(*ASK, "--out", "x.csv", *more)


def test_nothing_is_overwritten(run, refused, people, tmp_path):
    run(*ASK, "-k", 5, "--out", "x.csv")
    assert "'x.csv' exists" in refused(*ASK, "-k", 5, "--out", "x.csv")
    assert "is a directory" in refused(*ASK, "-k", 5, "--out", tmp_path)
    run(*ASK, "-k", 9, "--out", "x.csv", "--force")
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_places_that_cannot_be_written(refused, people):
    assert "Not a directory" in refused(*ASK, "-k", 5, "--out", "people.csv/x.csv")


def test_values_that_a_file_cannot_spell(refused, run, tmp_path):
    rows = [f"{job};{ill}" for job in ("a, b", "c", "d") for ill in ("flu", "cold")]
    (tmp_path / "people.csv").write_text("job;diagnosis\n" + "\n".join(rows) + "\n")
    said = refused(*ASK, "-k", 4, "--out", "x.csv")
    assert "Column 'job'" in said and "'a, b'" in said


# -- compare --------------------------------------------------------------------------------------

FIT = ["--draws", "40", "--chains", "2", "--seed", "1"]


@pytest.fixture
def released(run, people, trees):
    """Three releases of the same people."""
    recode = [*ASK, "--scheme", "recode", "--hierarchies", trees, "--suppression", "0.3"]
    run(*recode, "-k", 2, "--out", "two.csv", "--seed", 1)
    run(*recode, "-k", 12, "--out", "twelve.csv", "--seed", 1)
    run(*ASK, "--scheme", "anatomy", "-l", 2, "--out", "q.csv", "--anatomy", "s.csv", "--seed", 1)
    return [
        "--cleartext", "people.csv", "--sensitive", "diagnosis", "--hierarchies", trees,
        "--group", "group", *FIT,
    ]  # fmt: skip


def test_compare_is_the_function_of_the_package(run_json, released, people, trees, tmp_path):
    found = run_json("compare", "two.csv", "wide=twelve.csv", "a=q.csv+s.csv", *released,
                     "--plot", "plane.png")  # fmt: skip
    lines = {line["release"]: line for line in found["releases"]}
    assert list(lines) == ["two", "wide", "a"] and lines["a"]["scheme"] == "vertical"
    table = ab.read_arx(tmp_path / "two.csv", sensitive="diagnosis", hierarchies=trees)
    post = ab.fit(table, draws=40, chains=2, seed=1, progressbar=False)
    own = post.assess(people)
    assert lines["two"]["GT_A"] == own.summary["GT_A"]
    assert lines["two"]["RF"] == pytest.approx(own.summary["RF"], abs=1e-12)
    efficient = [name for name, line in lines.items() if line["efficient"]]
    assert found["best"] in efficient and not found["exceeded"]
    assert found["best"] == max(efficient, key=lambda name: lines[name]["RF"])
    assert (tmp_path / "plane.png").read_bytes().startswith(b"\x89PNG")


def test_compare_limits_decide_the_exit_code(run_json, run, released):
    both = ["compare", "two.csv", "twelve.csv", *released]
    threatened = {line["release"]: line["GT_A"] for line in run_json(*both)["releases"]}
    assert threatened["two"] > threatened["twelve"]
    middle = sum(threatened.values()) / 2
    found = run_json(*both, "--max-threatened", middle)
    assert found["best"] == "twelve" and not found["exceeded"]
    kept = {line["release"]: line["acceptable"] for line in found["releases"]}
    assert kept == {"two": False, "twelve": True}
    none = run_json(*both, "--max-threatened", "0.001", code=3)
    assert none["best"] is None and none["exceeded"]
    assert "No release keeps all limits." in run(*both, "--max-threatened", "0.001", code=3)
    costs = {line["release"]: line["RGT_A"] for line in found["releases"]}
    between = run_json(*both, "--max-cost", sum(costs.values()) / 2)
    assert between["best"] == min(costs, key=costs.get)


def test_people_who_are_held_out_and_usefulness_are_those_of_python(
    run_json, run, refused, released, people, trees, tmp_path
):
    """Command, scenario and function test the same classifiers on the same other people."""
    more = people.sample(frac=0.5, random_state=2)
    more.to_csv(tmp_path / "more.csv", sep=";", index=False)
    asked = ["--holdout", "more.csv", "--usefulness", "accuracy"]
    both = ["compare", "two.csv", "twelve.csv", *released]
    found = run_json(*both, *asked)
    risks = {}
    for name in ("two", "twelve"):
        table = ab.read_arx(tmp_path / f"{name}.csv", sensitive="diagnosis", hierarchies=trees)
        post = ab.fit(table, draws=40, chains=2, seed=1, progressbar=False)
        risks[name] = post.assess(people)
    own = ab.compare(risks, holdout=more.reset_index(drop=True))
    for line in found["releases"]:
        assert line["accuracy"] == pytest.approx(own.table.loc[line["release"], "accuracy"])
    assert (ab.compare(risks).table["accuracy"] != own.table["accuracy"]).all()
    efficient = own.efficient(usefulness="accuracy").to_dict()
    assert {line["release"]: line["efficient"] for line in found["releases"]} == efficient
    assert found["best"] == own.recommend(usefulness="accuracy").best
    assert "of people who are not in the table" in run(*both, *asked)
    (tmp_path / "sweep.toml").write_text(
        f"""kind = "assessment"
question = "Which?"
seed = 1
[cleartext]
file = "people.csv"
[holdout]
file = "more.csv"
[release]
file = "two.csv"
sensitive = "diagnosis"
hierarchies = "{trees}"
[model]
draws = 40
chains = 2
[threats]
usefulness = "accuracy"
[sweep]
"release.file" = ["two.csv", "twelve.csv"]
""", encoding="utf-8",
    )  # fmt: skip
    run("run", "sweep.toml")
    lines = pd.read_csv(tmp_path / "out" / "sweep" / "comparison.csv", sep=";")
    want = [line["accuracy"] for line in found["releases"]]
    assert lines["accuracy"].tolist() == pytest.approx(want)
    alone = (tmp_path / "sweep.toml").read_text(encoding="utf-8").partition("[sweep]")[0]
    (tmp_path / "alone.toml").write_text(alone, encoding="utf-8")
    assert "[holdout] has a meaning in a sweep only" in refused("run", "alone.toml")


@pytest.mark.parametrize(
    ("files", "more", "said"),
    [
        (["two.csv"], ["--holdout", "absent.csv"], "no file 'absent.csv'"),
        (["two.csv"], ["--holdout", "strange.csv"], "--holdout, beside two: Column 'diagnosis'"),
        (["two.csv"], ["--usefulness", "beauty"], "--usefulness 'beauty' is not valid"),
        (["two.csv", "two.csv"], [], "Two releases are called 'two'"),
        (["two.csv", "x=absent.csv"], [], "x: There is no file 'absent.csv'"),
        (["=two.csv"], [], "must be [NAME=]FILE"),
        (["two.csv+"], [], "must be [NAME=]FILE"),
        (["two.csv"], ["--threat", "RF"], "--threat 'RF' is not valid"),
        (["two.csv"], ["--max-threatened", "7"], "--max-threatened 7.0 must be at most 1"),
        (["two.csv"], ["--domain", "age"], "must have the form NAME=..., such as sex=f,m"),
        (["two.csv"], ["--cleartext", "others.csv"], "not a release of this cleartext"),
    ],
)
def test_compare_bad_input(refused, released, people, tmp_path, files, more, said):
    changed = people.assign(diagnosis=people["diagnosis"].iloc[::-1].to_numpy())
    changed.iloc[:9, -1] = "cancer"  # other people
    changed.to_csv(tmp_path / "others.csv", sep=";", index=False)
    people.assign(diagnosis="unheard of").to_csv(tmp_path / "strange.csv", sep=";", index=False)
    assert said in refused("compare", *files, *released, *more)
