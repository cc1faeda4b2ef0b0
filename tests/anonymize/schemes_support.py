"""What the tests of the schemes share: random tables, and checks that do not use the package."""

import numpy as np
import pandas as pd
from hypothesis import strategies as st

import anonbayes as ab

ZIPS = ["11", "12", "13", "21", "22", "31"]
AGES = list(range(20, 40))
JOBS = ["nurse", "cook", "clerk", "judge"]

TREES = {
    "age": ab.Hierarchy.from_intervals(AGES, 5, 10),
    "zip": ab.Hierarchy.from_prefix(ZIPS),
    "job": ab.Hierarchy.from_levels(
        {"nurse": ["care"], "cook": ["care"], "clerk": ["desk"], "judge": ["desk"]}
    ),
}
DOMAINS = {"age": AGES, "zip": ZIPS, "job": JOBS}


@st.composite
def frames(draw, max_rows=40, secrets="abcd"):
    """Small tables of age, zip, job and a secret that is not constant."""
    row = st.tuples(
        st.sampled_from(AGES),
        st.sampled_from(ZIPS),
        st.sampled_from(JOBS),
        st.sampled_from(secrets),
    )
    rows = draw(st.lists(row, min_size=2, max_size=max_rows))
    rows[0], rows[1] = (*rows[0][:3], "a"), (*rows[1][:3], "b")
    return pd.DataFrame(rows, columns=["age", "zip", "job", "ill"])


def random_frame(n, seed):
    """A larger table with uneven columns."""
    rng = np.random.default_rng(seed)
    skewed = rng.beta(2, 5, size=(n, 4))
    return pd.DataFrame(
        {
            "age": np.asarray(AGES)[(skewed[:, 0] * len(AGES)).astype(int)],
            "zip": np.asarray(ZIPS)[(skewed[:, 1] * len(ZIPS)).astype(int)],
            "job": np.asarray(JOBS)[(skewed[:, 2] * len(JOBS)).astype(int)],
            "ill": np.asarray(list("abcdef"))[(skewed[:, 3] * 6).astype(int)],
        }
    )


def assert_covers(table, df):
    """Every true value is in its cell, and the sensitive column is unchanged."""
    for name, column in table.columns.items():
        allowed = [
            {column.domain.values[c] for c in column.evidence.members(i)}
            for i in range(len(column.evidence))
        ]
        for cell, value in zip(column.codes, df[name], strict=True):
            assert value in allowed[cell]
    assert table.to_frame()[table.sensitive].tolist() == df[table.sensitive].tolist()


def assert_private(table, k, l):  # noqa: E741
    """The published text satisfies k and l, by counting; suppressed rows show nothing."""
    frame = table.to_frame().astype(str)
    hidden = table.group_codes < 0
    cells = list(table.attributes)
    assert (frame.loc[hidden, cells] == "*").all(axis=None)
    groups = frame[~hidden].groupby(cells)[table.sensitive]
    assert groups.size().min() >= k
    assert groups.nunique().min() >= l


def read_back(table):
    """The table read from its own text, as a user would."""
    return ab.ReleasedTable.horizontal(table.to_frame(), table.sensitive, domains=table.domains)
