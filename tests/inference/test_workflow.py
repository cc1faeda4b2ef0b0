"""What ArviZ makes of a posterior: leave-one-out, comparison, predictions, sensitivity."""

from __future__ import annotations

import itertools
import math

import arviz as az
import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from tables import ALL, latent

import anonbayes as ab
from anonbayes import compat
from anonbayes.errors import AnonbayesError, ModelError
from anonbayes.inference.cell_lifts import lift_cells
from anonbayes.inference.horizontal.tree import DirichletTree
from anonbayes.inference.vertical import block
from anonbayes.inference.vertical.crossfit import WEIGHT_PRIOR
from anonbayes.inference.vertical.group_layout import layout_of
from anonbayes.inference.weight_kernels import CENTRE, SPREAD

QUIET = {"progressbar": False, "evidence": "independent"}


def table_of(n=70, seed=1):
    """Nested cells and repeated rows; two attributes that depend on the secret."""
    rng = np.random.default_rng(seed)
    secret = rng.choice(["flu", "hiv"], n, p=[0.7, 0.3])
    age = np.where(secret == "flu", rng.integers(0, 3, n), rng.integers(1, 4, n))
    shown = np.where(rng.random(n) < 0.4, np.where(age < 2, "0-1", "2-3"), age.astype(str))
    sex = rng.choice(["f", "m"], n)
    frame = pd.DataFrame({"age": shown, "sex": sex, "ill": secret})
    return ab.ReleasedTable.horizontal(frame, "ill", domains={"age": range(4)})


def exact_loo(table, post):
    """Log predictive of each row given the others: counts without it, mean of each tree."""
    alpha = post.prior.alpha
    out = np.empty(table.n_rows)
    codes = {name: c.codes for name, c in table.columns.items()}
    for j, s in enumerate(table.secret_codes):
        rest = table.secret_counts[s] - 1
        out[j] = np.log((alpha[s] + rest) / (alpha.sum() + table.n_rows - 1))
        for name, column in table.columns.items():
            counts = table.counts[name].toarray()
            counts[codes[name][j], s] -= 1
            tree = DirichletTree(column.evidence, sparse.csr_array(counts), post.prior.beta[name])
            out[j] += tree.cell_log_mean[s, codes[name][j]]
    return out


def pointwise(loo):
    """Total and terms, whichever generation found them."""
    elpd = loo.elpd_loo if hasattr(loo, "elpd_loo") else loo.elpd
    each = loo.loo_i if hasattr(loo, "loo_i") else loo.elpd_i
    return float(elpd), np.asarray(each)


def test_loo_and_compare_are_those_of_the_closed_form():
    table = table_of()
    found, truth = {}, {}
    for name, beta in (("weak", 1.0), ("strong", 25.0)):
        post = ab.fit(table, beta=beta, draws=1000, chains=4, seed=1, **QUIET)
        rich = post.with_log_likelihood()
        logs = rich.groups["log_likelihood"]["release"].to_numpy().reshape(4000, -1)
        inverse = np.exp(-logs)
        error = inverse.std(axis=0) / inverse.mean(axis=0) / np.sqrt(len(logs))
        elpd, each = pointwise(az.loo(rich.idata, pointwise=True))
        truth[name] = exact_loo(table, post)
        assert (np.abs(each - truth[name]) < 5 * error + 1e-3).all()
        assert elpd == pytest.approx(truth[name].sum(), abs=5 * error.sum() + 0.01)
        found[name] = rich.idata
    better = max(truth, key=lambda name: truth[name].sum())
    line = az.compare(found)
    assert line.index[0] == better
    gap = abs(truth["weak"].sum() - truth["strong"].sum())
    assert abs(line["elpd_diff"].iloc[1]) == pytest.approx(gap, abs=0.6)  # ArviZ 1 rounds


@pytest.mark.parametrize("make", ALL.values(), ids=ALL.keys())
def test_rows_have_the_likelihood_of_their_cells(make):
    """MODEL 1.2, row by row, at one draw; over the rows it is the whole table's."""
    table = make()
    post = ab.fit(table, draws=3, tune=5, chains=2, seed=1, method="gibbs", **QUIET)
    logs = post.with_log_likelihood().groups["log_likelihood"]["release"].to_numpy()
    pi = {name: post.draws[f"pi_{name}"].to_numpy()[1, 2] for name in table.domains}
    for j in range(table.n_rows):
        p = pi[table.sensitive] * table.secret.evidence.matrix.toarray()[table.secret.codes[j]]
        for name, column in table.columns.items():
            p = p * (pi[name] @ column.evidence.matrix.toarray()[column.codes[j]])
        assert logs[1, 2, j] == pytest.approx(np.log(p.sum()), abs=1e-10)
    assert logs.sum(axis=2) == pytest.approx(post.groups["sample_stats"]["log_likelihood"].values)


