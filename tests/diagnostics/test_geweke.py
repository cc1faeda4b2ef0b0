r"""Geweke's z against R's coda, and on chains that are known to be good or bad.

The reference values are those of coda 0.19-4 under R 4.2.2, printed by the script below. Its random
numbers come from the minimal standard generator, so that `noise` builds the same series here.

.. code-block:: r

    library(coda)
    noise <- function(seed, n) {            # minimal standard generator, sum of 12 uniforms less 6
      state <- seed; out <- numeric(n)
      for (i in seq_len(n)) {
        total <- 0
        for (k in 1:12) { state <- (16807 * state) %% 2147483647; total <- total + state / 2147483647 }
        out[i] <- total - 6
      }
      out
    }
    ar1 <- function(e, phi) { x <- e; for (t in 2:length(e)) x[t] <- phi * x[t - 1] + e[t]; x }
    ar2 <- function(e, a, b) {
      x <- e; x[2] <- a * x[1] + e[2]
      for (t in 3:length(e)) x[t] <- a * x[t - 1] + b * x[t - 2] + e[t]
      x
    }
    series <- list(
      white  = noise(1, 1000),
      sticky = ar1(noise(2, 2000), 0.95),
      swing  = ar1(noise(3, 777), -0.7),
      cycle  = ar2(noise(4, 1500), 1.2, -0.6),
      drift  = ar1(noise(5, 1200), 0.8) + (1:1200) / 400
    )
    options(digits = 15)
    for (name in names(series)) {
      x <- mcmc(series[[name]])
      cat(name, format(sum(series[[name]])), "\n")
      cat("  default ", format(geweke.diag(x)$z), "\n")
      cat("  0.2 0.4 ", format(geweke.diag(x, 0.2, 0.4)$z), "\n")
      cat("  density ", format(spectrum0.ar(x)$spec), spectrum0.ar(x)$order, "\n")
    }
    pdf(NULL)
    cat("plot", format(geweke.plot(mcmc(series$drift), nbins = 6, ask = FALSE)$z[, 1, 1]), "\n")
"""  # noqa: E501

import numpy as np
import pytest
import xarray as xr
from scipy import signal, stats

import anonbayes as ab
from anonbayes import compat
from anonbayes.diagnostics import GEWEKE_PAPER
from anonbayes.diagnostics.geweke import geweke_array, spectrum0_ar, windows
from anonbayes.errors import AnonbayesError


def noise(seed, n):
    state, out = seed, np.empty(n)
    for i in range(n):
        total = 0.0
        for _ in range(12):
            state = (16807 * state) % 2147483647
            total += state / 2147483647
        out[i] = total - 6
    return out


def autoregression(e, *coefficients):
    return signal.lfilter([1.0], np.r_[1.0, -np.asarray(coefficients)], e)


SERIES = {
    "white": noise(1, 1000),
    "sticky": autoregression(noise(2, 2000), 0.95),
    "swing": autoregression(noise(3, 777), -0.7),
    "cycle": autoregression(noise(4, 1500), 1.2, -0.6),
    "drift": autoregression(noise(5, 1200), 0.8) + np.arange(1, 1201) / 400,
}
# name: (sum of the series, z of 0.1 and 0.5, z of 0.2 and 0.4, spectral density, order)
CODA = {
    "white": (2.20247023003293, -0.579696433315485, -0.18762581548829, 0.964136881256982, 0),
    "sticky": (-1075.56624823595, 0.258248939235481, 0.432944147406174, 314.953278000348, 1),
    "swing": (19.5530891664274, -3.71019068254952, -2.2348178669166, 0.318742221328598, 1),
    "cycle": (11.9422893264232, 0.353960407180876, -0.589173333560154, 5.87499813975717, 2),
    "drift": (1954.01087800433, -6.16451649885639, -4.77117086737797, 59.5263783693308, 1),
}
CODA_PLOT_DRIFT = [
    -6.16451649885639,
    -2.09113144608905,
    -2.10104573166928,
    -3.59987336780074,
    -3.45755476722212,
    -1.35164996432533,
]


@pytest.mark.parametrize("name", SERIES)
def test_equals_coda(name):
    total, z, z_wide, density, order = CODA[name]
    x = SERIES[name]
    assert x.sum() == pytest.approx(total, abs=1e-9)  # the same series as in R
    assert ab.geweke(x)["x"].item() == pytest.approx(z, abs=1e-9)
    assert ab.geweke(x, first=0.2, last=0.4)["x"].item() == pytest.approx(z_wide, abs=1e-9)
    ours = spectrum0_ar(x)
    assert ours[0] == pytest.approx(density, rel=1e-9)
    assert ours[1] == order


def test_start_points_equal_codas_plot():
    z = ab.geweke(SERIES["drift"], intervals=6)["x"]
    np.testing.assert_allclose(z.values[0], CODA_PLOT_DRIFT, atol=1e-9)
    assert z["start"].values.tolist() == [0, 120, 240, 360, 480, 600]


@pytest.mark.parametrize("method", ["ar", "ess"])
@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_scale_and_origin_do_not_matter(method, scale):
    """coda's test for a constant is absolute and gives infinities for the small scale."""
    x = SERIES["cycle"]
    expected = ab.geweke(x, method=method)["x"].item()
    assert ab.geweke(scale * (x + 3), method=method)["x"].item() == pytest.approx(
        expected, rel=1e-6
    )


