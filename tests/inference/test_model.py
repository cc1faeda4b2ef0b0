"""The PyMC model: NUTS and our step on it agree with enumeration, and users can extend it."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from enumeration import enumerate_posterior
from tables import PRIOR, crossing, latent, nested

import anonbayes as ab
from anonbayes import compat
from anonbayes.inference.dirichlet import from_unconstrained, resolve_prior, to_unconstrained
from anonbayes.inference.features import Features
from anonbayes.inference.weight_kernels import dense_features
from anonbayes.inference.weights import choose_evidence
from anonbayes.inference.workflow import cell_rates

SAMPLE = {"chains": 2, "cores": 1, "progressbar": False, "compute_convergence_checks": False}
# For what our own steps draw, or what is evaluated a few times: compiling takes longer than that.
QUICK = {"compile_kwargs": {"mode": "FAST_COMPILE"}}


def check(idata, table, prior):
    truth = enumerate_posterior(table, resolve_prior(table, **prior))
    draws = compat.posterior_dataset(idata)
    for name, expected in {**truth.pi, table.sensitive: truth.pi_secret}.items():
        found = draws[f"pi_{name}"].mean(("chain", "draw")).to_numpy()
        error = compat.mcse({"x": draws[f"pi_{name}"]})["x"].to_numpy()
        assert (np.abs(found - expected) < 4.2 * error).all(), name


@pytest.mark.parametrize("make", [crossing, latent])
def test_nuts_on_the_model_equals_enumeration(make):
    table = make()
    post = ab.fit(table, **PRIOR, method="nuts", draws=600, tune=300, seed=2, **SAMPLE)
    assert post.method == "nuts"
    check(post.idata, table, PRIOR)


@pytest.mark.parametrize("collapse", [True, False])
def test_our_step_inside_pymc_equals_enumeration(collapse):
    table = crossing()
    with ab.build_model(table, **PRIOR):
        step = ab.steps.HorizontalStep(table=table, **PRIOR, collapse=collapse)
        idata = pm.sample(4000, tune=100, step=step, random_seed=3, **SAMPLE, **QUICK)
    check(idata, table, PRIOR)
    assert np.isfinite(compat.groups(idata)["sample_stats"]["log_likelihood"]).all()


def test_our_step_beside_nuts_in_a_model_of_the_users_own():
    """A regressor on the population's composition, sampled by NUTS next to our Gibbs step."""
    table = nested()
    with ab.build_model(table) as model:
        slope = pm.Normal("slope", 0.0, 1.0)
        pm.Normal("measured", mu=slope, sigma=0.5, observed=[1.0, 1.2])
        step = ab.steps.HorizontalStep(table=table)
        idata = pm.sample(500, tune=300, step=[step], random_seed=1, **SAMPLE, **QUICK)
    check(idata, table, {})
    # Conjugate: precision 1 + 2 / 0.25, mean (2.2 / 0.25) / 9.
    draws = compat.posterior_dataset(idata)["slope"]
    error = float(compat.mcse({"x": draws})["x"])
    assert abs(float(draws.mean()) - 8.8 / 9) < 4.2 * error
    assert model.coords["age"] == ("20", "21", "22", "23")


