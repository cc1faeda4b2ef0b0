"""Readers of ARX and Anatomy files."""

import pytest

from anonbayes import Hierarchy, ReleasedTable, read_anatomy, read_arx
from anonbayes.errors import AnonbayesError, CellError, TableError
from anonbayes.tables.readers import read_hierarchies

RELEASED = """age;sex;note;illness
[20, 30[;f;x;flu
[20, 30[;f;y;cold
30;*;z;flu
*;*;*;asthma
"""
AGES = "\n".join(f"{a};[{a // 10 * 10}, {a // 10 * 10 + 10}[;*" for a in range(20, 40))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "released.csv").write_text(RELEASED)
    (tmp_path / "trees").mkdir()
    (tmp_path / "trees" / "my_hierarchy_age.csv").write_text(AGES)
    (tmp_path / "trees" / "sex.csv").write_text("f;*\nm;*\n")
    return tmp_path


def read(folder, **how):
    given = {"sensitive": "illness", "hierarchies": folder / "trees", "drop": ["note"]}
    return read_arx(folder / "released.csv", **{**given, **how})


def test_arx(folder):
    table = read(folder)
    assert (table.n_rows, table.n_groups, table.n_suppressed, table.k) == (4, 2, 1, 1)
    assert len(table.domains["age"]) == 20 and table.domains["age"].is_numeric
    assert table.domains["sex"].values == ("f", "m")
    assert ReleasedTable.horizontal(table.to_frame(), "illness", domains=table.domains) == table


def test_hierarchies_as_mapping(folder):
    mapping = {
        "age": folder / "trees" / "my_hierarchy_age.csv",
        "sex": Hierarchy(["f", "m"], []),
    }
    assert read(folder, hierarchies=mapping) == read(folder)


def test_several_sensitive_columns(folder):
    (folder / "released.csv").write_text(RELEASED.replace("*;*;*", "*;*;x"))
    table = read(folder, sensitive=["note", "illness"], drop=[])
    assert table.sensitive == "note & illness" and table.attributes == ("age", "sex")
    assert table.to_frame().iloc[3].tolist() == ["*", "*", ("x", "asthma")]


def test_files_are_matched_to_the_longest_column_name(tmp_path):
    (tmp_path / "h_salary-class.csv").write_text("a;*\n")
    (tmp_path / "h_class.csv").write_text("b;*\n")
    trees = read_hierarchies(tmp_path, ["class", "salary-class"])
    assert trees["salary-class"].leaves == ("a",) and trees["class"].leaves == ("b",)
    (tmp_path / "class.csv").write_text("c;*\n")  # the exact name wins
    assert read_hierarchies(tmp_path, ["class"])["class"].leaves == ("c",)


def test_several_files_for_one_column(tmp_path):
    for name in ("a_age.csv", "b_age.csv"):
        (tmp_path / name).write_text("1;*\n")
    with pytest.raises(TableError, match=r"'age': a_age.csv, b_age.csv"):
        read_hierarchies(tmp_path, ["age"])
    with pytest.raises(TableError, match="matches a column"):
        read_hierarchies(tmp_path, ["zip"])
    with pytest.raises(TableError, match="does not exist"):
        read_hierarchies(tmp_path / "absent", ["zip"])
    assert read_hierarchies(None, ["zip"]) is None


def test_empty_cells_follow_the_policy(folder):
    text = RELEASED.replace("30;*;z", "30;;z")
    (folder / "released.csv").write_text(text)
    with pytest.raises(CellError, match="'sex', row 2"):
        read(folder)
    unknown = read(folder, missing="unknown")
    assert unknown.to_frame()["sex"].tolist() == ["f", "f", "*", "*"]
    declared = read(folder, missing={"sex": "category"}, missing_label="n/a")
    assert declared.domains["sex"].values == ("f", "m", "n/a")
    assert declared.to_frame()["sex"].tolist() == ["f", "f", "n/a", "*"]


@pytest.mark.parametrize(
    ("how", "part"),
    [
        ({"sensitive": "ill"}, "'ill' is not in the table"),
        ({"drop": ["ages"]}, "dropped column 'ages'.*'age'"),
        ({"sep": ","}, "separated by ','|has no name|not in the table"),
    ],
)
def test_arx_errors(folder, how, part):
    with pytest.raises(AnonbayesError, match=part):
        read(folder, **how)


# -- Anatomy ----------------------------------------------------------------------------------


def written(folder, st, qit="sex;age;group\nf;30;10\nm;41;9\nf;52;9\n"):
    (folder / "qit.csv").write_text(qit)
    (folder / "st.csv").write_text(st)
    return folder / "qit.csv", folder / "st.csv"


def test_both_published_forms_agree(tmp_path):
    def read(st):
        return read_anatomy(*written(tmp_path, st), sensitive="ill", group="group")

    lines = read("group;ill\n9;cold\n9;flu\n10;flu\n")
    counted = read("group;ill;Count\n9;cold;1\n9;flu;1\n10;flu;1\n")
    assert lines == counted
    assert lines.group_labels.tolist() == [9, 10]  # as numbers, not as texts
    assert lines.domains["age"].values == (30, 41, 52)
    again = ReleasedTable.vertical(*lines.to_frames(), group="group", sensitive="ill")
    assert again == lines


def test_text_groups(tmp_path):
    files = written(tmp_path, "group;ill\na;flu\nb;cold\n", qit="sex;group\nf;b\nm;a\n")
    table = read_anatomy(*files, sensitive="ill", group="group")
    assert table.group_labels.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("st", "part"),
    [
        ("group;ill\n9;cold\n9;flu\n", "Group 10 has 1 rows"),
        ("group;ill;other\n9;cold;1\n9;flu;1\n10;flu;1\n", "unexpected columns"),
        ("group;ill;n\n9;cold;1\n9;flu;2\n10;flu;1\n", "add up to 4 rows"),
        ("group;illness\n9;cold\n", "sensitive column 'ill'"),
        ("g;ill\n9;cold\n", "group column 'group'"),
        ("group;ill\n9;cold\n;flu\n10;flu\n", "the group is missing"),
        ("group;ill\n9;\n9;flu\n10;flu\n", "'ill', row 0: .*missing"),
    ],
)
def test_anatomy_errors(tmp_path, st, part):
    with pytest.raises(AnonbayesError, match=part):
        read_anatomy(*written(tmp_path, st), sensitive="ill", group="group")
