"""Weighted evidence of vertical tables through `fit`: beliefs, groups, files, choices."""

import itertools

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats

import anonbayes as ab
from anonbayes import compat
from anonbayes.beliefs.belief import belief_draws
from anonbayes.beliefs.victims import read_victims
from anonbayes.errors import ModelError, TableError
from anonbayes.inference.model import vertical_model
from anonbayes.inference.vertical import crossfit
from anonbayes.inference.vertical.group_layout import VerticalLayout
from anonbayes.inference.vertical.tempering import tempering_costs

SECRETS = np.array(list("abcdefgh"))


def draw_people(*, seed, n=800, copies=2):
    """Draw eight secrets, one telling attribute in several copies, and a weak one.

    Twice as many secrets as a group has: were all of them in every group, nothing could tell them
    apart.
    """
    rng = np.random.default_rng(seed)
    secret = np.repeat(np.arange(8), n // 8)
    told = np.where(rng.random(n) < 0.6, secret, rng.integers(0, 8, n))
    frame = pd.DataFrame({f"told{i}": told for i in range(1 + copies)})
    frame["weak"] = np.where(rng.random(n) < 0.3, secret % 2, rng.integers(0, 2, n))
    frame["secret"] = SECRETS[secret]
    return frame


@pytest.fixture(scope="module")
def released():
    people = draw_people(seed=1)
    table, truth = ab.anonymize.anatomy(people, "secret", 4, seed=2, return_truth=True)
    people["group"] = truth["group"].to_numpy()
    return table, people, truth


@pytest.fixture(scope="module")
def post(released):
    return ab.fit(released[0], evidence="weighted", draws=200, chains=2, seed=1, progressbar=False)


def test_copies_are_weighted_down_and_chosen_automatically(released, post):
    assert post.method == "crossfit" and post.evidence == "weighted"
    total = post.weights.loc[["told0", "told1", "told2"], "weight"].sum()
    assert abs(total - 1) < abs(total - 3)  # one attribute, shown three times
    assert post.scores.index[0] == "weighted"
    again = ab.fit(released[0], draws=10, chains=1, seed=1, progressbar=False)
    assert again.evidence == "weighted"


def test_draws_are_named_and_centred(post):
    names = {"pi_secret", "pi_weak", "weight_weak", "weight_told0"}
    assert names <= set(post.draws.data_vars)
    drawn = post.draws["weight_told0"].to_numpy().ravel()
    line = post.weights.loc["told0"]
    assert (drawn >= 0).all()
    assert (
        abs(drawn.mean() - line["exponent"]) < 5 * line["se"] / np.sqrt(len(drawn)) + line["se"] / 2
    )
    pi = post.draws["pi_weak"].to_numpy()
    np.testing.assert_allclose(pi.sum(axis=-1), 1.0, atol=1e-9)
    spread = pi.std(axis=(0, 1)) / np.sqrt(400)
    assert (np.abs(pi.mean(axis=(0, 1)) - post.means[-1]) < 6 * spread + 0.01).all()


def test_attacker_in_a_group_is_the_ownership_of_its_rows(released, post):
    table, people, _ = released
    owned = post.ownership[0].toarray()
    names = list(table.attributes)
    for row in (0, 7, 200):
        victim, group = people.loc[row, names].to_dict(), people.loc[row, "group"]
        frame = table.to_frame()
        same = (frame[names] == pd.Series(victim)).all(axis=1) & (frame["group"] == group)
        expected = owned[same.to_numpy()].mean(axis=0)
        belief = post.attacker(victim, group=group)
        np.testing.assert_allclose(belief.to_numpy(), expected, atol=1e-6)
        assert belief.attrs["mcse"].max() == 0
        worlds = post.random_worlds(victim, group=group)
        np.testing.assert_allclose(worlds[worlds > 0], 0.25, atol=1e-12)


def test_groups_by_column_by_label_and_unknown_agree(released, post):
    _, people, _ = released
    some = people.drop(columns="secret").iloc[[3, 50, 51]]
    by_column = post.attacker(some, group="group")
    by_list = post.attacker(some.drop(columns="group"), group=some["group"].tolist())
    pd.testing.assert_frame_equal(by_column, by_list)
    one = post.attacker(some.drop(columns="group").iloc[:1], group=int(some["group"].iloc[0]))
    np.testing.assert_allclose(one.to_numpy()[0], by_column.to_numpy()[0])
    unknown = some.assign(group=[some["group"].iloc[0], None, np.nan])
    mixed = post.attacker(unknown, group="group")
    free = post.attacker(some.drop(columns="group"))
    np.testing.assert_allclose(mixed.to_numpy()[1:], free.to_numpy()[1:], atol=1e-12)
    np.testing.assert_allclose(mixed.to_numpy()[0], by_column.to_numpy()[0], atol=1e-12)


def test_without_a_group_all_groups_are_summed(released, post):
    table, people, _ = released
    names = list(table.attributes)
    victim = people.loc[5, names].to_dict()
    frame = table.to_frame()
    same = (frame[names] == pd.Series(victim)).all(axis=1)
    expected = post.ownership[0].toarray()[same.to_numpy()].sum(axis=0)
    belief = post.attacker(victim)
    np.testing.assert_allclose(belief.to_numpy(), expected / expected.sum(), atol=1e-6)


def test_learner_is_the_softmax_of_weighted_log_lifts(released, post):
    table, people, _ = released
    victim = people.loc[9, list(table.attributes)]
    score = np.log(post.secret_mean)
    for a, name in enumerate(table.attributes):
        score = score + post.eta[a] * np.log(
            post.means[a][:, table.domains[name].index(victim[name])]
        )
    expected = np.exp(score - score.max())
    found = post.learner(victim.to_dict())
    np.testing.assert_allclose(found.to_numpy(), expected / expected.sum(), atol=1e-9)


@pytest.mark.parametrize("evidence", ["weighted", "independent"])
def test_assessment_of_known_groups_scores_the_rows(released, evidence):
    table, people, _ = released
    fitted = ab.fit(table, evidence=evidence, draws=100, chains=2, seed=1, progressbar=False)
    risk = fitted.assess(people, group="group", samples=100)
    belief = fitted.attacker(people.drop(columns="secret"), group="group").to_numpy()
    at = np.searchsorted(SECRETS, people["secret"])
    loss = -np.log(np.maximum(belief[np.arange(len(at)), at], 1e-4)).mean()
    assert risk.scores.loc["attacker", "log_loss"] == pytest.approx(loss, abs=1e-6)
    assert risk.scores.loc["random_worlds", "log_loss"] == pytest.approx(np.log(4), abs=1e-9)
    np.testing.assert_allclose(risk.rows["p_A"], belief[np.arange(len(at)), at], atol=1e-9)


def test_weighted_attacker_beats_independent_and_random_worlds_on_dependent_tables(released):
    """Paired differences of log loss, above three standard errors."""
    table, people, _ = released
    at = np.searchsorted(SECRETS, people["secret"])
    loss = {}
    for evidence in ("weighted", "independent"):
        fitted = ab.fit(table, evidence=evidence, draws=300, chains=2, seed=1, progressbar=False)
        belief = fitted.attacker(people.drop(columns="secret"), group="group").to_numpy()
        loss[evidence] = -np.log(np.maximum(belief[np.arange(len(at)), at], 1e-4))
    for other in (loss["independent"], np.full(len(at), np.log(4))):
        gain = other - loss["weighted"]
        assert gain.mean() > 3 * gain.std() / np.sqrt(len(gain))


def test_the_reason_says_what_independent_evidence_would_cost(post):
    gain, _ = post.evidence_weights.difference("weighted", "independent")
    assert post.evidence_reason.endswith(
        f"; to be sure of independent evidence, {tempering_costs(post.table.n_rows)} and score "
        f"about {gain:.4f} nats per row lower"
    )


def test_file_keeps_everything(post, tmp_path):
    back = ab.Posterior.from_netcdf(post.to_netcdf(tmp_path / "post.nc"))
    victim = {"told0": 1, "weak": 0}
    assert back.evidence == "weighted" and back.method == "crossfit"
    pd.testing.assert_series_equal(back.attacker(victim), post.attacker(victim))
    pd.testing.assert_series_equal(back.learner(victim), post.learner(victim))
    pd.testing.assert_frame_equal(back.weights, post.weights)


def test_choices_that_do_not_go_together(released, post):
    table, people, _ = released
    with pytest.raises(ModelError, match="step is a setting of the chains"):
        ab.fit(table, evidence="weighted", step="block")
    with pytest.raises(ModelError, match="is only available with evidence='weighted'"):
        ab.fit(table, evidence="independent", method="crossfit")
    chain = ab.fit(table, step="block", draws=20, chains=1, tune=5, progressbar=False)
    assert chain.evidence == "independent" and chain.step == "block"
    with pytest.raises(TableError, match="no group 'x'"):
        post.attacker({"weak": 0}, group="x")
    with pytest.raises(TableError, match="in that group"):
        group = people.loc[people["told0"] == 0, "group"]
        other = sorted(set(people["group"]) - set(group))[0]
        post.attacker({"told0": 0}, group=other)
    flat = ab.ReleasedTable.horizontal(people[["weak", "secret"]], "secret")
    horizontal = ab.fit(flat, draws=10, chains=1, progressbar=False)
    with pytest.raises(TableError, match="vertical table"):
        horizontal.attacker({"weak": 0}, group=1)


def test_small_tables_stay_independent():
    table = ab.datasets.load("table1_anatomy")
    assert ab.fit(table, draws=20, chains=1, progressbar=False).evidence == "independent"


# ---------------------------------------------------------------------------- intervals
def true_population(rng, n=900, secrets=6, sizes=(3, 5, 8)):
    """A product whose distributions are known, anatomized, with the groups of its people."""
    secret = rng.permutation(np.arange(n) % secrets)
    pis = [rng.dirichlet(np.full(k, 2.0), size=secrets) for k in sizes]
    frame = pd.DataFrame({"secret": [f"s{i}" for i in secret]})
    for a, pi in enumerate(pis):
        drawn = (rng.random(n)[:, None] > pi.cumsum(axis=1)[secret, :-1]).sum(axis=1)
        frame[f"x{a}"] = [f"v{i}" for i in drawn]
    table, where = ab.anonymize.anatomy(frame, "secret", 4, seed=1, return_truth=True)
    sizes_seen = [[int(v[1:]) for v in table.domains[f"x{a}"].values] for a in range(len(sizes))]
    flat = [pi[:, seen] for pi, seen in zip(pis, sizes_seen, strict=True)]
    return table, frame.assign(group=where["group"].to_numpy()), flat


def test_intervals_hold_what_an_attacker_with_the_true_population_believes():
    """Intervals of 90 % do so for 90 % of the beliefs, within four errors over the tables."""
    covered, wide = [], []
    for seed in range(5):
        table, people, flat = true_population(np.random.default_rng(seed))
        layout = ab.steps.layout_of(table)
        one = np.zeros(layout.n_groups, dtype=np.int64)
        score = np.log(layout.flatten(flat))[None]
        owned = layout.ownership(crossfit.left_out_ownership(layout, one, score)).toarray()
        post = ab.fit(table, evidence="weighted", draws=60, chains=1, seed=seed, progressbar=False)
        names = [*table.attributes, "group"]
        # Only records that occur once in their group, whose row is known.
        alone = ~people.duplicated(names, keep=False)
        some = people[alone].iloc[:80][names]
        found = post.intervals(some, group="group", probability=0.9, draws=60)
        rows = table.to_frame().astype(str).assign(row=np.arange(table.n_rows))
        keys = [*table.attributes, table.group_name]
        at = some.astype(str).merge(
            rows, left_on=names, right_on=keys, how="left", validate="one_to_many"
        )["row"]
        oracle = owned[at.to_numpy()].ravel()
        open_ = (oracle > 0.001) & (oracle < 0.999)
        inside = (found["lower"].to_numpy() <= oracle) & (oracle <= found["upper"].to_numpy())
        covered.append(inside[open_].mean())
        wide.append((found["upper"] - found["lower"]).to_numpy()[open_].mean())
        belief = post.attacker(some, group="group").to_numpy().ravel()
        middle = (found["lower"] + found["upper"]).to_numpy() / 2
        assert np.abs(belief - middle)[open_].mean() < 0.5 * wide[-1]
    assert abs(np.mean(covered) - 0.9) < 4 * np.std(covered, ddof=1) / np.sqrt(len(covered))
    assert np.mean(covered) > 0.75  # however much the tables differ
    assert 0.02 < np.mean(wide) < 0.6


@pytest.mark.parametrize("evidence", ["weighted", "independent"])
def test_measures_of_vertical_tables_have_intervals(released, evidence):
    table, people, _ = released
    post = ab.fit(table, evidence=evidence, draws=40, tune=40, chains=1, seed=1, progressbar=False)
    risk = post.assess(people, group="group", samples=50)
    found = risk.intervals(draws=20)
    assert ((found["lower"] <= found["value"]) & (found["value"] <= found["upper"])).all()
    assert (found["lower"] < found["upper"])[["log_loss_A", "log_loss_L"]].all()


def test_belief_under_a_draw_is_the_recursion_with_its_population():
    """Independent evidence: each draw's attacker against the permanent of two rows by hand."""
    frame = pd.DataFrame(
        {"x": list("abbaabba"), "s": list("uvuvuvvu"), "g": [1, 1, 2, 2, 3, 3, 4, 4]}
    )
    table = ab.ReleasedTable.vertical(frame[["x", "g"]], frame[["s", "g"]], "g", "s")
    post = ab.fit(
        table, evidence="independent", draws=2, tune=5, chains=1, seed=1, progressbar=False
    )
    drawn = belief_draws(post, read_victims(table, {"x": "a"}, group=1), 2)
    for t, (attacker, _) in enumerate(drawn):
        pi = post.draws["pi_x"].to_numpy()[0, t]
        u, v = (post.table.secret.domain.index(s) for s in "uv")
        a, b = (post.table.domains["x"].index(x) for x in "ab")
        one = pi[u, a] * pi[v, b]
        expected = one / (one + pi[v, a] * pi[u, b])
        assert attacker[0, u] / attacker[0].sum() == pytest.approx(expected, rel=1e-9)


# ---------------------------------------------------------------------------- PyMC
@pytest.mark.slow
def test_nuts_on_the_weights_agrees_with_laplace(released, post):
    """`build_model` and its steps against the fast path, weights and ownership.

    The posterior of the weights, with the assignments summed out, is known from Laplace draws that
    are weighted by their exact density. NUTS has to meet it within Monte-Carlo error; the Laplace
    approximation may be off by a quarter of a standard deviation.
    """
    table, _, _ = released
    with ab.build_model(table, evidence="weighted") as model:
        assert {v.name for v in model.free_RVs} >= {"weight_weak", "assignment", "pi_secret"}
        drawn = pm.sample(
            draws=150, tune=100, chains=2, cores=1, random_seed=3, progressbar=False,
            step=ab.steps.vertical_steps(table, model=model), compute_convergence_checks=False,
        )  # fmt: skip
    found = compat.posterior_dataset(drawn)
    fast = post.evidence_weights
    normal = fast.draw(600, np.random.default_rng(1))
    layout, kept = ab.steps.layout_of(table), post.groups["averages"]
    dealt = crossfit.Folds(layout, kept["fold"].to_numpy().ravel(), 1)
    lifts = kept["left_out_lifts"].to_numpy().reshape(-1, layout.n_cells)
    mean, spread = crossfit.WEIGHT_PRIOR
    away = normal - fast.eta
    log_density = [
        dealt.judge(lifts * eta[dealt.attribute])[0].sum()
        - (((eta - mean) / spread) ** 2).sum() / 2
        for eta in normal
    ] - (away @ fast.gradient - np.einsum("da,ab,db->d", away, fast.precision, away) / 2)
    share = np.exp(log_density - log_density.max())
    share /= share.sum()
    size = 1 / (share**2).sum()
    assert size > 150
    for a, name in enumerate(table.attributes):
        values = found[f"weight_{name}"].to_numpy()
        exact = share @ normal[:, a]
        sd = np.sqrt(share @ (normal[:, a] - exact) ** 2)
        ess = float(compat.ess({"w": values})["w"])
        assert abs(values.mean() - exact) < 4 * sd * np.sqrt(1 / ess + 1 / size)
        assert abs(normal[:, a].mean() - exact) < 0.25 * sd + 4 * sd * np.sqrt(1 / size)
        assert 0.7 < values.std() / sd < 1.4
    owner = np.zeros((table.n_rows, 8))
    for owned in found["assignment"].to_numpy().reshape(-1, table.n_rows):
        owner[owned, table.secret_codes] += 1
    owner /= owner.sum(axis=1, keepdims=True)
    fast_owner = post.ownership[0].toarray()
    # 500 draws of a share: 0.022 at most, and the spread of the weights around their mode.
    assert np.sqrt(np.mean((owner - fast_owner) ** 2)) < 0.03


def test_block_step_with_weights_draws_the_tempered_table():
    """One group of three, numbers as weights: shares of orders against enumeration."""
    layout = VerticalLayout([[0, 1], [1, 0], [1, 1]], [0, 1, 2], [0, 3], [2, 2], 3)
    rng = np.random.default_rng(0)
    lifts = [rng.normal(size=(3, 2)) for _ in range(2)]
    eta = [0.3, 1.7]
    with vertical_model(layout) as model:
        step = ab.steps.VerticalBlockStep(layout=layout, lifts=lifts, weights=eta, rng=1)
        point = model.initial_point()
    counts = {}
    for _ in range(6000):
        point, _ = step.step(point)
        key = tuple(int(i) for i in point["assignment"])
        counts[key] = counts.get(key, 0) + 1
    orders = list(itertools.permutations(range(3)))
    pairs = sum(eta[a] * lifts[a][:, layout.items[:, a]] for a in (0, 1))
    weight = [np.exp(pairs[np.arange(3), o].sum()) for o in orders]
    expected = 6000 * np.array(weight) / sum(weight)
    shown = np.array([counts.get(o, 0) for o in orders])
    assert stats.chisquare(shown, expected).pvalue > 0.001
    with vertical_model(layout), pytest.raises(ModelError, match="3 weights for 2 attributes"):
        ab.steps.VerticalBlockStep(layout=layout, lifts=lifts, weights=[1, 1, 1])
    with vertical_model(layout), pytest.raises(ModelError, match="lifts have shapes"):
        ab.steps.VerticalBlockStep(layout=layout, lifts=lifts[:1])


def test_weights_of_one_leave_a_step_as_it_is():
    layout = VerticalLayout([[0, 1], [1, 0], [1, 1]], [0, 1, 2], [0, 3], [2, 2], 3)
    with vertical_model(layout) as model:
        plain = ab.steps.VerticalBlockStep(layout=layout, rng=1)
        weighted = ab.steps.VerticalBlockStep(layout=layout, weights=[1.0, 1.0], rng=1)
        one, two = model.initial_point(), model.initial_point()
    for _ in range(20):
        one, two = plain.step(one)[0], weighted.step(two)[0]
        np.testing.assert_array_equal(one["assignment"], two["assignment"])
