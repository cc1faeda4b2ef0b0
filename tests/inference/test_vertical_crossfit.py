"""Cross-fitted weighted evidence against enumeration, differences, simulation and real tables."""

import itertools
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from anonbayes.errors import ModelError
from anonbayes.inference.vertical import crossfit
from anonbayes.inference.vertical.block import group_marginals, lattice, marginal_space
from anonbayes.inference.vertical.crossfit import CANDIDATES, cross_fit
from anonbayes.inference.vertical.group_layout import VerticalLayout
from anonbayes.inference.vertical.lanes import lane_marginals, lane_space

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "anatomy"


def covariance(fit):
    return np.linalg.inv(fit.precision)


def difference(fit, candidate, other):
    """By how much a candidate's held-out score beats another's, and the standard error."""
    one, two = (fit.group_scores[:, CANDIDATES.index(name)] for name in (candidate, other))
    return (one - two).sum(), (one - two).std(ddof=1) * np.sqrt(len(one))


def simulate(rng, *, groups, l=4, secrets=6, sizes=(2, 4, 6, 3), spread=1.5, copies=0):  # noqa: E741
    """Draw a table for which the product model is true; copies of the last attribute make it wrong.

    Returns its layout and the true value of each item.
    """
    values = np.sort([rng.permutation(secrets)[:l] for _ in range(groups)], axis=1).ravel()
    columns = []
    for k in sizes:
        pi = rng.dirichlet(np.full(k, spread), size=secrets).cumsum(axis=1)
        columns.append((rng.random(len(values))[:, None] > pi[values, :-1]).sum(axis=1))
    columns += [columns[-1]] * copies
    order = np.concatenate([g * l + rng.permutation(l) for g in range(groups)])
    layout = VerticalLayout(
        np.stack(columns, axis=1)[order], values, np.arange(0, groups * l + 1, l),
        [*sizes, *[sizes[-1]] * copies], secrets,
    )  # fmt: skip
    return layout, values[order]


def small_layout():
    """Groups of one to four rows, one with repeated values."""
    rng = np.random.default_rng(3)
    return VerticalLayout(
        np.stack([rng.integers(0, k, 12) for k in (3, 2)], axis=1),
        [0, 1, 2, 0, 0, 1, 2, 1, 0, 1, 1, 2], [0, 3, 7, 8, 12], [3, 2], 3,
    )  # fmt: skip


def enumerated(weight):
    """Permanent and marginals of ``weight[slot, item]``, order by order."""
    n = len(weight)
    orders = np.array(list(itertools.permutations(range(n))))
    products = weight[np.arange(n), orders].prod(axis=1)
    marginal = np.zeros((n, n))
    for product, order in zip(products, orders, strict=True):
        marginal[np.arange(n), order] += product
    return products.sum(), marginal / products.sum()


def marginals(log_weight, block, sweeps=0):
    n = len(log_weight)
    space = marginal_space(block, n)
    space.weight[:n, :n] = log_weight
    rng = np.random.default_rng(4)
    return group_marginals(lattice(block), space, n, sweeps, rng), space.marginal[:n, :n]


# ---------------------------------------------------------------------------- kernels
@pytest.mark.parametrize("n", range(1, 8))
def test_marginals_and_permanent_equal_enumeration(n):
    log_weight = np.random.default_rng(n).normal(scale=3.0, size=(n, n))
    permanent, expected = enumerated(np.exp(log_weight))
    value, found = marginals(log_weight, 7)
    assert value == pytest.approx(np.log(permanent), rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("safe", [True, False])
@pytest.mark.parametrize("n", [1, 3, 7])
def test_lanes_equal_one_group_after_the_other(n, safe):
    """The last lane's permanent is too small a number, so that it needs logs in any case."""
    logs = np.random.default_rng(n).normal(scale=3.0, size=(4, n, n))
    logs[3, :, 1:] -= 290.0
    room, block = lane_space(7, 5), 7
    for lane, own in enumerate(logs):
        for x, m in np.ndindex(n, n):
            room.weight[x * block + m, lane] = np.exp(own[x, m]) if safe else own[x, m]
    spare, rng = marginal_space(block, n), np.random.default_rng(1)
    lane_marginals(lattice(block), room, n, 4, safe, True, spare, rng)
    for lane, own in enumerate(logs):
        value, expected = marginals(own, block)
        assert room.value[lane] == pytest.approx(value, rel=1e-12, abs=1e-12)
        found = room.marginal[: n * block, lane].reshape(n, block)[:, :n]
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("scale", [0.5, 1.5, 3.0])
def test_marginals_of_pieces_converge_to_those_of_the_recursion(scale):
    """What large groups get, on groups of 10: the error falls as the root of the sweeps."""
    log_weight = np.random.default_rng(1).normal(scale=scale, size=(10, 10))
    _, expected = marginals(log_weight, 10)
    errors = []
    for sweeps in (200, 20_000):
        _, found = marginals(log_weight, 6, sweeps)
        np.testing.assert_allclose(found.sum(axis=0), 1.0, atol=1e-9)
        np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-9)
        errors.append(np.sqrt(np.mean((found - expected) ** 2)))
    assert errors[0] < 0.03
    assert errors[1] < 0.003


