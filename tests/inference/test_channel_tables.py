"""Tables whose columns went through the package's channels, against enumeration."""

import numpy as np
import pandas as pd
import pytest
from enumeration import enumerate_posterior

import anonbayes as ab
from anonbayes import compat
from anonbayes.inference.dirichlet import resolve_prior

NAT = ab.Domain("nat", ["M", "J", "C"])
ILL = ab.Domain("ill", ["flu", "hiv"])


def randomized_attribute():
    channel = ab.RandomizedResponse(NAT, 1.0)
    frame = pd.DataFrame(
        {
            "nat": channel.release(["M", "M", "J", "C", "M"], seed=3),
            "age": ["20-21", "20", "*", "21", "22"],
            "ill": ["flu", "flu", "hiv", "flu", "hiv"],
        }
    )
    return ab.ReleasedTable.horizontal(
        frame, "ill", domains={"age": range(20, 23)}, channels={"nat": channel}
    )


def bits():
    """A column of bit reports: one report per row, kept as an object of its own."""
    channel = ab.RAPPOR(NAT, 2.0)
    reports = channel.release(["M", "J", "C", "M"], seed=5)
    frame = pd.DataFrame({"nat": list(reports), "ill": ["flu", "flu", "hiv", "flu"]})
    return ab.ReleasedTable.horizontal(frame, "ill", channels={"nat": channel})


def randomized_secret():
    channel = ab.UtilityOptimizedRR(ILL, 1.5, sensitive=["hiv"])
    frame = pd.DataFrame(
        {
            "nat": ["M", "{M, J}", "C", "M"],
            "ill": channel.release(["flu"] * 2 + ["hiv"] * 2, seed=1),
        }
    )
    return ab.ReleasedTable.horizontal(
        frame, "ill", domains={"nat": NAT}, channels={"ill": channel}
    )


def everything_mixed():
    """Generalized, binned, randomized, and a randomized secret in one model."""
    nat, ill = ab.RandomizedResponse(NAT, 1.0), ab.RandomizedResponse(ILL, 2.0)
    frame = pd.DataFrame(
        {
            "nat": nat.release(["M", "J", "M"], seed=2),
            "age": [pd.Interval(20, 22, closed="left"), "22", "*"],
            "ill": ill.release(["flu", "hiv", "flu"], seed=4),
        }
    )
    return ab.ReleasedTable.horizontal(
        frame, "ill", domains={"age": range(20, 23)}, channels={"nat": nat, "ill": ill}
    )


@pytest.mark.parametrize("make", [randomized_attribute, bits, randomized_secret, everything_mixed])
def test_posterior_and_beliefs_equal_enumeration(make):
    table = make()
    truth = enumerate_posterior(table, resolve_prior(table))
    post = ab.fit(table, draws=5000, tune=200, seed=12, progressbar=False)
    assert (post.method, post.step) == ("gibbs", "tree")
    for name, expected in {**truth.pi, table.sensitive: truth.pi_secret}.items():
        found = post.draws[f"pi_{name}"].mean(("chain", "draw")).to_numpy()
        error = compat.mcse({"x": post.draws[f"pi_{name}"]})["x"].to_numpy()
        assert (np.abs(found - expected) < 4.2 * error).all(), name
    victims = pd.DataFrame({"nat": list(NAT)})
    axes = tuple(range(3, truth.rows.ndim)) if truth.rows.ndim > 3 else ()
    attacker = truth.rows.sum(axis=(0, *axes)).T
    joint = truth.joint.sum(axis=tuple(a - 1 for a in axes)).T
    for belief, weights in ((post.attacker(victims), attacker), (post.learner(victims), joint)):
        expected = weights / weights.sum(axis=1, keepdims=True)
        off = np.abs(belief.to_numpy() - expected)
        assert (off < 5 * belief.attrs["mcse"].to_numpy() + 1e-9).all()


def test_reports_of_thousands_of_bits():
    """A report has a probability below 1e-400; its ratios are those of the two bits that count."""
    domain = ab.Domain("x", range(3000))
    channel = ab.UnaryEncoding.optimal(domain, epsilon=1.0)
    reports = channel.release([5, 6, 7, 8], seed=1)
    frame = pd.DataFrame({"x": pd.Series([tuple(r) for r in reports]), "s": list("abab")})
    evidence = (
        ab.ReleasedTable.horizontal(frame, "s", channels={"x": channel}).columns["x"].evidence
    )
    for label, row in zip(evidence.labels, evidence.matrix.toarray(), strict=True):
        raised = np.isin(domain.values, label)
        np.testing.assert_allclose(row[raised], row[raised][0], rtol=1e-12)
        np.testing.assert_allclose(row[~raised] * np.e, row[raised][0], rtol=1e-12)
