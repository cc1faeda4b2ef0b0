"""Every registered measure is everywhere a measure is shown."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab
from anonbayes.reporting.page import render
from anonbayes.risk.comparison import THREATS
from anonbayes.risk.measures import GROUPS, LIMITS, MEASURES, check_limits, measure_table

PAGE = Path(__file__).parents[2] / "docs" / "risk-json.md"


@pytest.fixture(scope="module")
def risk():
    post = ab.fit(ab.datasets.load("clinic_local"), draws=20, seed=1, progressbar=False)
    return post.assess(ab.datasets.load("clinic"))


@pytest.fixture(scope="module")
def page(risk):
    return render(risk.post, risk)


@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_is_shown_everywhere(risk, page, name):
    measure = MEASURES[name]
    value, error = float(risk.summary[name]), float(risk.standard_errors[name])
    assert json.loads(risk.to_json())["measures"][name] == value
    assert risk.measures.loc[name, "meaning"] == measure.sentence
    shown = page.split(f"<code>{name}</code>")
    assert len(shown) == 2 and shown[0].endswith(f"<dt>{measure.title}")
    value_cell, error_cell = shown[1].split("</dd>")[:2]
    assert value_cell.endswith(f">{measure.show(value)}")
    assert error_cell.endswith(f">{measure.show_error(error)}")
    assert measure.sentence.endswith(".") and measure.group in GROUPS


def test_summaries_hold_all_measures_in_order(risk):
    assert list(MEASURES) == risk.summary.index.tolist()


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_can_be_kept_and_exceeded(risk, name):
    value = float(risk.summary[LIMITS[name].name])
    kept, exceeded = (check_limits(risk, **{name: value * f})[0] for f in (1.01, 0.99))
    assert not kept.exceeded and exceeded.exceeded
    assert " above the limit of " in exceeded.text


@pytest.mark.parametrize("threat", THREATS)
def test_releases_can_be_compared_by_a_threat(risk, threat):
    both = ab.compare({"a": risk, "b": risk})
    assert both.efficient(threat=threat).all()


def test_the_documentation_lists_all_measures():
    assert PAGE.read_text(encoding="utf-8").endswith(measure_table()), (
        "python -m anonbayes.risk.measures docs/risk-json.md writes the table again"
    )


# -- results can be kept and passed on -----------------------------------------------------------


def results(risk) -> dict[str, object]:
    post = risk.post
    one = ab.datasets.load("clinic").iloc[[0]]
    return {
        "assessment": risk,
        "scores": risk.belief_scores,
        "faithfulness": risk.faithfulness,
        "leakage": risk.leakage,
        "gain": risk.gain,
        "re-identification": ab.reidentification_risk(post.table),
        "answer": risk.wp29()[0],
        "limit": check_limits(risk, max_cost=0.1)[0],
        "comparison": ab.compare({"a": risk}),
        "ideal": ab.ideal(ab.datasets.load("clinic"), table=post.table),
        "belief": post.attacker(one),
        "diagnostics": ab.diagnose(post),
        "posterior": post,
    }


@pytest.mark.parametrize("name", [
    "assessment", "scores", "faithfulness", "leakage", "gain", "re-identification", "answer",
    "limit", "comparison", "ideal", "belief", "diagnostics", "posterior",
])  # fmt: skip
def test_results_survive_pickle_and_copies(risk, name):
    one = results(risk)[name]
    for again in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one), copy.copy(one)):
        assert type(again) is type(one) and repr(again) == repr(one)
    if name == "assessment":
        pd.testing.assert_series_equal(again.summary, risk.summary)
        back = pickle.loads(pickle.dumps(one))
        pd.testing.assert_frame_equal(back.calibration, risk.calibration)
        np.testing.assert_array_equal(
            back.contributions(top=2).to_numpy(), risk.contributions(top=2).to_numpy()
        )
    if name == "belief":
        errors = pickle.loads(pickle.dumps(one)).attrs["mcse"]
        np.testing.assert_array_equal(errors.to_numpy(), one.attrs["mcse"].to_numpy())


def test_limits_say_of_what_a_quantile_is(risk):
    said = check_limits(risk, at_most={"Ti_q95": 2.0})[0].text
    assert said.startswith("The 95% quantile of the relative threat is ")


def test_a_cost_within_the_simulation_error_is_not_stated_as_one(risk):
    cost = float(risk.summary["RGT_A"])
    assert cost > 0 and "simulation" not in risk.headline
    errors = risk.standard_errors.copy()
    errors["RGT_A"] = cost
    noisy = dataclasses.replace(risk, standard_errors=errors)
    assert "no more than simulation alone could" in noisy.headline
    tiny = risk.summary.copy()
    tiny["GT_L"] = tiny["GT_A"] - 1e-6
    tiny["RGT_A"] = 1e-6
    assert "hardly raises" in dataclasses.replace(risk, summary=tiny).headline


def test_results_cannot_be_changed(risk):
    for name, one in results(risk).items():
        if name == "belief":
            continue
        with pytest.raises(AttributeError):
            one.something = 1
