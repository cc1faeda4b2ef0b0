"""The verdict: chains in different modes must fail, good ones pass, one alone is not assessed."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import anonbayes as ab
from anonbayes import compat
from anonbayes.diagnostics import Limits
from anonbayes.diagnostics.measure import agreement_p
from anonbayes.errors import AnonbayesError

DRAWS = 400
MODES = (  # shares of the sensitive value, by mode; and the log density there
    (np.array([40.0, 30.0, 30.0]), -191_729.0),
    (np.array([30.0, 30.0, 40.0]), -191_981.0),
)


def make_chains(modes, *, seed=0, rows=60, drift=None):
    """Chains that each sample one mode of a released table perfectly, as on Adult with l = 6.

    Rows are DAR(1) over three values whose shares belong to the mode; `drift` names a chain whose
    rows wander from one mode to the other.
    """
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(3), size=(len(MODES), rows))
    pi, energy, cleartext = [], [], []
    for chain, mode in enumerate(modes):
        weight = np.full(DRAWS, float(mode))
        if chain == drift:
            weight = np.linspace(0.0, 1.0, DRAWS)
        concentration = np.outer(1 - weight, MODES[0][0]) + np.outer(weight, MODES[1][0])
        gamma = rng.gamma(concentration)
        pi.append(gamma / gamma.sum(axis=1, keepdims=True))
        energy.append(rng.normal(MODES[mode][1], 57.0, size=DRAWS))
        which = (rng.random((DRAWS, rows)) < weight[:, None]).astype(int)
        cut = shares.cumsum(axis=2)[which, np.arange(rows)]
        fresh = (rng.random((DRAWS, rows, 1)) > cut).sum(axis=2)
        keep = rng.random((DRAWS, rows)) < 0.3
        keep[0] = False
        source = np.maximum.accumulate(np.where(keep, 0, np.arange(DRAWS)[:, None]), axis=0)
        cleartext.append(np.take_along_axis(fresh, source, axis=0))
    return compat.make_idata(
        {
            "posterior": {"pi_Dis": np.array(pi), "cleartext": np.array(cleartext, dtype="int8")},
            "sample_stats": {
                "energy": np.array(energy),
                "accept": np.full((len(modes), DRAWS), 0.42),
            },
        },
        dims={"pi_Dis": ["Dis"], "cleartext": ["row"]},
        coords={"Dis": ["Flu", "Heart", "HIV"]},
    )


def posterior(idata, method="gibbs", step="block"):
    return SimpleNamespace(idata=idata, method=method, step=step, table=None)


def check(report, name):
    return next(c for c in report.checks if c.name == name)


@pytest.fixture(scope="module")
def trapped():
    return ab.diagnose(posterior(make_chains([0, 0, 1, 1])))


def test_chains_of_one_mode_pass():
    report = ab.diagnose(posterior(make_chains([0, 0, 0, 0])))
    assert report.passed, report.text
    assert report.verdict == "passed"
    assert check(report, "rate: accept").finding.startswith("mean 0.42")
    assert report.advice == ()


def test_chains_in_different_modes_fail_by_every_between_chain_test(trapped):
    assert not trapped.passed
    assert trapped.verdict == "failed"
    for name in ("R-hat", "log density", "Weiß, between chains"):
        assert check(trapped, name).status == "failed"
    for name in ("Geweke, within chains", "Weiß, within chains"):  # the trap
        assert check(trapped, name).status == "ok"


def test_the_failure_is_told_in_plain_words(trapped):
    words = " ".join(trapped.text.split())
    assert words.startswith("FAILED: the chains do not agree with each other")
    assert "Taken alone, chains 0, 1, 2, 3 look stationary" in words
    assert "chains 2, 3 near -191,98" in check(trapped, "log density").finding
    assert "will not connect the modes; use step='tempered'" in words
    assert "gibbs, step block" in trapped.source


@pytest.mark.parametrize("chain", range(4))
def test_one_chain_of_the_trap_is_not_assessed(chain):
    idata = make_chains([0, 0, 1, 1])
    alone = compat.make_idata({k: v.isel(chain=[chain]) for k, v in compat.groups(idata).items()})
    report = ab.diagnose(posterior(alone))
    assert report.verdict == "not assessed"
    assert not report.passed
    assert not [c for c in report.checks if c.status == "failed"]  # it looks fine by itself
    assert "chains=4" in report.advice[0]


def test_the_log_density_alone_can_give_it_away():
    """Label-symmetric modes: every parameter agrees, only the log density differs."""
    rng = np.random.default_rng(1)
    idata = compat.make_idata(
        {
            "posterior": {"mu": rng.normal(size=(4, DRAWS))},
            "sample_stats": {"lp": rng.normal(size=(4, DRAWS)) + np.array([0, 0, 9, 9])[:, None]},
        }
    )
    report = ab.diagnose(idata)
    assert not report.passed
    assert check(report, "log density").status == "failed"
    assert check(report, "R-hat").status in ("ok", "caution")


def test_a_few_rows_apart_among_many_fail_by_their_effect():
    """2 of 400 rows: no share of p-values would show it, but these two rows are wrong."""
    rng = np.random.default_rng(2)
    x = rng.integers(0, 3, size=(4, DRAWS, 400)).astype("int8")
    x[2:, :, [7, 9]] = (rng.random((2, DRAWS, 2)) < 0.1).astype("int8")
    report = ab.diagnose(xr.DataArray(x, dims=["chain", "draw", "row"], name="cleartext"))
    finding = check(report, "Weiß, between chains")
    assert finding.status == "failed"
    assert "; in 2 rows " in finding.finding
    assert set(report.worst(2).index) == {"cleartext[7]", "cleartext[9]"}


def test_a_trifle_that_long_chains_reject_is_no_failure():
    rng = np.random.default_rng(3)
    shares = 0.5 + np.array([-0.01, 0.01])[:, None, None]
    x = (rng.random((2, 50_000, 5)) < shares).astype("int8")
    report = ab.diagnose(x)
    assert report.table["weiss_between_p"].max() < 1e-3
    assert report.table["chain_share"].max() < 0.01
    assert check(report, "Weiß, between chains").status == "failed"  # every row rejects
    mostly = np.concatenate([x, rng.integers(0, 2, size=(2, 50_000, 45)).astype("int8")], axis=2)
    assert check(ab.diagnose(mostly), "Weiß, between chains").status == "caution"


@pytest.mark.parametrize("fault", ["none", "shift", "spread", "rows"])
def test_what_a_statistician_would_fail_fails(fault):
    """One chain of four: half a s.d. off, twice as wide, or .8 for .5 in a tenth of the rows."""
    rng = np.random.default_rng(21)
    failed = 0
    for _ in range(5):
        real = rng.normal(size=(4, DRAWS, 20))
        rows = rng.random((4, DRAWS, 200))
        cut = np.full((4, 200), 0.5)
        if fault == "shift":
            real[0] += 0.5
        elif fault == "spread":
            real[0] *= 2.0
        elif fault == "rows":
            cut[0, :20] = 0.8
        both = {"real": real, "row": (rows < cut[:, None]).astype("int8")}
        report = ab.diagnose(compat.as_dataset(both))
        failed += report.verdict == "failed" and "more than chance" in report.reason
    assert failed == (0 if fault == "none" else 5)


def test_slow_good_chains_raise_no_alarm_of_disagreement():
    """AR(1) with 0.9 has R-hat above 1.01 in most quantities, by chance alone."""
    rng = np.random.default_rng(22)
    x = np.empty((4, 1000, 300))
    x[:, 0] = rng.normal(size=(4, 300))
    for t in range(1, 1000):
        x[:, t] = 0.9 * x[:, t - 1] + np.sqrt(1 - 0.81) * rng.normal(size=(4, 300))
    found = check(ab.diagnose(x), "R-hat")
    assert found.status == "caution"
    p = agreement_p(x)
    assert abs((p < 0.05).mean() - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 300)


def test_rows_that_never_move_are_stuck():
    """No test can reject four frozen draws; the report must not take that for agreement."""
    frozen = np.repeat(np.array([0, 1, 1, 0])[:, None, None], DRAWS, axis=1)
    moving = np.random.default_rng(4).integers(0, 2, size=(4, DRAWS, 30))
    x = np.concatenate([moving, frozen], axis=2)
    report = ab.diagnose(x)
    assert not report.passed
    assert check(report, "moves").status == "failed"
    assert report.table.loc["x[30]", "status"] == "stuck"
    assert "x[30]" in check(report, "moves").finding
    assert report.worst(1).index[0] == "x[30]"


def test_real_chains_that_never_move_are_stuck_too():
    x = np.repeat(np.array([0.1, 0.2, 0.1])[:, None], DRAWS, axis=1)
    report = ab.diagnose(x)
    assert report.verdict == "failed"
    assert check(report, "moves").status == "failed"


def test_a_drifting_chain_fails_within():
    report = ab.diagnose(posterior(make_chains([0, 0, 0, 0], drift=2)))
    assert not report.passed
    assert check(report, "Weiß, within chains").status == "failed"
    assert "by chain" in check(report, "Weiß, within chains").finding
    assert "modes" not in report.reason  # a chain on its way is not a chain elsewhere


def test_the_exact_engine_has_no_chain():
    rng = np.random.default_rng(5)
    draws = rng.random((1, 100))
    idata = compat.make_idata({"posterior": {"pi": draws, "cleartext": np.ones((1, 100), int)}})
    report = ab.diagnose(posterior(idata, method="exact", step=None))
    assert report.passed
    assert "no chain" in report.text
    assert report.table.loc["pi", "mcse"] == pytest.approx(draws.std(ddof=1) / 10)


def test_a_fitted_table_is_judged_by_its_engine():
    """Nested cells are drawn exactly; cells that cross need a chain, which is then tested."""
    frame = pd.DataFrame(
        {
            "Nat": ["{M, J}", "{J, C}", "{M, J}", "M", "C", "{M, J}"],
            "Dis": ["Heart", "Flu", "Flu", "Flu", "Heart", "Heart"],
        }
    )
    crossing = ab.ReleasedTable.horizontal(frame, "Dis")
    sampled = ab.fit(crossing, seed=2, draws=500, keep_cleartext=True, progressbar=False)
    report = ab.diagnose(sampled)
    assert sampled.method == "gibbs"
    assert report.passed, report.text
    assert {"real", "categorical"} <= set(report.table["kind"])
    nested = ab.ReleasedTable.horizontal(frame.drop(index=1), "Dis")
    exact = ab.diagnose(ab.fit(nested, seed=2, draws=50, chains=1, progressbar=False))
    assert exact.passed
    assert "no chain" in exact.reason
    # the functions take a Posterior as well as its draws, and stored draws know their engine
    assert ab.weiss(sampled).equals(ab.weiss(sampled.idata))
    assert ab.geweke(sampled).equals(ab.geweke(sampled.idata))
    assert ab.diagnose(sampled.idata).source == report.source


def test_advice_names_steps_that_exist():
    """Tempering is for Anatomy tables; horizontal ones and NUTS get other advice."""
    idata = make_chains([0, 0, 1, 1], rows=5)
    assert "ladder longer" in ab.diagnose(posterior(idata, step="tempered")).text
    for step in ("tree", "pymc", None):
        assert "will not connect the modes" not in ab.diagnose(posterior(idata, step=step)).text


def test_constant_and_broken_quantities_are_named():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(4, DRAWS, 3))
    x[..., 1] = 0.25
    for bad in (np.inf, np.nan):
        x[1, 5, 2] = bad
        report = ab.diagnose(x)
        assert not report.passed
        assert "x[2]" in check(report, "finite draws").finding
    assert "x[1]" in check(report, "constant").finding
    assert np.isnan(report.table.loc["x[1]", "r_hat"])
    x[1, 5, 2] = 0.0
    assert ab.diagnose(x).passed


def test_a_chain_that_never_moves_among_others_does_not_hide_them():
    rng = np.random.default_rng(13)
    x = rng.integers(0, 2, size=(3, DRAWS, 10))
    x[0] = 1  # no test within chain 0
    x[2, : DRAWS // 2] = 0  # chain 2 changes half-way
    report = ab.diagnose(x)
    assert check(report, "Weiß, within chains").status == "failed"
    assert check(report, "Weiß, between chains").status == "failed"


def test_no_variables_is_an_error():
    with pytest.raises(AnonbayesError, match="no variables"):
        ab.diagnose(xr.Dataset())
    with pytest.raises(AnonbayesError, match="not categories"):
        ab.diagnose(np.ones((2, 50), dtype=complex))


def test_nothing_that_varies_is_not_assessed():
    assert ab.diagnose(np.ones((4, DRAWS))).verdict == "not assessed"
    assert ab.diagnose(np.ones((4, 3))).verdict == "not assessed"


def test_slow_chains_are_told_how_many_draws_to_add():
    """AR(1) with phi = 0.9 has 1/19 of its draws' worth: below 100 per chain at 1,000 draws."""
    from scipy.signal import lfilter

    x = lfilter([1], [1, -0.9], np.random.default_rng(7).normal(size=(4, 1000, 5)), axis=1)
    report = ab.diagnose(x)
    assert check(report, "effective sample size").status == "caution"
    assert "times as many draws" in report.advice[0]
    strict = ab.diagnose(x, limits=Limits(ess_failed=100))
    assert not strict.passed


