"""The PyMC step methods: right answers inside `pm.sample`, declared state, seeds, bad input."""

import copy
import pickle

import cloudpickle
import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytest
from vertical_reference import batch_error, enumerate_tables, small_layout, uneven_prior

import anonbayes as ab
from anonbayes.errors import ModelError
from anonbayes.inference.dirichlet_step import DirichletStep
from anonbayes.inference.model import vertical_model
from anonbayes.inference.vertical import group_steps as vertical
from anonbayes.inference.vertical.chain import STEPS
from anonbayes.inference.vertical.group_layout import layout_of

LAYOUT = small_layout()
BETA = uneven_prior(LAYOUT)
NAMES = ["sex", "age"]
SETTINGS = {
    "collapsed": {"beta": BETA},
    "tempered": {"beta": BETA, "ladder": {"temperatures": 3, "hottest": 0.3}},
    "subblock": {"sub_block": 2},
}
# Our steps compile nothing of PyMC's, and it would take longer than the draws.
QUIET = {
    "tune": 100,
    "chains": 1,
    "cores": 1,
    "progressbar": False,
    "compute_convergence_checks": False,
    "compile_kwargs": {"mode": "FAST_COMPILE"},
}


@pytest.fixture(scope="module")
def model():
    return vertical_model(LAYOUT, beta=BETA, attributes=NAMES, sensitive="disease")


def sample(model, step, draws=50, chains=1, seed=4, cores=1):
    with model:
        return pm.sample(
            draws=draws,
            step=vertical.vertical_steps(LAYOUT, step=step, **SETTINGS.get(step, {})),
            random_seed=seed,
            **QUIET | {"chains": chains, "cores": cores},
        )


def flat_pi(idata):
    return np.concatenate(
        [idata.posterior[f"pi_{n}"].values.reshape(-1, LAYOUT.n_secrets * k)
         for n, k in zip(NAMES, LAYOUT.sizes, strict=True)], axis=1,
    )  # fmt: skip


@pytest.mark.parametrize("step", STEPS)
def test_agrees_with_enumeration(model, step):
    idata = sample(model, step, draws=2500)
    truth = enumerate_tables(LAYOUT, BETA)
    pi = flat_pi(idata)
    assert np.all(np.abs(pi.mean(axis=0) - truth.pi_mean) < 4 * batch_error(pi))
    assignment = idata.posterior["assignment"].values[0]
    owned = np.zeros((len(assignment), LAYOUT.n_rows, LAYOUT.n_secrets))
    owned[np.arange(len(owned))[:, None], assignment, LAYOUT.secrets] = 1.0
    error = batch_error(owned) + 1e-12
    assert np.all(np.abs(owned.mean(axis=0) - truth.ownership) < 4 * error)
    stats = idata.sample_stats
    assert 0.0 < float(stats["acceptance"].mean()) <= 1.0
    if step == "tempered":
        assert float(stats["round_trips"].max()) > 10
        assert 0.0 < float(stats["exchange_rate"].mean()) <= 1.0


