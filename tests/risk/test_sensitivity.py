"""What another prior would change: the same numbers as fits with that prior."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import anonbayes as ab
from anonbayes.errors import AnonbayesError, ModelError
from anonbayes.inference.dirichlet import resolve_prior
from anonbayes.reporting.page import render
from anonbayes.risk.sensitivity import sensitivity_of

PEOPLE = ab.datasets.load("clinic").head(200)[["sex", "marital_status", "diagnosis"]]
TOGETHER = dict.fromkeys(("married", "partnership"), "{married, partnership}")
TABLE = ab.ReleasedTable.horizontal(
    PEOPLE.replace({"marital_status": TOGETHER}),
    "diagnosis",
    domains={"marital_status": sorted(PEOPLE["marital_status"].unique())},
)
S, K = len(TABLE.domains["diagnosis"]), len(TABLE.domains["marital_status"])
QUIET = {"seed": 1, "progressbar": False, "evidence": "independent"}


def test_every_line_is_the_assessment_under_that_prior():
    given = {"evidence": "independent", "factors": (0.5, 4.0)}
    found = ab.sensitivity(TABLE, PEOPLE, alpha=2.0, beta=0.5, **given)
    assert list(found.table.index[:3]) == [(1.0, 1.0), (0.5, 1.0), (1.0, 0.5)]
    assert len(found.table) == 7
    for (one, two), line in found.table.iterrows():
        risk = ab.fit(TABLE, alpha=2.0 * one, beta=0.5 * two, **QUIET).assess(PEOPLE)
        assert line.to_numpy() == pytest.approx(risk.summary[list(found.table)].to_numpy())


def test_words_range_and_picture():
    found = ab.sensitivity(TABLE, PEOPLE)
    table = found.range
    assert (table["low"] <= table["chosen"]).all() and (table["chosen"] <= table["high"]).all()
    assert "0.25 to 4.0 times" in found.text and "as chosen" in found.text
    axes = found.plot(measure="max_Ti")
    assert [len(line.get_xdata()) for line in axes.get_lines()] == [5, 5, 5]
    with pytest.raises(AnonbayesError, match="GT_A"):
        found.plot(measure="GTA")


def test_weighted_evidence_in_closed_form():
    people = ab.datasets.load("clinic").head(300)[["sex", "marital_status", "diagnosis"]]
    table = ab.ReleasedTable.horizontal(people, "diagnosis")
    found = ab.sensitivity(table, people, evidence="weighted", factors=(0.5,))
    assert found.evidence == "weighted" and np.isfinite(found.table.to_numpy()).all()
    base = ab.fit(table, **QUIET | {"evidence": "weighted"}).assess(people).summary
    assert found.table["GT_A"].iloc[0] == pytest.approx(base["GT_A"])
    assert not found.errors.to_numpy().any()


@pytest.mark.parametrize("scheme", ["horizontal", "vertical"])
def test_cross_fitted_evidence_is_pooled_more_or_less(scheme):
    """Hardly more changes nothing; pooled without end, every attribute tells nothing."""
    people = ab.datasets.load("clinic").head(300)[["age", "sex", "diagnosis"]]
    if scheme == "horizontal":
        table = ab.anonymize.mondrian(people, "diagnosis", k=5)
    else:
        table = ab.anonymize.anatomy(people, "diagnosis", l=3, seed=1)
    post = ab.fit(table, evidence="weighted", draws=5, seed=1, progressbar=False)
    assert post.method == "crossfit"
    risk = post.assess(people)
    found = ab.sensitivity(table, people, evidence="weighted", factors=(1 + 1e-9, 1e9)).table
    chosen = risk.summary[list(found)].to_numpy()
    assert found.loc[(1.0, 1.0)].to_numpy() == pytest.approx(chosen, rel=1e-6)
    assert found.loc[(1.0, 1 + 1e-9)].to_numpy() == pytest.approx(chosen, rel=2e-2)
    assert found.loc[(1.0, 1e9), "log_loss_A"] == pytest.approx(risk.summary["log_loss_RW"])
    quick = sensitivity_of(risk)
    assert len(quick.table) == 7 and "s.e." not in quick.text
    np.testing.assert_allclose(quick.table.iloc[0], chosen)


def test_chains_state_their_error():
    """Against long chains under the same priors, for what is no count of people."""
    people = pd.DataFrame({"nat": list("MJMCJM"), "sex": list("fmmfmf"), "ill": list("aabaab")})
    shown = people.assign(nat=["{M, J}", "{J, C}", "M", "{C, M}", "*", "{M, J}"])
    table = ab.ReleasedTable.horizontal(shown, "ill")
    given = {"evidence": "independent", "factors": (4.0,), "draws": 200, "seed": 1}
    one, two = (ab.sensitivity(table, people, **given) for _ in range(2))
    pd.testing.assert_frame_equal(one.table, two.table)
    for factors in one.table.index:
        alpha, beta = factors
        long = ab.fit(table, alpha=alpha, beta=beta, draws=4000, **QUIET).assess(people)
        for name in ("max_Ti", "log_loss_A"):
            error = np.hypot(one.errors.loc[factors, name], long.standard_errors[name])
            assert error > 0
            assert abs(one.table.loc[factors, name] - long.summary[name]) < 5 * error, name
    assert "s.e. up to" in one.text and "s.e. up to" in one._repr_html_()
    own = ab.Posterior.from_draws(table, long.post.idata).assess(people)
    assert sensitivity_of(own) is None  # whose prior we do not know


class Dirichlet(SimpleNamespace):
    """As PreliZ has it, without PreliZ."""

    params_names = ("alpha",)


class Beta(SimpleNamespace):
    params_names = ("alpha", "beta")


class Gamma(SimpleNamespace):
    params_names = ("alpha", "beta")

    def ppf(self, q):
        return stats.gamma(self.alpha, scale=1 / self.beta).ppf(q)


def test_elicited_distributions_are_priors():
    alpha, status = Dirichlet(alpha=1.0 + np.arange(S)), Dirichlet(alpha=0.5 + np.arange(K))
    prior = resolve_prior(TABLE, alpha=alpha, beta={"marital_status": status})
    assert prior.alpha.tolist() == (1.0 + np.arange(S)).tolist()
    assert prior.beta["marital_status"][3].tolist() == (0.5 + np.arange(K)).tolist()
    two = ab.ReleasedTable.horizontal(pd.DataFrame({"x": list("ab"), "s": list("uv")}), "s")
    assert resolve_prior(two, alpha=Beta(alpha=2.0, beta=7.0)).alpha.tolist() == [2.0, 7.0]
    with pytest.raises(ModelError, match=r"Gamma.*sensitivity"):
        ab.fit(TABLE, alpha=Gamma(alpha=2.0, beta=2.0), **QUIET)
    found = ab.sensitivity(TABLE, PEOPLE, factors=Gamma(alpha=2.0, beta=2.0))
    wanted = stats.gamma(2.0, scale=0.5).ppf([0.05, 0.25, 0.5, 0.75, 0.95])
    assert set(found.table.index.get_level_values("alpha")) == {1.0, *wanted}


def test_distributions_of_preliz_itself():
    pz = pytest.importorskip("preliz", reason="needs PreliZ")
    prior = resolve_prior(TABLE, alpha=pz.Dirichlet(1.0 + np.arange(S)))
    assert prior.alpha.tolist() == (1.0 + np.arange(S)).tolist()
    found = ab.sensitivity(TABLE, PEOPLE, factors=pz.Gamma(2, 2))
    assert len(found.table) == 16


def test_the_report_states_the_range():
    post = ab.fit(TABLE, **QUIET)
    risk = post.assess(PEOPLE)
    assert ab.sensitivity(TABLE, PEOPLE, evidence="independent").text in render(post, risk)


@pytest.mark.parametrize("factors", [(), (0.0, 1.0), (-1.0,), "many", [[1.0]]])
def test_senseless_factors_are_named(factors):
    with pytest.raises(AnonbayesError, match="factors="):
        ab.sensitivity(TABLE, PEOPLE, factors=factors)
