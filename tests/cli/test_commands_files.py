"""Files as people have them: read back what was written, whatever wrote the table in clear."""

import logging
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab
from anonbayes.io.text import as_text, read_csv_text
from anonbayes.scenario.load import prepare, request

SCHEMES = {
    "mondrian": ["--k", "5", "--l", "2", "--keep-order"],
    "recode": ["--k", "5", "--suppression", "0.5", "--keep-order", "--hierarchies", "trees"],
    "anatomy": ["--l", "2", "--anatomy", "st.csv"],
}


def hospital(n=90):
    """Text, whole numbers, decimals, days and codes with leading zeros."""
    rng = np.random.default_rng(3)
    day = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 200, n), unit="D")
    return pd.DataFrame(
        {
            "Geschlecht": rng.choice(["männlich", "weiblich"], n),
            "Alter": rng.integers(18, 92, n).astype(str),
            "BMI": [f"{x:.1f}" for x in rng.normal(26, 4, n)],
            "Aufnahme": day.strftime("%Y-%m-%d"),
            "PLZ": rng.choice(["01067", "04109", "20095", "22041"], n),
            "Diagnose": rng.choice(["Grippe", "Fraktur", "Röteln"], n),
        }
    )


def with_gaps(frame):
    out = frame.copy()
    out.loc[::9, "BMI"] = ""
    out.loc[4::11, "Geschlecht"] = ""
    out.loc[2::13, "Aufnahme"] = ""
    return out