def test_lines_that_stand_for_many_rows_stand_there_as_often():
    table = table_of()
    listed = ab.fit(table, draws=5, chains=1, seed=1, **QUIET).with_log_likelihood()
    counted = ab.fit(table.reduced(), draws=5, chains=1, seed=1, **QUIET).with_log_likelihood()
    one, two = (p.groups["log_likelihood"]["release"].to_numpy()[0] for p in (listed, counted))
    np.testing.assert_allclose(np.sort(one, axis=1), np.sort(two, axis=1))


def test_groups_of_a_vertical_table_have_who_owns_what_summed_out():
    table = ab.datasets.load("table1_anatomy")
    post = ab.fit(table, draws=3, tune=5, chains=1, seed=1, **QUIET)
    logs = post.with_log_likelihood().groups["log_likelihood"]["release"].to_numpy()[0, 1]
    layout = layout_of(table)
    pi = [post.draws[f"pi_{name}"].to_numpy()[0, 1] for name in table.attributes]
    share = post.draws["pi_Dis"].to_numpy()[0, 1]
    for g in range(layout.n_groups):
        rows = range(layout.offsets[g], layout.offsets[g + 1])
        orders = list(itertools.permutations(rows))
        total = sum(
            math.prod(
                pi[a][layout.secrets[x], layout.items[m, a]]
                for x, m in zip(rows, order, strict=True)
                for a in range(len(pi))
            )
            for order in orders
        )
        expected = total / len(orders) * share[layout.secrets[list(rows)]].prod()
        assert logs[g] == pytest.approx(np.log(expected), abs=1e-10)


@pytest.mark.parametrize("scheme", ["horizontal", "crossing", "vertical"])
def test_with_weights_it_is_that_of_the_secrets_in_the_model(scheme):
    """Against PyMC's own density of the secrets given the weights."""
    people = ab.datasets.load("clinic").head(60)[["sex", "marital_status", "diagnosis"]]
    if scheme == "crossing":
        table = crossfitted(60)
    elif scheme == "vertical":
        people["diagnosis"] = np.where(np.arange(60) % 2, "a", "b")
        table = ab.anonymize.anatomy(people, "diagnosis", l=2, seed=1)
    else:
        table = ab.ReleasedTable.horizontal(people, "diagnosis")
    post = ab.fit(table, evidence="weighted", draws=2, chains=1, seed=1, progressbar=False)
    rich = post.with_log_likelihood(of="secret")
    model = ab.build_model(table, evidence="weighted")
    point = model.initial_point()
    for name in table.attributes:
        weight = float(post.draws[f"weight_{name}"][0, 1])
        point[model.rvs_to_values[model[f"weight_{name}"]].name] = np.log(weight)
        mean, sd = WEIGHT_PRIOR if scheme == "vertical" else (CENTRE, SPREAD)
        prior = stats.truncnorm(-mean / sd, np.inf, mean, sd).logpdf(weight)
        found = float(rich.groups["log_prior"][f"weight_{name}"][0, 1])
        assert found == pytest.approx(prior, abs=1e-9)
    density = model.compile_logp(vars=[model["secrets_diagnosis"]], mode="FAST_COMPILE")
    logs = rich.groups["log_likelihood"]["secret"].to_numpy()[0, 1]
    if scheme != "vertical":
        assert logs.sum() == pytest.approx(float(density(point)), abs=1e-8)
        return
    layout = layout_of(table)
    start = point["assignment"].copy()
    keep = float(density(point))
    for g in range(3):  # of two people each: the other order is a swap
        first = layout.offsets[g]
        assert layout.group_sizes[g] == 2
        swapped = start.copy()
        swapped[[first, first + 1]] = start[[first + 1, first]]
        ratio = np.exp(float(density(point | {"assignment": swapped})) - keep)
        expected = np.log(_keep_weight(post, table, layout, g) * (1 + ratio) / 2)
        assert logs[g] == pytest.approx(expected, abs=1e-8)


def crossfitted(n):
    people = ab.datasets.load("clinic").head(n)[["age", "sex", "diagnosis"]]
    return ab.anonymize.mondrian(people, "diagnosis", k=5)


