"""Prior weights far below one with cells that cross: against every cleartext table there is."""

import itertools

import numpy as np
import pandas as pd
import pytest
from enumeration import enumerate_posterior
from scipy.special import gammaln
from tables import Response, crossing, soft

import anonbayes as ab
from anonbayes import compat
from anonbayes.inference.dirichlet import resolve_prior
from anonbayes.inference.horizontal import urns
from anonbayes.inference.horizontal.urns import listed_rows

WEIGHTS = (1e-2, 1e-4, 1e-6, 1e-8)


def ring():
    """Two ways to explain four rows by two values each, and nothing likely between them."""
    frame = pd.DataFrame(
        {"x": ["{a, b}", "{b, c}", "{c, d}", "{a, d}", *"abcd"], "s": list("ppppqqqq")}
    )
    return ab.ReleasedTable.horizontal(frame, "s", domains={"x": list("abcd")})


TABLES = {"ring": ring, "crossing": crossing, "soft": soft}


def assert_beliefs(post, truth, tolerance):
    table = post.table
    for record in np.ndindex(*(len(table.domains[a]) for a in table.attributes)):
        victim = {
            a: table.domains[a].values[k] for a, k in zip(table.attributes, record, strict=True)
        }
        joint = truth.joint[(slice(None), *record)]
        np.testing.assert_allclose(
            post.learner(victim).to_numpy(), joint / joint.sum(), rtol=tolerance, atol=tolerance
        )
        rows = truth.rows[(slice(None), slice(None), *record)].sum(axis=0)
        if rows.sum() > 0:
            np.testing.assert_allclose(
                post.attacker(victim).to_numpy(), rows / rows.sum(), rtol=tolerance, atol=tolerance
            )


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("name", TABLES)
def test_beliefs_equal_enumeration(name, weight):
    """Few rows are listed, so beliefs agree to rounding, the smallest of them included."""
    table = TABLES[name]()
    truth = enumerate_posterior(table, resolve_prior(table, beta=weight))
    post = ab.fit(
        table,
        beta=weight,
        method="gibbs",
        draws=100,
        evidence="independent",
        seed=1,
        progressbar=False,
    )
    assert_beliefs(post, truth, 1e-7)


def test_one_value_held_nearly_impossible():
    """What the message about weights of zero recommends; the other column has ordinary weights."""
    table = crossing()
    beta = {"nat": {"C": 1e-6}}
    truth = enumerate_posterior(table, resolve_prior(table, beta=beta))
    post = ab.fit(table, beta=beta, evidence="independent", seed=1, draws=4000, progressbar=False)
    victim = {"nat": "C", "sex": "m"}
    assert truth.rows[:, 0, 0, 1].sum() / truth.rows[:, :, 0, 1].sum() == pytest.approx(5 / 9)
    belief = post.attacker(victim)
    error = float(belief.attrs["mcse"].to_numpy()[0])
    assert abs(belief["flu"] - 5 / 9) < 4 * error < 0.02


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("step", ["tree", "counts"])
@pytest.mark.parametrize("name", TABLES)
def test_draws_equal_enumeration(name, step, weight):
    """The sampler itself: chains go from one explanation to the other."""
    table = TABLES[name]()
    truth = enumerate_posterior(table, resolve_prior(table, beta=weight))
    post = ab.fit(
        table, beta=weight, method="gibbs", step=step, draws=4000, seed=2, progressbar=False
    )
    for attribute, expected in truth.pi.items():
        draws = post.draws[f"pi_{attribute}"]
        error = compat.mcse({"pi": draws})["pi"].to_numpy()
        off = np.abs(draws.mean(("chain", "draw")).to_numpy() - expected)
        # What is rarer than one draw in a thousand is seen by the averages, not by the draws.
        assert (off < 4 * np.nan_to_num(error) + 2e-3).all(), (attribute, off, error)