@pytest.mark.parametrize("scale", [0.5, 1.5, 3.0])
def test_bethe_permanent_is_within_its_bounds(scale):
    """Vontobel below, Gurvits and Samorodnitsky above; the marginals are its gradient."""
    rng = np.random.default_rng(1)
    for _ in range(5):
        log_weight = rng.normal(scale=scale, size=(8, 8))
        value, _ = marginals(log_weight, 8)
        lower, found = marginals(log_weight, 3)
        assert lower <= value + 1e-9 <= lower + 8 * np.log(2) / 2 + 2e-9
        bump = np.zeros((8, 8))
        bump[2, 5] = 1e-4
        rise = marginals(log_weight + bump, 3)[0] - marginals(log_weight - bump, 3)[0]
        assert rise / 2e-4 == pytest.approx(found[2, 5], abs=1e-4)


def test_belief_propagation_is_exact_without_preference_and_without_doubt():
    _, found = marginals(np.zeros((20, 20)), 6)
    np.testing.assert_allclose(found, 1 / 20, atol=1e-9)
    order = np.random.default_rng(2).permutation(15)
    _, found = marginals(40.0 * np.eye(15)[order], 6)
    np.testing.assert_allclose(found, np.eye(15)[order], atol=1e-9)


def dealt_folds(layout, n_folds=2, threads=1):
    fold = np.random.default_rng(0).permutation(np.arange(layout.n_groups) % n_folds)
    return crossfit.Folds(layout, fold, threads)


def pair_weights(layout, score, g):
    """``weight[slot, item]`` of one group from flat scores."""
    parts, rows = layout.split(score), range(layout.offsets[g], layout.offsets[g + 1])
    return np.exp(
        [
            [
                sum(part[layout.secrets[x], layout.items[m, a]] for a, part in enumerate(parts))
                for m in rows
            ]
            for x in rows
        ]
    )


def test_expected_counts_equal_enumeration():
    layout = small_layout()
    folds = dealt_folds(layout)
    score = np.random.default_rng(1).normal(size=(2, layout.n_cells))
    found = folds.expected_counts(score)
    for f in range(2):
        expected = [np.zeros((3, k)) for k in layout.sizes]
        for g in np.flatnonzero(folds.fold != f):
            _, p = enumerated(pair_weights(layout, score[f], g))
            lo = layout.offsets[g]
            for x, m in np.ndindex(*p.shape):
                for a, part in enumerate(expected):
                    part[layout.secrets[lo + x], layout.items[lo + m, a]] += p[x, m]
        np.testing.assert_allclose(found[f], layout.flatten(expected), atol=1e-12)


def test_held_out_scores_and_ownership_equal_enumeration():
    layout = small_layout()
    folds = dealt_folds(layout)
    score = np.random.default_rng(2).normal(size=(2, layout.n_cells))
    owner = np.zeros(layout.n_links)
    scores, _ = folds.judge(score, owner)
    dense = layout.ownership(owner).toarray()
    np.testing.assert_allclose(dense.sum(axis=1), 1.0, atol=1e-12)
    for g in range(layout.n_groups):
        parts = layout.split(score[folds.fold[g]])
        rows = np.arange(layout.offsets[g], layout.offsets[g + 1])
        level = folds.base + sum(part[:, layout.items[rows, a]].T for a, part in enumerate(parts))
        p = np.exp(level) / np.exp(level).sum(axis=1, keepdims=True)  # (item, value)
        permanent, owned = enumerated(p[:, layout.secrets[rows]].T)
        assert scores[g] == pytest.approx(np.log(permanent), rel=1e-12)
        expected = np.zeros((len(rows), 3))
        for x, row in enumerate(rows):
            expected[:, layout.secrets[row]] += owned[x]
        np.testing.assert_allclose(dense[rows], expected, atol=1e-12)


