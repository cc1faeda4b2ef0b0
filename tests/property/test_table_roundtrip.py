"""Random released tables: reading what a table shows gives the table."""

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from anonbayes import Hierarchy, ReleasedTable, read_arx

VALUES = list("abcd")
TREE = Hierarchy.from_intervals(range(20, 40), 5, 10)
sets = st.sets(st.sampled_from(VALUES), min_size=1).map(frozenset)
quick = settings(max_examples=60)


@st.composite
def frames(draw):
    n = draw(st.integers(2, 12))

    def column(cells):
        items = draw(st.lists(cells, min_size=n, max_size=n))
        return pd.Series(np.fromiter(items, dtype=object, count=n))

    ages = st.one_of(st.integers(20, 39), st.sampled_from([*TREE, ">=30", "21-33", "3*"]))
    return pd.DataFrame(
        {
            "set": column(st.one_of(sets, st.just("*"), st.sampled_from(VALUES))),
            "age": column(st.one_of(ages, st.just("*"), st.none())),
            "secret": column(st.sampled_from(["u", "v", "w"])),
        }
    )


def table_of(frame):
    return ReleasedTable.horizontal(
        frame,
        "secret",
        domains={"set": VALUES, "secret": list("uvw")},
        hierarchies={"age": TREE},
        missing={"age": "unknown"},
    )


@quick
@given(frame=frames())
def test_to_frame_loses_nothing(frame):
    table = table_of(frame)
    again = ReleasedTable.horizontal(table.to_frame(), "secret", domains=table.domains)
    assert again == table
    assert again.group_codes.tolist() == table.group_codes.tolist()
    assert again.n_suppressed == table.n_suppressed


@quick
@given(frame=frames())
def test_a_file_loses_nothing(frame, tmp_path_factory):
    table = table_of(frame)
    file = tmp_path_factory.mktemp("released") / "table.csv"
    table.to_frame().to_csv(file, sep=";", index=False)
    assert read_arx(file, sensitive="secret", domains=table.domains) == table


@quick
@given(frame=frames(), seed=st.integers(0, 2**32 - 1))
def test_statistics_do_not_depend_on_row_order(frame, seed):
    table = table_of(frame)
    order = np.random.default_rng(seed).permutation(len(frame))
    other = table_of(frame.iloc[order])
    assert sorted(other.group_sizes) == sorted(table.group_sizes)
    assert (other.k, other.l, other.is_nested) == (table.k, table.l, table.is_nested)
    for name, counts in table.counts.items():
        cells = [tuple(table.columns[name].evidence.members(c)) for c in range(counts.shape[0])]
        others = [tuple(other.columns[name].evidence.members(c)) for c in range(counts.shape[0])]
        expected = dict(zip(cells, counts.toarray().tolist(), strict=True))
        assert dict(zip(others, other.counts[name].toarray().tolist(), strict=True)) == expected
