"""The Weiß family: values by hand, the right level under its null, power, and defined corners."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

import anonbayes as ab
from anonbayes import compat
from anonbayes.errors import AnonbayesError

# Two chains of six draws, small enough for paper and pencil.
SHORT = np.array([[0, 0, 1, 1, 0, 0], [1, 1, 1, 0, 1, 1]])


def dar(rng, phi, shape, shares):
    """Simulate DAR(1): keep the value with probability phi, else draw from `shares`; draws last."""
    fresh = rng.random(shape) >= phi
    fresh[..., 0] = True
    values = rng.choice(len(shares), size=shape, p=shares)
    source = np.maximum.accumulate(np.where(fresh, np.arange(shape[-1]), 0), axis=-1)
    return np.take_along_axis(values, source, axis=-1)


def rows_last(x):
    """(row, chain, draw) -> (chain, draw, row)."""
    return np.moveaxis(x, 0, -1)


def test_by_hand():
    """Shares 4/6 and 1/6 against 5/12: X² = 108/35. Four moves in ten steps: phi = 361/1050."""
    plain = ab.weiss(SHORT, segments="chains", method="hangartner")
    assert plain["statistic"].item() == pytest.approx(108 / 35, rel=1e-14)
    corrected = ab.weiss(SHORT, segments="chains")
    assert corrected["phi"].item() == pytest.approx(361 / 1050, rel=1e-14)
    assert corrected["statistic"].item() == pytest.approx(108 / 35 * 689 / 1411, rel=1e-14)
    assert corrected["dof"].item() == 1
    assert corrected["n_moves"].item() == 4
    assert corrected["p_value"].item() == pytest.approx(
        stats.chi2.sf(108 / 35 * 689 / 1411, 1), rel=1e-12
    )


def test_billingsley_by_hand():
    """From 0: 4/3 on one degree of freedom; from 1: 3/8 on another."""
    result = ab.weiss(SHORT, segments="chains", method="billingsley")
    assert result["statistic"].item() == pytest.approx(4 / 3 + 3 / 8, rel=1e-14)
    assert result["dof"].item() == 2


def test_segments_of_one_chain_are_chains():
    """Cutting a chain in two and comparing the halves is comparing two chains."""
    joined = SHORT.reshape(-1)
    for method in ("weiss", "hangartner", "billingsley"):
        cut = ab.weiss(joined, segments=2, method=method)
        side_by_side = ab.weiss(SHORT, segments="chains", method=method)
        assert cut["statistic"].values[0] == side_by_side["statistic"].item()


def test_hangartner_is_pearsons_test():
    rng = np.random.default_rng(1)
    x = rng.choice(5, p=[0.4, 0.3, 0.15, 0.1, 0.05], size=(4, 300))
    table = np.array([np.bincount(chain, minlength=5) for chain in x])
    expected = stats.chi2_contingency(table, correction=False)
    ours = ab.weiss(x, segments="chains", method="hangartner")
    assert ours["statistic"].item() == pytest.approx(expected.statistic, rel=1e-12)
    assert ours["p_value"].item() == pytest.approx(expected.pvalue, rel=1e-10)


@pytest.mark.parametrize("segments", [5, "chains"])
@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6, 0.9])
def test_uniform_under_the_null(phi, segments):
    rng = np.random.default_rng(int(100 * phi))
    shape = (1500, 1, 5000) if segments == 5 else (1500, 4, 1500)
    x = rows_last(dar(rng, phi, shape, [0.5, 0.3, 0.2]).astype("int8"))
    result = ab.weiss(x, segments=segments)
    assert stats.kstest(result["p_value"].values.ravel(), "uniform").pvalue > 0.01
    # phi itself is recovered: its standard error over 1,500 rows is far below 0.005
    assert result["phi"].values.mean() == pytest.approx(phi, abs=0.02 if phi == 0 else 0.005)


def test_independence_is_not_assumed():
    """At phi = 0.6 the uncorrected test rejects far too often; the corrected one does not."""
    rng = np.random.default_rng(4)
    x = rows_last(dar(rng, 0.6, (800, 4, 800), [0.6, 0.4]))
    plain, corrected = (
        ab.weiss(x, segments="chains", method=method)["p_value"]
        for method in ("hangartner", "weiss")
    )
    assert (plain < 0.05).mean() > 0.2
    assert (corrected < 0.05).mean() < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 800)


def test_billingsley_is_uniform_on_markov_chains_that_are_not_dar():
    rng = np.random.default_rng(9)
    matrix = np.array([[0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.5, 0.3, 0.2]]).cumsum(axis=1)
    x = np.zeros((1000, 4, 1500), dtype="int8")
    state = rng.integers(0, 3, size=x.shape[:2])
    for t in range(x.shape[2]):
        state = (rng.random(state.shape)[..., None] > matrix[state]).sum(axis=-1)
        x[..., t] = state
    p = ab.weiss(rows_last(x), segments="chains", method="billingsley")["p_value"]
    assert stats.kstest(p.values, "uniform").pvalue > 0.01


@pytest.mark.parametrize("method", ["dar", "mc"])
def test_bootstraps_are_uniform_and_match_the_approximation(method):
    """The mean of the simulated X² is (m-1)(d-1)(1+phi)/(1-phi) for long chains."""
    rng = np.random.default_rng(6)
    x = rows_last(dar(rng, 0.5, (250, 3, 400), [0.7, 0.3]))
    result = ab.weiss(x, segments="chains", method=method, simulations=199, seed=1)
    assert stats.kstest(result["p_value"].values, "uniform").pvalue > 0.01
    # 250 x 199 simulations: relative error below 1 %, plus the bias of phi and the finite length
    assert result["dof"].values.mean() == pytest.approx(2 * 1.5 / 0.5, rel=0.03)


@pytest.mark.parametrize("method", ["dar", "mc"])
def test_bootstraps_repeat_with_a_seed(method):
    first, again, other = (
        ab.weiss(SHORT, segments="chains", method=method, simulations=50, seed=seed)["dof"].item()
        for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize("method", ["weiss", "hangartner", "billingsley", "dar", "mc"])
def test_a_drifting_chain_is_found(method):
    rng = np.random.default_rng(12)
    shares = np.linspace(0.2, 0.8, 2000)
    drifting = (rng.random((1, 2000, 20)) < shares[None, :, None]).astype(int)
    result = ab.weiss(drifting, method=method, simulations=200, seed=0)
    assert (result["p_value"] < 0.01).all()


@pytest.mark.parametrize("method", ["weiss", "hangartner", "billingsley"])
def test_labels_do_not_matter(method):
    rng = np.random.default_rng(13)
    x = rows_last(dar(rng, 0.4, (30, 3, 200), [0.4, 0.3, 0.2, 0.1]))
    expected = ab.weiss(x, method=method)
    for names in (np.array([3, 0, 2, 1]), np.array([-7, 10**9, 0, 5]), np.array(list("dbca"))):
        renamed = ab.weiss(names[x], method=method)
        xr.testing.assert_allclose(renamed, expected, rtol=1e-12)


def test_r_hat_depends_on_labels_where_weiss_does_not():
    """The reason for this family: swapping two labels changes R-hat on the same chains."""
    rng = np.random.default_rng(3)
    x = rng.choice(3, p=[0.2, 0.5, 0.3], size=(2, 500))
    x[1, :100] = 2
    swapped = np.array([1, 0, 2])[x]
    assert abs(float(compat.rhat(x)["x"]) - float(compat.rhat(swapped)["x"])) > 1e-3
    assert (
        ab.weiss(x, segments="chains")["p_value"].item()
        == ab.weiss(swapped, segments="chains")["p_value"].item()
    )


def test_one_category_is_not_a_test():
    result = ab.weiss(np.full((3, 50), 4), segments="chains")
    assert result["statistic"].item() == result["dof"].item() == result["n_moves"].item() == 0
    assert result["n_categories"].item() == 1
    assert np.isnan(result["p_value"].item())
    assert np.isnan(result["phi"].item())


def test_stuck_chains_count_as_one_draw_each():
    """Four frozen chains, two in each category: X²/T = 4 on 3 degrees of freedom, not zero."""
    frozen = np.repeat(np.array([[0], [0], [1], [1]]), 100, axis=1)
    result = ab.weiss(frozen, segments="chains")
    assert result["n_moves"].item() == 0
    assert result["statistic"].item() == pytest.approx(4.0)
    assert result["p_value"].item() == pytest.approx(stats.chi2.sf(4, 3))


def test_one_frozen_chain_among_moving_ones_is_found():
    rng = np.random.default_rng(14)
    x = rng.integers(0, 3, size=(4, 400))
    x[2] = 1
    assert ab.weiss(x, segments="chains")["p_value"].item() < 1e-6


def test_categories_nobody_visits_do_not_count():
    gaps = 100 * SHORT
    xr.testing.assert_equal(ab.weiss(gaps, segments="chains"), ab.weiss(SHORT, segments="chains"))


def test_uneven_pieces_leave_out_the_beginning():
    rng = np.random.default_rng(15)
    x = rng.integers(0, 2, size=503)
    result = ab.weiss(x, segments=5)
    assert result.attrs["draws_left_out"] == 3
    assert result["statistic"].values[0] == ab.weiss(x[3:], segments=5)["statistic"].values[0]


def test_dimensions_labels_and_several_variables():
    rng = np.random.default_rng(16)
    idata = compat.make_idata(
        {
            "posterior": {
                "cleartext": rng.integers(0, 3, size=(2, 100, 3)).astype("int8"),
                "k": rng.integers(0, 2, size=(2, 100)),
                "pi": rng.random(size=(2, 100)),
            }
        },
        dims={"cleartext": ["row"]},
        coords={"row": ["a", "b", "c"]},
    )
    both = ab.weiss(idata)
    assert both["series"].values.tolist() == ["cleartext[a]", "cleartext[b]", "cleartext[c]", "k"]
    assert both["p_value"].sizes == {"chain": 2, "series": 4}
    one = ab.weiss(idata, var_names="cleartext", coords={"row": ["b", "c"]})
    assert one["p_value"].dims == ("chain", "row")
    np.testing.assert_array_equal(one["p_value"].values, both["p_value"].values[:, 1:3])
    between = ab.weiss(idata, segments="chains")
    assert between["p_value"].dims == ("series",)


@pytest.mark.parametrize("rows", [1, 255, 256, 257])
def test_blocks_of_rows_meet(rows):
    rng = np.random.default_rng(17)
    x = rng.integers(0, 3, size=(2, 20, rows))
    last = ab.weiss(x[..., -1], segments="chains")["statistic"].item()
    assert ab.weiss(x, segments="chains")["statistic"].values[-1] == last


@pytest.mark.parametrize(
    ("data", "kwargs", "message"),
    [
        (SHORT, {"segments": 1}, "segments=1 must be 'chains' or an integer"),
        (SHORT, {"segments": 4}, "leave 1 draws each"),
        (SHORT, {"segments": "chain"}, "segments='chain' must be 'chains' or an integer"),
        (SHORT[:1], {"segments": "chains"}, "only one"),
        (SHORT, {"method": "pearson"}, "choose one of 'weiss'"),
        (SHORT, {"segments": 2, "simulations": 0}, "simulations=0"),
        (SHORT * 1.0, {}, "no categorical variable"),
        (SHORT * 1.0, {"segments": 2, "var_names": "x"}, "not categories"),
        (np.array([["a", None, "b", "a"]], dtype=object), {"segments": 2}, "missing values"),
    ],
)
def test_impossible_settings_are_named(data, kwargs, message):
    with pytest.raises(AnonbayesError, match=message):
        ab.weiss(data, **kwargs)
