"""Random cells thrown at the parser: a subset of the domain, or the package's own error."""

import datetime
import decimal
import string

import numpy as np
import pandas as pd
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anonbayes import Domain, Hierarchy
from anonbayes.errors import AnonbayesError, CellError
from anonbayes.tables.cells import CellParser
from anonbayes.tables.evidence import encode_column

TREE = Hierarchy.from_intervals(range(-5, 30), 5, 10)
PARSERS = [
    CellParser(Domain("number", range(-5, 30), TREE)),
    CellParser(Domain("text", ["M", "J", "a, b", "a", "20-29", "4550*", "{x}", "", "-1", "ü"])),
    CellParser(Domain("code", [f"{i:05d}" for i in range(0, 200, 7)]), missing="unknown"),
    CellParser(Domain("mixed", [1, 2.5, "x", (1, 2), True and "True", pd.Timestamp(2020, 1, 1)])),
    CellParser(Domain("truth", [False, True, "missing"]), missing="category"),
]

syntax = st.text(alphabet="0123456789*-–,;.{}[]()<>=≥≤ +einfMJab'\"∞", max_size=14)
numbers = st.one_of(
    st.integers(-(10**25), 10**25),
    st.floats(allow_nan=True),
    st.decimals(allow_nan=True),
    st.fractions(),
    st.complex_numbers(),
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    numbers,
    st.text(max_size=8),
    syntax,
    st.binary(max_size=4),
    st.datetimes(),
    st.dates(),
    st.timedeltas(),
    st.sampled_from(
        [
            pd.NA, pd.NaT, np.datetime64("NaT", "ns"), np.datetime64("2020-01-01"), np.float32(1),
            np.int8(2), np.bool_(True), np.str_("M"), pd.Interval(0, 5), object(), int, ...,
            pd.Interval(pd.Timestamp(2020, 1, 1), pd.Timestamp(2021, 1, 1)), range(3), b"M",
            decimal.Decimal("sNaN"), datetime.UTC, "\ud800", "\x00", "{" * 9, "*" * 20, lambda: 0,
        ]
    ),
)  # fmt: skip
cells = st.one_of(
    scalars,
    st.lists(scalars, max_size=4),
    st.lists(scalars, max_size=3).map(tuple),
    st.sets(st.integers(-9, 40), max_size=5),
    st.dictionaries(st.integers(), st.integers(), max_size=2),
    st.lists(st.integers(-9, 40), max_size=5).map(np.array),
    st.lists(st.lists(st.integers(), max_size=2), max_size=2),
)
quick = settings(max_examples=250)


@quick
@given(cell=cells, which=st.integers(0, len(PARSERS) - 1))
@example("9" * 5000, 0)
@example("{" + "1," * 300 + "}", 0)
@example("[1e400, -1e400)", 0)
@example("1e400-1e400", 0)
def test_parser(cell, which):
    parser = PARSERS[which]
    try:
        codes = parser.parse(cell, row=1)
    except CellError as error:
        assert parser.domain.name in str(error) and "row 1" in str(error)
        return
    assert codes.ndim == 1 and 0 < len(codes) <= len(parser.domain)
    assert codes.dtype.kind == "i" and codes[0] >= 0 and codes[-1] < len(parser.domain)
    assert (np.diff(codes) > 0).all()


@quick
@given(column=st.lists(cells, min_size=1, max_size=4), given_domain=st.booleans())
@example([True, {0}], False)
@example([decimal.Decimal("sNaN")], False)
def test_columns(column, given_domain):
    series = pd.Series(np.fromiter(column, dtype=object, count=len(column)))
    domain = ["M", "J", "a", "1", "2"] if given_domain else None
    try:
        encoded = encode_column(series, name="x", domain=domain, missing="unknown")
    except AnonbayesError as error:
        assert "'x'" in str(error)
        return
    again = encode_column(pd.Series(encoded.labels()), name="x", domain=encoded.domain)
    assert np.array_equal(again.codes, encoded.codes)
    assert np.array_equal(again.evidence.matrix.toarray(), encoded.evidence.matrix.toarray())


@quick
@given(
    values=st.lists(
        st.text(alphabet=string.ascii_letters + string.digits + "*-,{}[]()<>= ", min_size=1),
        min_size=1,
        max_size=8,
        unique=True,
    ),
    data=st.data(),
)
def test_every_value_reads_as_itself(values, data):
    """Whatever stars, commas or minus signs a value has: the domain contains it, so it is it."""
    parser = CellParser(Domain("x", values))
    value = data.draw(st.sampled_from(values))
    assert parser.parse(value).tolist() == [values.index(value)]
    chosen = data.draw(st.sets(st.sampled_from(values), min_size=1))
    assert parser.parse(chosen).tolist() == sorted(values.index(v) for v in chosen)


@quick
@given(low=st.integers(-40, 40), high=st.integers(-40, 40), shape=st.integers(0, 5))
def test_ranges_mean_what_they_say(low, high, shape):
    """Text, pandas and plain comparison agree on every interval, negative ends included."""
    domain = Domain("x", range(-30, 31))
    text, keep = [
        (f"{low}-{high}", lambda x: low <= x <= high),
        (f"[{low}, {high})", lambda x: low <= x < high),
        (f"({low}, {high}]", lambda x: low < x <= high),
        (f"({low}; {high})", lambda x: low < x < high),
        (f">={low}", lambda x: x >= low),
        (f"<{high}", lambda x: x < high),
    ][shape]
    expected = [x for x in domain if keep(x)]
    try:
        found = [domain.values[c] for c in CellParser(domain).parse(text)]
    except CellError:
        assert not expected
    else:
        assert found == expected