@pytest.mark.parametrize("rows", [1, 30_001])
def test_the_model_has_the_log_density_of_the_mathematics(rows):
    """log f(t*, pi) of MODEL 1.2 and the Dirichlet densities, at a point, to the last digits."""
    from scipy import special, stats

    frame = crossing().to_frame().assign(rows=rows)
    table = ab.ReleasedTable.horizontal(frame, "ill", weights="rows")
    prior = resolve_prior(table, **PRIOR)
    rng = np.random.default_rng(4)
    pi_secret = rng.dirichlet(np.ones(2))
    pi = {n: rng.dirichlet(np.ones(len(table.domains[n])), 2) for n in table.attributes}
    expected = stats.dirichlet.logpdf(pi_secret, prior.alpha)
    expected += stats.multinomial.logpmf(table.secret_counts, table.n_rows, pi_secret)
    for name, column in table.columns.items():
        expected += sum(
            stats.dirichlet.logpdf(p, b) for p, b in zip(pi[name], prior.beta[name], strict=True)
        )
        rates = cell_rates(column.evidence, table.counts[name].sum(axis=1))
        probability = (column.evidence.matrix.toarray() @ pi[name].T * rates.rate[:, None]).T
        counts = table.counts[name].toarray().T
        if rates.others:
            probability = np.column_stack([probability, 1 - probability.sum(axis=1)])
            counts = np.pad(counts, ((0, 0), (0, 1)))
        expected += special.gammaln(counts.sum(axis=1) + 1).sum()
        expected += (special.xlogy(counts, probability) - special.gammaln(counts + 1)).sum()
    model = ab.build_model(table, **PRIOR, evidence="independent")
    point = {model.rvs_to_values[model["pi_ill"]].name: to_unconstrained(pi_secret)}
    for name in table.attributes:
        point[model.rvs_to_values[model[f"pi_{name}"]].name] = to_unconstrained(pi[name])
    density = model.compile_logp(jacobian=False, mode="FAST_COMPILE")
    assert float(density(point)) == pytest.approx(expected, rel=1e-13)


def test_simplex_coordinates_are_those_of_pymc():
    from pymc.distributions.transforms import simplex

    p = np.random.default_rng(1).dirichlet(np.ones(4), 3)
    np.testing.assert_allclose(to_unconstrained(p), simplex.forward(p).eval(), atol=1e-12)
    np.testing.assert_allclose(from_unconstrained(to_unconstrained(p)), p, atol=1e-12)


def test_a_step_for_another_model_is_refused():
    table = nested()
    with ab.build_model(crossing()), pytest.raises(ab.AnonbayesError, match="no variable 'pi_age'"):
        ab.steps.HorizontalStep(table=table)


def test_a_step_with_another_prior_than_the_model_is_refused():
    table = nested()
    with ab.build_model(table, beta=0.5), pytest.raises(ab.AnonbayesError, match="beta="):
        ab.steps.HorizontalStep(table=table)
    with ab.build_model(table, alpha=2.0) as model:
        with pytest.raises(ab.AnonbayesError, match="alpha="):
            ab.steps.HorizontalStep(table=table)
        ab.steps.HorizontalStep([model["pi_age"]], table=table)  # leaves alpha to others


def test_a_step_takes_a_single_variable_as_those_of_pymc_do():
    table = nested()
    with ab.build_model(table) as model:
        step = ab.steps.HorizontalStep(model["pi_age"], table=table)
    assert [v.name for v in step.vars] == ["pi_age_simplex__"]


def test_two_tables_with_the_same_columns_in_one_model():
    """Cells, and so coordinates, differ; a step must find the variables of its own table."""
    north, south = nested(), nested().expanded()
    south = ab.ReleasedTable.horizontal(
        south.to_frame().iloc[:3].assign(age=["*", "20", "20-21"]), "ill", domains=south.domains
    )
    with pm.Model() as model:
        parts = {
            "north": (north, ab.build_model(north, **PRIOR, name="north")),
            "south": (south, ab.build_model(south, name="south")),
        }
        steps = [
            ab.steps.HorizontalStep(table=north, model=parts["north"][1], **PRIOR),
            ab.steps.HorizontalStep(table=south, model=parts["south"][1]),
        ]
        idata = pm.sample(3000, tune=100, step=steps, random_seed=3, **SAMPLE, **QUICK)
    assert {v.name.split("::")[0] for v in model.free_RVs} == {"north", "south"}
    draws = compat.posterior_dataset(idata)
    for name, (table, _) in parts.items():
        prior = resolve_prior(table, **(PRIOR if name == "north" else {}))
        truth = enumerate_posterior(table, prior)
        for attribute, expected in {**truth.pi, "ill": truth.pi_secret}.items():
            found = draws[f"{name}::pi_{attribute}"]
            error = compat.mcse({"x": found})["x"].to_numpy()
            gap = np.abs(found.mean(("chain", "draw")).to_numpy() - expected)
            assert (gap < 4.2 * error).all(), (name, attribute)