def test_cross_fitted_rows_score_as_when_held_out():
    """`loo` leaves a row out of the weights by importance, `scores` by a Newton step."""
    table = crossfitted(400).reduced()
    post = ab.fit(table, evidence="weighted", draws=250, seed=1, progressbar=False)
    assert post.method == "crossfit"
    with pytest.warns(UserWarning, match="only with other weighted fits"):
        rich = post.with_log_likelihood()
    with pytest.raises(ModelError, match="no likelihood of='release'"):
        post.with_log_likelihood(of="release")
    logs = rich.groups["log_likelihood"]["secret"]
    assert logs.shape == (4, 250, 400)
    elpd, each = pointwise(az.loo(rich.idata, pointwise=True))
    lifts = lift_cells(table, post.prior)  # `scores` also counts what is made of cells' inside
    inside = float(lifts.inside[1, lifts.record] @ lifts.features.rows)
    held_out = 400 * post.scores["log_score"]["weighted"] - inside
    assert elpd == pytest.approx(held_out, abs=0.3) and abs(inside) > 0.3
    # Rows of a record in one fold are alike; those of different secrets are not.
    secret = np.repeat(table.secret_codes, table.weights)
    margin = np.log(table.secret_counts[secret] / 400)
    assert np.corrcoef(each, margin)[0, 1] > 0.5
    fits = {"one": rich.idata}
    again = ab.fit(table, evidence="weighted", alpha=30.0, draws=250, seed=1, progressbar=False)
    fits["heavy"] = again.with_log_likelihood(of="secret").idata
    assert az.compare(fits).index[0] == "one"


@pytest.mark.parametrize("spread", [0.3, 1.0])
def test_orders_of_large_groups_are_estimated(spread):
    """Against the exact sum, of groups for which it can be had."""
    rng = np.random.default_rng(3)
    n = block.MAX_BLOCK
    off = []
    for _ in range(40):
        space = block.marginal_space(n, n)
        logs = rng.normal(0, spread, (4, n))[rng.integers(0, 4, n)]
        space.weight[:] = logs
        exact = block.group_marginals(block.lattice(n), space, n, 1, rng)
        space.weight[:] = logs
        found, error = block.estimate_orders(space, n, rng)
        assert 0 < error < 0.5
        off.append((found - exact + error**2 / 2) / error)  # the logarithm of a mean is too small
    assert abs(np.mean(off)) < 4 / np.sqrt(len(off)) and np.abs(off).max() < 6


def test_large_groups_have_a_likelihood():
    """All items of the one group are equal, so that every order is as good as any other."""
    frame = pd.DataFrame({"x": "a", "s": ["u"] * 5 + ["v"] * 9, "g": 1})
    table = ab.ReleasedTable.vertical(
        frame[["x", "g"]], frame[["s", "g"]], group="g", sensitive="s", domains={"x": ["a", "b"]}
    )
    post = ab.fit(table, draws=3, tune=5, chains=1, seed=1, **QUIET)
    logs = post.with_log_likelihood().groups["log_likelihood"]
    both = post.draws["pi_s"].to_numpy()[0] * post.draws["pi_x"].to_numpy()[0, ..., 0]
    np.testing.assert_allclose(logs["release"].to_numpy()[0, :, 0], np.log(both) @ [5, 9])
    assert logs.attrs["monte_carlo_error"] < 1e-9


def _keep_weight(post, table, layout, g):
    """Probability of a group's secrets if everybody owns the values beside them."""
    from anonbayes.inference.weights import choose_evidence

    crossfit = choose_evidence(table, evidence="weighted").crossfit
    apart, lifts = crossfit.features(layout)
    out = 1.0
    for row in range(layout.offsets[g], layout.offsets[g + 1]):
        score = np.log(crossfit.secret_shares)
        for a, name in enumerate(table.attributes):
            weight = float(post.draws[f"weight_{name}"][0, 1])
            score = score + weight * lifts[a][:, apart.items[row, a]]
        p = np.exp(score - score.max())
        out *= p[layout.secrets[row]] / p.sum()
    return out


def test_the_prior_is_that_of_the_draws():
    table = table_of()
    post = ab.fit(table, alpha=[2.0, 3.0], beta=0.5, draws=2, chains=1, seed=1, **QUIET)
    prior = post.with_log_likelihood().groups["log_prior"]
    for name in table.attributes:
        pi = post.draws[f"pi_{name}"].to_numpy()[0, 1]
        expected = sum(stats.dirichlet.logpdf(p, np.full(len(p), 0.5)) for p in pi)
        assert float(prior[f"pi_{name}"][0, 1]) == pytest.approx(expected)
    pi = post.draws["pi_ill"].to_numpy()[0, 1]
    assert float(prior["pi_ill"][0, 1]) == pytest.approx(stats.dirichlet.logpdf(pi, [2.0, 3.0]))


