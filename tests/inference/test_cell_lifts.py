"""Lifts of crossing cells against counts by hand, simulation, and people with known secrets."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp

import anonbayes as ab
from anonbayes.errors import ModelError
from anonbayes.inference import cell_lifts
from anonbayes.inference.cell_lifts import has_crossing_sets, lift_cells
from anonbayes.inference.dirichlet import resolve_prior
from anonbayes.inference.features import cell_groups, cell_logs
from anonbayes.inference.weight_kernels import CENTRE, SPREAD, dense_features, maximise
from anonbayes.inference.weights import EvidenceWeights, fit_weights


def product(rng: np.random.Generator, n: int, sizes=(4, 8, 12), secrets: int = 4) -> pd.DataFrame:
    """Rows of the product model."""
    secret = rng.choice(secrets, size=n, p=rng.dirichlet(np.full(secrets, 20.0)))
    frame = pd.DataFrame({"s": [f"s{i}" for i in secret]})
    for a, size in enumerate(sizes):
        pi = rng.dirichlet(np.full(size, 2.0), size=secrets).cumsum(axis=1)
        frame.insert(a, f"x{a}", (rng.random(n)[:, None] > pi[secret, :-1]).sum(axis=1))
    return frame


def lifted(table: ab.ReleasedTable):
    return lift_cells(table, resolve_prior(table))


def log_loss(belief: pd.DataFrame, truth: pd.Series) -> np.ndarray:
    own = belief.columns.get_indexer(truth)
    return -np.log(np.maximum(belief.to_numpy()[np.arange(len(own)), own], 1e-4))


@pytest.fixture(scope="module")
def crossing():
    frame = product(np.random.default_rng(1), 600)
    return ab.anonymize.mondrian(frame, "s", k=6, l=2), frame


@pytest.mark.parametrize("rounds", [1, 3])
def test_lifts_are_those_of_the_rows_of_other_folds(crossing, rounds, monkeypatch):
    """Line by line in plain NumPy, from the rows that the line's fold leaves."""
    monkeypatch.setattr(cell_lifts, "ROUNDS", (rounds,))
    table, _ = crossing
    found = lifted(table)
    assert has_crossing_sets(table) and found.rounds == rounds
    problem = cell_lifts._problem(table)
    lines = problem.lines
    shape = (len(lines.record), len(table.attributes) + 1, 4)
    features = np.empty(shape)
    dense_features(found.features, features)
    secret = problem.secret
    groups = table.group_codes
    assert len(np.unique(lines.record)) == len(table.records.count)
    for i in range(0, len(lines.record), 37):
        left = lines.fold != lines.fold[i]
        for a, column in enumerate(table.columns.values()):
            cells = column.evidence.matrix.toarray()
            count = np.zeros((len(cells), 4))
            at = problem.codes[lines.record[left], a], secret[lines.record[left]]
            np.add.at(count, at, lines.rows[left])
            everyone = table.counts[column.domain.name].toarray().sum(axis=1, keepdims=True)
            m = cell_logs(column.evidence, everyone.astype(float), np.ones((1, cells.shape[1])))
            m = m.mean[0]
            lift, chance = np.ones((4, len(m))), count.sum(axis=0)[:, None] * m
            for turn in range(rounds):
                share = count / ((cells * m) @ lift.T)
                rows = lift * m * (share.T @ cells)
                kappa = found.kappa[a] if turn == rounds - 1 else 1.0
                lift = (kappa + rows) / (kappa + chance)
            lift /= (lift @ m)[:, None]
            y = problem.codes[lines.record[i], a]
            expected = np.log((cells[y] * m) @ lift.T / (cells[y] @ m))
            np.testing.assert_allclose(features[i, a + 1], expected, atol=1e-10)
    # Rows of a small group are judged together, by none of their own.
    small = np.bincount(groups) <= lines.n_folds
    assert small.any()
    by_group = pd.Series(lines.fold).groupby(cell_groups(problem.codes)[lines.record])
    size = np.bincount(cell_groups(problem.codes), table.records.count)
    assert (by_group.nunique().to_numpy()[size <= lines.n_folds] == 1).all()


def test_independent_evidence_is_scored_by_the_same_rows_of_other_folds(crossing):
    table, _ = crossing
    found, prior = lifted(table), resolve_prior(table)
    lines, codes = found.problem.lines, found.problem.codes
    features = np.empty((len(lines.record), len(table.attributes) + 1, 4))
    dense_features(found.independent(table, prior), features)
    for i in range(0, len(lines.record), 97):
        left = lines.fold != lines.fold[i]
        for a, column in enumerate(table.columns.values()):
            count = np.zeros((len(column.evidence), 4))
            at = codes[lines.record[left], a], found.problem.secret[lines.record[left]]
            np.add.at(count, at, lines.rows[left])
            again = cell_logs(column.evidence, count, prior.beta[column.domain.name])
            own = again.cell[codes[lines.record[i], a]]
            np.testing.assert_allclose(features[i, a + 1], own, atol=1e-4)
    weights = fit_weights(table, prior, lifts=found, errors=False)
    score = logsumexp(features.sum(axis=1), axis=1)
    score = features.sum(axis=1)[np.arange(len(score)), found.problem.secret[lines.record]] - score
    score += found.inside[0, lines.record]
    assert weights.score[1] == pytest.approx(score @ lines.rows / lines.rows.sum(), abs=1e-9)