def test_large_scores_are_summed_as_logs():
    """A category that no row has, with a score beyond what products bear, changes nothing else."""
    small = small_layout()
    layout = VerticalLayout(small.items, small.secrets, small.offsets, [3, 3], 3)
    folds = dealt_folds(layout, 3)
    score = np.random.default_rng(5).normal(size=(3, layout.n_cells))
    unused = layout.split(np.arange(layout.n_cells))[1][:, 2]
    large = score.copy()
    large[:, unused] = 400.0
    for one, other in (
        (folds.expected_counts(score), folds.expected_counts(large)),
        *zip(folds.judge(score), folds.judge(large), strict=True),
    ):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_an_attribute_alone_is_judged_as_beside_weights_of_zero():
    layout = small_layout()
    folds = dealt_folds(layout, 3)
    score = np.random.default_rng(5).normal(size=(3, layout.n_cells))
    for a in range(2):
        value, residual = folds.judge(folds.alone(score, a), only=a)
        expected, whole = folds.judge(score * (folds.attribute == a))
        np.testing.assert_allclose(value, expected, atol=1e-12)
        np.testing.assert_allclose(residual, folds.alone(whole, a), atol=1e-12)


def test_gradient_and_curvature_equal_differences():
    layout, _ = simulate(np.random.default_rng(5), groups=40, sizes=(2, 3))
    folds = dealt_folds(layout, 4)
    counts = folds.learn(
        folds.expected_counts(np.zeros((folds.n, folds.layout.n_cells))),
        np.full(2, 0.8),
        np.ones(2),
        5,
    )
    objective = crossfit._Objective(folds, counts)
    point = np.array([0.6, 1.2, -0.3, 0.9])

    def value(at):
        return objective(at)[0]

    step, unit = 1e-4, np.eye(4)
    gradient = [(value(point + step * e) - value(point - step * e)) / (2 * step) for e in unit]
    np.testing.assert_allclose(objective(point)[1], gradient, rtol=1e-5, atol=1e-5)
    hessian = np.diag(objective.precision) - objective.curvature(point).sum(axis=0)
    for i, j in itertools.product(range(4), repeat=2):
        cross = [
            a * b * value(point + step * (a * unit[i] + b * unit[j]))
            for a, b in itertools.product((1, -1), repeat=2)
        ]
        assert hessian[i, j] == pytest.approx(sum(cross) / (4 * step**2), rel=1e-3, abs=1e-2)


def test_weights_without_a_fold_equal_those_fitted_without_it():
    """One Newton step against the optimum of the other folds' likelihood."""
    layout, _ = simulate(np.random.default_rng(6), groups=300, sizes=(2, 3))
    folds = dealt_folds(layout, 3)
    counts = folds.learn(
        folds.expected_counts(np.zeros((folds.n, folds.layout.n_cells))),
        np.full(2, 0.8),
        np.ones(2),
        10,
    )
    objective = crossfit._Objective(folds, counts)
    point = objective.maximise(np.array([0.7, 0.7, 0.0, 0.0]))
    found = objective.without_own_fold(point, objective.curvature(point))
    for f in range(3):
        others = crossfit._Objective(folds, counts)

        def parts(at, f=f, whole=objective):
            scores, gradient = whole.parts(at)
            return scores[folds.fold != f], np.delete(gradient, f, axis=0)

        others.parts = parts
        np.testing.assert_allclose(found[f], others.maximise(point), atol=0.05)


# ---------------------------------------------------------------------------- the whole
def test_numbers_do_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr("anonbayes.inference.vertical.group_layout.SHARD_ROWS", 50)
    layout, _ = simulate(np.random.default_rng(7), groups=80, copies=1)
    one, four = (cross_fit(layout, folds=5, threads=n) for n in (1, 4))
    for name in ("weights", "precision", "ownership", "population", "group_scores"):
        np.testing.assert_array_equal(getattr(one, name), getattr(four, name))


def test_result_is_consistent_and_survives_pickle():
    layout, truth = simulate(np.random.default_rng(8), groups=150, copies=1)
    fit = pickle.loads(pickle.dumps(cross_fit(layout, folds=5)))
    owned = layout.ownership(fit.ownership).toarray()
    np.testing.assert_allclose(owned.sum(axis=1), 1.0, atol=1e-9)
    for part in layout.split(fit.population):
        np.testing.assert_allclose(part.sum(axis=1), 1.0, atol=1e-9)
    assert set(np.unique(fit.fold)) == set(range(5))
    assert fit.group_scores.shape == (150, len(CANDIDATES))
    log_loss = -np.log(owned[np.arange(len(truth)), truth])
    assert log_loss.mean() + 3 * stats.sem(log_loss) < np.log(4)