def test_predictions_are_those_of_the_closed_form_and_can_be_plotted():
    table = table_of()
    post = ab.fit(table, draws=500, chains=2, seed=1, **QUIET).with_predictive(draws=500, seed=2)
    observed, predicted = (
        compat.group(post.idata, name) for name in ("observed_data", "posterior_predictive")
    )
    rows = predicted["released_ill"].to_numpy().reshape(1000, -1)
    share = post.secret_mean * table.n_rows
    assert (np.abs(rows.mean(axis=0) - share) < 4.5 * rows.std(axis=0) / np.sqrt(1000)).all()
    sex = predicted["released_sex"].to_numpy().reshape(1000, 2, -1)
    cells = table.columns["sex"].evidence.matrix.toarray()
    expected = post.trees["sex"].mean @ cells.T * share[:, None]
    error = sex.std(axis=0) / np.sqrt(1000)
    assert (np.abs(sex.mean(axis=0) - expected) < 4.5 * error).all()
    for name in table.attributes:
        assert (predicted[f"released_{name}"].sum(f"{name}_cell").to_numpy().reshape(-1) ==
                predicted["released_ill"].to_numpy().reshape(-1)).all()  # fmt: skip
        assert (observed[f"released_{name}"].sum(f"{name}_cell") == table.secret_counts).all()
    if hasattr(az, "plot_ppc"):
        axes = az.plot_ppc(post.idata, num_pp_samples=10, var_names=["released_sex"])
        assert np.size(axes) >= 1
    else:
        import arviz_plots

        with pytest.warns(UserWarning, match="discrete"):
            shown = arviz_plots.plot_ppc_dist(post.idata, var_names=["released_sex"])
        assert shown is not None


@pytest.mark.parametrize("make", [latent, lambda: ab.datasets.load("table1_anatomy")])
def test_predictions_have_the_form_of_what_was_observed(make):
    post = ab.fit(make(), draws=4, tune=5, chains=2, seed=1, **QUIET).with_predictive(draws=3)
    observed, predicted = (
        compat.group(post.idata, name) for name in ("observed_data", "posterior_predictive")
    )
    for name, values in observed.data_vars.items():
        assert predicted[name].shape == (2, 3, *values.shape)
        if "row" not in values.dims:
            assert (predicted[name].sum(values.dims) == values.sum()).all()


def test_power_scaling_finds_what_another_prior_would_change():
    """Weights ``p(pi)^(a - 1)`` turn Dir(beta + n) into Dir(a (beta - 1) + 1 + n)."""
    table = table_of(25)
    post = ab.fit(table, beta=6.0, alpha=6.0, draws=2000, chains=4, seed=1, **QUIET)
    rich = post.with_log_likelihood()
    if compat.has_inference_data():
        strong, weak = (
            float(az.psens(p.idata, var_names=["pi_ill"]).max())
            for p in (rich, ab.fit(table, draws=2000, seed=1, **QUIET).with_log_likelihood())
        )
        assert strong > 0.05 > weak  # Dir(1) is flat: no power of it says anything
        return
    from arviz_stats.psense import power_scale_dataset, psense_summary

    found = power_scale_dataset(rich.idata, "prior", (0.8, 1.25), ["chain", "draw"], None, None)
    for a in (0.8, 1.25):
        weight = a * (6.0 - 1) + 1 + table.secret_counts
        mean = found["pi_ill"].sel(alpha=a).mean("sample").to_numpy()
        assert np.abs(mean - weight / weight.sum()).max() < 0.01
    assert (psense_summary(rich.idata, var_names=["pi_ill"])["prior"].astype(float) > 0.05).all()


def test_what_is_too_large_or_senseless_is_refused():
    post = ab.fit(table_of(), draws=20, chains=2, seed=1, **QUIET)
    with pytest.raises(AnonbayesError, match="draws=0"):
        post.with_log_likelihood(draws=0)
    thin = post.with_log_likelihood(draws=7)
    assert thin.n_draws == 7 and thin.groups["log_prior"].sizes["draw"] == 7
    big = ab.ReleasedTable.horizontal(
        table_of().to_frame().assign(rows=10**6), "ill", weights="rows", domains={"age": range(4)}
    )
    with pytest.raises(ModelError, match="70,000,000 rows"):
        ab.fit(big, draws=20, chains=2, seed=1, **QUIET).with_log_likelihood()


def test_a_file_keeps_the_groups(tmp_path):
    post = ab.fit(table_of(), draws=20, chains=2, seed=1, **QUIET)
    rich = post.with_log_likelihood(draws=10).with_predictive(draws=5)
    rich.to_netcdf(tmp_path / "p.nc", draws=False)  # thinned draws cannot be made again
    back = ab.Posterior.from_netcdf(tmp_path / "p.nc")
    for name in ("log_likelihood", "log_prior", "posterior_predictive"):
        assert back.groups[name].equals(rich.groups[name]), name