def trees(folder, frame):
    (folder / "trees").mkdir()
    for name in frame.columns.drop("Diagnose"):
        values = sorted({*frame[name], "missing"} - {""})
        lines = [f"{v};{'low' if v < values[len(values) // 2] else 'high'};*" for v in values]
        (folder / "trees" / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_back(file, *, anatomy=None, hierarchies=None, missing="error", cleartext="people.csv"):
    release = {
        "file": file, "sensitive": ["Diagnose"], "hierarchies": hierarchies, "missing": missing,
        "sensitive_file": anatomy, "group": "group" if anatomy else None,
    }  # fmt: skip
    keys = {f"release.{name}": value for name, value in release.items()}
    more = {"question": "?", "cleartext.file": cleartext}
    return prepare(request("assessment", keys | more, name="x"))


@pytest.mark.parametrize("missing", ["error", "category", "drop"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_release_is_read_back_from_files_alone(run, tmp_path, scheme, missing):
    frame = hospital()
    frame = frame if missing == "error" else with_gaps(frame)
    frame.to_csv(tmp_path / "people.csv", sep=";", index=False)
    trees(tmp_path, frame)
    how = ["--scheme", scheme, "--missing", missing, *SCHEMES[scheme]]
    run("anonymize", "people.csv", "--sensitive", "Diagnose", "--out", "out.csv", "--seed", 1, *how)
    own = {"trees": tmp_path / "trees"} if scheme == "recode" else {}
    again = read_back(
        tmp_path / "out.csv",
        anatomy=tmp_path / "st.csv" if scheme == "anatomy" else None,
        hierarchies=own.get("trees"),
        missing=missing,
    )
    made = request(
        "assessment",
        {
            "question": "?", "seed": 1,
            "cleartext.file": "people.csv", "cleartext.missing": missing,
            "release.scheme": scheme, "release.sensitive": ["Diagnose"], "release.l": 2,
            "release.k": None if scheme == "anatomy" else 5,
            "release.suppression": 0.5 if scheme == "recode" else None, **(
                {"release.hierarchies": own["trees"]} if own else {}
            ),
        },
        name="x",
    ).settings  # fmt: skip
    if scheme == "recode":
        made = made.model_copy(update={"release": made.release.model_copy(update={"l": 1})})
    table = made.make().table
    # Same values, and with rows in order the same cells: the same numbers follow.
    assert {n: set(d.labels) for n, d in again.table.domains.items()} == {
        n: set(d.labels) for n, d in table.domains.items()
    }
    assert again.table.n_rows == table.n_rows == again.truth.n_rows
    if scheme != "anatomy":
        for name, column in table.columns.items():
            other = again.table.columns[name]
            mine = column.evidence.sizes[column.codes]
            assert (mine == other.evidence.sizes[other.codes]).all(), name


@pytest.mark.parametrize("scheme", ["mondrian", "anatomy"])
@pytest.mark.parametrize("kind", ["small", "negative", "german days", "moments", "bands", "odd"])
def test_columns_of_any_type_are_read_back(run, tmp_path, kind, scheme):
    """As an attribute and, by Mondrian, as the secret too."""
    rng, n = np.random.default_rng(0), 60
    moment = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 99999, n), unit="min")
    column = {
        "small": [f"{x:.9f}" for x in rng.random(n) * 1e-4],
        "negative": [f"{x:.2f}" for x in rng.normal(0, 3, n)],
        "german days": moment.strftime("%d.%m.%Y"),
        "moments": moment.strftime("%Y-%m-%d %H:%M:%S"),
        "bands": rng.choice(["0-9", "10-19", "20-29"], n),
        "odd": rng.choice(["a b", "c;d", 'say "e"', "1 & 2", "1e3", "007"], n),
    }[kind]
    frame = pd.DataFrame({"x": column, "y": rng.integers(0, 5, n), "s": rng.choice([*"pqrt"], n)})
    frame.to_csv(tmp_path / "c.csv", sep=";", index=False)
    how = ["--l", "2", "--scheme", scheme, "--anatomy", "a.csv"]
    if scheme == "mondrian":
        run("anonymize", "c.csv", "--sensitive", "x", "--k", "3", "--out", "secret.csv")
        ask = {"question": "?", "release.file": "secret.csv", "release.sensitive": ["x"]}
        prepare(request("assessment", ask | {"cleartext.file": "c.csv"}, name="x"))
        how = ["--k", "4"]
    run("anonymize", "c.csv", "--sensitive", "s", "--out", "o.csv", *how)
    more = {"sensitive_file": "a.csv", "group": "group"} if scheme == "anatomy" else {}
    ask = {"question": "?", "release.file": "o.csv", "release.sensitive": ["s"]}
    ask |= {f"release.{name}": value for name, value in more.items()}
    again = prepare(request("assessment", ask | {"cleartext.file": "c.csv"}, name="x"))
    assert again.truth.n_rows == n


@pytest.mark.parametrize("kind", ["tab", "comma", "parquet", "stata", "spss", "german"])
def test_tables_of_other_programs(run, tmp_path, kind):
    frame = hospital()
    typed = frame.astype({"Alter": int, "BMI": float})
    typed["Aufnahme"] = pd.to_datetime(typed["Aufnahme"])
    more = []
    if kind == "tab":
        frame.to_csv(tmp_path / (name := "people.tsv"), sep="\t", index=False)
        more = ["--sep", "tab"]
    elif kind == "comma":
        frame.to_csv(tmp_path / (name := "people.csv"), index=False)
    elif kind == "parquet":
        typed.to_parquet(tmp_path / (name := "people.parquet"))
    elif kind == "stata":
        typed.to_stata(tmp_path / (name := "people.dta"), write_index=False, version=118)
    elif kind == "spss":
        pytest.importorskip("pyreadstat").write_sav(typed, tmp_path / (name := "people.sav"))
    else:
        comma = frame.assign(BMI=frame["BMI"].str.replace(".", ","))
        comma.to_csv(tmp_path / (name := "people.csv"), sep=";", index=False, encoding="cp1252")
        more = ["--encoding", "cp1252", "--decimal", ","]
    how = ["--sensitive", "Diagnose", "--k", "5", "--keep-order", "--out", "out.csv", *more]
    run("anonymize", name, *how)
    frame.to_csv(tmp_path / "plain.csv", sep=";", index=False)
    again = read_back(tmp_path / "out.csv", cleartext="plain.csv")
    assert set(again.table.domains["BMI"].values) == set(map(float, frame["BMI"]))
    assert "männlich" in again.table.domains["Geschlecht"]
    # And with the very file as cleartext.
    if kind != "german":
        assert read_back(tmp_path / "out.csv", cleartext=name).table.n_rows == len(frame)


def test_files_of_values_are_spelled_like_the_other_files(run, run_json, refused, tmp_path):
    """A column of the table in clear is its domain, decimal commas and umlauts included."""
    frame = hospital()
    comma = frame.assign(BMI=frame["BMI"].str.replace(".", ","))
    comma.to_csv(tmp_path / "c.csv", sep=";", index=False, encoding="cp1252")
    how = ["--sensitive", "Diagnose", "--encoding", "cp1252", "--decimal", ","]
    run("anonymize", "c.csv", *how, "--k", "5", "--out", "out.csv")
    pd.read_csv(tmp_path / "out.csv", sep=";", dtype=str).to_csv(
        tmp_path / "windows.csv", sep=";", index=False, encoding="cp1252"
    )
    for name in ("BMI", "Geschlecht"):
        values = comma[name].drop_duplicates()
        (tmp_path / f"{name}.txt").write_text("\n".join(values), encoding="cp1252")
    given = ["--domain", "BMI=@BMI.txt", "--domain", "Geschlecht=@Geschlecht.txt"]
    found = run_json("describe", "windows.csv", *how, *given)
    assert found["attributes"]["BMI"]["values"] == frame["BMI"].nunique()
    said = refused("describe", "windows.csv", *how[:4], *given[:2])
    assert "BMI" in said and "no numbers" in said  # without --decimal they are texts


def test_a_population_with_gaps_is_read_as_the_release_is(run_json, refused, tmp_path):
    """One meaning of --missing for both files; delta-presence is that of the people left."""
    frame = hospital()[["Geschlecht", "PLZ", "Diagnose"]]
    everybody = pd.concat([frame, frame], ignore_index=True).drop(columns="Diagnose")
    everybody.to_csv(tmp_path / "whole.csv", sep=";", index=False)
    everybody.loc[len(everybody)] = ["", "01067"]
    everybody.to_csv(tmp_path / "all.csv", sep=";", index=False)
    frame.to_csv(tmp_path / "r.csv", sep=";", index=False)
    ask = ["describe", "r.csv", "--sensitive", "Diagnose", "--population"]
    said = refused(*ask, "all.csv")
    assert "cells are empty, the first in column 'Geschlecht'" in said and "--missing" in said
    found = run_json(*ask, "all.csv", "--missing", "drop")["privacy_models"]
    assert found == run_json(*ask, "whole.csv")["privacy_models"]
    assert found["delta_low"] == found["delta_high"] == 0.5


def test_excel_is_read_or_its_reader_is_named(refused, tmp_path):
    (tmp_path / "people.xlsx").write_bytes(b"PK")
    try:
        import openpyxl  # noqa: F401
    except ImportError:
        message = refused("init", "people.xlsx")
        assert "openpyxl" in message and "CSV" in message
    else:
        assert "people.xlsx" in refused("init", "people.xlsx")


def test_texts_of_a_spreadsheet_stay_texts(run, tmp_path):
    pytest.importorskip("openpyxl")
    typed = hospital().astype({"Alter": int, "BMI": float})
    typed["Aufnahme"] = pd.to_datetime(typed["Aufnahme"])
    typed.loc[typed.index[::9], ["BMI", "Aufnahme"]] = None
    typed.loc[typed.index[1], "Diagnose"] = "NA"
    typed.to_excel(tmp_path / "people.xlsx", index=False)
    read = read_csv_text(tmp_path / "people.xlsx")
    plain = hospital()
    plain.loc[::9, ["BMI", "Aufnahme"]] = ""
    plain.loc[1, "Diagnose"] = "NA"
    assert read.to_dict("list") == plain.to_dict("list")


def test_cells_of_any_type_become_the_texts_of_a_file():
    frame = pd.DataFrame(
        {
            "code": ["01067", None, "NA"],
            "large": [1e20, -0.0, 2.0**60],
            "mixed": [7, "7a", 7.5],
            "gaps": pd.Series([20.0, None, 30.0], dtype=object),
            "day": pd.Series(
                [pd.Timestamp("2023-05-01"), None, pd.Timestamp("2023-06-02")], dtype=object
            ),
        }
    )
    assert as_text(frame).to_dict("list") == {
        "code": ["01067", "", "NA"],
        "large": ["100000000000000000000", "0", str(2**60)],
        "mixed": ["7", "7a", "7.5"],
        "gaps": ["20", "", "30"],
        "day": ["2023-05-01", "", "2023-06-02"],
    }


def test_a_frame_of_polars_is_one_of_pandas():
    pl = pytest.importorskip("polars")
    people = ab.datasets.load("table1")
    frame = pl.from_pandas(people)
    table = ab.anonymize.mondrian(frame, "Dis", 2)
    assert table == ab.anonymize.mondrian(people, "Dis", 2)
    assert table == ab.anonymize.mondrian(frame.lazy(), "Dis", 2)
    post = ab.fit(table, seed=1, progressbar=False)
    assert post.assess(frame).summary.equals(post.assess(people).summary)


def test_what_is_dropped_is_said_and_only_used_columns_count(run, tmp_path, caplog):
    frame = with_gaps(hospital()).assign(Notiz="")
    frame.to_csv(tmp_path / "people.csv", sep=";", index=False)
    chosen = [x for c in ("Alter", "BMI") for x in ("--quasi-identifier", c)]
    with caplog.at_level(logging.WARNING):
        run("anonymize", "people.csv", "--sensitive", "Diagnose", "--k", "5", "--missing", "drop",
            *chosen, "--out", "out.csv")  # fmt: skip
    n = int((frame["BMI"] == "").sum())
    assert f"{n} of 90 rows" in caplog.text and f"BMI {n}" in caplog.text
    assert len(pd.read_csv(tmp_path / "out.csv", sep=";")) == 90 - n


def test_all_gaps_are_named_at_once(refused, tmp_path):
    with_gaps(hospital()).to_csv(tmp_path / "people.csv", sep=";", index=False)
    message = refused(
        "anonymize", "people.csv", "--sensitive", "Diagnose", "--k", "5", "--out", "o"
    )
    assert all(name in message for name in ("BMI 10", "Geschlecht 8", "Aufnahme 7", "--missing"))
    assert "row 4 (rows are counted from 0)" in message


def test_a_released_table_is_noticed_by_init(run, refused, tmp_path):
    hospital().to_csv(tmp_path / "people.csv", sep=";", index=False)
    run("anonymize", "people.csv", "--sensitive", "Diagnose", "--k", "5", "--out", "out.csv")
    assert "anonbayes assess" in refused("init", "out.csv")
    run("anonymize", "people.csv", "--sensitive", "Diagnose", "--scheme", "anatomy", "--l", "2",
        "--out", "qit.csv", "--anatomy", "st.csv")  # fmt: skip
    for file in ("qit.csv", "st.csv"):
        assert "table of an Anatomy" in refused("init", file)


def test_init_counts_values_and_knows_dates(run, tmp_path):
    with_gaps(hospital()).to_csv(tmp_path / "people.csv", sep=";", index=False)
    run("init", "people.csv")
    text = (tmp_path / "people.toml").read_text(encoding="utf-8")
    assert re.search(r"2 values: (männlich, weiblich|weiblich, männlich); 8 EMPTY CELLS", text)
    assert re.search(r"\d+ dates from 2023-01-\d\d to 2023-07-\d\d; 7 EMPTY CELLS", text)


def test_values_that_a_set_would_misread_are_named(refused, tmp_path):
    """The value may stand in another cell than the first that had to be a tuple."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.choice(["a", "b", "c", "d "], 60), "s": rng.choice([*"pq"], 60)})
    frame.to_csv(tmp_path / "c.csv", sep=";", index=False)
    said = refused("anonymize", "c.csv", "--sensitive", "s", "--k", "15", "--out", "o.csv")
    assert "the value 'd ' could be misread" in said


def test_all_columns_that_are_wrong_are_named_at_once(refused, tmp_path):
    hospital().to_csv(tmp_path / "people.csv", sep=";", index=False)
    ask = ["anonymize", "people.csv", "--sensitive", "Diagnose", "--k", "5", "--out", "o.csv"]
    for option in ("--quasi-identifier", "--drop"):
        said = refused(*ask, option, "Altr", option, "Gewicht")
        assert "'Altr'" in said and "'Gewicht'" in said
    release = pd.DataFrame({"x": ["1-3", "?"], "y": ["a", "{b"], "s": ["p", "q"]})
    release.to_csv(tmp_path / "r.csv", sep=";", index=False)
    said = refused(
        "describe", "r.csv", "--sensitive", "s", "--domain", "x=1-3", "--domain", "y=a,b"
    )
    assert "'x'" in said and "'y'" in said


def test_commas_of_thousands_are_no_decimal_commas(run, refused, tmp_path):
    """1,000 would become 1 in silence."""
    rng = np.random.default_rng(0)
    pay = [f"{x:,}" for x in rng.integers(900, 9000, 60)]
    frame = pd.DataFrame({"pay": pay, "s": rng.choice([*"pq"], 60)})
    frame.to_csv(tmp_path / "c.csv", sep=";", index=False)
    said = refused("anonymize", "c.csv", "--sensitive", "s", "--k", "5", "--out", "o.csv")
    assert "'pay'" in said and "thousands" in said
    run("init", "c.csv")
    assert "decimal" not in (tmp_path / "c.toml").read_text()


def test_commas_of_both_kinds_in_one_file_are_refused(run, refused, tmp_path):
    """Decimal commas in one column do not turn 1,000 in another into 1."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "BMI": [f"{x:.1f}".replace(".", ",") for x in rng.uniform(18, 40, 60)],
            "pay": [f"{x:,}" for x in rng.integers(900, 9000, 60)],
            "s": rng.choice([*"pq"], 60),
        }
    )
    frame.to_csv(tmp_path / "c.csv", sep=";", index=False)
    said = refused("init", "c.csv")
    assert "'BMI'" in said and "'pay'" in said and "thousands" in said and "--decimal" in said
    run("init", "c.csv", "--decimal", ",")  # said by the user, who knows
    assert 'decimal = ","' in (tmp_path / "c.toml").read_text()


