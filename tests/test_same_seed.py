"""The same seed gives the same numbers, whatever the Python, PyMC, ArviZ and NumPy beneath.

`golden/same_seed.json` was written by ``python -m tests.test_same_seed`` on Python 3.11 with PyMC 5
and ArviZ 0.23; CI compares it on every Python. That threads, processes and clusters change nothing
either is tested where they are used. NUTS is PyMC's own and may change with it: it is not here.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import anonbayes as ab
from anonbayes import compat

FILE = Path(__file__).parent / "golden" / "same_seed.json"
VICTIMS = {"island": {"trait": 1}}


def fitted(name, **how):
    """Ends of the chains, and the beliefs about one person."""
    table = ab.datasets.load(name)
    post = ab.fit(table, draws=40, tune=20, chains=2, seed=7, progressbar=False, **how)
    draws = compat.posterior_dataset(post.idata)[f"pi_{table.sensitive}"].to_numpy()
    victim = VICTIMS.get(name, {"Nat": "J", "ZIP": "45502"})
    return [*draws[:, -1].ravel(), *post.attacker(victim), *post.learner(victim)]


def sent(channel):
    """Reports, as numbers, and what is estimated from them."""
    reports = channel.release(list("abcab" * 20), seed=3)
    return [*channel.estimate(reports, method="em").p]


LETTERS = ab.Domain("letter", list("abc"))
CASES = {
    "exact": lambda: fitted("island", method="exact"),
    "gibbs": lambda: fitted("table1_recoded", method="gibbs"),
    "weighted": lambda: fitted("table1_recoded", evidence="weighted"),
    "block": lambda: fitted("table1_anatomy", step="block", evidence="independent"),
    "collapsed": lambda: fitted("table1_anatomy", step="collapsed", evidence="independent"),
    "swap": lambda: fitted("table1_anatomy", step="swap", evidence="independent"),
    "anatomy": lambda: ab.anonymize.anatomy(
        ab.datasets.load("table1"), "Dis", l=2, seed=5, return_truth=True
    )[1].to_numpy().ravel(),
    "randomized response": lambda: sent(ab.RandomizedResponse(LETTERS, 1.0)),
    "unary encoding": lambda: sent(ab.UnaryEncoding.optimal(LETTERS, 1.0)),
    "hashing": lambda: sent(ab.LocalHashing(LETTERS, epsilon=1.0, g=2)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_same_seed_gives_the_same_numbers(name):
    numbers = np.asarray(CASES[name](), dtype=float)
    np.testing.assert_allclose(numbers, json.loads(FILE.read_text())[name], rtol=1e-9, atol=1e-12)


if __name__ == "__main__":
    found = {name: np.asarray(make(), dtype=float).tolist() for name, make in CASES.items()}
    FILE.write_text(json.dumps(found, indent=0) + "\n")
