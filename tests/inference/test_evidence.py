"""`fit(evidence=...)`: what is taken, what follows it, and what survives on disk."""

from __future__ import annotations

import logging
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

import anonbayes as ab
from anonbayes import compat
from anonbayes.beliefs.belief import belief_draws, normalise
from anonbayes.errors import AnonbayesError

ATTRIBUTES = ["x", "y", "z"]


def people(n: int = 600, seed: int = 1) -> pd.DataFrame:
    """Two attributes that say nearly the same, and a third."""
    rng = np.random.default_rng(seed)
    s = rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    x = (s + rng.choice(3, size=n, p=[0.6, 0.2, 0.2])) % 3
    y = np.where(rng.random(n) < 0.95, x, rng.integers(0, 3, n))
    z = (s + rng.choice(4, size=n, p=[0.4, 0.2, 0.2, 0.2])) % 4
    return pd.DataFrame({"x": x, "y": y, "z": z, "s": [f"s{i}" for i in s]})


def released(kind: str) -> ab.ReleasedTable:
    frame = people()
    domains = {"x": range(3), "y": range(3), "z": range(4)}
    cells = {
        "nested": {2: "{2, 3}", 3: "{2, 3}"},
        "crossing": {1: "{0, 1}", 2: "{1, 2}", 3: "{2, 3}"},
        "latent": {},
    }[kind]
    hidden = frame.copy().astype(object)
    some = np.random.default_rng(2).random(len(frame)) < 0.4
    hidden.loc[some, "z"] = [cells.get(v, v) for v in frame.loc[some, "z"]]
    channels = None
    if kind == "latent":
        channel = ab.RandomizedResponse(ab.Domain("s", ["s0", "s1", "s2"]), epsilon=3.0)
        hidden["s"] = channel.release(frame["s"], seed=3)
        channels = {"s": channel}
    return ab.ReleasedTable.horizontal(hidden, "s", domains, channels=channels)


@pytest.fixture(scope="module", params=["nested", "crossing", "latent"])
def post(request):
    return ab.fit(released(request.param), draws=100, chains=2, seed=1, progressbar=False)


def test_auto_takes_weights_where_attributes_repeat_each_other(post, caplog):
    assert post.evidence == "weighted"
    assert "better by more than its standard error" in post.evidence_reason
    assert post.scores.index[0] == "weighted"
    assert set(post.scores.index) == {"weighted", "independent", "margin"}
    weights = post.weights
    assert list(weights.index) == ATTRIBUTES
    assert weights.loc[["x", "y"], "weight"].sum() < 1.5
    assert weights["meaning"].str.startswith("tells").all()
    with caplog.at_level(logging.INFO, logger="anonbayes"):
        ab.fit(released("nested"), draws=2, chains=1, seed=1, progressbar=False)
    assert "evidence=weighted" in caplog.text


def test_independent_is_what_it_was(post):
    table = post.table
    one = ab.fit(table, evidence="independent", draws=50, chains=2, seed=1, progressbar=False)
    two = ab.fit(
        table, evidence="independent", beta=1.0, draws=50, chains=2, seed=1, progressbar=False
    )
    victim = {"x": 0, "z": 1}
    pd.testing.assert_series_equal(one.attacker(victim), two.attacker(victim))
    assert one.eta is None and one.scores.empty
    assert (one.weights["weight"] == 1).all()
    assert not any(str(name).startswith("weight_") for name in one.draws)


def test_weights_of_one_are_the_product_model(post):
    """Beliefs of weighted evidence at weights of one, and of independent evidence, are the same."""
    from dataclasses import replace

    ones = replace(post.evidence_weights, eta=np.ones(3))
    groups = dict(post.groups)
    drawn = {f"weight_{a}": post.draws[f"weight_{a}"] * 0 + 1.0 for a in ATTRIBUTES}
    groups["posterior"] = post.draws.assign(drawn)
    full = replace(post, evidence_weights=ones, groups=groups)
    plain = replace(post, evidence="independent")
    some = people().iloc[:20, :3]
    for ask in ("learner", "attacker"):
        np.testing.assert_allclose(
            getattr(full, ask)(some), getattr(plain, ask)(some), rtol=1e-9, atol=1e-12
        )
    np.testing.assert_allclose(
        full.learner(some, kind="conditional"), plain.learner(some, kind="conditional"), rtol=1e-9
    )


def test_learner_is_the_softmax_of_weighted_logs():
    post = ab.fit(released("nested"), draws=5, chains=1, seed=1, progressbar=False)
    record = {"x": 1, "y": 2, "z": 3}
    score = np.log(post.secret_mean)
    for a, (name, value) in enumerate(record.items()):
        k = post.table.domains[name].index(value)
        score = score + post.eta[a] * np.log(post.trees[name].mean[:, k])
    np.testing.assert_allclose(post.learner(record), softmax(score), rtol=1e-12)
    # What is not known does not count; weights of knowledge may be scaled.
    assert post.learner({}).to_numpy() == pytest.approx(post.secret_mean)
    np.testing.assert_allclose(
        post.learner({"x": {0: 2.0, 1: 1.0}}), post.learner({"x": {0: 4.0, 1: 2.0}}), rtol=1e-12
    )


