"""The tables that come with the project: what their README says about k, l and groups is so."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from anonbayes import ReleasedTable, read_anatomy, read_arx

DATA = Path(__file__).parents[2] / "data"


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
