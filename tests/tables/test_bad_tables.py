"""Bad input to the constructors: each has an error that names the place and what to do."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from anonbayes import ReleasedTable, anonymize, read_arx
from anonbayes.errors import AnonbayesError, CellError, TableError

GOOD = pd.DataFrame({"x": ["a", "b", "a"], "y": [1, 2, 2], "s": ["u", "v", "u"]})


def twice(frame):
    return frame.set_axis(["x", "x", "s"], axis=1)


@pytest.mark.parametrize(
    ("frame", "how", "part"),
    [
        (GOOD.iloc[:0], {}, "empty .0 rows, 3 columns"),
        (pd.DataFrame(), {}, "empty"),
        (pd.DataFrame(index=range(3)), {}, "empty .3 rows, 0 columns"),
        ({"x": [1]}, {}, "must be a data frame"),
        (twice(GOOD), {}, "'x' appears twice"),
        (GOOD.set_axis(["x", 7, "s"], axis=1), {}, "7 is not text"),
        (GOOD.set_axis(["x", None, "s"], axis=1), {}, "(None|nan) is not text"),
        (GOOD.set_axis(["x", "", "s"], axis=1), {}, "column 2 has no name"),
        (GOOD, {"sensitive": "S"}, "sensitive column 'S' is not in the table. Did you mean 's'"),
        (GOOD, {"sensitive": []}, "at least one sensitive"),
        (GOOD, {"sensitive": ["s", "s"]}, "named twice"),
        (GOOD, {"sensitive": ["s", "z"]}, "'z' is not in the table"),
        (GOOD, {"sensitive": [["s"]]}, "is not in the table"),
        (GOOD, {"sensitive": ["x", "y", "s"]}, "no column other than the sensitive"),
        (GOOD[["s"]], {}, "no column other than the sensitive"),
        (GOOD.assign(**{"y & s": 1}), {"sensitive": ["y", "s"]}, "a column of that name already"),
        (GOOD.assign(s="u"), {}, r"'s' is constant .*domains=\{'s'"),
        (GOOD, {"group": "g"}, "group column 'g' is not"),
        (GOOD, {"group": "s"}, "both the group and a sensitive"),
        (GOOD, {"domains": {"z": [1]}}, "domains names 'z'"),
        (GOOD, {"domains": ["x"]}, "domains must be a mapping .* got list"),
        (GOOD, {"hierarchies": {"z": None}}, "hierarchies names 'z'"),
        (GOOD, {"channels": {"z": None}}, "channels names 'z'"),
        (GOOD, {"missing": {"z": "unknown"}}, "missing names 'z'"),
        (GOOD, {"missing": "ignore"}, "missing='ignore' is not valid"),
        (GOOD, {"missing": None}, "missing=None is not valid"),
        (GOOD, {"domains": {"x": ["a"]}}, "Column 'x', row 1: cell 'b'"),
        (GOOD.assign(x=["a", None, "b"]), {}, "Column 'x', row 1: .*missing"),
        (GOOD.assign(s=["u", float("nan"), "v"]), {}, "Column 's', row 1: .*missing"),
        (GOOD.assign(g=[1, None, 2]), {"group": "g"}, "Column 'g', row 1: the group is missing"),
        (GOOD.assign(g=[1, "1", 2]), {"group": "g"}, "look the same"),
    ],
)  # fmt: skip
def test_horizontal(frame, how, part):
    with pytest.raises(AnonbayesError, match=part):
        ReleasedTable.horizontal(frame, **{"sensitive": "s", **how})


def test_constant_secret_is_fine_when_other_values_are_possible():
    table = ReleasedTable.horizontal(GOOD.assign(s="u"), "s", domains={"s": ["u", "v"]})
    assert table.secret_counts.tolist() == [3, 0]


def test_row_labels_of_an_odd_index_are_named():
    odd = GOOD.set_index(pd.MultiIndex.from_tuples([("p", "1"), ("p", "1"), ("q", "2")]))
    assert ReleasedTable.horizontal(odd, "s").n_rows == 3
    with pytest.raises(CellError, match=r"row \('q', '2'\)"):
        ReleasedTable.horizontal(odd.assign(x=["a", "b", "zz"]), "s", domains={"x": ["a", "b"]})


# -- vertical ---------------------------------------------------------------------------------

QIT = pd.DataFrame({"x": ["a", "b", "c"], "gid": [1, 1, 2]})
ST = pd.DataFrame({"gid": [1, 1, 2], "s": ["u", "v", "u"]})
COUNTED = ST.assign(n=[1, 1, 1])


@pytest.mark.parametrize(
    ("qit", "st", "how", "part"),
    [
        (QIT.iloc[:0], ST, {}, "quasi-identifier table is empty"),
        (QIT, ST.iloc[:0], {}, "sensitive table is empty"),
        (QIT, ST, {"group": "g"}, "group column 'g'"),
        (QIT, ST.rename(columns={"gid": "g"}), {}, "group column 'gid'"),
        (QIT, ST, {"sensitive": "t"}, "sensitive column 't'"),
        (QIT, ST, {"sensitive": "gid"}, "both the group and the sensitive"),
        (QIT.assign(s="u"), ST, {}, "link .*that Anatomy hides"),
        (QIT[["gid"]], ST, {}, "no column besides the group"),
        (QIT, ST.assign(more=1), {}, r"unexpected columns \['more'\]"),
        (QIT, ST.iloc[:2], {}, "Group 2 has 1 rows .* and 0 in the sensitive"),
        (QIT.assign(gid=[1, 2, 2]), ST, {}, "Group 1 has 1 rows .* and 2 .*2 groups differ"),
        (QIT.assign(gid=[1, None, 2]), ST, {}, "'gid', row 1: the group is missing"),
        (QIT, ST.assign(gid=["1", "1", "2"]), {}, "look the same"),
        (QIT.assign(x=["a", "{a, b}", "b"]), ST, {}, "in clear"),
        (QIT, ST.assign(s=["u", "*", "v"]), {}, "in clear"),
        (QIT.assign(x=["a", None, "b"]), ST, {"missing": "unknown"}, "not available in a vertical"),
        (QIT, ST, {"missing": {"z": "category"}}, "missing names 'z'"),
        (QIT, ST, {"domains": {"gid": [1]}}, "domains names 'gid'"),
        (QIT, ST.assign(s="u"), {}, "constant"),
        (QIT, ST, {"count": "n"}, "count column 'n'"),
        (QIT, COUNTED, {"count": "s"}, "cannot hold the multiplicities"),
        (QIT, COUNTED.assign(n=[1, 0, 1]), {"count": "n"}, "'n', row 1: .*whole number"),
        (QIT, COUNTED.assign(n=[1, 1.5, 1]), {"count": "n"}, "1.5 is not a whole"),
        (QIT, COUNTED.assign(n=["1", "x", "1"]), {"count": "n"}, "'x' is not a whole"),
        (QIT, COUNTED.assign(n=[1, 10**15, 1]), {"count": "n"}, "add up to 1,000,000,000,000,002"),
    ],
)  # fmt: skip
def test_vertical(qit, st, how, part):
    with pytest.raises(AnonbayesError, match=part):
        ReleasedTable.vertical(qit, st, **{"group": "gid", "sensitive": "s", **how})


def test_missing_category_in_a_vertical_table():
    table = ReleasedTable.vertical(
        QIT.assign(x=["a", None, "b"]), ST, group="gid", sensitive="s", missing="category"
    )
    assert table.domains["x"].values == ("a", "b", "missing")
    assert table.to_frames()[0]["x"].tolist() == ["a", "missing", "b"]


SIGNALLING = GOOD.assign(y=[Decimal("1.5"), Decimal("sNaN"), Decimal("1.5")])


@pytest.mark.parametrize(
    "read",
    [
        lambda: ReleasedTable.horizontal(SIGNALLING, "s", missing={"y": "unknown"}),
        lambda: ReleasedTable.horizontal(SIGNALLING, "s", weights="y"),
        lambda: anonymize.mondrian(SIGNALLING, "s", k=1),
        lambda: anonymize.anatomy(SIGNALLING, "s", l=1, seed=1),
    ],
)
def test_signalling_nan(read):
    with pytest.raises(AnonbayesError, match="signalling NaN"):
        read()


def test_weights_that_are_no_whole_numbers():
    with pytest.raises(TableError, match="weights must hold an integer of at least 1"):
        ReleasedTable.horizontal(GOOD, "s", weights=np.array(["a", "b", "c"]))


@pytest.mark.parametrize("sep", ["§", "→", "😀"])
def test_a_separator_of_several_bytes_is_read_alike_by_every_engine(sep, tmp_path):
    file = tmp_path / "t.csv"
    GOOD.to_csv(file, sep=sep, index=False)
    tables = [read_arx(file, sensitive="s", sep=sep, engine=e) for e in ("pandas", "duckdb")]
    assert tables[0] == tables[1]


def test_whole_number_that_no_float_holds():
    with pytest.raises(AnonbayesError, match="too large"):
        ReleasedTable.horizontal(
            GOOD.assign(y=pd.Series([10**400, "a", None], dtype=object)), "s", missing="unknown"
        )