def test_columns_may_be_named_like_cells_but_not_with_a_slash():
    frame = pd.DataFrame({"age": ["{1, 2}", "1"], "age_cell": ["u", "v"], "ill": ["flu", "hiv"]})
    model = ab.build_model(ab.ReleasedTable.horizontal(frame, "ill"))
    assert (model.coords["age_cell"], model.coords["age_cell_"]) == (
        ("u", "v"),
        ("{1, 2}", "1", "(other cells)"),  # a 2 may be shown in clear as well
    )
    slash = frame.rename(columns={"age": "age/years"})
    with pytest.raises(ab.AnonbayesError, match=r"'age/years'.*not allow slashes"):
        ab.build_model(ab.ReleasedTable.horizontal(slash, "ill"))


def predicted(model, draws=400, seed=1):
    """Draws of what a release would show, and of everything before it."""
    with model:
        drawn = compat.groups(pm.sample_prior_predictive(draws, random_seed=seed, **QUICK))
    return {**drawn["prior"].data_vars, **drawn["prior_predictive"].data_vars}


def near(draws, expected):
    """Whether the mean over draws is what it should be, up to its standard error."""
    draws = np.asarray(draws)
    error = draws.std(axis=0) / np.sqrt(len(draws))
    return (np.abs(draws.mean(axis=0) - expected) < 4.5 * error + 1e-9).all()


@pytest.mark.parametrize("make", [nested, crossing, latent])
def test_releases_are_drawn_as_the_model_says(make):
    """Cells of values drawn from the prior, value by value through the cells' rates."""
    table = make()
    drawn = predicted(ab.build_model(table, **PRIOR))
    prior = resolve_prior(table, **PRIOR)
    if make is latent:
        # P(nat = M, report flu): rates of the cells of nat are 3/4, 1/4, 3/4, reports are sent.
        secret = prior.alpha / prior.alpha.sum() * [0.75, 0.25]
        nat = prior.beta["nat"][:, 1] / prior.beta["nat"].sum(axis=1)
        assert near(drawn["released_records"].values[0][:, 0], 4 * 0.75 * (secret * nat).sum())
        assert (drawn["released_records"].sum("record") == 4).all()
        return
    rows = drawn["released_ill"].values[0]
    assert near(rows, table.n_rows * prior.alpha / prior.alpha.sum())
    for name, column in table.columns.items():
        rates = cell_rates(column.evidence, table.counts[name].sum(axis=1)).rate
        share = (prior.beta[name] / prior.beta[name].sum(axis=1, keepdims=True)) @ (
            column.evidence.matrix.toarray().T * rates
        )
        cells = drawn[f"released_{name}"].values[0]
        assert (cells.sum(axis=2) == rows).all()
        assert near(
            cells[..., : len(rates)],
            table.n_rows * share * (prior.alpha / prior.alpha.sum())[:, None],
        )


def test_overlapping_cells_are_predicted_as_often_as_they_are_seen():
    """Values are drawn, and shown as a cell by its rate: over all values the shares come back."""
    table = ab.anonymize.mondrian(ab.datasets.load("clinic").head(200), "diagnosis", k=8)
    for column in table.columns.values():
        counts = table.tally(column.codes, len(column.evidence))
        rates = cell_rates(column.evidence, counts)
        cells = column.evidence.matrix.toarray() * rates.rate[:, None]
        assert (cells.sum(axis=0) < 1 + 1e-9).all()
        # The distribution that makes the cells most likely, found by a plain search.
        p = np.full(cells.shape[1], 1 / cells.shape[1])
        for _ in range(3000):
            hard = column.evidence.matrix @ p
            p = p * (column.evidence.matrix.T @ (counts / hard)) / counts.sum()
        np.testing.assert_allclose(cells @ p, counts / counts.sum(), atol=2e-4)


