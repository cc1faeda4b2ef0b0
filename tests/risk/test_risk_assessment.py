"""What a `RiskAssessment` says: thresholds, breakdowns, contributions, gains, bad input, errors."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import anonbayes as ab
from anonbayes.errors import AnonbayesError, DomainError, TableError
from anonbayes.risk import assess as risk_assess
from anonbayes.risk import faithfulness


@pytest.fixture(scope="module")
def clinic():
    return ab.datasets.load("clinic").set_axis([f"r{i}" for i in range(3000)], axis=0)


@pytest.fixture(scope="module")
def post():
    return ab.fit(ab.datasets.load("clinic_local"), draws=5, seed=1, progressbar=False)


@pytest.fixture(scope="module")
def risk(post, clinic):
    return post.assess(clinic)


@pytest.fixture(scope="module")
def sampled(clinic):
    """The same posterior from a Gibbs sampler."""
    table = ab.datasets.load("clinic_local")
    return ab.fit(table, method="gibbs", draws=200, chains=4, seed=2, progressbar=False)


# -- rows ---------------------------------------------------------------------------------------


def test_rows_carry_the_beliefs_of_their_owners(risk, post, clinic):
    assert risk.rows.index.equals(clinic.index)
    some = clinic.iloc[::97]
    for key, belief in (
        ("A", post.attacker(some)),
        ("L", post.learner(some)),
        ("RW", post.random_worlds(some)),
        ("I", ab.ideal(clinic, table=post.table, evidence=post.evidence).belief(some)),
    ):
        values = belief.to_numpy()
        own = values[np.arange(len(some)), belief.columns.get_indexer(some["diagnosis"])]
        rows = risk.rows.loc[some.index]
        np.testing.assert_allclose(rows[f"p_{key}"], own)
        best = np.isclose(values, values.max(axis=1, keepdims=True), rtol=1e-9, atol=0)
        expected = np.where(own >= values.max(axis=1) * (1 - 1e-9), 1 / best.sum(axis=1), 0)
        np.testing.assert_allclose(rows[f"threatened_{key}"], expected)


def test_the_order_of_the_rows_does_not_matter(risk, post, clinic):
    mixed = clinic.sample(frac=1.0, random_state=1)
    again = post.assess(mixed)
    pd.testing.assert_frame_equal(again.rows.loc[clinic.index], risk.rows)
    np.testing.assert_allclose(again.summary.drop(["RF", "ETV"]), risk.summary.drop(["RF", "ETV"]))


def test_summary_follows_from_the_rows(risk):
    rows, s = risk.rows, risk.summary
    for key in ("A", "L", "RW"):
        assert s[f"GT_{key}"] == pytest.approx(rows[f"threatened_{key}"].mean())
        assert s[f"ABS_{key}"] == pytest.approx((2 * (1 - rows[f"p_{key}"])).sum())
    # Twelve lots per row, of which a row tied with one or two others holds six or four.
    lots = np.rint(12 * rows["threatened_A"]).astype(int)
    ratio = np.repeat(rows["Ti"].to_numpy(), lots)
    assert set(lots) >= {0, 6, 12}
    assert s["max_Ti"] == ratio.max()
    assert s["threatened"] == pytest.approx(len(ratio) / 12)
    assert s["Ti_q90"] == np.quantile(ratio, 0.9, method="inverted_cdf")
    assert s["doubled"] == pytest.approx((ratio >= 2).sum() / 12 / 3000)
    assert s["skewness"] == pytest.approx(stats.skew(np.log2(ratio)))
    assert s["RGT_A"] == pytest.approx(s["GT_A"] - s["GT_L"])
    assert set(risk.measures.index) == set(s.index)
    assert risk.measures["meaning"].str.len().min() > 20


def test_thresholds_and_rows_above(risk):
    found = risk.thresholds((0.5, 0.95))
    cut = found.loc[0.95, "threshold"]
    above = risk.threatened[risk.threatened["Ti"] > cut]
    assert above["threatened_A"].sum() == found.loc[0.95, "above"]
    # At most 5 % of the threatened lie above, and with those at the cut more.
    total, reached = risk.summary["threatened"], risk.threatened.query("Ti >= @cut")
    assert found.loc[0.95, "above"] <= 0.05 * total < reached["threatened_A"].sum()
    assert above["Ti"].is_monotonic_decreasing
    with pytest.raises(AnonbayesError, match="between 0 and 1"):
        risk.thresholds((1.5,))


@pytest.mark.parametrize("by", [None, "sex", "profession"])
def test_breakdown_adds_up(risk, clinic, by):
    found = risk.breakdown(by)
    key = clinic["diagnosis" if by is None else by]
    assert found["rows"].to_dict() == key.value_counts().to_dict()
    for measure in ("GT_A", "GT_L", "GT_RW"):
        assert np.average(found[measure], weights=found["rows"]) == pytest.approx(
            risk.summary[measure]
        )
    assert found["max_Ti"].max() == risk.summary["max_Ti"]
    one = found.index[0]
    assert found.loc[one, "p_A"] == pytest.approx(risk.rows.loc[key == one, "p_A"].mean())


def test_breakdown_by_bins_and_labels(risk, clinic):
    found = risk.breakdown(pd.cut(clinic["age"], [0, 40, 120]))
    assert found["rows"].tolist() == [(clinic["age"] <= 40).sum(), (clinic["age"] > 40).sum()]
    assert risk.breakdown(clinic["age"] > 40)["rows"].tolist() == found["rows"].tolist()
    with pytest.raises(TableError, match=r"no column 'aeg'.*'age'"):
        risk.breakdown("aeg")
    with pytest.raises(TableError, match="2 labels for 3000 rows"):
        risk.breakdown(["a", "b"])


def test_contributions_are_beliefs_without_an_attribute(risk, post, clinic):
    found = risk.contributions(top=4)
    assert found.index.get_level_values("row").unique().tolist() == list(risk.threatened.index[:4])
    for label, name in found.index:
        victim = {k: v for k, v in clinic.loc[label].items() if k not in (name, "diagnosis")}
        own = clinic.loc[label, "diagnosis"]
        p_a, p_l = post.attacker(victim)[own], post.learner(victim)[own]
        line = found.loc[(label, name)]
        assert line["p_A_without"] == pytest.approx(p_a)
        assert line["Ti_without"] == pytest.approx(p_a / p_l)
        assert line["adds_p_A"] == pytest.approx(risk.rows.loc[label, "p_A"] - p_a)
        assert 2 ** line["adds_log2_Ti"] == pytest.approx(risk.rows.loc[label, "Ti"] / (p_a / p_l))
    with pytest.raises(TableError, match="no row 'nobody'"):
        risk.contributions(["nobody"])


@pytest.mark.parametrize(
    "labels",
    [[7] * 8, pd.MultiIndex.from_product([["a", "b"], [1, 2], [1, 1]]), list("aabbccdd")],
    ids=["one", "several levels", "pairs"],
)
def test_contributions_of_rows_whose_labels_repeat(labels):
    """Each row once, whatever it is called."""
    plain = ab.datasets.load("table1")
    post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    expected = post.assess(plain).contributions()
    named = plain.set_axis(labels)
    risk = post.assess(named)
    found = risk.contributions()
    assert np.array_equal(found.to_numpy(), expected.to_numpy())
    assert len(risk.contributions("all")) == 8 * 2
    first = named.index[0]
    assert len(risk.contributions([first])) == 2 * sum(label == first for label in named.index)


# -- other threats ------------------------------------------------------------------------------


def test_harm_is_the_probability_of_any(post, clinic):
    harm = ["HIV", "depression", "hepatitis"]
    risk = post.assess(clinic, harm=harm)
    at_stake = clinic["diagnosis"].isin(harm)
    assert risk.rows["p_A"].notna().equals(at_stake)
    some = clinic[at_stake].iloc[:40]
    for key, belief in (("A", post.attacker(some)), ("L", post.learner(some))):
        total = belief[harm].sum(axis=1).to_numpy()
        np.testing.assert_allclose(risk.rows.loc[some.index, f"p_{key}"], total)
        hit = risk.rows.loc[some.index, f"threatened_{key}"]
        np.testing.assert_array_equal(hit, (total > 0.5).astype(float))
    assert risk.summary["GT_A"] == pytest.approx(risk.rows["threatened_A"].sum() / 3000)
    assert not risk.rows.loc[~at_stake, "threatened_A"].any()


def test_gain_matrices(post, clinic, risk):
    secrets = list(post.table.secret.domain)
    names = pd.DataFrame(np.eye(len(secrets)), index=secrets, columns=secrets)
    same = post.assess(clinic, gain=names.iloc[:, ::-1])
    columns = [c for c in risk.rows if c.startswith(("p_", "threat", "Ti"))]
    np.testing.assert_allclose(same.rows[columns], risk.rows[columns])
    harm = secrets[:2]
    ask = pd.DataFrame([[s in harm for s in secrets], [s not in harm for s in secrets]]) * 3.0
    tripled = post.assess(clinic, gain=ask.to_numpy())
    plain = post.assess(clinic, harm=harm)
    inside = plain.rows["p_A"].notna()
    np.testing.assert_allclose(tripled.rows.loc[inside, "p_A"], 3 * plain.rows.loc[inside, "p_A"])
    np.testing.assert_allclose(tripled.rows.loc[inside, "Ti"], plain.rows.loc[inside, "Ti"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"harm": {"plague"}}, "plague"),
        ({"harm": "asthma"}, "set of values"),
        ({"harm": []}, "it contains 0"),
        ({"harm": {"a"}, "gain": [[1]]}, "not both"),
        ({"gain": [[1.0, 2.0]]}, "but has shape"),
        ({"samples": 1}, "samples=1"),
        ({"samples": "many"}, "samples='many'"),
        ({"harm": 5}, "harm=5 must be a set"),
        ({"kind": "wild"}, "kind='wild'"),
    ],
)
def test_settings_that_make_no_sense(post, clinic, settings, message):
    with pytest.raises(AnonbayesError, match=message):
        post.assess(clinic, **settings)


# -- cleartext that does not fit ------------------------------------------------------------------


def test_missing_column(post, clinic):
    with pytest.raises(TableError, match="no column 'sex'"):
        post.assess(clinic.drop(columns="sex"))


def test_value_outside_its_domain(post, clinic):
    clinic = clinic.copy()
    clinic.loc["r17", "sex"] = "femle"
    with pytest.raises(DomainError, match=r"'sex'.*row 'r17'.*not in the released"):
        post.assess(clinic)


def test_row_that_fits_no_released_row():
    frame = pd.DataFrame({"x": ["a", "a", "{b, c}", "{b, c}"], "s": ["u", "v", "u", "v"]})
    table = ab.ReleasedTable.horizontal(frame, "s", domains={"x": list("abcd")})
    post = ab.fit(table, draws=5, seed=1, progressbar=False)
    people = pd.DataFrame({"x": list("aabd"), "s": list("uvuv")}, index=list("klmn"))
    with pytest.raises(TableError, match=r"Row 'n' .*matches no row of the release"):
        post.assess(people)
    with pytest.raises(TableError, match="'u' in 3 rows of the cleartext but in 2"):
        post.assess(people.assign(s=list("uvuu")))


def test_row_whose_secret_fits_no_released_row():
    frame = pd.DataFrame({"x": ["a", "a", "b", "b"], "s": ["u", "v", "u", "w"]})
    post = ab.fit(ab.ReleasedTable.horizontal(frame, "s"), draws=5, seed=1, progressbar=False)
    people = pd.DataFrame({"x": list("abab"), "s": list("uvuw")})
    with pytest.raises(TableError, match=r"Row 1 .*with its sensitive value"):
        post.assess(people)


def test_fewer_rows_are_allowed_and_remarked(post, clinic, risk):
    part = post.assess(clinic.iloc[:100])
    assert "100 rows, the release 3,000" in part.remarks[0]
    pd.testing.assert_series_equal(part.rows["p_A"], risk.rows["p_A"].iloc[:100])
    assert risk.remarks == ()


def test_joined_secrets():
    frame = pd.DataFrame({"x": ["{a, b}", "{a, b}"], "s": ["u", "v"], "t": [1, 2]})
    table = ab.ReleasedTable.horizontal(frame, ["s", "t"], domains={"x": ["a", "b"]})
    people = pd.DataFrame({"x": ["a", "b"], "s": ["u", "v"], "t": [1, 2]})
    risk = ab.fit(table, draws=5, seed=1, progressbar=False).assess(people)
    assert risk.rows["secret"].tolist() == [("u", 1), ("v", 2)]
    assert risk.rows["p_A"].tolist() == [0.5, 0.5]


# -- errors ---------------------------------------------------------------------------------------


def test_sampled_and_exact_engines_agree_within_error(sampled, clinic, risk):
    again = sampled.assess(clinic)
    for name in ("GT_A", "GT_L", "ABS_A", "ABS_L", "Ti_q50", "Ti_q90", "doubled"):
        gap = again.summary[name] - risk.summary[name]
        assert abs(gap) < 5 * again.standard_errors[name], name
        assert again.standard_errors[name] > 0
    z = (again.rows["p_A"] - risk.rows["p_A"]) / again.rows["se_p_A"].where(lambda e: e > 1e-12)
    assert 0.6 < np.sqrt((z**2).mean()) < 1.6
    z = np.log(again.rows["Ti"] / risk.rows["Ti"]) * again.rows["Ti"] / again.rows["se_Ti"]
    assert 0.6 < np.sqrt((z**2).mean()) < 1.6
    assert again.summary["GT_RW"] == risk.summary["GT_RW"]
    assert again.standard_errors["GT_RW"] == 0


def test_blocks_of_records_give_the_same(sampled, clinic, monkeypatch):
    few = clinic.iloc[:300]
    whole = sampled.assess(few)
    monkeypatch.setattr(risk_assess, "MOST_BYTES", 5e5)
    parts = sampled.assess(few)
    pd.testing.assert_frame_equal(parts.rows, whole.rows)
    pd.testing.assert_series_equal(parts.summary, whole.summary)
    pd.testing.assert_series_equal(parts.standard_errors, whole.standard_errors)


@pytest.mark.parametrize("name", ["clinic_local", "clinic_anatomy"])
def test_one_batch_has_no_error(clinic, name):
    table = ab.datasets.load(name)
    post = ab.fit(table, method="gibbs", draws=1, tune=5, chains=1, seed=2, progressbar=False)
    risk = post.assess(clinic.iloc[:50])
    assert np.isnan(risk.standard_errors["GT_A"])
    assert risk.rows["se_Ti"].isna().all()
    assert risk.standard_errors["ideal"] == 0


def test_faithfulness_by_draws_agrees_with_the_sum(monkeypatch):
    people = ab.datasets.load("clinic").drop(columns=["zip", "age"])
    hidden = people.assign(
        marital_status="*",
        profession=[p if i % 2 else "*" for i, p in enumerate(people["profession"])],
    )
    domains = {c: sorted(set(people[c])) for c in people}
    table = ab.ReleasedTable.horizontal(hidden, "diagnosis", domains=domains)
    post = ab.fit(table, draws=5, seed=1, progressbar=False)
    exact = post.assess(people).faithfulness
    assert exact.samples == 0 and exact.tv_error == 0 and exact.tv == pytest.approx(exact.etv)
    monkeypatch.setattr(faithfulness, "MOST_CELLS", 0)
    drawn = post.assess(people, samples=40_000, seed=5).faithfulness
    assert drawn.samples == 40_000
    assert abs(drawn.tv - exact.tv) < 4 * drawn.tv_error < 0.02
    assert abs(drawn.etv - exact.tv) < 4 * drawn.etv_error < 0.05
    assert post.assess(people, seed=5).faithfulness == post.assess(people, seed=5).faithfulness


# -- keeping it -----------------------------------------------------------------------------------


def test_json_has_the_numbers_and_no_values(risk, clinic, tmp_path):
    path = tmp_path / "risk.json"
    text = risk.to_json(path, rows=True)
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found == json.loads(text)
    assert found["measures"]["GT_A"] == risk.summary["GT_A"]
    assert len(found["rows"]) == 3000 and found["rows"][0]["row"] == "r0"
    assert found["rows"][0]["Ti"] == risk.rows["Ti"].iloc[0]
    for value in clinic["diagnosis"].unique():
        assert value not in text
    assert "rows" not in json.loads(risk.to_json())


def test_words(risk):
    assert f"{risk.summary['GT_A']:.1%}" in risk.text
    assert "RiskAssessment(3,000 rows" in repr(risk)
    assert "<table" in risk._repr_html_()


def test_secrets_behind_a_channel():
    """With hardly any noise the assessment is that of secrets in clear; with noise it is not."""
    rng = np.random.default_rng(3)
    n = 120
    x = rng.choice(list("abcd"), n)
    # Secrets that mostly follow from x, so that noise has something to hide.
    usual = pd.Series(x).map({"a": "u", "b": "u", "c": "v", "d": "w"})
    people = pd.DataFrame({"x": x, "s": usual.where(rng.random(n) < 0.9, "u")})
    clear = people.replace({"x": {"a": "{a, b}", "b": "{a, b}"}})
    domains = {"x": list("abcd"), "s": ["u", "v", "w"]}
    found = {}
    for epsilon in (16.0, 1.0):
        channel = ab.RandomizedResponse(ab.Domain("s", domains["s"]), epsilon)
        noisy = clear.assign(s=channel.release(people["s"], seed=1))
        table = ab.ReleasedTable.horizontal(
            noisy, "s", domains={"x": domains["x"]}, channels={"s": channel}
        )
        assert not table.secrets_known
        post = ab.fit(table, draws=400, tune=100, chains=2, seed=1, progressbar=False)
        found[epsilon] = post.assess(people)
        assert found[epsilon].leakage is None and found[epsilon].homogeneous_groups.empty
    table = ab.ReleasedTable.horizontal(clear, "s", domains=domains)
    exact = ab.fit(table, draws=5, seed=1, progressbar=False).assess(people)
    close = found[16.0]
    np.testing.assert_allclose(close.rows["p_A"], exact.rows["p_A"], atol=0.02)
    assert abs(close.summary["RF"] - exact.summary["RF"]) < 5 * close.standard_errors["RF"] + 0.01
    assert found[1.0].summary["ABS_A"] > exact.summary["ABS_A"]
    assert found[1.0].summary["RF"] < exact.summary["RF"]
