"""Every registered mechanism: one declaration, and what all that read it may rely on."""

import pickle
import subprocess
import sys
from functools import partial
from importlib import import_module

import numpy as np
import pytest

import anonbayes as ab
from anonbayes.channels.registry import MECHANISMS, OPTIONS, find_mechanism, make_channel
from anonbayes.errors import DomainError

DOMAIN = ab.Domain("x", list("abcd"))
P = np.array([0.4, 0.3, 0.2, 0.1])
GIVEN = {
    "sensitive": ["a", "c"],
    "budgets": [1.0, 2.0, 2.0, np.inf],
    "matrix": {x: {y: 0.7 if x == y else 0.1 for y in "abcd"} for x in "abcd"},
    "shares": dict(zip("abcd", P.tolist(), strict=True)),
    "length": 2,
}
# Sets are tested in test_sets.py.
VALUES = [name for name, m in MECHANISMS.items() if not (m.numeric or m.sets)]
NUMBERS = [name for name, mechanism in MECHANISMS.items() if mechanism.numeric]


def made(name, **options):
    mechanism = MECHANISMS[name]
    needed = {option: GIVEN[option] for option in mechanism.needs}
    return mechanism.make(DOMAIN, 1.0 if mechanism.takes_epsilon else None, **needed, **options)


def counted(channel, reports):
    return getattr(channel, "counts", getattr(channel, "report_counts", None))(reports)


def small(name):
    """A channel of the mechanism whose matrix can be written down."""
    return made(name, g=5) if "g" in MECHANISMS[name].accepts else made(name)


@pytest.mark.parametrize("bad", [list("abcd"), "abcd", dict.fromkeys("abcd", 1), None])
@pytest.mark.parametrize("name", MECHANISMS)
def test_what_is_no_domain_is_named(name, bad):
    """By the class, its factory and by name, with the way to make a domain."""
    mechanism = MECHANISMS[name]
    options = {option: GIVEN[option] for option in mechanism.needs}
    options |= {"epsilon": 1.0} if mechanism.takes_epsilon else {}
    module, _, path = mechanism.factory.partition(":")
    kind, *factory = path.split(".")
    cls = getattr(import_module(f"anonbayes.channels.{module}"), kind)
    makers = [partial(make_channel, name), *(getattr(cls, each) for each in factory)]
    for make in makers:
        with pytest.raises(DomainError, match=r"not a domain.*ab\.Domain"):
            make(bad, **options)
    with pytest.raises(DomainError, match=r"not a domain.*ab\.Domain"):
        cls(domain=bad, **options) if not factory else cls(bad, 1.0, 1.0)


@pytest.mark.parametrize("name", VALUES)
def test_apply_is_the_distribution_of_the_reports(name):
    channel = small(name)
    q = channel.matrix()
    np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(channel.apply(P), P @ q, rtol=1e-12)


@pytest.mark.parametrize("name", VALUES)
def test_common_mass_and_total_maximum_are_those_of_the_matrix(name):
    channel = small(name)
    q = channel.matrix()
    assert channel.common_mass() == pytest.approx(q.min(axis=0).sum(), rel=1e-12)
    assert channel.total_maximum() == pytest.approx(q.max(axis=0).sum(), rel=1e-12)


@pytest.mark.parametrize("name", VALUES)
def test_the_budget_is_the_one_asked_for(name):
    channel, mechanism = made(name), MECHANISMS[name]
    if not mechanism.takes_epsilon:
        assert channel.satisfies(channel.notion).holds
        return
    notion = ab.ULDP(["a", "c"], 1.0) if "sensitive" in mechanism.needs else ab.LDP(1.0)
    assert channel.satisfies(notion).holds
    less = ab.ULDP(["a", "c"], 0.99) if "sensitive" in mechanism.needs else ab.LDP(0.99)
    assert not channel.satisfies(less).holds
    assert channel.with_epsilon(2.0).epsilon == pytest.approx(2.0)
    assert type(channel.with_epsilon(2.0)) is type(channel)


@pytest.mark.parametrize("name", VALUES)
def test_reports_survive_a_file(name):
    channel = made(name)
    reports = channel.release(list("abcdabcd"), seed=3)
    texts = channel.spell(reports)
    assert len(texts) == 8 and all(isinstance(text, str) for text in texts)
    again = channel.read_texts(texts)
    np.testing.assert_array_equal(counted(channel, again), counted(channel, reports))
    with pytest.raises(ab.AnonbayesError, match="Column 'r', row 1: "):
        channel.read_texts([texts[0], "?"], where="Column 'r'")