def test_slow_chains_are_not_taken_for_modes():
    """AR(1), phi = 0.97, 500 draws: R-hat fails, but all chains roam the same region."""
    from scipy.signal import lfilter

    x = lfilter([1], [1, -0.97], np.random.default_rng(4).normal(size=(4, 1000, 20)), axis=1)
    report = ab.diagnose(
        posterior(compat.make_idata({"posterior": {"x": x[:, 500:]}}), step="swap")
    )
    assert check(report, "R-hat").status == "failed"
    assert "too slowly" in report.reason
    assert "modes" not in report.text
    assert "times as many draws" in report.advice[0]
    assert "step='block'" in report.advice[1]


def test_divergences_fail():
    rng = np.random.default_rng(8)
    diverging = np.zeros((4, DRAWS), dtype=bool)
    diverging[0, 3] = True
    idata = compat.make_idata(
        {"posterior": {"mu": rng.normal(size=(4, DRAWS))}, "sample_stats": {"diverging": diverging}}
    )
    report = ab.diagnose(idata)
    assert not report.passed
    assert check(report, "divergences").finding == "1 divergent transitions"


def test_a_rate_near_zero_is_pointed_out():
    rng = np.random.default_rng(9)
    idata = compat.make_idata(
        {
            "posterior": {"mu": rng.normal(size=(4, DRAWS))},
            "sample_stats": {"exchange_rate": np.full((4, DRAWS), 0.001)},
        }
    )
    report = ab.diagnose(idata)
    assert check(report, "rate: exchange_rate").status == "caution"
    assert any("hardly ever" in sentence for sentence in report.advice)


