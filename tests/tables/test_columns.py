"""Columns: inference of domains, merging of spellings, channels, missing cells."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from anonbayes import Domain, Hierarchy
from anonbayes.errors import AnonbayesError, CellError, DomainError, TableError
from anonbayes.tables.evidence import Column, Evidence, encode_column, frozen


def encoded(cells, **how):
    series = cells if isinstance(cells, pd.Series) else pd.Series(cells, dtype=object)
    return encode_column(series, name="x", **how)


def rows(column):
    return [[column.domain.values[k] for k in column.evidence.members(c)] for c in column.codes]


def test_spellings_of_one_cell_share_a_code():
    column = encoded(["{1, 2}", {2, 1}, [1, 2], "1-2", "<=2", "*"], domain=[1, 2])
    assert column.codes.tolist() == [0] * 6
    assert column.labels()[0] == "{1, 2}"


@pytest.mark.parametrize(
    ("cells", "domain"),
    [
        (["b", "a", "{a, c}"], ("a", "b", "c")),
        (["30", "9", "*"], (9, 30)),
        (["{30, 9}", "10"], (9, 10, 30)),
        (["09", "30"], ("09", "30")),
        ([frozenset("ab"), ["c"], "a"], ("a", "b", "c")),
        ([np.array([1, 2]), 3], (1, 2, 3)),
        ([" a", "a", "a "], ("a",)),
        ([2.5, 1], (1, 2.5)),
        ([True, False], (False, True)),
        (["a", 1], (1, "a")),
        (["{'b', 'a'}"], ("a", "b")),
    ],
)
def test_inferred_domains(cells, domain):
    assert encoded(cells).domain.values == domain


@pytest.mark.parametrize("dtype", ["string", "category", object])
def test_text_dtypes_read_alike(dtype):
    column = encoded(pd.Series(["b", "a", "b"]).astype(dtype))
    assert rows(column) == [["b"], ["a"], ["b"]]


@pytest.mark.parametrize("dtype", ["int8", "float32", "Int64", "category", object, "int64"])
def test_number_dtypes_read_alike(dtype):
    column = encoded(pd.Series([3, 1, 3]).astype(dtype))
    assert rows(column) == [[3], [1], [3]] and column.domain.is_numeric


def test_dates():
    dates = pd.Series(pd.to_datetime(["2020-02-01", "2020-01-01"]))
    column = encoded(dates)
    assert column.domain.values == (dates[1], dates[0])
    assert column.codes.tolist() == [0, 1]


def test_categories_are_the_domain_in_their_order():
    sizes = pd.Series(pd.Categorical(["L", "S"], categories=["S", "M", "L"], ordered=True))
    assert encoded(sizes).domain.values == ("S", "M", "L")


def test_bins_of_pandas_cut():
    ages = pd.Series([18, 25, 39, 25])
    column = encoded(pd.cut(ages, [17, 20, 30, 40]), domain=range(18, 41))
    assert [len(r) for r in rows(column)] == [3, 10, 10, 10]
    assert all(age in row for age, row in zip(ages, rows(column), strict=True))


def test_ranges_without_a_domain_are_as_fine_as_they_show(caplog):
    def values(*cells):
        return encode_column(pd.Series(cells, dtype=object), name="x").domain.values

    assert values("3-5", "[7, 9)", "*") == (3, 4, 5, 7, 8)
    assert values("[0.5, 0.7]", "1") == (0.5, 0.6, 0.7, 1)
    assert values("{1-2, unknown}", "5") == (1, 2, 5, "unknown")
    assert values("[2024-02-28, 2024-03-01]") == ("2024-02-28", "2024-02-29", "2024-03-01")
    assert values("31.12.2023 to 01.01.2024") == ("01.01.2024", "31.12.2023")
    assert "3 values from 0.5 to 0.7" in caplog.text


def test_patterns_need_a_domain():
    for cell in ("4550*", ">=50", "[1, inf)", "0-10000", "{a, >=50}", pd.Interval(0, 1)):
        with pytest.raises(DomainError, match=r"Column 'x'.*domains=\{'x'"):
            encoded([cell, "7"])


def test_a_column_that_shows_nothing():
    with pytest.raises(DomainError, match="shows no value"):
        encoded(["*", "*"])
    with pytest.raises(DomainError, match="shows no value"):
        encoded([None, None], missing="unknown")


def test_ten_thousand_values_are_an_identifier_unless_declared():
    names = [f"person {i}" for i in range(10_000)]
    with pytest.raises(TableError, match=r"10,000 distinct values.*identifier"):
        encoded(names)
    column = encoded(names, domain=names)
    assert len(column.domain) == 10_000 and column.codes.dtype == np.uint16
    assert len(encoded(names * 3).domain) == 10_000  # three rows each: a plain large domain


@pytest.mark.parametrize("cells", [[True, 1, 0], [1.0, False], [1, "1"], [True, "True"]], ids=str)
def test_mixed_types_that_look_alike(cells):
    with pytest.raises(DomainError, match="one type"):
        encoded(cells)


@pytest.mark.parametrize("cell", [{"a": 1}, [["a"]], ("a", ["b"]), [{"a"}]], ids=str)
def test_cells_of_impossible_types(cell):
    with pytest.raises(CellError, match=r"Column 'x', row 1"):
        encoded(["a", cell])


def test_errors_name_the_row_label():
    series = pd.Series(["a", "b", "zz"], index=["r1", "r2", "r3"])
    with pytest.raises(CellError, match="Column 'x', row r3: cell 'zz'"):
        encoded(series, domain=["a", "b"])
    with pytest.raises(CellError, match="Column 'x', row r2: cell '9-1'"):
        encoded(pd.Series([1, "9-1", 2], index=["r1", "r2", "r3"]), domain=[1, 2])


# -- missing --------------------------------------------------------------------------------


def test_missing_policies():
    cells = ["a", None, "b"]
    with pytest.raises(CellError, match="row 1"):
        encoded(cells)
    assert rows(encoded(cells, missing="unknown")) == [["a"], ["a", "b"], ["b"]]
    declared = encoded(cells, missing="category")
    assert declared.domain.values == ("a", "b", "missing")
    assert rows(declared) == [["a"], ["missing"], ["b"]]
    assert declared.labels().tolist() == ["a", "missing", "b"]
    assert encoded(["a", "b"], missing="category").domain.values == ("a", "b")


def test_missing_category_keeps_ranges():
    column = encoded(["20-21", None, ">=22"], domain=range(20, 24), missing="category")
    assert rows(column) == [[20, 21], ["missing"], [22, 23]]


def test_missing_category_keeps_the_hierarchy():
    tree = Hierarchy.from_prefix(["11", "12", "21"])
    column = encoded(["1*", "", "21", "*"], hierarchy=tree, missing="category", missing_label="?")
    assert rows(column) == [["11", "12"], ["?"], ["21"], ["11", "12", "21", "?"]]


def test_unknown_label_when_a_star_is_a_value():
    column = encoded(["*", None], domain=["*", "a"], missing="unknown")
    again = encoded(pd.Series(column.labels()), domain=column.domain)
    assert rows(again) == rows(column) == [["*"], ["*", "a"]]


# -- domains and hierarchies together ---------------------------------------------------------


def test_a_domain_of_another_name_is_renamed_and_hierarchies_win():
    tree = Hierarchy.from_prefix(["11", "12"])
    column = encoded(["1*"], domain=Domain("other", ["11", "12"]), hierarchy=tree)
    assert column.domain.name == "x" and column.domain.hierarchy is tree
    assert encoded(["1*"], hierarchy=tree).domain.values == ("11", "12")
    with pytest.raises(DomainError, match=r"hierarchy of column 'x' is a str"):
        encoded(["1*"], hierarchy="tree.csv")
    with pytest.raises(DomainError, match="list of values"):
        encoded(["a"], domain="ab")


# -- channels -------------------------------------------------------------------------------


class Coin:
    """Binary randomized response with truth probability 3/4, as a channel would offer it."""

    domain = Domain("anything", ["no", "yes"])

    def evidence(self, reports):
        codes = self.domain.encode(reports)
        return codes, ("no", "yes"), sparse.csr_array([[0.75, 0.25], [0.25, 0.75]])


def test_channel_column_is_soft():
    column = encoded(["yes", "no", "yes"], channel=Coin())
    assert column.domain == Domain("x", ["no", "yes"])
    assert column.codes.tolist() == [1, 0, 1] and not column.evidence.is_hard


def test_missing_reports():
    with pytest.raises(CellError, match="row 1: the report is missing"):
        encoded(["yes", None], channel=Coin())
    with pytest.raises(CellError, match="report is missing"):
        encoded(["yes", None], channel=Coin(), missing="category")
    column = encoded(["yes", None, "no"], channel=Coin(), missing="unknown")
    likelihood = column.evidence.matrix.toarray()[column.codes]
    assert likelihood.tolist() == [[0.25, 0.75], [1.0, 1.0], [0.75, 0.25]]


def test_channel_conflicts():
    with pytest.raises(TableError, match="defines its domain"):
        encoded(["yes"], channel=Coin(), domain=["no", "yes"])

    class Lossy(Coin):
        def evidence(self, reports):
            codes, labels, matrix = super().evidence(reports)
            return codes[:-1], labels, matrix

    with pytest.raises(TableError, match="read 1 of 2 reports"):
        encoded(["yes", "no"], channel=Lossy())


# -- the column itself ----------------------------------------------------------------------


def test_codes_are_checked_small_and_frozen():
    exact = Evidence.exact(Domain("x", ["a", "b"]))
    source = np.array([0, 1, 1])
    column = Column(exact, source)
    source[0] = 1
    assert column.codes.tolist() == [0, 1, 1] and column.codes.dtype == np.uint8
    with pytest.raises(ValueError, match="read-only"):
        column.codes[0] = 1
    assert column.take(np.array([2, 0])).codes.tolist() == [1, 0]
    for codes in ([0, 2], [-1, 0], [0.5], [[0]]):
        with pytest.raises(AnonbayesError, match="codes"):
            Column(exact, np.array(codes))


def test_frozen_copies_only_what_others_could_write():
    kept = frozen(np.arange(3))
    assert frozen(kept) is kept
    base = np.arange(3)
    view = base[:]
    view.setflags(write=False)
    safe = frozen(view)
    base[0] = 7
    assert safe[0] == 0