@pytest.mark.parametrize("step", ["block", "tempered"])
def test_seeds_reproduce_and_chains_differ(model, step):
    one, two = (sample(model, step, chains=2).posterior["assignment"].values for _ in range(2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one[0], one[1])
    assert not np.array_equal(one, sample(model, step, chains=2, seed=5).posterior["assignment"])


@pytest.mark.parametrize("step", ["block", "tempered"])
def test_processes_give_the_draws_of_one_process(model, step):
    one, two = (sample(model, step, chains=2, cores=c).posterior["pi_age"].values for c in (1, 2))
    assert np.array_equal(one, two)


@pytest.mark.parametrize("step", STEPS)
def test_declared_state_continues_exactly(model, step):
    with model:
        first, again = (
            vertical.BY_NAME[step](layout=LAYOUT, rng=3, **SETTINGS.get(step, {})) for _ in range(2)
        )
    point = model.initial_point()
    for _ in range(5):
        point, _ = first.step(point)
    state, kept = first.sampling_state, dict(point)
    ahead = [point := first.step(point)[0] for _ in range(5)]
    again.sampling_state = pickle.loads(pickle.dumps(state))
    repeated = [kept := again.step(kept)[0] for _ in range(5)]
    for a, b in zip(ahead, repeated, strict=True):
        assert list(a) == list(b) == list(model.initial_point())
        assert all(np.array_equal(a[k], b[k]) for k in a)


def test_steps_survive_pickling(model):
    with model:
        step = vertical.VerticalTemperedStep(
            layout=LAYOUT, beta=BETA, rng=1, ladder={"temperatures": 3, "threads": 2}
        )
        point, _ = step.step(model.initial_point())
        twin = cloudpickle.loads(cloudpickle.dumps(step))  # as PyMC does for its processes
    assert np.array_equal(twin.step(point)[0]["assignment"], step.step(point)[0]["assignment"])


def test_start_is_dispersed_unless_told_otherwise(model):
    start = np.array([2, 1, 0, 3, 5, 4, 6])
    point = model.initial_point() | {"assignment": start.astype(np.int8)}
    with model:
        for seed in range(5):  # one swap per group at most: the start shows in the first step
            step = vertical.VerticalSwapStep(layout=LAYOUT, disperse=False, swaps=0.1, rng=seed)
            assert int((step.step(point)[0]["assignment"] != start).sum()) <= 4
        with pytest.raises(ModelError, match="group 1"):
            step.set_rng(np.random.default_rng(1))
            step.step(point | {"assignment": np.zeros(7, dtype=np.int8)})


@pytest.mark.parametrize("step", STEPS)
def test_a_warm_up_is_asked_for(step):
    assert vertical.BY_NAME[step].default_tune_steps == 1000  # PyMC 6 asks, PyMC 5 does so anyway


def test_wrong_parameters_are_named(model):
    with pm.Model():
        pm.Dirichlet("pi_sex", a=np.ones((3, 2)), default_transform=None)
        with pytest.raises(ModelError, match="assignment"):
            vertical.VerticalBlockStep(layout=LAYOUT)
    with model, pytest.raises(ModelError, match="one per attribute"):
        vertical.VerticalBlockStep(layout=LAYOUT, pi=[model["pi_sex"]])


def test_model_density_links_parameters_and_assignment(model):
    """The model's own density, compiled by PyMC, against counts by hand."""
    rng = np.random.default_rng(2)
    point = model.initial_point()
    point["pi_age"] = rng.dirichlet(np.ones(3), size=3)
    point["pi_sex"] = rng.dirichlet(np.ones(2), size=3)
    point["assignment"] = LAYOUT.random_assignment(rng).astype(np.int8)
    items = [model[f"released_{name}"] for name in ("age", "sex")]
    terms = [model.logp(model["assignment"]), model.logp(items)]
    values = [model.rvs_to_values[v] for v in model.free_RVs]
    density = pytensor.function(values, terms, mode="FAST_COMPILE", on_unused_input="ignore")
    inside, link = density(*(point[v.name] for v in values))
    log_pi = np.log(LAYOUT.flatten([point["pi_sex"], point["pi_age"]]))
    counts = LAYOUT.counts(point["assignment"].astype(int))
    assert inside == 0.0
    assert link == pytest.approx(counts @ log_pi, abs=1e-9)
    for wrong in (np.full(7, 6), [0, 0, 0, 3, 4, 5, 6], [-7, 1, 2, 3, 4, 5, 9]):
        point["assignment"] = np.asarray(wrong, dtype=np.int8)
        assert np.isneginf(density(*(point[v.name] for v in values))[0]).any()


def test_sampling_without_our_steps_says_what_to_do(model):
    """Metropolis on integers, PyMC's choice, never proposes a permutation."""
    with model, pytest.raises(ModelError, match="vertical_steps"):
        pm.sample(10, **QUIET)
    with pm.Model():  # nobody else's variables are kept from PyMC
        pm.Poisson("n", 3.0)
        idata = pm.sample(10, **QUIET)
    assert idata.posterior["n"].shape == (1, 10)


def test_the_model_can_be_copied_and_intervened_on(model):
    """`pm.do`, `copy.deepcopy` and log likelihoods rebuild a model from its graph."""
    assert copy.deepcopy(model).initial_point()["assignment"].tolist() == list(range(7))
    assert "assignment" in pm.do(model, {"pi_disease": np.full(3, 1 / 3)}).named_vars
    idata = sample(model, "block", draws=5)
    with model:
        pm.compute_log_likelihood(idata, progressbar=False, compile_kwargs=QUIET["compile_kwargs"])
    assert idata.log_likelihood["released_disease"].shape == (1, 5, 7)


def anatomy(nations, illnesses):
    qit = pd.DataFrame({"nat": list(nations), "gid": 1})
    st = pd.DataFrame({"gid": 1, "ill": list(illnesses)})
    return ab.ReleasedTable.vertical(
        qit, st, group="gid", sensitive="ill", domains={"nat": list("CJM"), "ill": list("xyz")}
    )


def test_two_tables_and_variables_of_the_users_own_in_one_model():
    tables = {"north": anatomy("MJC", "xyz"), "south": anatomy("MJ", "xy")}
    with pm.Model() as both:
        pm.Dirichlet("pi_own", np.ones(3), default_transform=None)  # looks like one of ours
        steps = []
        for name, table in tables.items():
            part = ab.build_model(table, beta={"nat": [1.0, 2.0, 3.0]}, name=name)
            kind = "block" if name == "north" else "collapsed"
            steps += vertical.vertical_steps(table, model=part, step=kind)
        steps.append(DirichletStep([both["pi_own"]], counts=[[0, 0, 0]]))
        idata = pm.sample(2000, step=steps, random_seed=1, **QUIET)
    for name, table in tables.items():
        layout = layout_of(table)
        truth = enumerate_tables(layout, np.tile([1.0, 2.0, 3.0], 3))
        pi = idata.posterior[f"{name}::pi_nat"].values.reshape(2000, -1)
        assert np.all(np.abs(pi.mean(axis=0) - truth.pi_mean) < 4 * batch_error(pi))


def test_lookalikes_are_named_and_the_table_settles_it():
    table = anatomy("MJC", "xyz")
    with ab.build_model(table):
        pm.Dirichlet("pi_own", np.ones(3), default_transform=None)
        with pytest.raises(ModelError, match=r"pi_ill.*pi_own.*the table itself"):
            vertical.vertical_steps(layout_of(table))
        assert len(vertical.vertical_steps(table, step="block")) == 3


def test_the_collapsed_step_knows_the_models_prior(model):
    with model:
        step = vertical.VerticalCollapsedStep(layout=LAYOUT)
        assert np.array_equal(step._beta, BETA)
        with pytest.raises(ModelError, match="beta="):
            vertical.VerticalCollapsedStep(layout=LAYOUT, beta=1.0)


class TestDirichletStep:
    def test_counts_from_a_variable_and_from_a_function(self):
        with pm.Model() as model:
            p = pm.Dirichlet("p", a=np.array([0.5, 1.0, 2.0]), default_transform=None)
            pm.Multinomial("n", n=9, p=p, shape=3)
            by_name = DirichletStep([p], counts="n", rng=1)
            by_function = DirichletStep([p], counts=lambda point: [point["n"]], rng=1)
        point = model.initial_point() | {"n": np.array([9, 0, 0])}
        draws = np.array([by_name.step(point)[0]["p"] for _ in range(4000)])
        same = np.array([by_function.step(point)[0]["p"] for _ in range(4000)])
        assert np.array_equal(draws, same)
        shape = np.array([9.5, 1.0, 2.0])
        error = draws.std(axis=0) / np.sqrt(len(draws))
        assert np.all(np.abs(draws.mean(axis=0) - shape / 12.5) < 4 * error)
        variance = shape * (12.5 - shape) / (12.5**2 * 13.5)
        np.testing.assert_allclose(draws.var(axis=0), variance, rtol=0.15)

    def test_refusals(self):
        with pm.Model():
            p = pm.Dirichlet("p", a=np.ones(3))
            with pytest.raises(ModelError, match="default_transform=None"):
                DirichletStep([p], counts=[[0, 0, 0]])
        with pm.Model():
            scale = pm.HalfNormal("scale")
            q = pm.Dirichlet("q", a=scale * np.ones(3), default_transform=None)
            with pytest.raises(ModelError, match="depends on other variables"):
                DirichletStep([q], counts=[[0, 0, 0]])