def test_rows_of_large_groups_are_spread_over_the_folds():
    count = np.array([100.0, 7.0, 3.0])
    lines = cell_lifts._deal(np.array([0, 0, 1]), count, 20, np.random.default_rng(1))
    np.testing.assert_allclose(np.bincount(lines.record, lines.rows), count)
    large = np.bincount(lines.fold[lines.record < 2], lines.rows[lines.record < 2], minlength=20)
    assert stats.chisquare(large).pvalue > 1e-3  # and no more evenly than chance has it
    assert stats.chisquare(large).pvalue < 0.999
    assert (lines.record == 2).sum() == 1


def test_weights_are_one_where_the_product_model_is_true():
    """Mondrian releases of simulated products; nothing is lost by `auto`, scored on the people."""
    misses, weights, lost = [], [], []
    for seed in range(12):
        frame = product(np.random.default_rng(seed), 900)
        table = ab.anonymize.mondrian(frame, "s", k=8, l=2)
        prior = resolve_prior(table)
        found = fit_weights(table, prior, lifts=lift_cells(table, prior)).weights
        weights.append(found["weight"])
        misses.append((found["weight"] - 1.0) / found["se"])
        if seed < 4:
            settings = {"draws": 30, "tune": 50, "chains": 1, "seed": 1, "progressbar": False}
            fits = [ab.fit(table, evidence=e, **settings) for e in ("auto", "independent")]
            gap = [log_loss(p.attacker(frame.iloc[:, :3]), frame["s"]).mean() for p in fits]
            lost.append(gap[0] - gap[1])
    covered = np.mean(np.abs(misses) < stats.t.ppf(0.95, 19))
    assert covered > 0.9 - 4 * np.sqrt(0.9 * 0.1 / np.size(misses))
    assert abs(np.mean(weights) - 1.0) < 0.02 + 4 * np.std(weights) / np.sqrt(np.size(weights))
    assert np.mean(lost) < 4 * np.std(lost) / np.sqrt(len(lost)) + 0.005


