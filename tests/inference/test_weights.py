"""Weights of evidence against refits, other optimisers, quadrature and simulation."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import integrate, optimize, stats
from scipy.special import logsumexp

import anonbayes as ab
from anonbayes.inference import weight_kernels
from anonbayes.inference.dirichlet import Prior, resolve_prior
from anonbayes.inference.features import Features, cell_logs, marginal_of, pooled_beta
from anonbayes.inference.horizontal.tree import DirichletTree
from anonbayes.inference.model import add_weights
from anonbayes.inference.weight_kernels import (
    CENTRE,
    SPREAD,
    dense_features,
    log_scores,
    maximise,
    maximise_alone,
    tempered_fit,
)
from anonbayes.inference.weights import CHAIN_ROWS, EvidenceWeights, fit_weights
from anonbayes.tables.evidence import Evidence


def product_frame(rng: np.random.Generator, n: int, sizes=(3, 4, 2), secrets: int = 3):
    """Rows of the product model: attributes independent given the secret."""
    share = rng.dirichlet(np.full(secrets, 5.0))
    secret = rng.choice(secrets, size=n, p=share)
    columns = {}
    for a, size in enumerate(sizes):
        pi = rng.dirichlet(np.full(size, 2.0), size=secrets)
        u = rng.random(n)[:, None]
        columns[f"x{a}"] = (u > np.cumsum(pi[secret], axis=1)).sum(axis=1).clip(0, size - 1)
    return pd.DataFrame(columns | {"s": secret})


def coarse(frame: pd.DataFrame, rng: np.random.Generator, share: float = 0.3) -> pd.DataFrame:
    """Hide a share of the cells of each attribute: nested cells."""
    out = frame.astype(object)
    for name in frame.columns[:-1]:
        out.loc[rng.random(len(frame)) < share, name] = "*"
    return out


def table_of(frame: pd.DataFrame, **kwargs) -> ab.ReleasedTable:
    return ab.ReleasedTable.horizontal(frame, "s", **kwargs)


def dense(features: Features) -> tuple[np.ndarray, np.ndarray]:
    """Log share and features of every record, its own row out."""
    shape = (len(features.rows), features.codes.shape[1] + 1, len(features.share))
    out = np.empty(shape)
    dense_features(features, out)
    return out[:, 0], out[:, 1:]


def pooled(table: ab.ReleasedTable) -> tuple[Prior, np.ndarray]:
    prior = resolve_prior(table)
    beta, kappa = pooled_beta(table, prior)
    return Prior(prior.alpha, beta), kappa


def test_a_row_leaves_a_tree_as_if_it_had_never_been_there():
    rng = np.random.default_rng(1)
    table = table_of(coarse(product_frame(rng, 200), rng))
    for name, column in table.columns.items():
        counts = table.counts[name].toarray().astype(float)
        beta = rng.gamma(2.0, size=(3, len(column.domain)))
        logs = cell_logs(column.evidence, counts, beta)
        for y, s in np.argwhere(counts > 0):
            fewer = table.counts[name].tolil(copy=True)
            fewer[y, s] -= 1
            tree = DirichletTree(column.evidence, fewer.tocsr(), beta)
            assert logs.cell[y, s] + logs.step[y, s] == pytest.approx(
                tree.cell_log_mean[s, y], abs=1e-12
            )


def test_rows_leave_crossing_cells_as_in_a_refit():
    domain = ab.Domain("x", range(8))
    members = [[0, 1, 2], [2, 3, 4], [4, 5], [5, 6, 7], [0], [3], [7], list(range(8))]
    evidence = Evidence.from_members(domain, members, [str(m) for m in members])
    rng = np.random.default_rng(2)
    counts = rng.integers(5, 60, size=(len(members), 2)).astype(float)
    beta = np.ones((2, 8))

    def by_hand(n):
        pi, matrix = beta / 8, evidence.matrix.toarray()
        for _ in range(20_000):
            pi = beta + pi * ((n / (matrix @ pi.T)).T @ matrix)
            pi /= pi.sum(axis=1, keepdims=True)
        return pi, np.log(matrix @ pi.T)

    pi, cell = by_hand(counts)
    logs = cell_logs(evidence, counts, beta)
    np.testing.assert_allclose(logs.mean, pi, atol=1e-8)
    for y in range(len(members)):
        fewer = counts.copy()
        fewer[y] -= 1
        exact = by_hand(fewer)[1][y] - cell[y]
        np.testing.assert_allclose(logs.step[y], exact, rtol=0.05, atol=2e-4)


def test_independent_score_is_the_exact_prediction_of_each_row_by_the_others():
    rng = np.random.default_rng(3)
    frame = coarse(product_frame(rng, 60), rng)
    table = table_of(frame)
    found = fit_weights(table, resolve_prior(table))
    total = 0.0
    for j in range(len(frame)):
        weights = np.log(1.0 + table.secret_counts - np.eye(3)[table.secret_codes[j]])
        for name, column in table.columns.items():
            fewer = table.counts[name].tolil(copy=True)
            fewer[column.codes[j], table.secret_codes[j]] -= 1
            tree = DirichletTree(column.evidence, fewer.tocsr(), np.ones((3, len(column.domain))))
            weights += tree.cell_log_mean[:, column.codes[j]]
        total += weights[table.secret_codes[j]] - logsumexp(weights)
    score = dict(zip(found.candidates, found.score, strict=True))
    assert score["independent"] == pytest.approx(total / len(frame), abs=1e-10)
    share = np.log((table.secret_counts[table.secret_codes]) / (len(frame) - 1 + 3)).mean()
    assert score["margin"] == pytest.approx(share, abs=1e-10)


def test_newton_finds_what_another_optimiser_finds():
    rng = np.random.default_rng(4)
    frame = product_frame(rng, 400)
    frame.insert(0, "copy", frame["x0"])  # dependence, so that weights leave one
    table = table_of(coarse(frame, rng))
    features = Features.of(table, resolve_prior(table))
    (share, x), own = dense(features), features.secret
    each = np.arange(len(own))

    def loss(eta):
        score = share + np.einsum("a,ras->rs", eta, x)
        log_p = score[each, own] - logsumexp(score, axis=1)
        return -features.rows @ log_p + (((eta - CENTRE) / SPREAD) ** 2).sum() / 2

    eta, precision, gradient = maximise(features)
    best = optimize.minimize(loss, np.full(4, 0.5), bounds=[(0, None)] * 4, tol=1e-12)
    np.testing.assert_allclose(eta, best.x, atol=2e-4)
    step = 1e-4
    for a in range(4):
        for b in range(4):
            i, j = step * np.eye(4)[a], step * np.eye(4)[b]
            second = loss(eta + i + j) - loss(eta + i - j) - loss(eta - i + j) + loss(eta - i - j)
            assert precision[a, b] == pytest.approx(second / (4 * step**2), abs=1e-2)
    assert (gradient == 0).all() or (eta[gradient < 0] == 0).all()


def test_weights_of_the_product_model_are_one_within_their_error():
    """Intervals cover one as often as they say, on tables of enough and of few rows per value.

    With 20 folds z is Student's t with 19 degrees of freedom. Pooled lifts of few rows are flat:
    exponents are far from one there, and their unit has to say so.
    """
    for n, sizes, secrets in ((1500, (3, 4, 8), 4), (400, (3, 6, 20), 6)):
        misses, gains, exponents = [], [], []
        for seed in range(15):
            rng = np.random.default_rng(100 + seed)
            table = table_of(coarse(product_frame(rng, n, sizes, secrets), rng, 0.2))
            prior, kappa = pooled(table)
            found = fit_weights(table, prior, kappa=kappa)
            misses.append((found.weights["weight"] - 1.0) / found.weights["se"])
            gains.append(found.difference("weighted", "independent")[0])
            exponents.append(found.eta)
        z = np.concatenate(misses)
        covered = (np.abs(z) < stats.t.ppf(0.95, 19)).mean()
        assert abs(covered - 0.9) < 4 * np.sqrt(0.9 * 0.1 / len(z))
        assert abs(z.mean()) < 4 / np.sqrt(len(z))
        # Estimating three weights costs about half a log score each: 3 / 2 / n nats per row.
        assert np.mean(gains) > -4 * 1.5 / n
    assert np.mean(exponents, axis=0)[2] > 1.15


def test_an_attribute_that_is_there_twice_is_counted_once():
    rng = np.random.default_rng(5)
    frame = product_frame(rng, 2000)
    frame.insert(0, "again", frame["x1"])
    table = table_of(frame)
    prior, kappa = pooled(table)
    found = fit_weights(table, prior, kappa=kappa)
    eta = dict(zip(found.names, found.eta, strict=True))
    c = found.covariance
    i, j = found.names.index("again"), found.names.index("x1")
    error = np.sqrt(c[i, i] + c[j, j] + 2 * c[i, j])
    assert abs(eta["again"] + eta["x1"] - 1.0) < 4 * error
    gain, se = found.difference("weighted", "independent")
    assert gain > 3 * se  # rows of equal cells are one observation
    assert found.preferred == "weighted" and "better" in found.reason
    assert found.weights.loc["x1", "added"] < 0.2 * found.weights.loc["x1", "alone"]


def test_left_out_weights_are_those_of_a_fit_without_the_row():
    rng = np.random.default_rng(6)
    frame = product_frame(rng, 80)
    table = table_of(frame)
    features = Features.of(table, resolve_prior(table))
    found = fit_weights(table, resolve_prior(table))
    share, x = dense(features)
    total = 0.0
    for r, n in enumerate(features.rows):
        fewer = features.rows.copy()
        fewer[r] -= 1
        eta, _, _ = maximise(features._replace(rows=fewer))
        score = share[r] + eta @ x[r]
        total += n * (score[features.secret[r]] - logsumexp(score))
    # One Newton step from 80 rows: what is left is of second order in 1 / 80.
    assert found.score[2] == pytest.approx(total / len(frame), abs=3 * 3 / 80**2)


def test_counted_lines_give_the_weights_of_their_rows():
    rng = np.random.default_rng(7)
    table = table_of(coarse(product_frame(rng, 500), rng))
    small = table.reduced()
    assert small.n_lines < table.n_lines
    rows, lines = (fit_weights(t, resolve_prior(t)) for t in (table, small))
    np.testing.assert_allclose(rows.eta, lines.eta, rtol=1e-10)
    np.testing.assert_allclose(rows.score_covariance, lines.score_covariance, rtol=1e-8)
    assert rows.n_rows == lines.n_rows == 500


def test_secrets_behind_a_channel_give_the_weights_of_known_secrets():
    rng = np.random.default_rng(8)
    frame = product_frame(rng, 6000)
    frame.insert(0, "again", frame["x1"])
    known = fit_weights(table_of(frame), resolve_prior(table_of(frame)))
    channel = ab.RandomizedResponse(ab.Domain("s", range(3)), epsilon=3.0)
    noisy = frame.assign(s=channel.release(frame["s"], seed=1))
    table = table_of(noisy, channels={"s": channel})
    latent = fit_weights(table, resolve_prior(table))
    error = np.hypot(latent.standard_error, known.standard_error)
    assert (np.abs(latent.eta - known.eta) < 4 * error).all()
    assert (latent.standard_error > known.standard_error).all()
    assert latent.preferred == "weighted"


def test_reports_of_a_channel_are_features():
    rng = np.random.default_rng(9)
    frame = product_frame(rng, 4000)
    channel = ab.RandomizedResponse(ab.Domain("x1", range(4)), epsilon=2.0)
    frame["x1"] = channel.release(frame["x1"], seed=2)
    table = table_of(frame, channels={"x1": channel})
    assert not table.is_nested
    prior, kappa = pooled(table)
    found = fit_weights(table, prior, kappa=kappa)
    assert np.isfinite(found.score).all() and (kappa > 0).all()
    gain, error = found.difference("weighted", "independent")
    assert gain > -4 * max(error, 1e-3)


def test_cut_normal_has_its_moments():
    precision = np.array([[30.0, 8.0], [8.0, 20.0]])
    found = weights_at(np.array([0.0, 0.8]), precision, np.array([-5.0, 0.0]))

    def density(b, a):
        d = np.array([a, b]) - found.eta
        return np.exp(found.gradient @ d - d @ precision @ d / 2)

    whole = integrate.dblquad(density, 0, 3, 0, 3)[0]
    draws = found.draw(40_000, np.random.default_rng(1))
    assert (draws >= 0).all()
    for i in range(2):
        first, second = (
            integrate.dblquad(lambda b, a, i=i, k=k: (a, b)[i] ** k * density(b, a), 0, 3, 0, 3)[0]
            / whole
            for k in (1, 2)
        )
        sd = np.sqrt(second - first**2)
        assert abs(draws[:, i].mean() - first) < 4 * sd / 200
        assert draws[:, i].std() == pytest.approx(sd, rel=0.05)
        assert found.standard_error[i] == pytest.approx(sd, rel=0.15)  # one weight at a time


def test_table_one_is_too_small_to_tell():
    table = ab.datasets.load("table1_recoded")
    prior, kappa = pooled(table)
    found = fit_weights(table, prior, kappa=kappa)
    assert found.preferred == "independent"


def separable(n=60):
    x = np.repeat([0, 1], n)
    return pd.DataFrame({"x": x, "z": 1 - x, "s": np.repeat(list("ab"), n)})


EDGES = {
    "one secret": pd.DataFrame({"x": [0, 1, 0, 1], "s": ["a"] * 4}),
    "one attribute": pd.DataFrame({"x": [0, 1, 0, 1, 1], "s": list("aabba")}),
    "constant attribute": pd.DataFrame({"x": [0] * 4, "y": [0, 1, 0, 1], "s": list("abab")}),
    "separable secrets": separable(),
    "every secret once": pd.DataFrame({"x": range(5), "s": list("abcde")}),
    "one row": pd.DataFrame({"x": [0], "s": ["a"]}),
}


@pytest.mark.parametrize("frame", EDGES.values(), ids=EDGES.keys())
def test_edges_give_a_clear_result(frame):
    table = table_of(frame, domains={"s": list("abcde")})
    prior, kappa = pooled(table)
    for found in (fit_weights(table, resolve_prior(table)), fit_weights(table, prior, kappa=kappa)):
        assert np.isfinite(found.eta).all() and (found.eta >= 0).all() and (found.eta < 5).all()
        assert np.isfinite(found.standard_error).all()
        assert np.isfinite(found.score).all()
        assert found.preferred in ("independent", "weighted")
        assert len(found.weights) == len(table.attributes) and len(found.scores) == 3
        again = pickle.loads(pickle.dumps(found))
        np.testing.assert_array_equal(again.eta, found.eta)


def test_suppressed_cells_tell_nothing():
    frame = pd.DataFrame({"x": ["*"] * 6, "y": ["*"] * 6, "s": list("aabbbb")})
    table = table_of(frame, domains={"x": range(3), "y": range(4)})
    prior, kappa = pooled(table)
    found = fit_weights(table, prior, kappa=kappa)
    assert not found.telling.any() and found.preferred == "independent"
    np.testing.assert_allclose(found.eta, CENTRE)
    assert found.weights["meaning"].str.contains("tells nothing").all()


def test_pooling_takes_the_marginal_likelihood_on_trees():
    rng = np.random.default_rng(10)
    table = table_of(coarse(product_frame(rng, 500), rng))
    beta, kappa = pooled_beta(table, resolve_prior(table))
    for a, (name, column) in enumerate(table.columns.items()):
        marginal = beta[name][0] / kappa[a]
        assert marginal.sum() == pytest.approx(1.0)
        at = [
            DirichletTree(column.evidence, table.counts[name], np.tile(k * marginal, (3, 1)))
            .log_evidence()
            .sum()
            for k in (kappa[a] / 2, kappa[a], 2 * kappa[a])
        ]
        assert at[1] >= max(at[0], at[2]) - 1e-9


def test_values_that_only_wide_cells_hide_tell_no_secrets_apart():
    rng = np.random.default_rng(11)
    shown = {"p": ["a", "b", "{a, b, c}"], "q": ["a", "*", "b"]}  # c and d hide; p has more rows
    frame = pd.DataFrame(
        [(x, s) for s, n in (("p", 300), ("q", 30)) for x in rng.choice(shown[s], n)],
        columns=["x", "s"],
    )
    table = table_of(frame, domains={"x": list("abcd")})
    prior, _ = pooled(table)
    column = table.columns["x"]
    mean = DirichletTree(column.evidence, table.counts["x"], prior.beta["x"]).mean
    rows = table.counts["x"].toarray().sum(axis=1).astype(float)
    margin = marginal_of(column.evidence, rows)
    wide = [0, 1, 2]  # all that the cell {a, b, c} covers, and d beside it
    inside = mean[:, 2] / mean[:, wide].sum(axis=1)
    np.testing.assert_allclose(inside, margin[2] / margin[wide].sum(), rtol=1e-12)
    np.testing.assert_allclose(mean[:, 3], margin[3], rtol=1e-12)
    plain = DirichletTree(column.evidence, table.counts["x"], resolve_prior(table).beta["x"]).mean
    assert plain[1, 3] > 3 * plain[0, 3]  # where a hidden value would speak for the rare secret


def test_local_recoding_does_not_make_the_attacker_worse_than_random_worlds():
    people = ab.datasets.load("clinic")
    folder = Path(ab.__file__).parents[1] / "data" / "clinic_hierarchies"
    table = ab.anonymize.recode(people, "diagnosis", folder, k=25, l=5, local=True)
    assert ab.fit(table, draws=2, chains=1, progressbar=False).evidence == "independent"
    post = ab.fit(table, evidence="weighted", draws=2, chains=1, progressbar=False)
    truth = table.secret.domain.encode(list(people["diagnosis"]))
    loss = [
        -np.log(belief.to_numpy()[np.arange(len(truth)), truth])
        for belief in (post.attacker(people), post.random_worlds(people))
    ]
    assert np.mean(loss[0] - loss[1]) < 2 * stats.sem(loss[0] - loss[1])


def test_tempered_fit_runs_from_the_marginal_to_the_secret():
    own, common = np.array([[0.5, 0.0], [0.2, 0.9]]), np.array([0.3, 0.4])
    np.testing.assert_allclose(tempered_fit(own, common, 1.0), own)
    np.testing.assert_allclose(tempered_fit(own, common, 0.0), [[0.3, 0.0], [0.4, 0.4]])
    assert tempered_fit(own, common, 0.5)[0, 0] == pytest.approx(np.sqrt(0.15))


@pytest.mark.parametrize("latent", [False, True])
def test_the_model_has_the_density_that_newton_climbs_and_laplace_draws_from(latent):
    """What NUTS would draw from; `test_corrections.py` lets it."""
    rng = np.random.default_rng(11)
    frame = product_frame(rng, 1500)
    frame.insert(0, "again", frame["x1"])
    frame["noise"] = rng.integers(0, 3, len(frame))
    frame = frame[[c for c in frame.columns if c != "s"] + ["s"]]
    channels = None
    if latent:
        channel = ab.RandomizedResponse(ab.Domain("s", range(3)), epsilon=3.0)
        frame["s"] = channel.release(frame["s"], seed=3)
        channels = {"s": channel}
    table = table_of(frame, channels=channels)
    prior = resolve_prior(table)
    found = fit_weights(table, prior)
    fast = found.draw(4000, np.random.default_rng(2))
    work = Features.of(table, prior)
    level = np.array(
        [
            log_scores(eta, work) @ work.rows - (((eta - CENTRE) / SPREAD) ** 2).sum() / 2
            for eta in fast
        ]
    )
    with pm.Model() as model:
        weights = add_weights(model, work, table.attributes, sensitive="s")
    density = model.compile_logp(jacobian=False, mode="FAST_COMPILE")
    names = [model.rvs_to_values[weight].name for weight in weights]
    logp = [float(density(dict(zip(names, np.log(eta), strict=True)))) for eta in fast[:30]]
    np.testing.assert_allclose(np.subtract(logp, logp[0]), level[:30] - level[0], atol=1e-8)
    # The parabola is off by less than a tenth of a standard deviation: draws weighted by what they
    # are worth say where the posterior itself is.
    away = fast - found.eta
    level -= away @ found.gradient - np.einsum("da,ab,db->d", away, found.precision, away) / 2
    share = np.exp(level - level.max())
    share /= share.sum()
    size = 1 / (share**2).sum()
    assert size > 1000
    exact = share @ fast
    sd = np.sqrt(share @ (fast - exact) ** 2)
    assert (abs(fast.mean(axis=0) - exact) < 0.1 * sd + 4 * sd / np.sqrt(size)).all()


def test_simulation_based_calibration_of_the_weights():
    """Ranks of weights drawn from the prior among draws of their posterior are uniform.

    Secrets are simulated given fixed features, as the model of the weights has it.
    """
    rng = np.random.default_rng(12)
    sizes, secrets, n = (4, 5, 3), 4, 400
    logs = [np.log(rng.dirichlet(np.full(k, 1.0), size=secrets).T) for k in sizes]
    start = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    codes = np.stack([rng.integers(0, k, n) for k in sizes], axis=1) + start
    cell = np.concatenate(logs)
    share = np.log(rng.dirichlet(np.full(secrets, 3.0)))
    ranks = []
    for _ in range(250):
        while (eta := rng.normal(CENTRE, SPREAD, len(sizes))).min() < 0:
            pass
        score = share + np.einsum("a,ras->rs", eta, cell[codes])
        secret = (score + rng.gumbel(size=score.shape)).argmax(axis=1)
        nothing = np.zeros_like(cell)
        features = Features(
            share, np.zeros(secrets), cell, nothing, codes, np.ones(n), secret,
            np.empty((0, secrets)),
        )  # fmt: skip
        mode, precision, gradient = maximise(features)
        found = weights_at(mode, precision, gradient)
        ranks.append((found.draw(99, rng) < eta).sum(axis=0))
    counts = np.stack([np.bincount(r // 10, minlength=10) for r in np.array(ranks).T])
    # Chi-square with 9 degrees of freedom per weight; one in a thousand over all three.
    statistic = ((counts - 25) ** 2 / 25).sum(axis=1)
    assert (statistic < stats.chi2.ppf(1 - 0.001 / 3, 9)).all(), statistic


def test_folds_side_by_side_are_those_one_after_the_other():
    table = ab.datasets.load("clinic_local")
    plain = resolve_prior(table)
    prior = Prior(plain.alpha, pooled_beta(table, plain)[0])
    features, folds = Features.of(table, prior), 3
    parts = features.without_folds(table, prior, folds)
    for part in parts:
        start, size = 0, len(part.share)
        for a, (name, column) in enumerate(table.columns.items()):
            rows = np.zeros((len(column.evidence), size))
            np.add.at(rows, (part.codes[:, a] - start, part.secret), part.rows)
            logs = cell_logs(column.evidence, rows, prior.beta[name])
            here = slice(start, start + len(rows))
            np.testing.assert_allclose(part.cell[here], logs.cell, atol=1e-12)
            np.testing.assert_allclose(part.step[here], logs.step, atol=1e-12)
            start += len(rows)
    for a in range(len(table.columns)):
        each = [maximise(part.alone(a))[0][0] for part in parts]
        np.testing.assert_allclose(maximise_alone(parts, a), each, atol=1e-7)


@pytest.mark.parametrize(
    ("n_rows", "gain", "evidence"),
    [
        (CHAIN_ROWS - 1, -5e-4, "independent"),
        (CHAIN_ROWS, -5e-4, "weighted"),
        (CHAIN_ROWS, -2e-3, "independent"),
        (CHAIN_ROWS - 1, 2e-3, "weighted"),
    ],
)
def test_nobody_waits_for_chains_of_a_large_anatomy_that_score_no_better(n_rows, gain, evidence):
    one = np.diag([1e-6, 0.0, 0.0])  # a standard error of 1e-3
    given = {
        "candidates": ("independent", "weighted", "random_worlds"),
        "score": np.array([-1.0, -1.0 + gain, -2.0]), "score_covariance": one, "n_rows": n_rows,
    }  # fmt: skip
    found = replace(weights_at(np.ones(2), np.eye(2), np.zeros(2)), **given)
    assert found.preferred == evidence
    spared = evidence == "weighted" and gain < 0
    assert ("needs no chains" in found.reason) == spared
    assert replace(found, candidates=("independent", "weighted", "margin")).preferred == (
        "weighted" if gain > 1e-3 else "independent"
    )


def weights_at(eta, precision, gradient) -> EvidenceWeights:
    size = len(eta)
    return EvidenceWeights(
        names=tuple(f"x{a}" for a in range(size)),
        eta=eta,
        precision=precision,
        gradient=gradient,
        unit=np.ones(size),
        error=np.zeros(size),
        kappa=np.full(size, np.nan),
        alone=np.zeros(size),
        added=np.zeros(size),
        telling=np.ones(size, dtype=bool),
        candidates=("margin", "independent", "weighted"),
        score=np.zeros(3),
        score_covariance=np.zeros((3, 3)),
        n_rows=1,
    )


@pytest.mark.parametrize("attributes", [5, 20])
def test_information_is_that_of_plain_arithmetic(attributes):
    """Sums of the log scores' derivatives, also by products of matrices, in blocks."""
    rng = np.random.default_rng(4)
    secret = rng.integers(0, 3, 400)
    frame = pd.DataFrame(
        {f"a{i}": (secret + rng.integers(0, 3, 400)) % 4 for i in range(attributes)}
    )
    table = ab.ReleasedTable.horizontal(frame.assign(s=secret), "s")
    features = Features.of(table, resolve_prior(table))
    assert 5 <= weight_kernels.WIDE < 20
    eta = rng.uniform(0, 0.5, attributes)
    dense = np.empty((len(features.rows), len(eta) + 1, 3))
    weight_kernels.dense_features(features, dense)
    share, x, n = dense[:, 0], dense[:, 1:], features.rows

    def beliefs(eta):
        level = share + np.einsum("a,ras->rs", eta, x)
        return np.exp(level - np.logaddexp.reduce(level, axis=1)[:, None])

    p, true = beliefs(eta), np.eye(3)[features.secret]
    away = x - np.einsum("rs,ras->ra", p, x)[:, :, None]
    value, gradient, fisher, observed = weight_kernels.information(eta, features)
    assert value == pytest.approx(n @ np.log((p * true).sum(axis=1)))
    np.testing.assert_allclose(gradient, np.einsum("r,rs,ras->a", n, true - p, x), atol=1e-9)
    wanted = np.einsum("r,rs,ras,rbs->ab", n, p, away, away)
    np.testing.assert_allclose(fisher, wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(observed, fisher)
    several = np.stack([eta, np.zeros_like(eta), 2 * eta])
    scores = [n @ np.log((beliefs(e) * true).sum(axis=1)) for e in several]
    np.testing.assert_allclose(weight_kernels.total_scores(several, features), scores)