def test_random_worlds_score_is_that_of_weights_zero():
    layout, _ = simulate(np.random.default_rng(9), groups=30)
    folds = dealt_folds(layout, 3)
    expected, _ = folds.judge(np.zeros((3, layout.n_cells)))
    found = cross_fit(layout, folds=3).group_scores[:, CANDIDATES.index("random_worlds")]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.slow
def test_weights_are_one_where_the_product_model_is_true():
    """Twelve tables: intervals cover 1, and the automatic choice stays with the product model.

    Intervals of 95 % leave out no more than chance would in one case of a thousand.
    """
    inside, excess, weights = [], [], []
    for seed in range(8):
        layout, _ = simulate(np.random.default_rng(seed), groups=400)
        fit = cross_fit(layout, folds=10, seed=seed)
        inside.append(np.abs(fit.weights / fit.unit - 1) < stats.t.ppf(0.975, 9) * fit.error)
        weights.append(fit.weights / fit.unit)
        gain, error = difference(fit, "weighted", "independent")
        excess.append(gain / error)
    least = stats.binom.ppf(0.001, np.size(inside), 0.95)
    assert np.sum(inside) >= least
    assert abs(np.mean(weights) - 1) < 4 * np.std(weights) / np.sqrt(np.size(weights))
    assert np.mean(np.array(excess) > 1) < 0.4
    assert np.mean(excess) < 1.0


def test_copies_of_an_attribute_share_its_weight():
    layout, _ = simulate(np.random.default_rng(11), groups=600, copies=2)
    fit = cross_fit(layout, folds=10)
    error = np.sqrt(covariance(fit)[-3:, -3:].sum())
    assert abs(fit.weights[-3:].sum() - 1) < 3 * error
    gain, error = difference(fit, "weighted", "independent")
    assert gain > error


def test_ranks_of_the_weights_are_uniform_given_the_features():
    """Simulation-based calibration of the Laplace posterior: prior, data, rank, 150 times."""
    rng = np.random.default_rng(12)
    layout, _ = simulate(rng, groups=150, sizes=(3, 4), spread=1.0)
    folds = dealt_folds(layout, 2)
    mean, deviation = crossfit.WEIGHT_PRIOR
    lifts = rng.normal(scale=0.8, size=layout.n_cells)
    ranks = []
    for _ in range(150):
        eta = stats.truncnorm.rvs(-mean / deviation, np.inf, mean, deviation, 2, random_state=rng)
        parts = layout.split(lifts * eta[folds.attribute])
        level = sum(part[:, layout.items[:, a]].T for a, part in enumerate(parts))
        p = np.exp(level) / np.exp(level).sum(axis=1, keepdims=True)
        secrets = (rng.random(layout.n_rows)[:, None] > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
        drawn = VerticalLayout(layout.items, secrets, layout.offsets, layout.sizes, 6)
        known = dealt_folds(drawn, 2)
        known.base[:] = 0.0
        known.lifts = lambda *_: np.tile(lifts, (2, 1))
        known.lift_slopes = lambda *_: np.zeros((2, layout.n_cells))
        objective = crossfit._Objective(known, np.zeros((2, layout.n_cells)))
        point = objective.maximise(np.array([0.7, 0.7, 0.0, 0.0]))
        total = np.diag(objective.precision) - objective.curvature(point).sum(axis=0)
        sd = np.sqrt(np.diag(np.linalg.inv(total)))[:2]
        low = stats.norm.cdf(-point[:2] / sd)
        ranks.append((stats.norm.cdf((eta - point[:2]) / sd) - low) / (1 - low))
    for column in np.array(ranks).T:
        assert stats.kstest(column, "uniform").pvalue > 0.005


# ---------------------------------------------------------------------------- edges
@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda r: ([[0], [1]] * 40, [0] * 80, [2, 1]), id="one secret"),
        pytest.param(lambda r: ([[0]] * 80, [0, 1] * 40, [1, 2]), id="constant attribute"),
        pytest.param(lambda r: ([[0], [1]] * 40, [0, 1] * 40, [2, 2]), id="separable secrets"),
        pytest.param(
            lambda r: (r.integers(0, 2, (80, 1)), [0, 0] * 40, [2, 3]), id="values never seen"
        ),
        pytest.param(
            lambda r: (r.integers(0, 2, (80, 2)), r.integers(0, 2, 80), [5, 2, 2]), id="repeats"
        ),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 20])
