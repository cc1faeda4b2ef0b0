"""A large cleartext is counted instead of being kept row by row: same numbers, same errors."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import anonbayes as ab
from anonbayes.cli.app import app
from anonbayes.errors import AnonbayesError
from anonbayes.reporting.sections import by_number, row_table
from anonbayes.scenario.load import load, prepare
from anonbayes.scenario.people_in_clear import PeopleInClear, read_people
from anonbayes.tables import build, counting

ENGINES = ("duckdb", "dask")
N = 400


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Many batches, even of small files."""
    import dask

    monkeypatch.setattr(counting, "BATCH", 64)
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def large(monkeypatch):
    """Call everything large, to be counted by the engine of this name."""

    def declare(engine):
        monkeypatch.setattr(build, "LARGE_BYTES", 0)
        monkeypatch.setattr(build, "LARGE_ROWS", 0)

    return declare


@pytest.fixture
def people(tmp_path):
    """People who share most of their values, but for a name."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "name": [f"person {i}" for i in range(N)],
            "age": rng.integers(30, 34, N).astype(str),
            "sex": rng.choice(["f", "m"], N),
            "ill": rng.choice(["flu", "cold", "gout"], N, p=[0.4, 0.35, 0.25]),
        }
    )
    write(frame, tmp_path)
    return frame


def write(frame, folder):
    frame.to_csv(folder / "people.csv", sep=";", index=False)


@pytest.fixture
def release(people, tmp_path):
    """Ages 30 and 31 in one cell; the others in clear."""
    shown = people[["age", "sex", "ill"]].replace({"age": {"30": "{30, 31}", "31": "{30, 31}"}})
    shown.to_csv(tmp_path / "released.csv", sep=";", index=False)
    return ab.read_arx(
        tmp_path / "released.csv", sensitive="ill", domains={"age": ["30", "31", "32", "33"]}
    )


def read_people_of(tables, file, *, engine):
    return read_people(PeopleInClear(file=file, missing="as_released"), tables, engine=engine)


def read(release, file, engine, large):
    return read_people_of([release], file, engine=engine)


def same(found, whole):
    """Equal to the last bit; a line of `found` shows the row whose label it has."""
    pd.testing.assert_series_equal(found.summary, whole.summary, check_exact=True)
    pd.testing.assert_series_equal(found.standard_errors, whole.standard_errors, check_exact=True)
    lines = found.rows.drop(columns="weight")
    pd.testing.assert_frame_equal(
        lines, whole.rows.loc[lines.index].rename_axis(lines.index.name), check_exact=True
    )
    assert found.rows["weight"].sum() == len(whole.rows)


# -- the command line ------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_engines_agree_with_memory(engine, kind, people, release, large, tmp_path):
    file = tmp_path / f"people.{kind}"
    if kind == "parquet":
        people.to_parquet(file, row_group_size=90)
    post = ab.fit(release, seed=1, draws=50, progressbar=False)
    whole = post.assess(people)
    found = read(release, file, engine, large)
    assert list(found.frame.columns) == ["age", "sex", "ill", "weight"] and len(found.frame) < 30
    found.check(release)
    same(found.assess(post), whole)
    row_by_row = read_people_of([release], file, engine="pandas")
    assert row_by_row.weights is None
    pd.testing.assert_series_equal(row_by_row.assess(post).summary, whole.summary, check_exact=True)


@pytest.mark.parametrize("engine", ENGINES)
def test_sampled_beliefs_of_an_anatomy_agree(engine, people, large, tmp_path):
    table = ab.anonymize.anatomy(people[["age", "sex", "ill"]], "ill", 2, seed=1)
    post = ab.fit(table, seed=1, draws=40, tune=20, chains=2, progressbar=False)
    found = read(table, tmp_path / "people.csv", engine, large)
    same(found.assess(post), post.assess(people))


@pytest.mark.parametrize("engine", ENGINES)
def test_commands_say_the_same(engine, release, large, tmp_path):
    call = [
        "assess", tmp_path / "released.csv", "--cleartext", tmp_path / "people.csv", "--sensitive",
        "ill", "--draws", 50, "--seed", 1, "--json", "--domain", "age=30,31,32,33",
    ]  # fmt: skip

    def run(*arguments):
        done = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    other = ["compare", *call[1:]]
    whole, compared = run(*call, "--out", tmp_path / "one"), run(*other)
    large(engine)
    found = run(*call, "--out", tmp_path / "two")
    assert found["assessment"] == whole["assessment"]
    by_row = {row["row"]: row for row in whole["rows"]}
    assert 0 < len(found["rows"]) < 30 and sum(row["weight"] for row in found["rows"]) == N
    for row in found["rows"]:
        assert row == by_row[row["row"]] | {"weight": row["weight"]}
    assert run(*other) == compared


@pytest.mark.parametrize("engine", ["pandas", *ENGINES])
def test_errors_are_those_of_small_files(engine, people, release, large, tmp_path):
    file = tmp_path / "people.csv"

    def raises(changed, message):
        write(changed, tmp_path)
        with pytest.raises(AnonbayesError) as caught:
            read(release, file, engine, large).check(release)
        assert message in str(caught.value)

    raises(
        people.assign(age=people["age"].where(people.index % 100 != 57, "40")),
        "Column 'age' of the cleartext table, row 57 (rows are counted from 0): the value is not "
        "in the released table's domain (4 rows).",
    )
    raises(
        people.assign(sex=people["sex"].where(people.index < 390, "")),
        "the first in column 'sex', row 390 (rows are counted from 0); empty cells by column: "
        "sex 10.",
    )
    raises(
        people.rename(columns={"sex": "sexes"}),
        "The cleartext table has no column 'sex', which the released table has. Did you mean "
        "'sexes'?",
    )
    colds = (people["ill"] == "cold").sum()
    raises(people.assign(ill="flu"), f"'cold' in 0 rows of the cleartext but in {colds} of the")
    file.write_text("age;sex;ill\n30;f\n")
    with pytest.raises(AnonbayesError, match="line 2: 2 cells where 3 are expected"):
        read(release, file, engine, large)


@pytest.mark.parametrize("engine", ["pandas", *ENGINES])
def test_a_person_outside_the_release_is_named(engine, people, large, tmp_path):
    shown = people[["age", "sex", "ill"]].copy()
    odd = np.flatnonzero((people["age"] == "33") & (people["ill"] == "gout"))
    shown.loc[odd, "age"] = "32"
    table = ab.ReleasedTable.horizontal(shown, "ill", domains={"age": ["30", "31", "32", "33"]})
    post = ab.fit(table, seed=1, draws=20, progressbar=False)
    found = read(table, tmp_path / "people.csv", engine, large)
    with pytest.raises(AnonbayesError, match=rf"Row {odd[0]} of the .*; {len(odd)} such rows"):
        found.assess(post)


@pytest.mark.parametrize("engine", ["pandas", *ENGINES])
def test_several_files_name_their_rows(engine, people, release, large, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    people.iloc[:250].to_parquet(folder / "a.parquet")
    people.iloc[250:].assign(age="40").to_parquet(folder / "b.parquet")
    with pytest.raises(AnonbayesError, match=r"row \"0 of '.*b\.parquet'\": .*\(150 rows\)"):
        read(release, folder, engine, large).check(release)


def test_reports_show_rows_of_the_file(people, release, tmp_path):
    post = ab.fit(release, seed=1, draws=20, progressbar=False)
    risk = read_people_of([release], tmp_path / "people.csv", engine="duckdb").assess(post)
    table = row_table(by_number(risk), labels=risk.rows.index)
    names = [column["name"] for column in table.columns]
    assert "label" not in names  # it is the number of the row
    for line in table.rows:
        cells = dict(zip(names, line, strict=True))
        assert people.loc[cells["row"], ["age", "sex"]].tolist() == [cells["age"], cells["sex"]]
    named = post.assess(people.set_index(people.index + 1000).rename_axis("customer"))
    assert by_number(named).rows.index[0] == 0  # other numbers may be identifiers


# -- scenarios -------------------------------------------------------------------------------------

SCENARIO = """
kind = "assessment"
question = "Who is threatened?"
seed = 1
cleartext = {file = "people.csv", missing = "MISSING"}
model.draws = 50
"""


def scenario(folder, missing, text):
    (folder / "asked.toml").write_text(SCENARIO.replace("MISSING", missing) + text)
    return load(folder / "asked.toml")


RELEASED = 'release = {file = "released.csv", sensitive = "ill"}\n'


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("missing", ["error", "drop", "category"])
def test_scenarios_agree_with_memory(engine, missing, people, large, tmp_path):
    if missing != "error":
        people.loc[[5, 100], "name"] = ""  # nobody asks for the column
        people.loc[[7, 101, 300], "age"] = ""
        write(people, tmp_path)
    kept = people.replace("", "missing")
    if missing == "drop":
        kept = people[people["age"] != ""]
    kept[["age", "sex", "ill"]].to_csv(tmp_path / "released.csv", sep=";", index=False)
    asked = scenario(tmp_path, missing, RELEASED)
    whole = prepare(asked)
    large(engine)
    counted = prepare(asked)
    assert whole.people.weights is None and len(whole.people.frame) == len(kept)
    assert counted.people.weights == "weight" and len(counted.people.frame) < 40
    post = ab.fit(whole.table, seed=1, draws=50, progressbar=False)
    same(counted.people.assess(post), whole.people.assess(post))


@pytest.mark.parametrize("engine", ENGINES)
def test_empty_cells_are_named_alike(engine, people, release, large, tmp_path):
    people.loc[[44, 300], "sex"] = ""
    write(people, tmp_path)
    asked = scenario(tmp_path, "error", RELEASED)
    said = []
    for _ in range(2):
        with pytest.raises(AnonbayesError) as caught:
            prepare(asked)
        said.append(str(caught.value))
        large(engine)
    assert said[0] == said[1]
    assert "column 'sex', row 44 (rows are counted from 0)" in said[0] and "sex 2" in said[0]
    write(people.assign(sex=""), tmp_path)
    asked = scenario(tmp_path, "drop", RELEASED)
    with pytest.raises(AnonbayesError, match="empty"):
        prepare(asked)


def test_a_sweep_counts_once_for_all_releases(people, release, large, tmp_path):
    sweep = scenario(tmp_path, "error", RELEASED + 'sweep = {"model.alpha" = [1.0, 2.0]}\n')
    whole = prepare(sweep).run()
    large("duckdb")
    prepared = prepare(sweep)
    found = {id(member.people) for member in prepared.members.values()}
    assert len(found) == 1 and len(prepared.members) == 2
    pd.testing.assert_frame_equal(
        prepared.run().tables["comparison"], whole.tables["comparison"], check_exact=True
    )


def test_rows_stay_where_a_release_is_made_of_them(people, large, tmp_path):
    people.loc[3, "age"] = ""
    people.loc[4, "name"] = ""  # not used
    write(people, tmp_path)
    made = 'release = {scheme = "mondrian", sensitive = "ill", k = 5, QI}\n'
    made = made.replace("QI", 'quasi_identifiers = ["age", "sex"]')
    large("duckdb")
    prepared = prepare(scenario(tmp_path, "drop", made))
    assert prepared.people.weights is None and len(prepared.people.frame) == N - 1
    assert prepared.people.frame.index[3] == 4  # as in the file
    assert prepared.run().measures["rows"] == N - 1


@pytest.mark.parametrize("engine", ["pandas", "duckdb"])
@pytest.mark.parametrize("missing", ["as_released", "error"])
def test_groups_that_the_attacker_knows_come_from_the_file(tmp_path, engine, missing):
    """Row by row or counted, as texts or numbers: the beliefs are those of `assess(group=)`."""
    rng = np.random.default_rng(1)
    people = pd.DataFrame({"x": rng.choice(list("abc"), 40), "s": list("uvwz") * 10})
    table, where = ab.anonymize.anatomy(people, "s", 4, seed=1, return_truth=True)
    people = people.assign(where=where["group"].to_numpy())
    file = tmp_path / "people.csv"
    people.to_csv(file, sep=";", index=False)
    source = PeopleInClear(file=file, missing=missing, group="where")
    found = read_people(source, [table], engine=engine)
    truth = found.check(table)
    own = truth.victims.group[truth.victims.inverse]
    labels = [str(table.group_labels[code]) for code in own]
    assert sorted(set(labels)) == sorted(set(people["where"].astype(str)))
    wrong = PeopleInClear(file=file, missing=missing, group="were")
    with pytest.raises(AnonbayesError, match=r"'were'.*'where'"):
        read_people(wrong, [table], engine=engine)
