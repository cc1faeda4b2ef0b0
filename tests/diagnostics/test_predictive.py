"""Pairs of attributes that the model misses are found; those of independent tables are not."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import anonbayes as ab
from anonbayes.diagnostics.predictive import predictive_check
from anonbayes.errors import AnonbayesError, ModelError
from anonbayes.reporting.page import render

DOMAINS = {"x": list("abc"), "y": list("uvw"), "z": list("pq")}


def people(rng, n: int, *, dependent: bool = False) -> pd.DataFrame:
    """Attributes that depend on the secret alone; if `dependent`, y mostly follows x."""
    secret = rng.choice(["r", "s"], n, p=[0.6, 0.4])
    out = {"secret": secret}
    for name, values in DOMAINS.items():
        weights = {s: rng.dirichlet(np.full(len(values), 5.0)) for s in ("r", "s")}
        out[name] = [rng.choice(values, p=weights[s]) for s in secret]
    frame = pd.DataFrame(out)
    if dependent:
        follows = rng.random(n) < 0.5
        frame.loc[follows, "y"] = frame.loc[follows, "x"].map(dict(zip("abc", "uvw", strict=True)))
    return frame


def fitted(frame: pd.DataFrame, **settings):
    table = ab.ReleasedTable.horizontal(frame, "secret", domains=DOMAINS)
    return ab.fit(
        table, evidence="independent", draws=50, chains=4, seed=1, progressbar=False, **settings
    )


def test_p_values_of_independent_attributes_are_uniform():
    """150 tables, a pair each; as the p-values of one pair depend on one table only."""
    rng = np.random.default_rng(3)
    p = []
    for i in range(150):
        check = predictive_check(fitted(people(rng, 300)), draws=100, seed=i)
        p.append(check.table["p_value"][("x", "y")])
    assert stats.kstest(p, "uniform").pvalue > 0.001
    assert abs(np.mean(p) - 0.5) < 4 * np.sqrt(1 / 12 / 150)


def test_dependence_is_found_and_named():
    check = predictive_check(fitted(people(np.random.default_rng(4), 400, dependent=True)))
    assert check.table.index[0] == ("x", "y")
    p = check.table["p_value"]
    assert p.iloc[0] == 1 / 201 and (p.iloc[1:] > 0.01).all()
    assert "x and y" in check.text and "given secret" in check.text
    assert list(check.worst().index) == [("x", "y")]


def test_information_is_that_of_plain_counts():
    """Cells in clear leave nothing to complete: what is observed can be counted."""
    frame = people(np.random.default_rng(5), 200, dependent=True)
    check = predictive_check(fitted(frame), draws=5)
    for (one, other), line in check.table.iterrows():
        total = 0.0
        for _, part in frame.groupby("secret"):
            both = pd.crosstab(part[one], part[other]).to_numpy() / len(frame)
            share = both.sum()
            for k, m in itertools.product(*map(range, both.shape)):
                if both[k, m]:
                    expected = both[k].sum() * both[:, m].sum() / share
                    total += both[k, m] * np.log(both[k, m] / expected)
        assert line["observed"] == pytest.approx(total)


def test_hidden_cells_are_completed_by_the_model():
    """With everything suppressed there is nothing to find, whatever the truth."""
    frame = people(np.random.default_rng(6), 300, dependent=True)
    hidden = frame.assign(x="*")
    check = predictive_check(fitted(hidden))
    assert 0.2 < check.table["p_value"][("x", "y")] < 0.8
    coarse = frame.assign(x=frame["x"].map({"a": "a", "b": "{b, c}", "c": "{b, c}"}))
    assert predictive_check(fitted(coarse)).table["p_value"][("x", "y")] == 1 / 201


def test_counted_rows_are_as_good_as_listed_ones():
    frame = people(np.random.default_rng(7), 300, dependent=True)
    listed = fitted(frame)
    counted = ab.fit(
        listed.table.reduced(), evidence="independent", draws=50, chains=4, seed=1,
        progressbar=False,
    )  # fmt: skip
    one, two = (predictive_check(post, draws=5).table["observed"] for post in (listed, counted))
    np.testing.assert_allclose(one.sort_index(), two.sort_index())


def test_tuples_of_an_anatomy_are_compared_without_their_secrets():
    frame = people(np.random.default_rng(8), 200, dependent=True)
    frame = frame.groupby("secret").head(70).reset_index(drop=True)  # as many of each
    table = ab.anonymize.anatomy(frame, "secret", l=2, seed=1)
    post = ab.fit(
        table, evidence="independent", draws=20, tune=20, chains=2, seed=1, progressbar=False
    )
    check = predictive_check(post, draws=40)
    assert check.given == "" and check.table.index[0] == ("x", "y")


def test_adult_shows_marital_status_with_age_and_sex(shared_data):
    folder = shared_data / "anatomy"
    table = ab.read_anatomy(
        folder / "adult_5692_l4_qit.csv", folder / "adult_5692_l4_st.csv",
        sensitive="occupation", group="group",
    )  # fmt: skip
    post = ab.fit(
        table, evidence="independent", draws=20, tune=20, chains=2, seed=1, progressbar=False
    )
    found = post.check(draws=40).table
    assert list(found.index[:2]) == [("age", "marital-status"), ("sex", "marital-status")]
    assert (found["p_value"].iloc[:2] == 1 / 41).all()


def test_the_report_says_so():
    post = fitted(people(np.random.default_rng(4), 400, dependent=True))
    assert "more dependent than it predicts: x and y" in render(post)


def test_picture():
    check = predictive_check(fitted(people(np.random.default_rng(4), 200)), draws=20)
    ax = check.plot()
    labels = [tick.get_text() for tick in ax.get_xticklabels()]
    assert sorted(labels) == ["x", "y", "z"]
    shown = ax.images[0].get_array()
    i, j = labels.index("x"), labels.index("y")
    assert shown[i, j] == pytest.approx(max(check.table["excess"][("x", "y")], 0.0))


def test_what_cannot_be_checked():
    frame = people(np.random.default_rng(9), 60)
    with pytest.raises(AnonbayesError, match="draws=0"):
        predictive_check(fitted(frame), draws=0)
    one = ab.ReleasedTable.horizontal(frame[["x", "secret"]], "secret")
    with pytest.raises(ModelError, match="compares pairs of attributes, but there is only one"):
        predictive_check(ab.fit(one, seed=1, draws=5, progressbar=False))
    channel = ab.RandomizedResponse(ab.Domain("secret", ["r", "s"]), 1.0)
    noisy = frame.assign(secret=channel.release(frame["secret"], seed=1))
    table = ab.ReleasedTable.horizontal(
        noisy, "secret", domains=DOMAINS, channels={"secret": channel}
    )
    post = ab.fit(table, draws=5, tune=5, chains=1, seed=1, progressbar=False)
    with pytest.raises(ModelError, match="in clear"):
        predictive_check(post)
