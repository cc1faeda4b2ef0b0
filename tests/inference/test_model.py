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

SAMPLE = {"chains": 2, "cores": 1, "progressbar": False, "compute_convergence_checks": False}


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
    post = ab.fit(table, **PRIOR, method="nuts", draws=1000, tune=500, seed=2, **SAMPLE)
    assert post.method == "nuts"
    check(post.idata, table, PRIOR)


@pytest.mark.parametrize("collapse", [True, False])
def test_our_step_inside_pymc_equals_enumeration(collapse):
    table = crossing()
    with ab.build_model(table, **PRIOR):
        step = ab.steps.HorizontalStep(table=table, **PRIOR, collapse=collapse)
        idata = pm.sample(4000, tune=100, step=step, random_seed=3, **SAMPLE)
    check(idata, table, PRIOR)
    assert np.isfinite(compat.groups(idata)["sample_stats"]["log_likelihood"]).all()


def test_our_step_beside_nuts_in_a_model_of_the_users_own():
    """A regressor on the population's composition, sampled by NUTS next to our Gibbs step."""
    table = nested()
    with ab.build_model(table) as model:
        slope = pm.Normal("slope", 0.0, 1.0)
        pm.Normal("measured", mu=slope, sigma=0.5, observed=[1.0, 1.2])
        step = ab.steps.HorizontalStep(table=table)
        idata = pm.sample(1000, tune=500, step=[step], random_seed=1, **SAMPLE)
    check(idata, table, {})
    # Conjugate: precision 1 + 2 / 0.25, mean (2.2 / 0.25) / 9.
    draws = compat.posterior_dataset(idata)["slope"]
    error = float(compat.mcse({"x": draws})["x"])
    assert abs(float(draws.mean()) - 8.8 / 9) < 4.2 * error
    assert model.coords["age"] == ("20", "21", "22", "23")


def test_the_model_has_the_log_density_of_the_mathematics():
    """log f(t*, pi) of MODEL 1.2 and the Dirichlet densities, at a point."""
    from scipy import stats

    table = crossing()
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
        probability = column.evidence.matrix.toarray() @ pi[name].T
        expected += (table.counts[name].toarray() * np.log(probability)).sum()
    model = ab.build_model(table, **PRIOR)
    point = {model.rvs_to_values[model["pi_ill"]].name: to_unconstrained(pi_secret)}
    for name in table.attributes:
        point[model.rvs_to_values[model[f"pi_{name}"]].name] = to_unconstrained(pi[name])
    assert float(model.compile_logp(jacobian=False)(point)) == pytest.approx(expected, rel=1e-13)


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
        idata = pm.sample(3000, tune=100, step=steps, random_seed=3, **SAMPLE)
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
    assert (model.coords["age_cell"], model.coords["age_cell_"]) == (("u", "v"), ("{1, 2}", "1"))
    slash = frame.rename(columns={"age": "age/years"})
    with pytest.raises(ab.AnonbayesError, match=r"'age/years'.*no slash"):
        ab.build_model(ab.ReleasedTable.horizontal(slash, "ill"))
