"""ReleasedTable: counts, groups, round trips, equality, immutability."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from anonbayes import Domain, Hierarchy, ReleasedTable
from anonbayes.errors import AnonbayesError, TableError
from anonbayes.tables.evidence import Column, Evidence
from anonbayes.tables.groups import distinct_rows
from anonbayes.tables.readers import set_apart


@pytest.fixture
def table(wards, ward_domains):
    return ReleasedTable.horizontal(wards, "illness", domains=ward_domains)


@pytest.fixture
def anatomy():
    qit = pd.DataFrame(
        {"sex": list("fmfmf"), "age": [30, 41, 30, 52, 41], "gid": [2, 1, 2, 1, 1]},
        index=list("vwxyz"),
    )
    st = pd.DataFrame({"gid": [1, 1, 1, 2, 2], "ill": ["flu", "cold", "flu", "hiv", "flu"]})
    return ReleasedTable.vertical(qit, st, group="gid", sensitive="ill")


# -- horizontal -------------------------------------------------------------------------------


def test_anatomy_of_the_example(table):
    assert (table.scheme, table.n_rows, len(table)) == ("horizontal", 7, 7)
    assert table.attributes == ("age", "sex", "zip")
    assert list(table.domains) == ["age", "sex", "zip", "illness"]
    # Rows 0 and 1 spell the same cells differently, and so do rows 3, 4 and 5.
    assert table.group_codes.tolist() == [0, 0, 1, 2, 2, 2, -1]
    assert (table.n_groups, table.n_suppressed) == (3, 1)
    assert table.group_sizes.tolist() == [2, 1, 3]
    assert table.group_diversity.tolist() == [2, 1, 2]
    assert (table.k, table.l) == (1, 1)
    assert table.is_nested and table.secrets_known
    assert table.domains["illness"].values == ("asthma", "cold", "flu")


def test_counts_by_hand(table):
    # age: 20-24, >=25 (which is 25-29 here), *; illness: asthma, cold, flu
    assert table.counts["age"].toarray().tolist() == [[0, 1, 2], [1, 2, 0], [0, 0, 1]]
    # sex: f, and the whole domain in its three spellings
    assert table.counts["sex"].toarray().tolist() == [[0, 1, 2], [1, 2, 1]]
    assert table.secret_counts.tolist() == [1, 3, 3]
    for counts in table.counts.values():
        assert counts.sum(axis=0).tolist() == table.secret_counts.tolist()


def test_counts_agree_with_a_plain_loop():
    rng = np.random.default_rng(3)
    cells = np.array(["a", "b", "{a, b}", "*", "c"], dtype=object)
    frame = pd.DataFrame(
        {"x": cells[rng.integers(5, size=500)], "y": cells[rng.integers(5, size=500)],
         "s": rng.integers(4, size=500)}
    )  # fmt: skip
    table = ReleasedTable.horizontal(frame, "s")
    for name in "xy":
        column = table.columns[name]
        expected = np.zeros((len(column.evidence), 4), dtype=int)
        for cell, secret in zip(column.codes, frame["s"], strict=True):
            expected[cell, secret] += 1
        assert np.array_equal(table.counts[name].toarray(), expected)


def test_records_are_the_distinct_rows(table):
    records = table.records
    assert records.count.sum() == 7 and len(records.count) == 6  # rows 3 and 4 are equal
    stacked = np.column_stack([*(c.codes for c in table.columns.values()), table.secret.codes])
    rebuilt = np.column_stack([records.codes, records.secret])[records.inverse]
    assert np.array_equal(stacked, rebuilt)


def test_overlapping_cells_are_not_nested():
    frame = pd.DataFrame({"x": ["{a, b}", "{b, c}"], "s": [0, 1]})
    assert not ReleasedTable.horizontal(frame, "s").is_nested


def test_given_groups_keep_their_names():
    frame = pd.DataFrame(
        {"x": ["a", "a", "b", "b"], "s": [0, 1, 0, 1], "g": ["two", "one", "two", "one"]}
    )
    table = ReleasedTable.horizontal(frame, "s", group="g")
    assert table.group_sizes.to_dict() == {"one": 2, "two": 2}
    assert table.group_name == "g" and table.attributes == ("x",)
    assert table.to_frame()["g"].tolist() == frame["g"].tolist()
    assert ReleasedTable.horizontal(table.to_frame(), "s", group="g") == table


def test_given_groups_with_suppressed_rows():
    frame = pd.DataFrame({"x": ["a", "b", "*"], "s": [0, 1, 1], "g": [7, 7, None]})
    table = ReleasedTable.horizontal(frame, "s", group="g")
    assert table.group_codes.tolist() == [0, 0, -1] and table.group_labels.tolist() == [7]
    again = ReleasedTable.horizontal(table.to_frame(), "s", domains=table.domains, group="g")
    assert again == table and again.n_suppressed == 1
    frame["x"] = ["a", "b", "a"]
    with pytest.raises(TableError, match="'g', row 2: the group is missing"):
        ReleasedTable.horizontal(frame, "s", group="g")


def test_only_starred_rows_are_suppressed():
    # The set of all values and a domain of one value hide nothing on purpose.
    frame = pd.DataFrame({"x": ["{a, b}", "a", "*"], "one": ["u", "u", "*"], "s": [0, 1, 0]})
    table = ReleasedTable.horizontal(frame, "s")
    assert table.group_codes.tolist() == [0, 1, -1]
    assert table.to_frame()["x"].tolist() == ["{a, b}", "a", "*"]
    assert ReleasedTable.horizontal(table.to_frame(), "s", domains=table.domains) == table


def test_unknown_rows_are_suppressed_too():
    frame = pd.DataFrame({"x": ["a", None, "b"], "y": [1, None, 2], "s": [0, 1, 0]})
    table = ReleasedTable.horizontal(frame, "s", missing="unknown")
    assert table.group_codes.tolist() == [0, -1, 1]
    assert ReleasedTable.horizontal(table.to_frame(), "s", domains=table.domains) == table


def test_every_row_suppressed():
    frame = pd.DataFrame({"x": ["*", "*"], "s": [0, 1]})
    table = ReleasedTable.horizontal(frame, "s", domains={"x": ["a", "b", "c"]})
    assert (table.n_groups, table.n_suppressed, table.k, table.l) == (0, 2, 0, 0)
    assert "0 groups + 2 suppressed rows" in repr(table)
    assert "suppressed" in table._repr_html_()


def test_generalized_secrets():
    frame = pd.DataFrame({"x": ["a", "b", "a"], "s": ["{u, v}", "u", "*"]})
    table = ReleasedTable.horizontal(frame, "s")
    assert not table.secrets_known and not table.is_nested
    with pytest.raises(TableError, match="value of each row is not known"):
        _ = table.secret_codes
    with pytest.raises(TableError, match="value of each row is not known"):
        _ = table.counts
    assert ReleasedTable.horizontal(table.to_frame(), "s", domains=table.domains) == table


def test_several_sensitive_columns_are_joined():
    frame = pd.DataFrame(
        {"x": list("aabb"), "s": ["u", "v", "u", "u"], "t": ["2", "10", "10", "2"]}
    )
    table = ReleasedTable.horizontal(frame, ["s", "t"])
    assert table.sensitive == "s & t"
    assert table.domains["s & t"].values == (("u", 2), ("u", 10), ("v", 10))
    assert table.secret_codes.tolist() == [0, 2, 1, 0]
    assert table.secrets_known and table.l == 2
    again = ReleasedTable.horizontal(table.to_frame(), "s & t", domains=table.domains)
    assert again == table
    wider = ReleasedTable.horizontal(
        frame, ["s", "t"], domains={"s & t": [(s, t) for s in "uv" for t in (2, 10)]}
    )
    assert len(wider.domains["s & t"]) == 4 and wider.secret_codes.tolist() == [0, 3, 1, 0]


def test_joined_columns_must_be_in_clear():
    frame = pd.DataFrame({"x": list("ab"), "s": ["u", "{u, v}"], "t": [1, 2]})
    with pytest.raises(TableError, match="clear"):
        ReleasedTable.horizontal(frame, ["s", "t"])


class Coin:
    domain = Domain("coin", ["no", "yes"])

    def evidence(self, reports):
        matrix = sparse.csr_array([[0.75, 0.25], [0.25, 0.75]])
        return self.domain.encode(reports), ("no", "yes"), matrix


def test_channel_columns():
    frame = pd.DataFrame({"x": ["no", "yes", "yes"], "y": ["a", "*", "b"], "s": [0, 1, 1]})
    table = ReleasedTable.horizontal(frame, "s", channels={"x": Coin()})
    assert not table.is_nested and table.n_suppressed == 0
    assert table.counts["x"].toarray().tolist() == [[1, 0], [0, 2]]
    assert table.describe().loc["x", "evidence"] == "channel"
    kept = {name: table.domains[name] for name in ("y", "s")}
    again = ReleasedTable.horizontal(table.to_frame(), "s", channels={"x": Coin()}, domains=kept)
    assert again == table
    secret = ReleasedTable.horizontal(
        pd.DataFrame({"x": ["a", "b"], "s": ["no", "yes"]}), "s", channels={"s": Coin()}
    )
    assert not secret.secrets_known


# -- vertical ---------------------------------------------------------------------------------


def test_vertical_is_sorted_by_group(anatomy):
    assert anatomy.scheme == "vertical"
    assert anatomy.group_codes.tolist() == [0, 0, 0, 1, 1]
    assert anatomy.group_sizes.to_dict() == {1: 3, 2: 2}
    assert (anatomy.k, anatomy.l) == (2, 2)
    qit, st = anatomy.to_frames()
    assert qit["sex"].tolist() == ["m", "m", "f", "f", "f"]
    assert st["ill"].tolist() == ["flu", "cold", "flu", "hiv", "flu"]
    assert ReleasedTable.vertical(qit, st, group="gid", sensitive="ill") == anatomy
    assert not anatomy.is_nested
    with pytest.raises(TableError, match="hides which"):
        _ = anatomy.counts


def test_vertical_with_multiplicities(anatomy):
    qit, st = anatomy.to_frames()
    counted = st.value_counts(sort=False).reset_index(name="count")
    table = ReleasedTable.vertical(qit, counted, group="gid", sensitive="ill", count="count")
    assert table.group_diversity.tolist() == anatomy.group_diversity.tolist()
    assert table.secret_counts.tolist() == anatomy.secret_counts.tolist()


def test_cells_of_a_vertical_table_are_its_values(anatomy):
    """However they were numbered: equal tables give samplers equal codes."""
    name, column = next(iter(anatomy.columns.items()))
    order = np.arange(len(column.evidence))[::-1]
    cells = column.evidence.matrix[order]
    turned = Evidence(column.domain, [column.evidence.labels[i] for i in order], cells)
    other = Column(turned, np.argsort(order)[column.codes])
    again = replace(anatomy, columns={**anatomy.columns, name: other})
    assert again == anatomy and np.array_equal(again.columns[name].codes, column.codes)
    wide = Evidence(column.domain, ["*"], np.ones((1, len(column.domain))))
    with pytest.raises(TableError, match="publishes values in clear"):
        replace(anatomy, secret=Column(wide, np.zeros(anatomy.n_lines, dtype=int)))


def test_to_frames_is_for_vertical_tables(table):
    with pytest.raises(TableError, match="two parts"):
        table.to_frames()


# -- identity ---------------------------------------------------------------------------------


def test_round_trip_of_the_example(table):
    again = ReleasedTable.horizontal(table.to_frame(), "illness", domains=table.domains)
    assert again == table and hash(again) == hash(table)
    assert again.to_frame().equals(table.to_frame())


def test_round_trip_through_a_file(table, tmp_path):
    from anonbayes import read_arx

    table.to_frame().to_csv(tmp_path / "t.csv", sep=";", index=False)
    assert read_arx(tmp_path / "t.csv", sensitive="illness", domains=table.domains) == table


def test_equality_is_about_content(table, wards, ward_domains):
    def made(frame=wards, **domains):
        return ReleasedTable.horizontal(frame, "illness", domains={**ward_domains, **domains})

    assert made() == table and made() is not table
    assert made(wards.replace({"sex": {"*": "{m, f}"}}).assign(sex=wards["sex"])) == table
    assert made(wards.set_index(pd.Index([9] * 7))) == table
    assert made(age=range(20, 31)) != table
    assert made(wards.assign(illness=wards["illness"][::-1].to_numpy())) != table
    assert made(wards[["sex", "age", "zip", "illness"]]) != table
    assert made(wards.iloc[::-1]) != table
    assert table != "table"


def test_order_and_waste_of_cells_do_not_count():
    domain, secret = Domain("x", ["a", "b"]), Domain("s", [0, 1])
    read = ReleasedTable.horizontal(pd.DataFrame({"x": ["b", "b"], "s": [1, 0]}), "s",
                                    domains={"x": domain})  # fmt: skip
    put_together = ReleasedTable(
        "horizontal", "s",
        {"x": Column(Evidence.exact(domain), np.array([1, 1]))},
        Column(Evidence.exact(secret), np.array([1, 0])),
        np.array([0, 0]), pd.RangeIndex(1),
    )  # fmt: skip
    assert put_together == read


def test_copies_and_pickles_are_equal(table, anatomy):
    for one in (table, anatomy):
        _ = one.fingerprint, one.domains, one.group_sizes
        for again in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one), replace(one)):
            assert again == one and again.group_name == one.group_name
            with pytest.raises(ValueError, match="read-only"):
                again.secret.codes[0] = 1


def test_nothing_can_be_changed(table):
    with pytest.raises(AttributeError):
        table.sensitive = "x"
    with pytest.raises(TypeError):
        table.columns["new"] = None
    with pytest.raises(TypeError):
        table.counts["new"] = None
    counts = table.counts["age"]
    for array in (
        table.group_codes, table.secret_codes, table.secret_counts, table.columns["age"].codes,
        table.columns["age"].evidence.matrix.data, counts.data, counts.indices, counts.indptr,
        table.records.codes, table.records.count,
    ):  # fmt: skip
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    sizes = table.group_sizes
    sizes.iloc[0] = 99
    frame = table.to_frame()
    frame.iloc[0, 0] = "changed"
    assert table.group_sizes.tolist() == [2, 1, 3] and table.to_frame().iloc[0, 0] == "20-24"


def test_the_source_frame_is_left_alone(wards, ward_domains):
    before = wards.copy(deep=True)
    table = ReleasedTable.horizontal(wards, "illness", domains=ward_domains)
    pd.testing.assert_frame_equal(wards, before)
    wards.iloc[:, :] = "x"
    assert table.to_frame().iloc[0, 0] == "20-24"


def test_parts_that_do_not_fit_together(table):
    with pytest.raises(TableError, match="2 and 7 rows"):
        replace(table, group_codes=np.array([0, 1]))
    with pytest.raises(TableError, match="from 0 to 5, but there are 3 groups"):
        replace(table, group_codes=np.array([0, 1, 2, 3, 4, 5, 5]))
    with pytest.raises(AnonbayesError, match="'diagonal'"):
        replace(table, scheme="diagonal")


# -- helpers ----------------------------------------------------------------------------------


def test_set_apart_of_a_table_put_together(wards, ward_domains):
    frame = wards.replace("{f, m}", "*")
    table = ReleasedTable.horizontal(frame, "illness", domains=ward_domains)
    together = replace(
        table, group_codes=np.array([0, 0, 1, 2, 2, 2, 3]), group_labels=pd.RangeIndex(4)
    )
    assert together.n_suppressed == 0
    assert set_apart(together) == table and table.n_suppressed == 1
    assert set_apart(table) == table


def test_distinct_rows_survives_huge_radices():
    rng = np.random.default_rng(1)
    columns = [rng.choice(np.array([0, 1, 2**31 - 2]), size=200) for _ in range(6)]
    inverse, first, count = distinct_rows(columns)
    stacked = np.column_stack(columns)
    assert np.array_equal(stacked[first][inverse], stacked)
    assert len(first) == len(np.unique(stacked, axis=0)) and count.sum() == 200
    assert np.array_equal(np.sort(first), first)


def test_hierarchies_reach_the_domains():
    tree = Hierarchy.from_prefix(["11", "12", "21"])
    frame = pd.DataFrame({"zip": ["1*", "21"], "s": [0, 1]})
    table = ReleasedTable.horizontal(frame, "s", hierarchies={"zip": tree})
    assert table.domains["zip"].hierarchy is tree
    assert ReleasedTable.horizontal(table.to_frame(), "s", domains=table.domains) == table