def test_a_misspelt_sensitive_column_comes_before_gaps(refused, tmp_path):
    frame = hospital()[["Geschlecht", "PLZ", "Diagnose"]]
    frame.loc[3, "PLZ"] = ""
    frame.to_csv(tmp_path / "c.csv", sep=";", index=False)
    frame.to_csv(tmp_path / "r.csv", sep=";", index=False)
    groups = frame[["PLZ"]].assign(group=1)
    groups.to_csv(tmp_path / "q.csv", sep=";", index=False)
    frame[["Diagnose"]].assign(group=1).to_csv(tmp_path / "st.csv", sep=";", index=False)
    wrong = ["--sensitive", "Diagnos"]
    clear = [*wrong, "--cleartext", "c.csv", "--out", "out"]
    for said in (
        refused("assess", "r.csv", *clear),
        refused("assess", "q.csv", "--anatomy", "st.csv", "--group", "group", *clear),
        refused("describe", "r.csv", *wrong),
        refused("anonymize", "c.csv", *wrong, "--k", "3", "--out", "o.csv"),
    ):
        assert said.startswith("anonbayes: The sensitive column 'Diagnos' is not in"), said
        assert "'Diagnose'" in said and "empty" not in said


def test_every_command_reads_files_of_windows_programs(run, refused, tmp_path):
    frame = hospital().assign(BMI=hospital()["BMI"].str.replace(".", ","))
    frame.to_csv(tmp_path / "c.csv", index=False, encoding="cp1252", sep="\t")
    column = ["--column", "Geschlecht"]
    mechanism = ["-m", "randomized_response", "--epsilon", 1, "--values", "männlich,weiblich"]
    numbers = ["--column", "BMI", "--lower", 0, "--upper", 60, "--bins", 6, "--decimal", ","]
    for command in (
        ["channel", "release", "c.csv", *column, *mechanism, "--out", "reports.csv"],
        ["budgets", "c.csv", *column, "--gamma", 20, "--out", "budgets.csv"],
        ["quantize", "column", "c.csv", *numbers, "--out", "binned.csv"],
    ):
        assert "--encoding cp1252" in refused(*command)
        run(*command, "--encoding", "cp1252")
    run("channel", "estimate", "reports.csv", *mechanism)
    binned = pd.read_csv(tmp_path / "binned.csv", sep=None, engine="python")
    assert set(binned["BMI"]) <= {5, 15, 25, 35, 45, 55}