def test_a_vertical_release_is_drawn_person_by_person():
    """Items of a group are the values of its people in another order."""
    qit = pd.DataFrame({"nat": ["M", "J", "C"], "gid": 1})
    st = pd.DataFrame({"gid": 1, "ill": ["x", "x", "y"]})
    table = ab.ReleasedTable.vertical(
        qit, st, group="gid", sensitive="ill", domains={"nat": list("CJM"), "ill": list("xy")}
    )
    model = ab.build_model(table, evidence="independent")
    pi = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    fixed = pm.do(model, {"pi_ill": np.array([0.6, 0.4]), "pi_nat": pi})
    drawn = predicted(fixed, draws=1500)
    secrets, items = (drawn[f"released_{name}"].values[0] for name in ("ill", "nat"))
    owned = drawn["assignment"].values[0].astype(int)
    assert near(secrets[:, 0] == 0, 0.6)
    assert near(owned[:, 0], 1.0)  # each of three places alike
    own = np.take_along_axis(items, owned, axis=1)
    for s in (0, 1):
        chosen = own[secrets == s]
        assert near(chosen[:, None] == np.arange(3), pi[s])
    again = pm.observe(pm.do(model, {"pi_nat": pi}), {"pi_ill": np.array([0.5, 0.5])})
    assert "assignment" in again.named_vars


@pytest.mark.parametrize("scheme", ["horizontal", "latent", "vertical"])
def test_secrets_given_weights_are_drawn_by_the_weighted_scores(scheme):
    people = ab.datasets.load("clinic").head(80)[["sex", "marital_status", "diagnosis"]]
    if scheme == "vertical":
        table = ab.anonymize.anatomy(people, "diagnosis", l=2, seed=1)
    else:
        channels = None
        if scheme == "latent":
            domain = ab.Domain("diagnosis", sorted(people["diagnosis"].unique()))
            channels = {"diagnosis": ab.RandomizedResponse(domain, epsilon=3.0)}
            people = people.assign(
                diagnosis=channels["diagnosis"].release(people["diagnosis"], seed=1)
            )
        table = ab.ReleasedTable.horizontal(people, "diagnosis", channels=channels)
    model = ab.build_model(table, evidence="weighted")
    weights = {f"weight_{name}": np.array(0.0) for name in table.attributes}
    drawn = predicted(pm.do(model, weights), draws=300)
    secrets = drawn["secrets_diagnosis"].values[0]
    if scheme == "vertical":  # without weights everybody is one of the population
        share = choose_evidence(table, evidence="weighted").crossfit.secret_shares
        shares = (secrets[..., None] == np.arange(len(share))).mean(axis=1)
        assert near(shares, share / share.sum())
    else:
        counts = table.records.count
        assert (secrets.sum(axis=2) == counts).all()
        prior = choose_evidence(table, evidence="weighted").prior
        features = Features.of(table, prior)
        x = np.empty((len(counts), len(table.attributes) + 1, len(features.share)))
        dense_features(features, x)
        p = np.exp(x[:, 0] - x[:, 0].max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        if scheme == "latent":
            p = p @ features.likelihood.T
        assert near(secrets.sum(axis=1)[:, : p.shape[1]], counts @ p)


def test_the_model_can_be_shown_as_a_graph():
    graphviz = pytest.importorskip("graphviz", reason="needs the extra 'graph'")
    for table in (crossing(), ab.datasets.load("table1_anatomy")):
        graph = pm.model_to_graphviz(ab.build_model(table))
        assert isinstance(graph, graphviz.Digraph)
        assert "Potential" not in graph.source
        assert all(f"released_{name}" in graph.source for name in table.domains)