@pytest.mark.parametrize("name", VALUES)
def test_one_report_at_a_time_is_read_like_many(name):
    channel = made(name)
    if hasattr(channel, "permanent"):  # a reporter is one device, which remembers its noise
        sent = [channel.reporter(seed=seed)("b") for seed in range(400)]
    else:
        report = channel.reporter(seed=5)
        sent = [report("b") for _ in range(400)]
    estimate = channel.estimate(sent, method="empirical")
    assert estimate.n == 400 and estimate.p.argmax() == 1


@pytest.mark.parametrize("name", VALUES)
def test_channels_and_estimates_survive_pickle(name):
    channel = small(name)
    again = pickle.loads(pickle.dumps(channel))
    np.testing.assert_array_equal(again.apply(P), channel.apply(P))
    reports = channel.release(list("abcd") * 50, seed=1)
    estimate = channel.estimate(reports, method="empirical")
    copied = pickle.loads(pickle.dumps(estimate))
    np.testing.assert_array_equal(copied.p, estimate.p)
    audit = channel.satisfies(ab.LDP(1.0))
    assert str(pickle.loads(pickle.dumps(audit))) == str(audit)


@pytest.mark.parametrize("name", NUMBERS)
def test_mechanisms_for_numbers(name):
    domain = ab.BinnedDomain("x", -1, 3, 8)
    channel = MECHANISMS[name].make(domain, 1.0)
    assert channel.satisfies(ab.LDP(1.0)).holds and not channel.satisfies(ab.LDP(0.99)).holds
    assert type(channel.with_epsilon(2.0)) is type(channel)
    assert channel.with_epsilon(2.0).epsilon == 2.0
    held = [-1, 0.3, 3, 2.9] * 100
    reports = channel.release(held, seed=3)
    again = channel.read_texts(channel.spell(reports))
    np.testing.assert_allclose(again, reports, rtol=1e-12)
    with pytest.raises(ab.AnonbayesError, match="Column 'r', row 1: "):
        channel.read_texts([channel.spell(reports)[0], "?"], where="Column 'r'")
    copy = pickle.loads(pickle.dumps(channel))
    assert copy.mean(reports) == channel.mean(reports)
    report = channel.reporter(seed=1)
    assert channel.mean([report(1.5) for _ in range(50)]).n == 50
    with pytest.raises(ab.AnonbayesError, match=r"Column 'x', row 1"):
        channel.release([0.0, 3.5])


def test_names_and_aliases_are_distinct():
    names = [*MECHANISMS, *(alias for m in MECHANISMS.values() for alias in m.aliases)]
    assert len(names) == len(set(names))
    assert find_mechanism("oue") is MECHANISMS["unary_encoding"]
    for mechanism in MECHANISMS.values():
        assert {*mechanism.needs, *mechanism.accepts} <= set(OPTIONS)


def test_options_that_do_not_fit_are_named():
    with pytest.raises(ab.AnonbayesError, match=r"'randomised_response'.*randomized_response"):
        make_channel("randomised_response", DOMAIN, 1.0)
    with pytest.raises(ab.AnonbayesError, match="sensitive"):
        make_channel("urr", DOMAIN, 1.0)
    with pytest.raises(ab.AnonbayesError, match=r"g .*rappor"):
        make_channel("rappor", DOMAIN, 1.0, g=4)
    with pytest.raises(ab.AnonbayesError, match=r"sensitive .*rappor"):
        make_channel("rappor", DOMAIN, 1.0, sensitive=["a"])


DEVICE = """
import sys
from anonbayes import Domain
from anonbayes.channels import BinnedDomain, {name}
from anonbayes.channels.registry import make_channel
heavy = {{"pandas", "scipy", "numba", "xarray", "pymc", "pytensor", "matplotlib", "arviz"}}
domain = Domain("x", ["a", "b", "c"])
for mechanism, more in (
    ("rr", {{}}), ("urr", {{"sensitive": ["a"]}}), ("oue", {{}}), ("rappor", {{}}),
    ("olh", {{}}), ("ss", {{}}), ("hr", {{}}), ("l_osue", {{}}),
):
    channel = make_channel(mechanism, domain, 1.0, **more)
    channel.reporter()("a"), channel.release(["a", "b"])
for mechanism in ("sw", "pm", "duchi"):
    channel = make_channel(mechanism, BinnedDomain("x", 0, 1, 5), 1.0)
    channel.reporter()(0.3), channel.release([0.2, 0.9])
print(sorted(heavy & {{module.split(".")[0] for module in sys.modules}}))
"""


@pytest.mark.parametrize("name", ["RandomizedResponse", "RAPPOR", "LocalHashing", "Personalized"])
def test_a_device_loads_numpy_only(name):
    done = subprocess.run(
        [sys.executable, "-c", DEVICE.format(name=name)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