def test_attacker_is_the_product_form_of_the_groups():
    """``sum_g n_gs prod_a [m(r)/m(y)]^(1-eta) [pi(r)/pi(y)]^eta``, row by row."""
    post = ab.fit(released("nested"), draws=5, chains=1, seed=1, progressbar=False)
    table, record = post.table, {"x": 1, "y": 1, "z": 2}
    total = np.zeros(3)
    for j in range(table.n_lines):
        s = int(table.secret_codes[j])
        fit = 1.0
        for a, (name, column) in enumerate(table.columns.items()):
            k = table.domains[name].index(record[name])
            members = column.evidence.members(int(column.codes[j]))
            pi = post.trees[name].mean
            m = post.secret_mean @ pi
            inside = float(k in members)
            fit *= inside * (pi[s, k] / pi[s, members].sum()) ** post.eta[a]
            fit *= (m[k] / m[members].sum()) ** (1 - post.eta[a])
        total[s] += fit
    np.testing.assert_allclose(post.attacker(record), total / total.sum(), rtol=1e-9)
    unknown = post.attacker({}).to_numpy()
    np.testing.assert_allclose(unknown, table.secret_counts / table.n_rows, rtol=1e-12)


def test_pooling_serves_both_kinds_of_evidence():
    table = released("nested")
    for evidence in ("independent", "weighted"):
        post = ab.fit(table, evidence=evidence, beta="pooled", draws=5, seed=1, progressbar=False)
        assert post.pooled and post.evidence == evidence
        for name in table.attributes:
            rows = post.prior.beta[name]
            assert np.ptp(rows, axis=0) == pytest.approx(0.0)
            assert rows[0].sum() != pytest.approx(rows.shape[1])
    plain = ab.fit(table, evidence="weighted", beta=1.0, draws=5, seed=1, progressbar=False)
    assert (plain.prior.beta["x"] == 1).all() and np.isnan(plain.weights["kappa"]).all()


def test_draws_of_the_weights_have_names_and_survive(post, tmp_path):
    groups = compat.groups(post.idata)
    for name in ATTRIBUTES:
        drawn = groups["posterior"][f"weight_{name}"]
        assert drawn.dims == ("chain", "draw") and (drawn >= 0).all()
        line = post.weights.loc[name]
        assert abs(float(drawn.mean()) - line["exponent"]) < 5 * line["se"]
    path = tmp_path / "post.nc"
    post.to_netcdf(path)
    again = ab.Posterior.from_netcdf(path)
    assert again.evidence == "weighted" and again.pooled == post.pooled
    pd.testing.assert_frame_equal(again.weights, post.weights)
    pd.testing.assert_frame_equal(again.scores, post.scores)
    some = people().iloc[:5, :3]
    pd.testing.assert_frame_equal(again.attacker(some), post.attacker(some))
    assert pickle.loads(pickle.dumps(post)).evidence == "weighted"
    assert ">weighted" in post._repr_html_() and "evidence='weighted'" in repr(post)


def test_chains_that_never_move_agree_without_a_warning():
    people = pd.DataFrame({"a": ["k"] * 60, "s": ["x", "y", "z"] * 20})
    table = ab.anonymize.anatomy(people, "s", 2, seed=1)
    post = ab.fit(table, evidence="independent", draws=20, chains=2, seed=1, progressbar=False)
    assert "agree (the log density is the same in every draw)" in post._repr_html_()


def test_intervals_hold_the_belief_and_grow_with_doubt():
    table = released("nested")
    post = ab.fit(table, draws=200, chains=2, seed=1, progressbar=False)
    some = people().iloc[:10, :3]
    for who in ("attacker", "learner"):
        found = post.intervals(some, who=who, probability=0.98, draws=200)
        belief = getattr(post, who)(some).to_numpy().ravel()
        inside = (found["lower"] <= belief + 0.01) & (belief - 0.01 <= found["upper"])
        assert inside.mean() > 0.95
        narrow = post.intervals(some, who=who, probability=0.5, draws=200)
        assert (
            (narrow["upper"] - narrow["lower"]) <= found["upper"] - found["lower"] + 1e-12
        ).all()
    risk = post.assess(people())
    wide = risk.intervals(draws=50)
    assert ((wide["lower"] <= wide["value"]) & (wide["value"] <= wide["upper"])).all()
    # Their scatter is that of single draws; of a factor, on a logarithmic scale.
    where = risk.truth.pair_record, risk.truth.pair_secret
    weight = risk.truth.pair_count / risk.truth.pair_count.sum()
    drawn = []
    for weights in belief_draws(post, risk.truth.victims, 50):
        attacker, learner = (normalise(x) for x in weights)
        best = attacker[where] == attacker.max(axis=1)[where[0]]
        ratio = (attacker[where] / learner[where])[best]
        loss = -np.log(np.maximum(attacker[where], 1e-4)) @ weight
        drawn.append([loss, best @ weight, np.log(ratio.max())])
    low, middle, high = np.quantile(drawn, (0.05, 0.5, 0.95), axis=0)
    value = wide.loc[["log_loss_A", "GT_A", "max_Ti"], "value"].to_numpy().copy()
    value[2] = np.log(value[2])
    for name, end in (("lower", value + low - middle), ("upper", value + high - middle)):
        found = wide.loc[["log_loss_A", "GT_A", "max_Ti"], name].to_numpy()
        np.testing.assert_allclose(found, [*end[:2], np.exp(end[2])], rtol=1e-9)
    with pytest.raises(AnonbayesError, match="between 0 and 1"):
        post.intervals(some, probability=2.0)


