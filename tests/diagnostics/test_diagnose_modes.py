"""The trap: posteriors with several modes, in each of which a chain looks well by itself."""

import warnings

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab
from anonbayes import compat
from anonbayes.errors import ConvergenceWarning

LOOKED_AT = ["pi_x", "assignment"]


def pairs(mixed, alike=0, both_ill=0):
    """Anatomy of pairs, one ill and one well: in `mixed` pairs one is an `a` and one a `b`.

    The posterior does not change when all pairs swap their illnesses, so half of its mass says that
    mostly the `a` are ill, and half that mostly the `b` are. `alike` pairs of two `a`, and as many
    of two `b`, make it less sure within each half. Pairs of two ill `a` break the tie.
    """
    kinds = (
        [("ab", "iw")] * mixed + [("aa", "iw"), ("bb", "iw")] * alike + [("aa", "ii")] * both_ill
    )
    qit = [(x, group) for group, (people, _) in enumerate(kinds) for x in people]
    st = [(group, state) for group, (_, states) in enumerate(kinds) for state in states]
    return ab.ReleasedTable.vertical(
        pd.DataFrame(qit, columns=["x", "group"]),
        pd.DataFrame(st, columns=["group", "state"]),
        group="group",
        sensitive="state",
        domains={"x": ["a", "b"], "state": ["i", "w"]},
    )


def sample(table, rows=None, **settings):
    with warnings.catch_warnings():  # `fit` may notice by itself; here `diagnose` is on trial
        warnings.simplefilter("ignore", ConvergenceWarning)
        return ab.fit(
            table, method="gibbs", chains=4, progressbar=False,
            keep_cleartext=np.arange(table.n_rows) if rows is None else rows, **settings,
        )  # fmt: skip


@pytest.fixture(scope="module")
def stuck():
    return sample(pairs(60, alike=12), step="block", draws=200, tune=300, seed=3)


def mode(post):
    """Which of the two ways round each chain has it, and whether it ever changed its mind."""
    share = post.draws["pi_x"].sel(state="i").isel(x=0)
    return np.sign(share - 0.5).mean("draw").to_numpy()


def test_the_trap_is_one(stuck):
    assert set(mode(stuck)) == {-1.0, 1.0}


def test_chains_in_different_modes_fail_by_the_tests_between_chains(stuck):
    report = ab.diagnose(stuck, var_names=LOOKED_AT)
    failed = {check.name for check in report.checks if check.status == "failed"}
    assert report.verdict == "failed"
    assert {"R-hat", "Weiß, between chains"} <= failed
    words = " ".join(report.text.split())
    assert "do not agree" in words
    assert "step='tempered'" in words
    p = report.table["weiss_between_p"].dropna().to_numpy()
    assert (p[:120] < 0.05).all()  # mixed pairs
    assert (p[120:] < 0.05).mean() < 0.25  # who of two equal people is ill: 1/2 in both modes


def test_none_of_them_alone_is_passed(stuck):
    for chain in range(4):
        groups = compat.groups(stuck.idata)
        alone = compat.make_idata(
            {name: groups[name].isel(chain=[chain]) for name in ("posterior", "sample_stats")}
        )
        report = ab.diagnose(alone, var_names=LOOKED_AT)
        assert report.verdict == "not assessed"
        assert not report.passed


def test_one_mode_passes():
    """Eight pairs settle who is ill; what is left is mixing within one mode."""
    post = sample(pairs(60, alike=12, both_ill=8), step="collapsed", draws=300, tune=400, seed=3)
    assert (mode(post) > 0).all()
    report = ab.diagnose(post, var_names=LOOKED_AT)
    assert report.passed, report.text


# -- Adult ---------------------------------------------------------------------------------------

ADULT = ["pi_marital-status", "assignment"]  # enough to see it, and quick


def adult(folder, name):
    return ab.read_anatomy(
        folder / "anatomy" / f"{name}_qit.csv",
        folder / "anatomy" / f"{name}_st.csv",
        sensitive="occupation",
        group="group",
    )


@pytest.mark.slow
def test_adult_in_groups_of_six_fails(shared_data):
    table = adult(shared_data, "adult_5692_l6")
    rows = np.arange(0, table.n_rows, 10)
    post = sample(table, rows=rows, step="block", draws=200, tune=300, seed=3)
    report = ab.diagnose(post, var_names=ADULT)
    assert report.verdict == "failed"
    assert (report.table["weiss_between_p"].dropna() < 0.05).mean() > 0.9


@pytest.mark.slow
def test_adult_in_groups_of_four_passes(shared_data):
    """l = 4 has one mode that chains find within a few hundred sweeps."""
    table = adult(shared_data, "adult_5692_l4")
    rows = np.arange(0, table.n_rows, 10)
    post = sample(table, rows=rows, step="collapsed", draws=300, tune=400, seed=3)
    report = ab.diagnose(post, var_names=ADULT)
    assert report.passed, report.text
    assert (report.table["weiss_between_p"].dropna() < 0.05).mean() < 0.25
