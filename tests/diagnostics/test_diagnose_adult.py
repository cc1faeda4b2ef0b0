"""The trap on real data: an Anatomy table whose posterior has several modes."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import anonbayes as ab
from anonbayes import compat
from anonbayes.errors import ConvergenceWarning

ANATOMY = Path(__file__).resolve().parents[3] / "shared" / "data" / "anatomy"
LOOKED_AT = ["pi_marital-status", "assignment"]  # enough to see it, and quick

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ANATOMY.is_dir(), reason=f"no Adult tables in {ANATOMY}"),
]


def sample(name, **settings):
    table = ab.read_anatomy(
        ANATOMY / f"{name}_qit.csv",
        ANATOMY / f"{name}_st.csv",
        sensitive="occupation",
        group="group",
        sep=";",
    )
    rows = np.arange(0, table.n_rows, 10)
    with warnings.catch_warnings():  # `fit` may notice by itself; here `diagnose` is on trial
        warnings.simplefilter("ignore", ConvergenceWarning)
        return ab.fit(
            table, method="gibbs", keep_cleartext=rows, chains=4, progressbar=False, **settings
        )


@pytest.fixture(scope="module")
def six():
    return sample("adult_5692_l6", step="block", draws=200, tune=300, seed=3)


def test_chains_in_different_modes_fail_by_the_tests_between_chains(six):
    report = ab.diagnose(six, var_names=LOOKED_AT)
    failed = {check.name for check in report.checks if check.status == "failed"}
    assert report.verdict == "failed"
    assert {"R-hat", "Weiß, between chains"} <= failed
    words = " ".join(report.text.split())
    assert "the chains do not agree with each other" in words
    assert "sample with step='tempered'" in words
    assert (report.table["weiss_between_p"].dropna() < 0.05).mean() > 0.9


def test_none_of_them_alone_is_passed(six):
    for chain in range(4):
        groups = compat.groups(six.idata)
        alone = compat.make_idata(
            {name: groups[name].isel(chain=[chain]) for name in ("posterior", "sample_stats")}
        )
        report = ab.diagnose(alone, var_names=LOOKED_AT)
        assert report.verdict == "not assessed"
        assert not report.passed


def test_the_easier_table_passes():
    """l = 4 has one mode that chains find within a few hundred sweeps."""
    post = sample("adult_5692_l4", step="collapsed", draws=300, tune=400, seed=3)
    report = ab.diagnose(post, var_names=LOOKED_AT)
    assert report.passed, report.text
    assert (report.table["weiss_between_p"].dropna() < 0.05).mean() < 0.25
