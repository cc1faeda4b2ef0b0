"""Work inside groups gives what sorting all rows gave, and groups are numbered as before."""

import itertools

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab
from anonbayes.inference.vertical.group_layout import VerticalLayout, distinct_inside
from anonbayes.tables.groups import given_groups


def offsets_of(sizes):
    return np.concatenate([[0], np.cumsum(sizes)])


SIZES = {
    "pairs": np.full(500, 2),
    "mixed": np.random.default_rng(0).integers(1, 9, 300),
    "one": np.array([1000]),
}


@pytest.mark.parametrize("n_secrets", [2, 7, 400])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_distinct_values_are_those_of_unique(sizes, n_secrets):
    secrets = np.random.default_rng(2).integers(0, n_secrets, sizes.sum())
    offsets = offsets_of(sizes)
    distinct, first, ranks = distinct_inside(secrets, offsets, n_secrets)
    assert len(distinct) == first[-1]
    for g, (start, stop) in enumerate(itertools.pairwise(offsets)):
        values, inverse = np.unique(secrets[start:stop], return_inverse=True)
        assert distinct[first[g] : first[g + 1]].tolist() == values.tolist()
        assert ranks[start:stop].tolist() == inverse.tolist()


def test_starts_are_permutations_inside_groups_and_uniform():
    layout = VerticalLayout(
        items=np.zeros((6, 1), dtype=int), secrets=[0, 1, 2, 0, 1, 2], offsets=[0, 3, 6],
        sizes=[1], n_secrets=3,
    )  # fmt: skip
    rng = np.random.default_rng(3)
    seen = np.zeros((3, 3))
    for _ in range(3000):
        found = layout.check_assignment(layout.random_assignment(rng))
        seen[np.arange(3), found[:3]] += 1
    # Each of nine shares has standard error sqrt(1/3 * 2/3 / 3000) = 0.0086.
    np.testing.assert_allclose(seen / 3000, 1 / 3, atol=4 * 0.0086)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "int16"])
@pytest.mark.parametrize("labels", [[3, 4, 9], [0], [7], [0, 120], [1, 2, 3]])
def test_numbers_of_groups(labels, dtype):
    rng = np.random.default_rng(4)
    numbers = rng.choice(np.array(labels, dtype=dtype), 50)
    codes, named = given_groups(pd.Series(numbers), "g")
    wanted, inverse = np.unique(numbers, return_inverse=True)
    assert codes.dtype == np.int32 and named.tolist() == wanted.tolist()
    assert codes.tolist() == inverse.tolist()


@pytest.mark.parametrize("labels", [[-(2**62), 0, 2**62], [-5, -3, 0], [10**12, 10**12 + 1]])
def test_numbers_far_apart_or_negative(labels):
    numbers = np.array(labels * 3)
    codes, named = given_groups(pd.Series(numbers), "g")
    assert named.tolist() == labels and codes.tolist() == [0, 1, 2][: len(labels)] * 3


def test_a_shuffled_table_is_sorted_by_group():
    rng = np.random.default_rng(6)
    qit = pd.DataFrame({"age": rng.integers(20, 60, 400), "g": rng.permutation(400) // 4})
    st = pd.DataFrame({"g": np.arange(400) // 4, "ill": np.tile(["a", "b", "c", "d"], 100)})
    table = ab.ReleasedTable.vertical(
        qit, st.sample(frac=1, random_state=1), group="g", sensitive="ill"
    )
    wanted = qit.sort_values("g", kind="stable")["age"].tolist()
    column = table.columns["age"]
    assert column.domain.decode(column.codes).tolist() == wanted
    assert table.group_codes.tolist() == np.repeat(np.arange(100), 4).tolist()