def test_sampled_averages_equal_enumeration(monkeypatch):
    """Cells with too many rows to be listed are averaged over sweeps."""
    monkeypatch.setattr(urns, "MOST_LISTED", 0)
    for name in ("ring", "soft"):
        table = TABLES[name]()
        truth = enumerate_posterior(table, resolve_prior(table, beta=0.2))
        post = ab.fit(
            table,
            beta=0.2,
            evidence="independent",
            method="gibbs",
            draws=4000,
            seed=3,
            progressbar=False,
        )
        value = table.attributes[0]
        victim = {value: table.domains[value].values[1]}
        rows = truth.rows[:, :, 1].sum(axis=0).reshape(2, -1).sum(axis=1)
        belief = post.attacker(victim)
        error = belief.attrs["mcse"].to_numpy()
        assert (np.abs(belief.to_numpy() - rows / rows.sum()) < 4 * error).all()
        assert (error < 0.02).all()


def by_counts(members, likelihood, rows, base):
    """Mean rows by cell and value, over all ways to share out the rows of each cell."""
    shares = [
        [x for x in itertools.product(range(n + 1), repeat=len(m)) if sum(x) == n]
        for m, n in zip(members, rows, strict=True)
    ]
    mean, mass = [np.zeros(len(m)) for m in members], 0.0
    for ways in itertools.product(*shares):
        held = np.zeros(len(base))
        log_weight = 0.0
        for m, e, x in zip(members, likelihood, ways, strict=True):
            np.add.at(held, m, x)
            log_weight += np.dot(x, np.log(e)) - gammaln(np.add(x, 1)).sum()
        weight = np.exp(log_weight + (gammaln(base + held) - gammaln(base)).sum())
        mass += weight
        for total, x in zip(mean, ways, strict=True):
            total += weight * np.array(x)
    return [total / mass for total in mean]


@pytest.mark.parametrize("weight", [0.3, 1e-5])
def test_cells_of_many_rows(weight):
    """Listing and sampling agree with sums over counts, where cells have a dozen rows each."""
    cells = {"{a, b}": 12, "{b, c}": 10, "{c, d}": 2, "d": 1}
    frame = pd.DataFrame({"x": cells.keys(), "s": "p", "n": cells.values()})
    frame = pd.concat([frame, pd.DataFrame({"x": list("abcd"), "s": "q", "n": 1})])
    table = ab.ReleasedTable.horizontal(frame, "s", {"x": list("abcd")}, weights="n")
    base = weight + np.array([0.0, 0, 0, 1])
    members = [[0, 1], [1, 2], [2, 3]]
    mean = by_counts(members, [[1, 1]] * 3, [12, 10, 2], base)
    evidence = table.columns["x"].evidence
    counts = table.counts["x"].toarray()[:, 0]
    single = evidence.sizes == 1
    fit, known = listed_rows(
        evidence, np.where(single, 0, counts), np.array([0.0, 0, 0, 1]), np.full(4, weight)
    )
    for cell in np.flatnonzero(~single):
        place = members.index(evidence.members(cell).tolist())
        here = slice(evidence.matrix.indptr[cell], evidence.matrix.indptr[cell + 1])
        assert known[here].all()
        np.testing.assert_allclose(fit[here] * counts[cell], mean[place], rtol=1e-9)
    post = ab.fit(table, beta=weight, draws=4000, seed=5, progressbar=False)
    expected = base.copy()
    for m, x in zip(members, mean, strict=True):
        np.add.at(expected, m, x)
    draws = post.draws["pi_x"].sel(s="p")
    error = compat.mcse({"pi": draws})["pi"].to_numpy()
    off = np.abs(draws.mean(("chain", "draw")).to_numpy() - expected / expected.sum())
    assert (off < 4 * np.nan_to_num(error) + 1e-3).all()


def test_averages_are_kept_on_disk(tmp_path):
    post = ab.fit(ring(), beta=1e-6, draws=100, seed=1, progressbar=False)
    post.to_netcdf(tmp_path / "post.nc")
    again = ab.Posterior.from_netcdf(tmp_path / "post.nc")
    assert again.attacker({"x": "b"})["p"] == pytest.approx(0.5, abs=1e-9)


def test_ordinary_weights_have_no_urn():
    post = ab.fit(crossing(), draws=60, seed=1, progressbar=False)
    assert post.averaged("fit_nat", [(0, slice(0, 60))]) is None


