"""What the schemes refuse, and how they say it."""

import numpy as np
import pandas as pd
import pytest
from schemes_support import TREES, random_frame

from anonbayes import anonymize
from anonbayes.errors import AnonymizationError, DomainError, TableError

SCHEMES = {
    "mondrian": lambda df, sensitive="ill", k=2, **kw: anonymize.mondrian(df, sensitive, k, **kw),
    "recode": lambda df, sensitive="ill", k=2, **kw: anonymize.recode(
        df,
        sensitive,
        {n: t for n, t in TREES.items() if n in getattr(df, "columns", TREES)},
        k,
        **kw,
    ),
    "anatomy": lambda df, sensitive="ill", k=2, **kw: anonymize.anatomy(
        df, sensitive, kw.pop("l", k), seed=1, **kw
    ),
}
horizontal = pytest.mark.parametrize("scheme", ["mondrian", "recode"])
every = pytest.mark.parametrize("scheme", SCHEMES)


def _run(scheme, *args, **kw):
    return SCHEMES[scheme](*args, **kw)


@every
def test_no_table(scheme):
    with pytest.raises(TableError, match=r"data frame.*list"):
        _run(scheme, [1, 2, 3])
    with pytest.raises(TableError, match=r"The cleartext table is empty \(0 rows"):
        _run(scheme, random_frame(5, 1).iloc[:0])


@every
def test_duplicate_and_unnamed_columns(scheme):
    df = random_frame(10, 1)
    with pytest.raises(TableError, match="'zip' appears twice"):
        _run(scheme, df.set_axis(["zip", "zip", "job", "ill"], axis=1))
    with pytest.raises(TableError, match="column name 3 is not text"):
        _run(scheme, df.set_axis([3, "zip", "job", "ill"], axis=1))


@every
def test_sensitive_column(scheme):
    df = random_frame(10, 1)
    with pytest.raises(TableError, match=r"'illness' is not in the table.*'ill'"):
        _run(scheme, df, "illness")
    with pytest.raises(TableError, match="'ill' is constant"):
        _run(scheme, df.assign(ill="flu"))
    with pytest.raises(TableError, match="There is no quasi-identifier"):
        _run(scheme, df[["ill"]])


@every
def test_missing_values(scheme):
    df = random_frame(10, 1).set_index(pd.Index(list("abcdefghij")))
    for column in ("zip", "ill"):
        broken = df.copy()
        broken.loc["d", column] = None
        with pytest.raises(TableError, match=rf"Column '{column}', row d: .* missing .*fillna"):
            _run(scheme, broken)


@every
def test_quasi_identifiers(scheme):
    df = random_frame(40, 1)
    assert _run(scheme, df, quasi_identifiers=["job", "zip"]).attributes == ("job", "zip")
    with pytest.raises(TableError, match=r"'zipp' is not in the table.*'zip'"):
        _run(scheme, df, quasi_identifiers=["zipp"])
    with pytest.raises(TableError, match="twice"):
        _run(scheme, df, quasi_identifiers=["zip", "zip"])
    with pytest.raises(TableError, match="both sensitive and"):
        _run(scheme, df, quasi_identifiers=["zip", "ill"])
    with pytest.raises(TableError, match="must be a list"):
        _run(scheme, df, quasi_identifiers="zip")
    with pytest.raises(TableError, match="There is no quasi-identifier"):
        _run(scheme, df, quasi_identifiers=[])


@pytest.mark.parametrize("number", [lambda i: f"{i:06d}", lambda i: i + 5000])
def test_a_column_that_numbers_the_rows_is_refused(number):
    """Case numbers, as texts or as numbers; distinct measurements and dates are none."""
    df = random_frame(120, 1).assign(case=[number(i) for i in range(120)])
    with pytest.raises(TableError, match=r"Column 'case' has 120 distinct values.*--drop"):
        _run("mondrian", df)
    days = pd.date_range("2025-01-01", periods=120).strftime("%d.%m.%Y")
    for kept in ([1.5 * i for i in range(120)], days):
        assert "case" in _run("mondrian", df.assign(case=kept)).attributes


