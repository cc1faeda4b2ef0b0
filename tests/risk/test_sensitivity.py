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


def test_weighted_evidence_and_cells_that_cross():
    people = ab.datasets.load("clinic").head(300)[["sex", "marital_status", "diagnosis"]]
    table = ab.ReleasedTable.horizontal(people, "diagnosis")
    found = ab.sensitivity(table, people, evidence="weighted", factors=(0.5,))
    assert found.evidence == "weighted" and np.isfinite(found.table.to_numpy()).all()
    base = ab.fit(table, **QUIET | {"evidence": "weighted"}).assess(people).summary
    assert found.table["GT_A"].iloc[0] == pytest.approx(base["GT_A"])
    crossing = people.assign(
        marital_status=np.where(
            people["marital_status"] == "married", "{married, single}", people["marital_status"]
        )
    )
    crossing.loc[::5, "marital_status"] = "{married, widowed}"
    truth = people.assign(marital_status="married")
    table = ab.ReleasedTable.horizontal(
        crossing[crossing["marital_status"].str.contains("married")], "diagnosis",
        domains={"marital_status": people["marital_status"].unique()},
    )  # fmt: skip
    shown = truth.loc[crossing["marital_status"].str.contains("married")]
    again = [
        ab.sensitivity(table, shown, evidence="independent", factors=(2.0,), draws=30, seed=s)
        for s in (1, 1)
    ]
    pd.testing.assert_frame_equal(again[0].table, again[1].table)


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
