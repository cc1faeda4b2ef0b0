"""The real ARX and Anatomy tables: every figure of the README that came with them.

The figures in that README were counted from the files, independently of this package; its median
is the upper middle value.
"""

import json

import numpy as np
import pandas as pd
import pytest

from anonbayes import ReleasedTable, read_anatomy, read_arx

# file: suppressed rows, groups, average size, min, median, max, fewest distinct occupations
ARX = {
    "adult_5692_k4_l4_local": (0, 157, 36.3, 4, 13, 309, 4),
    "adult_5692_k4_l4_global": (255, 70, 77.7, 4, 18, 556, 4),
    "adult_5692_k6_l6_global": (267, 36, 150.7, 8, 21, 1015, 6),
    "adult_5692_k6_l6_global_s0": (0, 18, 316.2, 32, 160, 1349, 7),
    "adult_30162_k4_l4_local": (0, 417, 72.3, 4, 18, 1685, 4),
    "adult_30162_k4_l4_global": (952, 274, 106.6, 4, 18, 1720, 4),
}
ANATOMY = {
    "adult_5692_l4": (5692, 1423, {4: 1423}),
    "adult_5692_l6": (5692, 948, {6: 944, 7: 4}),
    "adult_30162_l4": (30162, 7540, {4: 7538, 5: 2}),
}


@pytest.mark.parametrize("name", ARX)
def test_arx(shared_data, name):
    table = read_arx(
        shared_data / "arx" / f"{name}.csv",
        sensitive="occupation",
        hierarchies=shared_data / "hierarchies",
    )
    sizes = np.sort(table.group_sizes.to_numpy())
    found = (
        table.n_suppressed, table.n_groups, round(float(sizes.mean()), 1), table.k,
        sizes[len(sizes) // 2], sizes[-1], table.l,
    )  # fmt: skip
    assert found == ARX[name]
    assert table.n_rows == int(name.split("_")[1])
    assert table.is_nested
    listed = shared_data / "arx" / f"{name}_suppressed_rows.txt"
    rows = [int(line) for line in listed.read_text().split()] if listed.exists() else []
    assert np.flatnonzero(table.group_codes < 0).tolist() == rows
    again = ReleasedTable.horizontal(table.to_frame(), "occupation", domains=table.domains)
    assert again == table


@pytest.mark.parametrize("name", ["adult_5692_k4_l4_local", "adult_30162_k4_l4_global"])
def test_cells_contain_the_truth(shared_data, name):
    """Row j of an ARX file generalizes row j of its input: every cell must allow the true value."""
    truth = pd.read_csv(shared_data / f"{'_'.join(name.split('_')[:2])}.csv", sep=";")
    table = read_arx(
        shared_data / "arx" / f"{name}.csv",
        sensitive="occupation",
        hierarchies=shared_data / "hierarchies",
    )
    for attribute, column in table.columns.items():
        codes = table.domains[attribute].encode(truth[attribute])
        allowed = column.evidence.matrix.toarray()[column.codes, codes]
        assert allowed.all(), attribute
    assert table.domains["occupation"].decode(table.secret_codes).tolist() == list(
        truth["occupation"]
    )


@pytest.mark.parametrize("name", ANATOMY)
def test_anatomy(shared_data, name):
    table = read_anatomy(
        shared_data / "anatomy" / f"{name}_qit.csv",
        shared_data / "anatomy" / f"{name}_st.csv",
        sensitive="occupation",
        group="group",
    )
    sizes = {int(k): int(v) for k, v in table.group_sizes.value_counts().items()}
    assert (table.n_rows, table.n_groups, sizes) == ANATOMY[name], json.dumps(sizes)
    assert np.array_equal(table.group_diversity, table.group_sizes)  # pairwise different
    again = ReleasedTable.vertical(*table.to_frames(), group="group", sensitive="occupation")
    assert again == table