def test_an_identifier_is_refused_with_advice_that_the_command_has(refused, tmp_path):
    people = hospital(120).assign(Nummer=[f"A{i}" for i in range(120)])
    people.to_csv(tmp_path / "people.csv", sep=";", index=False)
    said = refused("anonymize", "people.csv", "--sensitive", "Diagnose", "--k", "5", "--out", "o")
    assert "'Nummer'" in said and "--drop" in said and "--domain" not in said


def test_frames_of_other_libraries():
    pa = pytest.importorskip("pyarrow")
    frame = ab.datasets.load("table1")
    table = ab.anonymize.mondrian(pa.Table.from_pandas(frame), "Dis", 2)
    assert table.n_rows == len(frame)


def test_help_is_not_greeted_by_warnings_of_libraries(tmp_path):
    code = "import anonbayes as ab; ab.fit(ab.datasets.load('table1_recoded'), seed=1)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert "Warning" not in done.stderr


def test_gates_refuse_what_they_cannot_vouch_for(run, refused, tmp_path):
    """Part of the people, beliefs, any measure, and a published threshold."""
    run("datasets", "export", "clinic")
    run("datasets", "export", "clinic_local")
    people = pd.read_csv(tmp_path / "clinic.csv", sep=";", dtype=str)
    people.head(900).to_csv(tmp_path / "part.csv", sep=";", index=False)
    ask = ["assess", "clinic_local.csv", "--sensitive", "diagnosis", "--hierarchies",
           "clinic_hierarchies", "--draws", 20, "--evidence", "independent", "--out", "r",
           "--force"]  # fmt: skip
    assert "--allow-partial" in refused(*ask, "--cleartext", "part.csv")
    run(*ask, "--cleartext", "part.csv", "--allow-partial")
    whole = [*ask, "--cleartext", "clinic.csv"]
    said = run(*whole, "--max-belief", 0.5, "--at-most", "Ti_q95=1", code=3)
    assert "belief in a true secret" in said and "above the limit" in said
    assert "above the limit of 9.0%" in run(*whole, "--preset", "ema_0070", code=3)
    assert "'Ti_q95'" in refused(*whole, "--at-most", "Ti_q59=1")


