"""How tables look."""

import pandas as pd
import pytest

from anonbayes import ReleasedTable


@pytest.fixture
def table(wards, ward_domains):
    return ReleasedTable.horizontal(wards, "illness", domains=ward_domains)


def test_repr_is_one_line(table):
    assert repr(table) == (
        "ReleasedTable(horizontal, 7 rows, 3 groups + 1 suppressed row, k=1, l=1, "
        "sensitive='illness', attributes=['age', 'sex', 'zip'])"
    )


def test_describe_by_hand(table):
    lines = table.describe()
    assert list(lines.index) == ["age", "sex", "zip", "illness"]
    sex = lines.loc["sex"]
    assert (sex["role"], sex["values"], sex["distinct cells"]) == ("nonsensitive", 2, 2)
    assert sex["average values per cell"] == round((3 * 1 + 4 * 2) / 7, 2)
    assert sex["shown in clear"] == round(3 / 7, 4)
    assert lines.loc["illness", "role"] == "sensitive"
    assert lines.loc["illness", "shown in clear"] == 1


def test_overview(table):
    figures = table.overview()
    assert figures["rows"] == 7 and figures["suppressed rows"] == 1
    assert figures["largest group"] == 3 and figures["median group"] == 2
    assert figures["nested cells"] == "yes"


def test_html_is_escaped():
    frame = pd.DataFrame({"<b>x": ["<script>", "y"], "s & t": ["<i>", "v"]})
    page = ReleasedTable.horizontal(frame, "s & t")._repr_html_()
    assert "<script>" not in page and "<b>x" not in page and "<i>" not in page
    assert "&lt;script&gt;" in page and "s &amp; t" in page


def test_html_warns_of_unlinked_lines():
    qit = pd.DataFrame({"x": ["a", "b"], "g": [1, 1]})
    st = pd.DataFrame({"g": [1, 1], "s": ["u", "v"]})
    assert "not linked" in ReleasedTable.vertical(qit, st, "g", "s")._repr_html_()


def test_head_is_the_start_of_the_frame(table):
    assert table.head(2).to_dict("list") == table.to_frame().head(2).to_dict("list")
    assert len(table.head()) == 5