def test_replicas_that_never_travel_are_pointed_out():
    rng = np.random.default_rng(9)
    trips = np.cumsum(rng.random((4, DRAWS)) < 0.05, axis=1)
    trips[3] = 0
    idata = compat.make_idata(
        {
            "posterior": {"mu": rng.normal(size=(4, DRAWS))},
            "sample_stats": {"round_trips": trips},
        }
    )
    finding = check(ab.diagnose(idata), "round trips")
    assert finding.status == "caution"
    assert finding.finding.endswith(f"{trips[0, -1]}, {trips[1, -1]}, {trips[2, -1]}, 0")


def test_sticky_categories_have_few_effective_draws():
    """DAR(1) with phi = 0.98 is worth 1/99 of its draws: 10 of 1,000."""
    rng = np.random.default_rng(11)
    fresh = rng.random((4, 1000, 20)) >= 0.98
    fresh[:, 0] = True
    source = np.maximum.accumulate(np.where(fresh, np.arange(1000)[:, None], 0), axis=1)
    x = np.take_along_axis(rng.integers(0, 2, size=fresh.shape), source, axis=1)
    report = ab.diagnose(x)
    assert report.table["ess_bulk"].median() == pytest.approx(4 * 10, rel=0.3)
    assert check(report, "effective sample size").status in ("caution", "failed")