def test_windows_of_the_paper():
    """Groups, Section VI-D: the last 25,000 of 50,000 draws against 5 blocks of 5,000."""
    pairs = windows(50_000, GEWEKE_PAPER["first"], GEWEKE_PAPER["last"], 5, "blocks")
    assert [(early.start, early.stop) for early, _ in pairs] == [
        (0, 5000),
        (5000, 10000),
        (10000, 15000),
        (15000, 20000),
        (20000, 25000),
    ]
    assert {(late.start, late.stop) for _, late in pairs} == {(25_000, 50_000)}


@pytest.mark.parametrize("method", ["ar", "ess"])
@pytest.mark.parametrize("phi", [0.0, 0.6])
def test_standard_normal_on_stationary_chains(method, phi):
    """Kolmogorov-Smirnov over independent chains; an estimate blind to phi would give p < 1e-20."""
    rng = np.random.default_rng(20)
    chains = 300 if method == "ess" else 1500
    x = signal.lfilter([1.0], [1.0, -phi], rng.normal(size=(chains, 3200)), axis=1)[:, 200:]
    z = ab.geweke(x, method=method)["x"].values
    assert stats.kstest(z, "norm").pvalue > 0.01


@pytest.mark.parametrize("draws, phi", [(1000, 0.0), (1000, 0.9), (5000, 0.98)])
def test_p_values_of_slow_good_chains_are_no_smaller_than_they_say(draws, phi):
    """Autoregressions; z itself, taken as normal, would reject 13% of those with 0.9."""
    rng = np.random.default_rng(5)
    n = 800
    noise = rng.normal(size=(n, draws + 500)) * np.sqrt(1 - phi**2)
    series = signal.lfilter([1.0], [1.0, -phi], noise)[:, 500:]
    compared = geweke_array(series, windows(draws, 0.1, 0.5, 1, "discard"))
    for level in (0.05, 0.01):
        error = np.sqrt(level * (1 - level) / n)
        rejected = (compared.p_values < level).mean()
        assert level - 4 * error < rejected < 1.3 * level + 4 * error
    if phi == 0.9:
        assert (np.abs(compared.z) > 1.96).mean() > 0.09


def test_a_block_that_differs_stands_out():
    rng = np.random.default_rng(8)
    x = rng.normal(size=2000)
    x[400:600] += 0.8
    z = ab.geweke(x, **GEWEKE_PAPER)["x"].values[0]
    assert z[2] > 7
    assert (np.abs(np.delete(z, 2)) < 3).all()


def test_dimensions_and_labels_stay():
    rng = np.random.default_rng(5)
    idata = compat.make_idata(
        {"posterior": {"pi_Sex": rng.normal(size=(3, 100, 2)), "code": np.ones((3, 100), int)}},
        dims={"pi_Sex": ["Sex"]},
        coords={"Sex": ["F", "M"]},
    )
    one = ab.geweke(idata)
    assert list(one.data_vars) == ["pi_Sex"]  # codes have no mean
    assert one["pi_Sex"].dims == ("chain", "Sex")
    many = ab.geweke(idata, intervals=3, coords={"Sex": ["M"]})["pi_Sex"]
    assert many.sizes == {"chain": 3, "Sex": 1, "interval": 3}
    xr.testing.assert_allclose(
        many.isel(interval=0).sel(Sex="M", drop=True).drop_vars("start"),
        one["pi_Sex"].sel(Sex="M", drop=True),
    )


@pytest.mark.parametrize("as_input", [np.asarray, xr.DataArray, list])
def test_one_answer_whatever_the_container(as_input):
    x = SERIES["white"][None, :]
    if as_input is xr.DataArray:
        data = xr.DataArray(x, dims=["chain", "draw"], name="x")
        data = data.assign_coords(draw=np.arange(500, 1500))
        assert ab.geweke(data, intervals=2)["x"]["start"].values[0] == 500
    else:
        data = as_input(x)
    assert ab.geweke(data)["x"].item() == pytest.approx(CODA["white"][1])


@pytest.mark.parametrize("method", ["ar", "ess"])
def test_missing_and_constant_chains_are_reported(method):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(5, 400))
    x[1, 7] = np.nan
    x[2] = 0.1 + 0.2
    x[3] = np.where(np.arange(400) < 200, 1.0, 2.0)
    x[4, 200:] = 0.0
    z = ab.geweke(x, method=method, last=0.4)["x"]
    assert np.isfinite(z.values).tolist() == [True, False, False, False, True]
    assert np.isnan(z.values[1:3]).all()
    assert z.values[3] == -np.inf  # two constants that differ
    assert z.attrs == {"n_missing": 1, "n_constant": 1}


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"first": 0.6}, "overlap"),
        ({"first": 0.2, "intervals": 3, "scheme": "blocks"}, "overlap"),
        ({"first": 0.0}, "first=0.0 must be a fraction"),
        ({"last": 1.5}, "last=1.5 must be a fraction"),
        ({"intervals": 0}, "intervals=0"),
        ({"method": "spectral"}, "choose one of 'ar', 'ess'"),
        ({"scheme": "paper"}, "choose one of 'discard', 'blocks'"),
    ],
)
def test_impossible_settings_are_named(kwargs, message):
    with pytest.raises(AnonbayesError, match=message):
        ab.geweke(np.zeros((2, 100)), **kwargs)


def test_too_few_draws_and_text_are_refused():
    with pytest.raises(AnonbayesError, match="10 draws per chain"):
        ab.geweke(np.arange(10.0))
    with pytest.raises(AnonbayesError, match="weiss"):
        ab.geweke(np.array([["a", "b"] * 50]))
