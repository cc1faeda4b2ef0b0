"""Sets written as text: fast however wide, and read as by trying every split."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonbayes import Domain, Hierarchy
from anonbayes.errors import CellError
from anonbayes.tables.cells import CellParser
from tests.work import counted_lines

PLAIN = Domain("name", ["a", "b", "a, b", "b,c", "c", "'c", "x, y, z", "a*", "Doe, J. *", " d,e"])
TREE = Domain(
    "leaf",
    ["a", "b", "c", "d, e"],
    Hierarchy(["a", "b", "c", "d, e"], [["{a, b}", "{a, b}", "c, d", "c, d"], ["a, b, c"] * 4]),
)
MIXED = Domain("age", [20, 21, 30, "30, 31", "old"])


def every_split(parser, body):
    """Number of ways to cut a text into members, and the members of the last found."""
    pieces = body.split(",")
    ways = [1] + [0] * len(pieces)
    found = [frozenset()] * len(ways)
    for end in range(1, len(ways)):
        for start in range(end):
            codes = parser._set_member(",".join(pieces[start:end])) if ways[start] else None
            if codes is not None and len(codes):
                ways[end] += ways[start]
                found[end] = found[start] | frozenset(codes.tolist())
    return ways[-1], found[-1]


member = st.one_of(
    st.sampled_from(
        ["a", "b", "c", "a, b", "b,c", "'a, b'", "x, y, z", "x, y*", "x, *", "'x, y*'", "Doe, J. *",
         "{a, b}", "c, d", "a, b, c", "20", "[20, 30)", "20-30", "30, 31", ">=21", "*", "d, e",
         "d,e", " ", "", "no", "3*", "30, *"]
    ),
    st.text("ab,*' x", max_size=4),
)  # fmt: skip


@pytest.mark.parametrize("domain", [PLAIN, TREE, MIXED], ids=["plain", "tree", "mixed"])
@settings(max_examples=200)
@given(members=st.lists(member, min_size=1, max_size=6), sep=st.sampled_from([",", ", "]))
def test_as_by_trying_every_split(domain, members, sep):
    parser, body = CellParser(domain), sep.join(members)
    if not body.strip():
        return
    ways, codes = every_split(parser, body)
    if ways == 1:
        assert frozenset(parser.parse("{" + body + "}").tolist()) == codes
        return
    with pytest.raises(CellError, match="in several ways" if ways else "contains"):
        parser.parse("{" + body + "}")


def test_wide_sets_take_time_in_proportion():
    """Labels of a hierarchy that are wide sets themselves once made this cubic."""
    values = [f"v{i}" for i in range(1200)]
    whole = "{" + ", ".join(values[:600]) + "}"
    rest = "{" + ", ".join(values[600:]) + "}"
    tree = Hierarchy(values, [[whole] * 600 + [rest] * 600])
    parser = CellParser(Domain("x", values, tree))
    np.testing.assert_array_equal(parser.parse(whole), np.arange(600))  # and prepares itself
    parser.parse("{v1, v5}")
    steps = {}
    for last in (350, 600, 1100):
        text = "{" + ", ".join(values[100:last]) + "}"
        with counted_lines() as lines:
            codes = parser.parse(text)
        assert codes.tolist() == list(range(100, last))
        steps[last - 100] = lines.count
    assert steps[1000] - steps[500] < 3 * (steps[500] - steps[250])  # 8 times, if cubic