def test_edges_give_finite_beliefs_without_warnings(build, size):
    items, secrets, (*sizes, n_secrets) = build(np.random.default_rng(1))
    items = np.asarray(items)
    if len(sizes) < items.shape[1]:
        sizes = [*sizes, 2]
    layout = VerticalLayout(items, secrets, np.arange(0, 81, size), sizes, n_secrets)
    fit = cross_fit(layout)
    assert np.isfinite(fit.ownership).all() and np.isfinite(fit.group_scores).all()
    assert ((fit.weights >= 0) & (fit.weights <= crossfit.MOST_WEIGHT)).all()
    np.testing.assert_allclose(layout.ownership(fit.ownership).sum(axis=1), 1.0, atol=1e-6)


def test_fewer_groups_than_folds_and_a_single_group():
    layout, _ = simulate(np.random.default_rng(13), groups=3)
    assert cross_fit(layout, folds=10).fold.max() == 2
    alone, _ = simulate(np.random.default_rng(13), groups=1)
    with pytest.raises(ModelError, match="at least 2 groups"):
        cross_fit(alone)
    with pytest.raises(ModelError, match="folds=1"):
        cross_fit(layout, folds=1)


# ---------------------------------------------------------------------------- real tables
@pytest.mark.skipif(not SHARED.exists(), reason="the shared Anatomy tables are not here")
@pytest.mark.parametrize(
    ("name", "right", "log_loss", "error"),
    [("adult_5692_l4", 0.57, 0.99, 0.02), ("adult_5692_l6", 0.38, 1.53, 0.03)],
)
def test_real_tables_reach_their_scores(name, right, log_loss, error):
    """The release alone gives beliefs that are stronger, and calibrated; truth only scores them."""
    parts = (pd.read_csv(SHARED / f"{name}_{p}.csv", sep=";") for p in ("qit", "st", "truth"))
    qit, st, truth = parts
    columns = [c for c in qit.columns if c != "group"]
    values = np.unique(st["occupation"])
    domains = [np.unique(qit[c]) for c in columns]
    layout = VerticalLayout(
        np.stack([np.searchsorted(d, qit[c]) for d, c in zip(domains, columns, strict=True)], 1),
        np.searchsorted(values, st["occupation"]),
        np.concatenate([[0], np.cumsum(st.groupby("group").size())]),
        [len(d) for d in domains],
        len(values),
    )
    fit = cross_fit(layout)
    keys = [*columns, "group"]
    for frame in (qit, truth):  # equal rows of a group have equal beliefs: any match will do
        frame["copy"] = frame.groupby(keys).cumcount()
    joined = qit.merge(truth, on=[*keys, "copy"], how="left", validate="1:1")
    actual = np.searchsorted(values, joined["occupation"])
    owned = layout.ownership(fit.ownership).toarray()
    hit = owned.argmax(axis=1) == actual
    best = owned.max(axis=1)
    assert hit.mean() >= right
    loss = -np.log(np.maximum(owned[np.arange(len(actual)), actual], 1e-4))
    assert loss.mean() <= log_loss
    bins = np.minimum((best * 10).astype(int), 9)
    gaps = pd.DataFrame({"bin": bins, "gap": best - hit}).groupby("bin")["gap"]
    assert (gaps.mean().abs() * gaps.size()).sum() / len(best) <= error
    gain, error = difference(fit, "weighted", "independent")
    assert gain > error
    gain, error_of_gain = difference(fit, "weighted", "random_worlds")
    assert gain > 3 * error_of_gain


def test_turns_of_a_large_table_begin_on_a_sample(monkeypatch):
    """They end where those of the whole table alone end, to what `SETTLED` leaves open."""
    layout, _ = simulate(np.random.default_rng(4), groups=900, l=3)
    whole = cross_fit(layout, folds=5)
    monkeypatch.setattr(crossfit, "SAMPLE_GROUPS", 100)
    assert crossfit.sample_step(layout.n_groups) == 9
    begun = cross_fit(layout, folds=5)
    assert begun.turns < whole.turns
    np.testing.assert_allclose(begun.weights, whole.weights, atol=2 * crossfit.SETTLED)
    np.testing.assert_allclose(begun.weights / begun.unit, whole.weights / whole.unit, atol=0.02)
    one, other = (fit.group_scores[:, 1].mean() for fit in (begun, whole))
    assert one == pytest.approx(other, abs=1e-3)


def test_every_so_many_groups_are_a_table():
    layout = small_layout()
    some = layout.every(2, 1)
    expected = [*range(3, 7), *range(8, 12)]
    np.testing.assert_array_equal(some.items, layout.items[expected])
    np.testing.assert_array_equal(some.secrets, layout.secrets[expected])
    np.testing.assert_array_equal(some.offsets, [0, 4, 8])