def test_a_saved_state_of_another_shape_is_refused(tmp_path):
    """Kernels trust the shapes of a chain's state, whatever a file says."""
    settings = {"beta": 1e-3, "chains": 1, "seed": 1, "progressbar": False}
    ab.fit(ring(), draws=60, resume=tmp_path, **settings)
    file = tmp_path / "chain-0" / "state.npz"
    arrays = dict(np.load(file))
    for name, wrong in (("pi", np.zeros(3)), ("pi_secret", np.array([-1.0, 2.0]))):
        np.savez(file, **(arrays | {f"state/{name}": wrong}))
        with pytest.raises(ab.errors.FileError, match=f"'{name}' is not"):
            ab.fit(ring(), draws=90, resume=tmp_path, **settings)
    np.savez(file, **arrays)
    again = ab.fit(ring(), draws=90, resume=tmp_path, **settings)
    whole = ab.fit(ring(), draws=90, **settings)
    np.testing.assert_array_equal(again.draws["pi_x"], whole.draws["pi_x"])
    cut = [(0, slice(0, 90))]
    np.testing.assert_array_equal(again.averaged("fit_x", cut), whole.averaged("fit_x", cut))


def behind_a_channel(name):
    """Secrets through randomized response."""
    secrets, columns = LATENT[name]
    return ab.ReleasedTable.horizontal(
        pd.DataFrame(columns | {"s": list(secrets)}),
        "s",
        domains={"x": list("abc")},
        channels={"s": Response(tuple("pq"), 0.75)},
    )


LATENT = {
    "six": ("ppqqpq", {"x": list("aabbcc")}),
    "two attributes": ("ppqqpqpp", {"x": list("aabbccab"), "y": list("uvuvuvvv")}),
    "nested": ("pqqp", {"x": ["a", "{a, b}", "*", "c"], "y": ["u", "*", "v", "u"]}),
    "crossing": ("ppqq", {"x": ["{a, b}", "{b, c}", "{a, c}", "c"]}),
}


@pytest.mark.parametrize("weight", [1e-2, 1e-8])
@pytest.mark.parametrize("name", LATENT)
def test_latent_secrets_equal_enumeration(name, weight):
    """Drawn given each other alone, people with the same values move together and apart."""
    table = behind_a_channel(name)
    truth = enumerate_posterior(table, resolve_prior(table, beta=weight))
    post = ab.fit(table, beta=weight, evidence="independent", draws=600, seed=4, progressbar=False)
    for record in np.ndindex(*(len(table.domains[a]) for a in table.attributes)):
        rows = truth.rows[(slice(None), slice(None), *record)].sum(axis=0)
        if rows.sum() < 0.2:  # who is hardly in the table is not seen by draws
            continue
        joint = truth.joint[(slice(None), *record)]
        victim = {
            a: table.domains[a].values[k] for a, k in zip(table.attributes, record, strict=True)
        }
        for belief, exact in ((post.attacker(victim), rows), (post.learner(victim), joint)):
            error = belief.attrs["mcse"].to_numpy()
            off = np.abs(belief.to_numpy() - exact / exact.sum())
            assert (off < 4 * error + 1e-3).all() and (error < 0.1).all(), (record, off, error)


@pytest.mark.filterwarnings("ignore::anonbayes.errors.ConvergenceWarning")
@pytest.mark.parametrize("evidence", ["independent", "weighted"])
def test_latent_secrets_keep_what_is_compatible_possible(evidence):
    """Most draws leave no probability for most values; nobody is told not to be in the table."""
    cells = [{"a", "b"}, {"b", "c"}, {"a", "c"}, "c", {"a", "b"}]
    frame = pd.DataFrame({"x": cells, "s": list("ppqqp")})
    channel = ab.RandomizedResponse(ab.Domain("s", ["p", "q"]), 1.5)
    table = ab.ReleasedTable.horizontal(
        frame, "s", domains={"x": list("abc")}, channels={"s": channel}
    )
    post = ab.fit(table, beta=1e-6, evidence=evidence, draws=40, chains=2, seed=1,
                  progressbar=False)  # fmt: skip
    known = pd.DataFrame({"x": list("abc")})
    for beliefs in (post.attacker(known), post.learner(known)):
        np.testing.assert_allclose(np.asarray(beliefs).sum(axis=1), 1.0)
    risk = post.assess(pd.DataFrame({"x": list("abccb"), "s": list("ppqqp")}))
    assert "nan" not in risk.text
