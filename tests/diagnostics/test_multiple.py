"""Families of tests: Benjamini-Hochberg by hand, and undefined entries that must not count."""

import numpy as np
import pytest

from anonbayes.diagnostics.quantities import adjust_p_values, summarize_tests
from anonbayes.errors import AnonbayesError


def test_benjamini_hochberg_of_the_original_paper():
    """Benjamini and Hochberg (1995), Section 3: fifteen p-values, four rejected at 0.05."""
    p = [
        *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344),
        *(0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000),
    ]
    adjusted = adjust_p_values(np.array(p)[::-1])[::-1]
    assert (adjusted <= 0.05).sum() == 4
    assert adjusted[3] == pytest.approx(0.0095 * 15 / 4)
    assert adjusted[0] == pytest.approx(0.0015)
    assert summarize_tests(np.array(p)).n_rejected == 4
    assert summarize_tests(np.array(p)).share_below == pytest.approx(9 / 15)


def test_undefined_entries_do_not_dilute():
    p = np.array([0.03, np.nan, np.nan, 0.9])
    summary = summarize_tests(p, ["a", "b", "c", "d"])
    assert (summary.n_tests, summary.n_undefined, summary.share_below) == (2, 2, 0.5)
    assert summary.worst == (("a", 0.03), ("d", 0.9))
    assert adjust_p_values(p)[0] == pytest.approx(0.06)


def test_false_discoveries_are_controlled():
    """900 true nulls, 100 strong effects: false share 0.045 expected, se below 0.002."""
    rng = np.random.default_rng(1)
    shares = []
    for _ in range(200):
        p = np.r_[rng.uniform(size=900), rng.uniform(size=100) * 1e-5]
        rejected = adjust_p_values(p) <= 0.05
        shares.append(rejected[:900].sum() / rejected.sum())
    assert np.mean(shares) == pytest.approx(0.045, abs=0.008)


def test_nothing_to_test_says_so():
    assert str(summarize_tests(np.array([np.nan]))) == "no tests (1 undefined)"


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (([0.1, 1.2],), {}, "1.2"),
        (([0.1],), {"level": 5}, "level=5"),
        (([0.1], ["a", "b"]), {}, "names has 2 entries for 1"),
    ],
)
def test_bad_input_is_named(args, kwargs, message):
    with pytest.raises(AnonbayesError, match=message):
        summarize_tests(*args, **kwargs)