def test_hierarchies_are_built_and_read(run, tmp_path):
    hospital().to_csv(tmp_path / "people.csv", sep=";", index=False)
    run("hierarchy", "people.csv", "--column", "Alter", "--widths", "5,20", "--out", "t/Alter.csv")
    run("hierarchy", "people.csv", "--column", "PLZ", "--prefix", 2, "--out", "t/PLZ.csv")
    lines = (tmp_path / "t" / "Alter.csv").read_text().splitlines()
    first = sorted(hospital()["Alter"].astype(int))[0]
    narrow, wide = first - first % 5, first - first % 20
    assert lines[0] == f"{first};[{narrow}, {narrow + 5});[{wide}, {wide + 20});*"
    assert "01067;010**;0****;*" in (tmp_path / "t" / "PLZ.csv").read_text()
    chosen = [x for c in ("Alter", "PLZ") for x in ("--quasi-identifier", c)]
    run("anonymize", "people.csv", "--sensitive", "Diagnose", "--scheme", "recode", "--k", "3",
        "--hierarchies", "t", *chosen, "--out", "out.csv")  # fmt: skip
    assert len(pd.read_csv(tmp_path / "out.csv", sep=";")) == 90


CLEAR = [(20, 45501, "flu"), (22, 45502, "cold"), (23, 45502, "flu"), (24, 45501, "gout"),
         (91, 99177, "flu"), (93, 99188, "cold"), (97, 99177, "gout")] * 2  # fmt: skip