def test_decimal_commas_are_noticed():
    df = random_frame(40, 1).assign(bmi=[f"{20 + i % 9},{i % 7}" for i in range(40)])
    df.loc[3, "bmi"] = "missing"
    with pytest.raises(TableError, match=r"Column 'bmi'.*decimal comma.*--decimal ,"):
        _run("mondrian", df)


@every
def test_values_outside_the_domain(scheme):
    df = random_frame(10, 1)
    df.loc[7, "zip"] = "77"
    with pytest.raises(DomainError, match="Column 'zip', row 7: '77' is not in the domain"):
        _run(scheme, df, domains={"zip": TREES["zip"].leaves})
    with pytest.raises(TableError, match="domains names 'zap'"):
        _run(scheme, df, domains={"zap": [1]})
    with pytest.raises(DomainError, match="give a list of values"):
        _run(scheme, df, domains={"ill": "abc"})


@every
@pytest.mark.parametrize("wrong", [0, -3, 2.5, "4", None, True, np.nan])
def test_numbers_of_rows_and_secrets(scheme, wrong):
    df = random_frame(10, 1)
    with pytest.raises(AnonymizationError, match="must be a whole number of at least 1"):
        _run(scheme, df, k=wrong)


@every
def test_numpy_integers_are_whole_numbers(scheme):
    assert _run(scheme, random_frame(60, 1), k=np.int64(2)).l >= 1


@horizontal
def test_more_than_the_table_holds(scheme):
    df = random_frame(12, 1)
    with pytest.raises(AnonymizationError, match=r"k=13.*12"):
        _run(scheme, df, k=13)
    distinct = df["ill"].nunique()
    with pytest.raises(AnonymizationError, match=f"so l can be at most {distinct}"):
        _run(scheme, df, l=distinct + 1)


@pytest.mark.parametrize("scheme", ["mondrian", "anatomy"])
def test_identifiers_and_unhashable_values(scheme):
    n = 10_000
    df = pd.DataFrame({"name": [f"p{i}" for i in range(n)], "ill": ["a", "b"] * (n // 2)})
    with pytest.raises(TableError, match=r"'name' has 10,000 distinct values.*identifier"):
        _run(scheme, df)
    given = _run(scheme, df, domains={"name": df["name"].tolist()})
    assert len(given.domains["name"]) == n
    with pytest.raises(TableError, match="'ill' has 10,000 distinct values"):
        _run(scheme, df.rename(columns={"name": "ill", "ill": "name"}))
    with pytest.raises(TableError, match=r"'ill' has 10,000 distinct values.*[Bb]in it"):
        _run(scheme, df.assign(ill=np.arange(n) / 7, name="x"))
    with pytest.raises(DomainError, match="not hashable"):
        _run(scheme, pd.DataFrame({"x": [[1], [2]] * 4, "ill": ["a", "b"] * 4}))


@pytest.mark.parametrize("scheme", ["mondrian", "anatomy"])
def test_mixed_types_are_values_like_others(scheme):
    df = pd.DataFrame({"x": pd.Series([1, "1a", 2.5, (3, 4)] * 3, dtype=object)})
    df["ill"] = ["a", "b", "c"] * 4
    table = _run(scheme, df)
    assert len(table.domains["x"]) == 4
    assert table.n_rows == 12


@horizontal
def test_a_hierarchy_that_misses_a_value_or_a_column(scheme):
    df = random_frame(10, 1)
    df.loc[7, "zip"] = "77"
    with pytest.raises(DomainError, match="Column 'zip', row 7: '77' is not in the domain"):
        anonymize.recode(df, "ill", TREES, 2)
    with pytest.raises(TableError, match="hierarchies names 'zap'"):
        anonymize.mondrian(df, "ill", 2, hierarchies={"zap": TREES["zip"]})
    with pytest.raises(TableError, match="directory of hierarchies"):
        anonymize.recode(df, "ill", "/no/such/place", 2)