@pytest.mark.parametrize("wrap", ["idata", "dataset", "tree"])
def test_every_container_gives_the_same_verdict(wrap, trapped):
    idata = make_chains([0, 0, 1, 1])
    data = {
        "idata": idata,
        "dataset": compat.posterior_dataset(idata),
        "tree": xr.DataTree.from_dict(compat.groups(idata)),
    }[wrap]
    report = ab.diagnose(data)
    assert report.verdict == trapped.verdict
    finding = check(report, "Weiß, between chains").finding
    assert finding == check(trapped, "Weiß, between chains").finding


def test_a_variable_called_step_is_a_variable():
    rng = np.random.default_rng(12)
    report = ab.diagnose(
        compat.as_dataset({"step": rng.normal(size=(2, 100)), "method": rng.normal(size=(2, 100))})
    )
    assert list(report.table.index) == ["step", "method"]
    assert "step" not in report.source


def test_a_selection_is_respected():
    report = ab.diagnose(make_chains([0, 0, 1, 1]), var_names="pi_Dis", coords={"Dis": ["Heart"]})
    assert [k for k in report.table.index if k.startswith("pi")] == ["pi_Dis[Heart]"]
    assert "cleartext[0]" not in report.table.index


def test_renderings_agree(trapped, tmp_path):
    stored = json.loads(trapped.to_json(tmp_path / "report.json"))
    assert stored == json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert stored["passed"] is False
    assert len(stored["checks"]) == len(trapped.checks)
    page = trapped._repr_html_()
    assert page.count("<tr>") == 1 + len(trapped.checks)
    assert str(trapped) == trapped.text