def test_everything_measured_follows(post):
    truth = people()
    risk = post.assess(truth)
    plain = ab.fit(
        post.table, evidence="independent", draws=100, chains=2, seed=1, progressbar=False
    ).assess(truth)
    assert risk.scores.loc["learner", "log_loss"] < plain.scores.loc["learner", "log_loss"]
    assert risk.summary["ABS_L"] != plain.summary["ABS_L"]
    best = ab.ideal(truth, table=post.table, evidence="weighted")
    assert best.eta is not None and (best.eta >= 0).all()
    some = truth.iloc[:7]
    rows = risk.rows.iloc[:7]
    own = [best.belief(some).iloc[i][s] for i, s in enumerate(some["s"])]
    np.testing.assert_allclose(rows["p_I"], own)
    assert 0 <= risk.faithfulness.tv <= 1
    told = risk.to_dict()["evidence"]
    assert told["taken"] == "weighted" and len(told["weights"]) == 3 and len(told["scores"]) == 3
    harmed = post.assess(truth, harm=["s2"])
    assert harmed.summary["GT_A"] <= 1


def test_faithfulness_listed_and_drawn_agree():
    post = ab.fit(released("nested"), draws=5, chains=1, seed=1, progressbar=False)
    from anonbayes.risk import faithfulness as module

    truth = people()
    listed = post.assess(truth).faithfulness
    assert listed.samples == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_CELLS", 1)
        drawn = post.assess(truth, samples=20_000).faithfulness
    assert drawn.samples == 20_000
    assert abs(drawn.tv - listed.tv) < 4 * drawn.tv_error


def test_small_tables_and_single_attributes_stay_independent():
    small = ab.fit(ab.datasets.load("table1_recoded"), draws=5, seed=1, progressbar=False)
    assert small.evidence == "independent" and "too few" in small.evidence_reason
    frame = people()[["x", "s"]]
    one = ab.fit(ab.ReleasedTable.horizontal(frame, "s"), draws=5, seed=1, progressbar=False)
    assert one.evidence == "independent" and "fewer than two" in one.evidence_reason


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"evidence": "heavy"}, "evidence"), ({"beta": "pool"}, "pooled")],
)
def test_bad_settings_are_refused(settings, words):
    with pytest.raises(AnonbayesError, match=words):
        ab.fit(ab.datasets.load("table1_recoded"), draws=5, progressbar=False, **settings)


def test_the_model_has_the_weights():
    """Their density is looked at in `test_weights.py`, and drawn from in `test_corrections.py`."""
    table = released("nested")
    names = {v.name for v in ab.build_model(table, evidence="weighted").free_RVs}
    assert {"weight_x", "weight_y", "weight_z", "pi_s", "pi_x"} <= names
    plain = ab.build_model(table, evidence="independent")
    assert "weight_x" not in {v.name for v in plain.free_RVs}


def test_adult_reaches_its_numbers(shared_data):
    """ARX k = l = 4: learner and attacker, from the release alone; weighted before independent."""
    truth = pd.read_csv(shared_data / "adult_5692.csv", sep=";")
    table = ab.read_arx(
        shared_data / "arx" / "adult_5692_k4_l4_local.csv",
        sensitive="occupation",
        hierarchies=shared_data / "hierarchies",
    )
    scores = {}
    for evidence in ("auto", "independent"):
        post = ab.fit(table, evidence=evidence, draws=2, seed=1, progressbar=False)
        scores[post.evidence] = post.assess(truth, samples=100).scores
    learner = scores["weighted"].loc["learner"]
    assert learner["right"] >= 0.283 - 5e-5 and learner["log_loss"] <= 1.995
    assert abs(learner["stated"] - learner["right"]) <= 0.015
    attacker = scores["weighted"].loc["attacker"]
    assert attacker["right"] >= 0.3105 and attacker["log_loss"] <= 1.851
    for who in ("learner", "attacker"):
        gain = scores["independent"].loc[who, "log_loss"] - scores["weighted"].loc[who, "log_loss"]
        assert gain > 0


def test_the_report_says_which_evidence_and_why(post):
    from anonbayes.reporting.page import render

    page = render(post, post.assess(people()))
    assert "Evidence is weighted" in page and "better by more than its standard error" in page
    assert "What each attribute tells" in page and "Held-out scores" in page
    assert "evidence=&#39;weighted&#39;" in page
    plain = ab.fit(
        post.table, evidence="independent", draws=20, chains=2, seed=1, progressbar=False
    )
    page = render(plain)
    assert "counts in full" in page and "Held-out scores" not in page