def test_ranks_of_the_weights_are_uniform_given_the_lifts(crossing):
    """Simulation-based calibration: weights from the prior, secrets from the model."""
    table, _ = crossing
    features = lifted(table).features
    features = features._replace(share_step=np.zeros(4), rows=np.ones(len(features.rows)))
    x = np.empty((len(features.rows), 4, 4))
    dense_features(features, x)
    rng = np.random.default_rng(3)
    ranks = []
    for _ in range(120):
        eta = stats.truncnorm.rvs(-CENTRE / SPREAD, np.inf, CENTRE, SPREAD, 3, random_state=rng)
        score = x[:, 0] + np.einsum("a,ras->rs", eta, x[:, 1:])
        p = np.exp(score - score.max(axis=1, keepdims=True)).cumsum(axis=1)
        secret = (rng.random(len(p))[:, None] * p[:, -1:] > p).sum(axis=1)
        mode, precision, gradient = maximise(features._replace(secret=secret))
        nan = np.full(3, np.nan)
        weights = EvidenceWeights(
            ("x0", "x1", "x2"), mode, precision, gradient, *[nan] * 5, nan > 0, (), nan, nan, 600
        )
        ranks.append((weights.draw(99, rng) < eta).sum(axis=0))
    for rank in np.array(ranks).T:
        counts = np.bincount(rank // 20, minlength=5)
        assert stats.chisquare(counts).pvalue > 1e-3


def test_attacker_is_the_product_form_of_the_lifts(crossing):
    table, frame = crossing
    post = ab.fit(table, evidence="weighted", draws=5, chains=1, seed=1, progressbar=False)
    assert post.method == "crossfit" and not post.simulated
    record = frame.iloc[3]
    total = np.zeros(4)
    for j in range(table.n_lines):
        s, fit = int(table.secret_codes[j]), 1.0
        for a, (name, column) in enumerate(table.columns.items()):
            k = table.domains[name].index(record[name])
            members = column.evidence.members(int(column.codes[j]))
            pi = post.means[a]
            m = post.secret_mean @ pi
            fit *= float(k in members) * (pi[s, k] / pi[s, members].sum()) ** post.eta[a]
            fit *= (m[k] / m[members].sum()) ** (1 - post.eta[a])
        total[s] += fit
    belief = post.attacker(dict(record.iloc[:3]))
    np.testing.assert_allclose(belief, total / total.sum(), rtol=1e-9)
    score = np.log(post.secret_mean)
    for a, name in enumerate(table.attributes):
        k = table.domains[name].index(record[name])
        score = score + post.eta[a] * np.log(post.means[a][:, k])
    expected = np.exp(score - score.max())
    np.testing.assert_allclose(post.learner(dict(record.iloc[:3])), expected / expected.sum())


@pytest.mark.parametrize("k", [5, 10])
def test_on_the_clinic_it_is_no_worse_than_random_worlds_and_ahead_of_independent(k):
    people = ab.datasets.load("clinic")
    table = ab.anonymize.mondrian(people, "diagnosis", k=k, l=2)
    known, truth = people.drop(columns="diagnosis"), people["diagnosis"]
    post = ab.fit(table, draws=5, chains=1, seed=1, progressbar=False)
    assert post.evidence == "weighted"
    gap = log_loss(post.attacker(known), truth) - log_loss(post.random_worlds(known), truth)
    assert gap.mean() < 2 * stats.sem(gap)
    plain = ab.fit(table, evidence="independent", draws=50, chains=1, seed=1, progressbar=False)
    for who in ("attacker", "learner"):
        gain = log_loss(getattr(plain, who)(known), truth) - log_loss(
            getattr(post, who)(known), truth
        )
        assert gain.mean() > 4 * stats.sem(gain)


def test_noise_is_not_sharpened():
    """Attributes that tell nothing: the attacker stays with random worlds."""
    rng = np.random.default_rng(4)
    frame = product(rng, 1000)
    frame["s"] = rng.permutation(frame["s"])
    table = ab.anonymize.mondrian(frame, "s", k=5, l=2)
    post = ab.fit(table, evidence="weighted", draws=5, chains=1, seed=1, progressbar=False)
    known = frame.iloc[:, :3]
    gap = log_loss(post.attacker(known), frame["s"]) - log_loss(
        post.random_worlds(known), frame["s"]
    )
    assert gap.mean() < 0.005


def test_draws_spread_as_left_out_folds_do_and_survive(crossing, tmp_path):
    table, frame = crossing
    post = ab.fit(table, evidence="weighted", draws=400, chains=2, seed=1, progressbar=False)
    lifts = lifted(table)
    for a, name in enumerate(table.attributes):
        drawn = np.log(post.draws[f"pi_{name}"].to_numpy()).std(axis=(0, 1))
        spread = np.sqrt((lifts.spread[a] ** 2).sum(axis=0))
        # Normalising takes away a little; 800 draws know a spread to 2.5 %.
        assert np.median(drawn / spread) == pytest.approx(1.0, abs=0.15)
    path = tmp_path / "post.nc"
    for draws in (True, False):
        post.to_netcdf(path, draws=draws)
        back = ab.Posterior.from_netcdf(path)
        assert back.method == "crossfit"
        pd.testing.assert_frame_equal(
            back.attacker(frame.iloc[:5, :3]), post.attacker(frame.iloc[:5, :3])
        )
        np.testing.assert_allclose(back.draws["pi_x1"], post.draws["pi_x1"])
        pd.testing.assert_frame_equal(back.weights, post.weights)


def test_chains_and_priors_are_still_there_for_the_asking(crossing):
    table, _ = crossing
    small = {"draws": 5, "tune": 5, "chains": 1, "seed": 1, "progressbar": False}
    assert ab.fit(table, evidence="weighted", method="gibbs", **small).method == "gibbs"
    assert ab.fit(table, evidence="weighted", beta=1.0, **small).method == "gibbs"
    assert ab.fit(table, method="crossfit", **small).evidence == "weighted"
    for settings, words in (
        ({"method": "crossfit", "beta": 1.0}, "beta"),
        ({"method": "crossfit", "evidence": "independent"}, "weighted"),
        ({"method": "crossfit", "step": "tree"}, "step"),
    ):
        with pytest.raises(ModelError, match=words):
            ab.fit(table, **small, **settings)
    with pytest.raises(ModelError, match="cross"):
        ab.fit(ab.datasets.load("clinic_local"), method="crossfit", **small)


EDGES = {
    "one secret": pd.DataFrame({"x": [0, 1, 2, 3], "s": ["a"] * 4}),
    "one attribute": pd.DataFrame({"x": range(6), "s": list("aabbab")}),
    "constant attribute": pd.DataFrame({"c": [0] * 6, "x": range(6), "s": list("ababab")}),
    "groups of one": pd.DataFrame({"x": range(40), "y": range(40), "s": list("ab") * 20}),
    "separable": pd.DataFrame({"x": range(40), "s": ["a"] * 20 + ["b"] * 20}),
}


@pytest.mark.parametrize("name", EDGES)
def test_edges_give_a_clear_result(name, recwarn):
    frame = EDGES[name].copy()
    frame["x"] = [f"[{i}, {i + 1}]" for i in frame["x"]]  # neighbours cross
    table = ab.ReleasedTable.horizontal(frame, "s", domains={"x": range(60), "s": list("abc")})
    assert has_crossing_sets(table)
    post = ab.fit(table, evidence="weighted", draws=5, chains=1, seed=1, progressbar=False)
    assert np.isfinite(post.eta).all() and (post.eta < 5).all()
    belief = post.attacker({"x": 1})
    assert np.isfinite(belief).all() and belief.sum() == pytest.approx(1.0)
    assert np.isfinite(post.scores["log_score"]).all()
    assert not recwarn.list