def test_html_escapes_names():
    rng = np.random.default_rng(10)
    x = xr.DataArray(
        rng.normal(size=(4, 100, 1)) + np.arange(4)[:, None, None],
        dims=["chain", "draw", "s"],
        coords={"s": ["<script>"]},
        name="pi",
    )
    page = ab.diagnose(x)._repr_html_()
    assert "&lt;script&gt;" in page
    assert "<script>" not in page


def test_worst_names_the_parameters_that_differ(trapped):
    worst = list(trapped.worst(4).index)
    assert worst[0] in ("energy", "pi_Dis[Flu]", "pi_Dis[HIV]")
    assert any(name.startswith("cleartext[") for name in worst)


def test_no_draws_are_no_diagnosis():
    with pytest.raises(AnonbayesError, match="contains no draws"):
        ab.diagnose(np.empty((2, 0)))


@pytest.mark.parametrize(
    ("beta", "rows", "status"),
    [(1.0, 14, None), (1e-3, 6, None), (0.02, 14, "caution"), (1e-3, 14, "failed")],
)
def test_crowds_of_secrets_behind_a_channel_with_tiny_weights_are_not_trusted(beta, rows, status):
    """Few people's are held against enumeration in `test_small_weights`."""
    channel = ab.RandomizedResponse(ab.Domain("s", ["p", "q"]), 1.0)
    table = ab.ReleasedTable.horizontal(
        pd.DataFrame({"x": list("ab") * (rows // 2), "s": "p"}),
        "s",
        domains={"x": list("ab")},
        channels={"s": channel},
    )
    post = ab.fit(table, beta=beta, evidence="independent", seed=0, draws=60, progressbar=False)
    found = {check.name: check.status for check in ab.diagnose(post).checks}
    assert found.get("latent secrets") == status


@pytest.mark.parametrize("answers", [1, 5])
def test_one_unlucky_chain_does_not_fail_for_five_answers_that_move_as_one(answers):
    """By Geweke's test one of four good chains is below 0.05 about every fifth time."""
    rng = np.random.default_rng(3)
    small = failed = 0
    for _ in range(25):
        x = rng.normal(size=(4, 400, 1)) + 0.1 * rng.normal(size=(4, 400, answers))
        found = check(ab.diagnose(x), "Geweke, within chains")
        failed += found.status == "failed"
        small += "100%" in found.finding or found.status != "ok"
    assert small >= 4
    assert failed <= 2  # one in a hundred, and Geweke's p-values are a little too small
