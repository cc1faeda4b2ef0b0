"""The tables that come with the project: what their README says about k, l and groups is so."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from anonbayes import ReleasedTable, read_anatomy, read_arx

DATA = Path(__file__).parents[2] / "data"
WARDS = Path(__file__).parents[1] / "data" / "wards"


@pytest.mark.parametrize("variant", ["global", "local"])
def test_clinic(variant):
    table = read_arx(
        DATA / f"clinic_k4_l3_{variant}.csv",
        sensitive="diagnosis",
        hierarchies=DATA / "clinic_hierarchies",
    )
    text = pd.read_csv(DATA / f"clinic_k4_l3_{variant}.csv", sep=";", dtype=str)
    quasi = [c for c in text.columns if c != "diagnosis"]
    hidden = (text[quasi] == "*").all(axis=1)
    groups = text[~hidden].groupby(quasi)["diagnosis"]
    assert (table.n_rows, table.n_suppressed) == (3000, hidden.sum())
    assert table.n_groups == groups.ngroups
    assert sorted(table.group_sizes) == sorted(groups.size())
    assert sorted(table.group_diversity) == sorted(groups.nunique())
    assert table.k >= 4 and table.l >= 3 and table.is_nested
    again = ReleasedTable.horizontal(table.to_frame(), "diagnosis", domains=table.domains)
    assert again == table


@pytest.mark.parametrize("variant", ["global", "local"])
def test_cells_of_the_clinic_contain_the_truth(variant):
    """Row j of the release generalizes row j of the cleartext: each cell allows the true value."""
    truth = pd.read_csv(DATA / "clinic.csv", sep=";", dtype={"zip": str})
    table = read_arx(
        DATA / f"clinic_k4_l3_{variant}.csv",
        sensitive="diagnosis",
        hierarchies=DATA / "clinic_hierarchies",
    )
    for attribute, column in table.columns.items():
        codes = table.domains[attribute].encode(truth[attribute])
        assert column.evidence.matrix.toarray()[column.codes, codes].all(), attribute
    secrets = table.domains["diagnosis"].decode(table.secret_codes)
    assert secrets.tolist() == truth["diagnosis"].tolist()


def test_a_release_as_arx_writes_it():
    """Twelve made-up lines; every figure counted by hand."""
    table = read_arx(WARDS / "wards.csv", sensitive="diagnosis", hierarchies=WARDS / "hierarchies")
    assert (table.n_rows, table.n_suppressed, table.n_groups) == (12, 1, 4)
    assert np.flatnonzero(table.group_codes < 0).tolist() == [11]
    assert sorted(table.group_sizes) == [2, 2, 3, 4]
    assert sorted(table.group_diversity) == [2, 2, 3, 3]
    assert (table.k, table.l) == (2, 2) and table.is_nested
    assert {name: len(table.domains[name]) for name in table.attributes} == {
        "age": 70, "sex": 2, "postcode": 9,
    }  # fmt: skip
    postcode = table.columns["postcode"].evidence
    assert dict(zip(map(str, postcode.labels), postcode.sizes, strict=True)) == {
        "4550*": 4, "4551*": 5, "455**": 9,  # and so is "*": equal cells are one
    }  # fmt: skip


def test_an_anatomy_counted_by_hand(tmp_path):
    """Five made-up people in two groups; sensitive values as a list, and as counts."""
    (tmp_path / "qit.csv").write_text(
        "age;sex;g\n31;f;1\n35;m;1\n31;m;2\n52;f;2\n60;f;2\n", "utf-8"
    )
    (tmp_path / "st.csv").write_text("g;ill\n1;flu\n1;cold\n2;flu\n2;cold\n2;gout\n", "utf-8")
    (tmp_path / "counts.csv").write_text(
        "g;ill;count\n1;flu;1\n1;cold;1\n2;flu;1\n2;cold;1\n2;gout;1\n", "utf-8"
    )
    listed = read_anatomy(tmp_path / "qit.csv", tmp_path / "st.csv", sensitive="ill", group="g")
    assert (listed.n_rows, listed.n_groups, listed.k, listed.l) == (5, 2, 2, 2)
    assert listed.group_sizes.tolist() == listed.group_diversity.tolist() == [2, 3]
    counted = read_anatomy(
        tmp_path / "qit.csv", tmp_path / "counts.csv", sensitive="ill", group="g", count="count"
    )
    assert counted == listed


def test_clinic_counts_against_a_cross_table():
    table = read_arx(
        DATA / "clinic_k4_l3_local.csv",
        sensitive="diagnosis",
        hierarchies=DATA / "clinic_hierarchies",
    )
    frame = table.to_frame()
    for name in table.attributes:
        cross = pd.crosstab(frame[name].astype(str), frame["diagnosis"])
        labels = [str(label) for label in table.columns[name].evidence.labels]
        assert np.array_equal(
            cross.loc[labels, list(table.domains["diagnosis"])], table.counts[name].toarray()
        )


def test_clinic_anatomy():
    table = read_anatomy(
        DATA / "clinic_l3_qit.csv", DATA / "clinic_l3_st.csv", sensitive="diagnosis", group="group"
    )
    assert table.n_rows == 3000 and table.k >= 3 and table.l >= 3
    assert ReleasedTable.vertical(*table.to_frames(), group="group", sensitive="diagnosis") == table


def test_table_one():
    """Groups, Table I(b): eight patients, four groups of two; nationalities overlap."""
    table = read_arx(
        DATA / "table1_recoded.csv",
        sensitive="Dis",
        domains={"ZIP": [*range(45500, 45510), *range(55500, 55510), 66601, 77701]},
    )
    assert (table.n_rows, table.n_groups, table.k, table.l) == (8, 4, 2, 2)
    assert len(table.domains["ZIP"]) == 22
    assert table.columns["ZIP"].evidence.is_nested and not table.is_nested
