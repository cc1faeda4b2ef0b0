"""Corrections of single values beside the weights (MODEL 1.9)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp

import anonbayes as ab
from anonbayes import compat
from anonbayes.inference.corrections import learn_corrections
from anonbayes.inference.dirichlet import resolve_prior
from anonbayes.inference.features import Features, marginal_of, pooled_beta
from anonbayes.inference.weight_kernels import dense_features
from anonbayes.inference.weights import choose_evidence
from anonbayes.risk.people import clear_release


def people(n: int, seed: int) -> pd.DataFrame:
    """The second attribute repeats values 0 and 1 of the first, and tells more beside 2 and 3."""
    rng = np.random.default_rng(seed)
    secret = rng.choice(4, size=n, p=[0.3, 0.3, 0.2, 0.2])
    shape = np.array([[5, 1, 2, 2], [1, 5, 2, 2], [2, 2, 5, 1], [2, 2, 1, 5]]) / 10
    one = (rng.random(n)[:, None] > shape.cumsum(axis=1)[secret]).sum(axis=1)
    more = 2 + (rng.random(n) > np.array([0.9, 0.1, 0.8, 0.2])[secret])
    return pd.DataFrame({"a": one, "b": np.where(one < 2, one, more), "secret": secret})


@pytest.fixture(scope="module")
def table() -> ab.ReleasedTable:
    frame = people(3000, 1)
    frame["a"] = np.where(np.arange(3000) % 3 > 0, frame["a"], frame["a"] // 2 * 2 + 10)
    frame["a"] = frame["a"].map({10: "{0, 1}", 12: "{2, 3}"}).fillna(frame["a"].astype(str))
    domains = {"a": ["0", "1", "2", "3"]}
    return ab.ReleasedTable.horizontal(frame.astype(str), "secret", domains=domains)


def test_corrections_are_the_mode_of_a_penalised_logit(table: ab.ReleasedTable) -> None:
    """The slope of score and penalty, summed row by row from their definition, is zero there."""
    features = Features.of(table, resolve_prior(table))
    eta, variance = np.array([0.7, 0.4]), 0.05
    found = learn_corrections(table, features, features.codes, eta, [], variance=variance)
    assert found is not None
    values = found[0].values
    x = np.empty((len(features.rows), 3, 4))
    dense_features(features, x)
    level = np.einsum("a,ras->rs", np.array([1.0, *eta]), x)
    spread = []
    for a, column in enumerate(table.columns.values()):
        marginal = marginal_of(column.evidence, table.tally(column.codes, len(column.evidence)))
        inside = column.evidence.matrix.toarray() * marginal
        share = inside / inside.sum(axis=1, keepdims=True)
        start = 0 if a == 0 else len(table.columns["a"].evidence)
        spread.append(share[features.codes[:, a] - start])
        level += spread[a] @ values[a].T
    pull = np.eye(4)[features.secret] - np.exp(level - logsumexp(level, axis=1, keepdims=True))
    for share, c in zip(spread, values, strict=True):
        slope = (pull * features.rows[:, None]).T @ share - c / variance
        assert np.abs(slope).max() < 0.3  # rows, of 3000; the search stops at about 0.1


def test_equal_tables_with_other_cells_have_corrections_of_their_own() -> None:
    """A release in the clear, whose cells are the values it shows, equals a table whose cells are
    all values of the domain. What is kept of the first must not serve the second: its cells have
    other numbers, and an index beyond a sparse array's shape corrupts memory.
    """
    frame = pd.DataFrame({"a": ["1", "3", "3", "5"] * 9, "secret": list("ppqqqp") * 6})
    domains = {"a": list("0123456")}
    shown = ab.ReleasedTable.horizontal(
        frame.assign(group=1), "secret", domains=domains, group="group"
    )
    code = np.array(shown.domains["a"].encode(list(frame["a"])))
    every = clear_release(shown, [code], shown.secret_codes)
    assert shown == every
    assert [len(t.columns["a"].evidence) for t in (shown, every)] == [3, 7]
    learned = []
    for table in (shown, every):
        features = Features.of(table, resolve_prior(table))
        found = learn_corrections(table, features, features.codes, np.zeros(1), [], variance=0.1)
        assert found is not None
        learned.append(found[0].values[0])
    assert np.abs(learned[0]).max() > 0.1
    np.testing.assert_allclose(learned[0], learned[1], atol=1e-3)


def test_single_values_are_corrected_where_one_weight_is_not_enough(
    table: ab.ReleasedTable,
) -> None:
    """The held-out score says so, and 20,000 people who are not in the table agree with it."""
    post = ab.fit(table, evidence="weighted", draws=50, seed=1, progressbar=False)
    taken = post.evidence_weights
    assert taken is not None and taken.corrections is not None
    others = people(20_000, 2).astype(str)
    truth = np.array(table.secret.domain.encode(list(others["secret"])))
    record = others.drop(columns="secret")

    def score(fitted: ab.Posterior) -> np.ndarray:
        return np.log(fitted.learner(record).to_numpy()[np.arange(len(truth)), truth])

    gain = score(post) - score(uncorrected(post))
    assert gain.mean() > 5 * gain.std() / np.sqrt(len(gain))
    error = 3 * np.hypot(gain.std() / np.sqrt(table.n_rows), gain.std() / np.sqrt(len(gain)))
    assert taken.corrections.gain == pytest.approx(gain.mean(), abs=error)


def uncorrected(post: ab.Posterior) -> ab.Posterior:
    assert post.evidence_weights is not None
    return replace(post, evidence_weights=replace(post.evidence_weights, corrections=None))


def test_attacker_intervals_and_files_know_them(table: ab.ReleasedTable, tmp_path) -> None:
    post = ab.fit(table, evidence="weighted", draws=50, seed=1, progressbar=False)
    victim = pd.DataFrame({"a": ["3", "0"], "b": ["3", "0"]})
    without = uncorrected(post).attacker(victim)
    assert np.abs(post.attacker(victim) - without).to_numpy().max() > 1e-3
    again = ab.Posterior.from_netcdf(post.to_netcdf(tmp_path / "post.nc"))
    pd.testing.assert_frame_equal(again.attacker(victim), post.attacker(victim))
    pd.testing.assert_frame_equal(again.learner(victim), post.learner(victim))
    limits = post.intervals(victim, who="learner")
    belief = post.learner(victim).stack()
    inside = (limits["lower"] <= belief) & (belief <= limits["upper"])
    assert inside.mean() > 0.7
    nothing_known = post.attacker({})
    shares = table.secret_counts / table.n_rows
    np.testing.assert_allclose(nothing_known.to_numpy(), shares, atol=1e-9)


def test_product_tables_need_none() -> None:
    """Where the product model is true, what corrections promise is nothing but noise."""
    rng = np.random.default_rng(3)
    gains = []
    for _ in range(5):
        secret = rng.choice(3, size=1500)
        frame = pd.DataFrame({"secret": secret})
        for name in "abc":
            pi = rng.dirichlet(np.ones(4), size=3).cumsum(axis=1)
            frame[name] = (rng.random(1500)[:, None] > pi[secret]).sum(axis=1)
        released = ab.ReleasedTable.horizontal(frame.astype(str), "secret")
        taken = choose_evidence(released, evidence="weighted", errors=False).weights
        assert taken is not None
        gains.append(0.0 if taken.corrections is None else taken.corrections.gain)
    assert max(gains) < 0.003


def test_one_value_in_clear_does_not_tell_secrets_apart_in_the_others() -> None:
    """Local recoding shows the common value, or all: what is not seen is not read as a difference.

    Without rows that show another value, the marginal likelihood alone would take no pooling at
    all, and a secret whose rows are all hidden would own the rare values.
    """
    rows = [("0", "x")] * 60 + [("0", "y")] * 60 + [("{0, 1, 2}", s) for s in "xyz" * 20]
    frame = pd.DataFrame(rows, columns=["a", "secret"])
    released = ab.ReleasedTable.horizontal(frame, "secret", domains={"a": ["0", "1", "2"]})
    beta, kappa = pooled_beta(released, resolve_prior(released))
    assert kappa[0] > 1.0
    assert beta["a"].shape == (3, 3)


def test_the_model_has_them_and_nuts_agrees_with_the_fast_path(table: ab.ReleasedTable) -> None:
    """Beliefs agree within 0.01, corrections within half a standard deviation, weights within one.

    Corrections and weights are drawn together here, and can stand in for each other; on the fast
    path weights have the posterior that they have without corrections, and so a narrower one.
    """
    model = ab.build_model(table, evidence="weighted")
    assert model.named_vars_to_dims["correction_a"] == ("secret", "a")
    fast = ab.fit(table, evidence="weighted", seed=1, progressbar=False)
    slow = ab.fit(
        table, evidence="weighted", method="nuts", draws=300, tune=300, chains=2, cores=1, seed=2,
        progressbar=False, compute_convergence_checks=False,
    )  # fmt: skip
    for name, most in [("weight_", 1.0), ("correction_", 0.5)]:
        for one in table.attributes:
            laplace, exact = (post.draws[name + one] for post in (fast, slow))
            assert laplace.dims == exact.dims
            sd = exact.std(("chain", "draw"))
            off = abs(laplace.mean(("chain", "draw")) - exact.mean(("chain", "draw")))
            ess = compat.ess({"x": exact.to_numpy()})["x"].to_numpy()
            assert (off < sd * (most + 4 / np.sqrt(ess))).all()
    everyone = people(200, 5).astype(str).drop(columns="secret").drop_duplicates()
    beliefs = [post.learner(everyone, kind="conditional").to_numpy() for post in (fast, slow)]
    assert np.abs(beliefs[0] - beliefs[1]).max() < 0.01
    widths = [np.ptp(post.intervals(everyone, who="learner"), axis=1) for post in (fast, slow)]
    assert np.mean(widths[0] / widths[1]) == pytest.approx(1.0, abs=0.1)


def test_the_likelihood_of_the_secrets_is_that_of_the_model(table: ab.ReleasedTable) -> None:
    post = ab.fit(table, evidence="weighted", draws=2, chains=1, seed=1, progressbar=False)
    rich = post.with_log_likelihood(of="secret")
    model = ab.build_model(table, evidence="weighted")
    point = model.initial_point()
    for name in table.attributes:
        point[f"weight_{name}_interval__"] = np.log(post.draws[f"weight_{name}"][0, 1].to_numpy())
        point[f"correction_{name}"] = post.draws[f"correction_{name}"][0, 1].to_numpy()
        prior = stats.norm(0.0, np.sqrt(0.3)).logpdf(point[f"correction_{name}"]).sum()
        assert float(rich.groups["log_prior"][f"correction_{name}"][0, 1]) == pytest.approx(prior)
    compiled = model.compile_logp(vars=[model["secrets_secret"]], mode="FAST_COMPILE")
    density = float(compiled(point))
    logs = rich.groups["log_likelihood"]["secret"].to_numpy()[0, 1]
    # The multinomials count in how many orders the rows of a record come: one.
    assert logs.sum() == pytest.approx(density, abs=1e-7)
