"""Small functions against numbers worked out by hand."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import anonbayes as ab
from anonbayes.arrays import FAR, Scaled
from anonbayes.beliefs.editions import merge_by_key
from anonbayes.beliefs.learner import _add_products
from anonbayes.beliefs.register import prior_with
from anonbayes.beliefs.victims import batch_slices, in_terms_of, read_victims, secret_weights
from anonbayes.beliefs.worlds import log_evidence
from anonbayes.diagnostics.geweke import geweke_array
from anonbayes.diagnostics.quantities import flat_labels
from anonbayes.diagnostics.weiss import weiss_array
from anonbayes.errors import ModelError
from anonbayes.inference.dirichlet import Prior, draw_simplexes
from anonbayes.inference.run import RunStore, rows_to_keep
from anonbayes.inference.vertical.crossfit import left_out_ownership
from anonbayes.inference.vertical.group_layout import VerticalLayout
from anonbayes.inference.vertical.tempering import tempering_costs
from anonbayes.inference.weight_kernels import (
    fold_error,
    fold_spread,
    record_tilts,
    unsettled,
    weighted_joint,
)
from anonbayes.inference.workflow import draw_codes
from anonbayes.risk.assessment import weight_name
from anonbayes.risk.threats import (
    matched,
    replicate_error,
    replicate_weights,
    weighted_quantiles,
    weighted_skewness,
)

HALF = np.array([0.5, 0.5])
CELLS = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])  # two cells that cross


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (fold_spread(np.array([[1.0], [3.0]])), [[-np.sqrt(0.5)], [np.sqrt(0.5)]]),
        (fold_error(np.array([[1.0], [3.0]])), [1.0]),
        (unsettled(np.array([[4.0]]), 0.5), [0.5]),  # nothing but the prior
        (unsettled(np.array([[104.0, 100.0], [100.0, 104.0]]), 0.5), [0.353, 0.353]),
        (weighted_joint(HALF, [np.array([[0.5, 0.25]])], np.zeros(1)).plain, [[0.1875, 0.1875]]),
        (np.exp(log_evidence(np.ones(3), CELLS)), 5 / 12),
        (
            weighted_quantiles(np.array([3.0, 1, 2]), np.array([1.0, 1, 2]), (0.25, 0.5, 1)),
            [1, 2, 3],
        ),
        (weighted_skewness(np.array([0.0, 1.0]), np.array([3.0, 1.0])), 2 / np.sqrt(3)),
        (matched(np.arange(8.0), np.arange(4.0), 2)[0], [0.5, 2.5, 4.5, 6.5]),
    ],
)
def test_numbers(found, expected):
    np.testing.assert_allclose(found, expected, atol=5e-4)


def test_corrections_are_averaged_over_values_that_are_not_known_apart():
    corrections, even = [np.array([[0.2, 0.4], [0.0, 0.0]])], np.full((2, 2), 0.5)
    known = [csr_array(np.array([[1.0, 0.0], [1.0, 1.0]]))]
    tilts = record_tilts(corrections, HALF, [even], known, np.array([[0], [1]]))
    np.testing.assert_allclose(tilts, [[0.2, 0.0], [0.3, 0.0]])


def test_errors_of_replicates_are_those_of_averages():
    batches = np.random.default_rng(0).normal(size=20)
    again = replicate_weights(20, 1, 1000) @ batches
    usual = batches.std(ddof=1) / np.sqrt(20)
    # The spread of 1000 replicates has a relative error of about 0.022.
    assert abs(replicate_error(again, 20, 1) / usual - 1) < 0.09


def test_two_items_of_two_secrets():
    layout = VerticalLayout([[0], [1]], [0, 1], [0, 2], [2], 2)
    owned = left_out_ownership(layout, np.zeros(1, dtype=int), np.log([[0.8, 0.2, 0.2, 0.8]]))
    p = 0.8**2 / (0.8**2 + 0.2**2)
    np.testing.assert_allclose(layout.ownership(owned).toarray(), [[p, 1 - p], [1 - p, p]])


def test_draws():
    rng = np.random.default_rng(1)
    pi = draw_simplexes(np.array([1.0, 2.0, 1e-3, 1e-3]), np.array([0, 2, 4]), rng)
    np.testing.assert_allclose(np.add.reduceat(pi, [0, 2]), 1.0)
    assert (pi > 0).all()
    certain = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert draw_codes(certain, np.array([0, 1]), rng).tolist() == [1, 0]


def test_people_of_a_register_are_counts():
    people = ab.ReleasedTable.horizontal(pd.DataFrame({"x": list("aab"), "s": list("uuv")}), "s")
    prior = prior_with(Prior(np.ones(2), {"x": np.ones((2, 2))}), people)
    assert prior.alpha.tolist() == [3, 2]
    assert prior.beta["x"].tolist() == [[3, 1], [1, 2]]


def test_linked_rows_show_what_their_cells_have_in_common():
    def release(ages, ills, top):
        frame = pd.DataFrame({"age": ages, "ill": ills})
        return ab.ReleasedTable.horizontal(frame, "ill", domains={"age": range(20, top)})

    first = release(["20-24", "25-29"], ["flu", "cold"], 30)
    second = release(["28-31", "24-27"], ["cold", "flu"], 32)
    merged = merge_by_key([first, second], [["a", "b"], ["b", "a"]])
    assert merged.to_frame()["age"].tolist() == [24, (28, 29)]


def test_victims():
    table = ab.datasets.load("table1_recoded")
    victims = read_victims(table, {"Nat": "M"})
    again = in_terms_of(victims, table, table)
    assert (again.weights[0] != victims.weights[0]).nnz == 0
    assert dict(
        zip(table.secret.domain.values, secret_weights(table, {"Flu": 0}), strict=True)
    ) == {value: value != "Flu" for value in table.secret.domain.values}
    assert batch_slices(1, 10, 2) == [(0, slice(0, 5)), (0, slice(5, 10))]
    assert rows_to_keep(table, [0, 3]).tolist() == [0, 3]
    assert rows_to_keep(table, False) is None


def test_a_run_is_continued_with_its_settings(tmp_path):
    RunStore(tmp_path / "run", {"seed": 1})
    with pytest.raises(ModelError, match="seed=1, not seed=2"):
        RunStore(tmp_path / "run", {"seed": 2})


def test_diagnostics_of_arrays():
    draws = np.vstack([np.ones(100), np.arange(100.0) % 7, np.full(100, np.nan)])
    _, _, missing, constant = geweke_array(draws, [(slice(0, 10), slice(50, 100))])
    assert missing.tolist() == [False, False, True]
    assert constant.tolist() == [True, False, False]
    halves = np.array([[0, 0, 1, 0, 1, 1], [1, 0, 0, 1, 1, 0]])
    assert weiss_array(halves[..., None], 2, "hangartner")[:3, 0].tolist() == [0, 1, 1]


def test_words():
    assert tempering_costs(30_162).endswith("about 8 CPU minutes")
    assert weight_name(["height", "weight"]) == "weight_"
    sex = pd.Series([0.3, 0.7], pd.Index(["F", "M"], name="Sex")).to_xarray()
    assert flat_labels("pi_Sex", sex) == ["pi_Sex[F]", "pi_Sex[M]"]
    assert flat_labels("mu", sex[0]) == ["mu"]


def test_products_of_a_draw_are_added_as_exact_numbers():
    """Many small probabilities, beyond what a double holds, and a secret that is ruled out."""
    rng = np.random.default_rng(8)
    known = 10.0 ** -rng.integers(0, 160, (12, 3))
    codes, shares = rng.integers(0, 12, (6, 7)), [np.array([0.5, 0.5, 0.0]), np.full(3, 1 / 3)]
    total = Scaled(np.zeros((6, 3)), np.zeros((6, 3), dtype=np.int64))
    for share in shares:
        _add_products(codes, known, share, *total)
    for v, s in np.ndindex(6, 3):
        exact = sum(Fraction(share[s]) for share in shares) * math.prod(
            Fraction(known[k, s]) for k in codes[v]
        )
        found = Fraction(total.number[v, s]) * Fraction(2) ** (FAR * int(total.power[v, s]))
        assert abs(found / exact - 1) < 1e-12
