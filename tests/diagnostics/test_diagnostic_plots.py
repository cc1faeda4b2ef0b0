"""Pictures show what the numbers say."""

import io

import numpy as np
import pytest

import anonbayes as ab
from anonbayes import compat
from anonbayes.diagnostics import plot_autocorrelation, plot_geweke, plot_weiss, plot_worst
from anonbayes.diagnostics.quantities import in_words
from anonbayes.errors import AnonbayesError


@pytest.fixture
def idata():
    rng = np.random.default_rng(1)
    mu = rng.normal(size=(2, 300, 3))
    mu[1, :, 1] += 2.0
    rows = rng.integers(0, 3, size=(2, 300, 25))
    rows[1, :, 4] = 2 * (rng.random(300) < 0.9)
    return compat.make_idata(
        {"posterior": {"mu": mu, "rows": rows, "word": np.array(["a", "b"])[rows[..., 0] % 2]}}
    )


def test_geweke_dots_are_the_z_scores(idata):
    ax = plot_geweke(idata, intervals=4)
    z = ab.geweke(idata, intervals=4)["mu"]
    lines = {line.get_label(): line for line in ax.get_lines()}
    drawn = np.sort(lines["chain 1"].get_ydata())
    np.testing.assert_allclose(drawn, np.sort(z.sel(chain=1).values.ravel()))
    assert set(lines["chain 1"].get_xdata()) == set(z["start"].values)


def test_weiss_curves_are_the_sorted_p_values(idata):
    ax = plot_weiss(idata, var_names="rows")
    lines = {line.get_label().split(":")[0]: line for line in ax.get_lines()}
    assert set(lines) == {"expected", "between chains", "chain 0", "chain 1"}
    p = ab.weiss(idata, var_names="rows", segments="chains")["p_value"].values
    np.testing.assert_allclose(lines["between chains"].get_ydata(), np.maximum(np.sort(p), 1e-16))
    only = plot_weiss(idata, var_names="rows", segments="chains").get_lines()
    assert len(only) == 2


def test_worst_shows_what_differs_and_can_be_drawn(idata):
    panels = plot_worst(idata, n=2)
    assert [ax.get_title(loc="left") for ax in panels[:, 0]] == ["mu[1]", "rows[4]"]
    trace = panels[0, 0].get_lines()
    np.testing.assert_array_equal(
        trace[1].get_ydata(), compat.posterior_dataset(idata)["mu"].values[1, :, 1]
    )
    panels[0, 0].figure.savefig(io.BytesIO(), format="png")


def test_titles_say_what_a_quantity_is():
    """In words for a model of the package; a variable of one's own keeps its name."""
    post = ab.fit(ab.datasets.load("table1_recoded"), draws=40, tune=5, seed=1, progressbar=False)
    titles = [ax.get_title(loc="left") for ax in plot_worst(post, n=6)[:, 0]]
    assert all(title.startswith("Share of ") and "pi_" not in title for title in titles)
    dims = {"pi_S": ["S"], "pi_A": ["S", "A"], "weight_A": [], "correction_A": ["S", "A"]}
    coords = {"S": ["flu", "hiv"], "A": ["20-29", "30-39", "40-49"]}
    draws = {n: np.zeros((2, 8, *(len(coords[d]) for d in over))) for n, over in dims.items()}
    draws["pi_own"] = np.zeros((2, 8, 2))
    data = compat.make_idata({"posterior": draws}, coords=coords, dims=dims)
    for name, words in {
        "pi_S[hiv]": "Share of S = hiv",
        "pi_A[flu, 40-49]": "Share of A = 40-49 among S = flu",
        "weight_A": "Weight of A",
        "correction_A[hiv, 20-29]": "Correction of A = 20-29 among S = hiv",
        "pi_own[1]": "pi_own[1]",
    }.items():
        assert in_words(data, name) == words


def test_text_categories_can_be_drawn(idata):
    picture = io.BytesIO()
    panels = plot_worst(compat.select(idata, var_names="word"), n=1)
    panels[0, 0].figure.savefig(picture, format="png")
    assert picture.getvalue().startswith(b"\x89PNG")


def test_autocorrelation_tells_step_methods_apart():
    """AR(1) with phi = 0.9 against white noise; DAR(1) with phi = 0.8 for categories."""
    from scipy.signal import lfilter

    rng = np.random.default_rng(2)
    white = rng.normal(size=(4, 4000, 10))
    slow = lfilter([1.0], [1.0, -0.9], white, axis=1)
    fresh = rng.random((4, 4000)) >= 0.8
    fresh[:, 0] = True
    source = np.maximum.accumulate(np.where(fresh, np.arange(4000), 0), axis=1)
    sticky = np.take_along_axis(rng.integers(0, 3, size=(4, 4000)), source, axis=1)
    ax = plot_autocorrelation({"swap": slow, "block": white, "rows": sticky}, max_lag=10)
    swap, block, rows = (line.get_ydata() for line in ax.get_lines()[:3])
    assert swap[0] == block[0] == rows[0] == 1.0
    assert swap[5] == pytest.approx(0.9**5, abs=0.05)
    assert abs(block[5]) < 0.02
    assert rows[5] == pytest.approx(0.8**5, abs=0.06)
    with pytest.raises(AnonbayesError, match="no quantity in 'draws'"):
        plot_autocorrelation(np.ones((2, 50)))


def test_nothing_tested_is_nothing_to_plot():
    with pytest.raises(AnonbayesError, match="nothing to plot"):
        plot_worst(np.ones((2, 100)))


def test_axes_given_are_used(idata):
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    assert plot_geweke(idata, ax=ax) is ax
    assert plot_weiss(idata, var_names="rows", ax=ax) is ax
    assert plot_autocorrelation(idata, ax=ax) is ax


def test_draws_by_name_name_the_nearest(idata):
    from anonbayes.diagnostics.quantities import draws_of

    with pytest.raises(AnonbayesError, match="'mu\\[1\\]'"):
        draws_of(idata, "mu[11]")