ASK = ["assess", "released.csv", "--cleartext", "clear.csv", "--sensitive", "ill", "--out", "out"]


@pytest.fixture
def old_people(tmp_path):
    """A cleartext with rare values, and a release that does not show them."""

    def write(name, rows):
        lines = [";".join(map(str, row)) for row in [("age", "zip", "ill"), *rows]]
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")

    write("clear.csv", CLEAR)
    released = []
    # Ranges cross, so that chains are run and their quantities named.
    for i, (age, code, ill) in enumerate(CLEAR):
        range_shown = "23-24" if age == 24 or (age == 23 and i > 6) else "20-23"
        range_shown = "90-99" if age > 30 else range_shown
        released.append((range_shown, code if code == 45501 else f"{code // 100}**", ill))
    write("released.csv", released)
    return write


@pytest.mark.parametrize("options", [[], ["--hide-values"]])
def test_outputs_show_no_value_that_only_the_cleartext_has(run, old_people, options, tmp_path):
    said = run(*ASK, "--seed", "1", "--draws", "40", "--evidence", "independent", *options)
    files = (tmp_path / "out").iterdir()
    texts = {file.name: file.read_bytes().decode("latin-1") for file in files}
    page = re.sub(r"<svg.*?</svg>|<style.*?</style>|<script.*?</script>", "", texts["report.html"],
                  flags=re.DOTALL)  # fmt: skip
    names = re.compile("45502|99177|99188")
    assert "4 values not named in the release" in page
    assert not names.search(texts["report.html"] + texts["risk.json"] + said)
    for column in ("age", "zip"):
        assert not re.search(rf"pi_{column}\[[^\]]*\b(9[137]|22|{names.pattern})\b", page)
    assert bool(names.search(texts["posterior.nc"])) == (not options)
    post = ab.Posterior.from_netcdf(tmp_path / "out" / "posterior.nc")
    assert post.learner({"zip": "45501"}).sum() == pytest.approx(1.0)
    hidden = [value for value in post.table.domains["age"].values if "not shown" in str(value)]
    assert len(hidden) == (4 if options else 0)


@pytest.mark.parametrize(
    ("row", "value", "place"),
    [(1, (77, 45502, "cold"), "Row 1 "), (1, (22, 45502, "measles"), "'ill'"),
     (4, (20, 99177, "flu"), "Row 4 ")],
)  # fmt: skip
def test_messages_show_no_value_of_the_cleartext(refused, old_people, row, value, place):
    old_people("clear.csv", [value if i == row else r for i, r in enumerate(CLEAR)])
    said = refused(*ASK)
    assert place in said and not re.search("77|45502|99177|measles|9[137]", said)


def test_cells_that_nobody_in_clear_fits_are_named_without_the_others(refused, old_people):
    old_people("clear.csv", CLEAR[:4])
    said = refused(*ASK)
    assert "'90-99'" in said and not re.search("22|45502", said)
    known = ["--domain", "age=20,22,23,24,25,91,93", "--domain", "zip=45501,45502,99177,99188"]
    old_people("clear.csv", CLEAR)
    said = refused(*ASK, *known)
    assert "'age'" in said and "row 6" in said and "97" not in said
