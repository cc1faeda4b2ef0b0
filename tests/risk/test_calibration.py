"""Scores of beliefs, and whether stated certainty can be believed."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import anonbayes as ab
from anonbayes.reporting.page import render
from anonbayes.risk.measures import check_limits
from anonbayes.risk.threats import ScoreSums, pair_threats, read_gain, score

SCORES = ["right", "log_loss", "brier", "ece"]


@pytest.fixture(scope="module")
def clinic():
    return ab.datasets.load("clinic")


@pytest.fixture(scope="module")
def post():
    return ab.fit(ab.datasets.load("clinic_local"), draws=5, seed=1, progressbar=False)


@pytest.fixture(scope="module")
def risk(post, clinic):
    return post.assess(clinic)


def plain_scores(belief: np.ndarray, truth: np.ndarray) -> pd.DataFrame:
    """Scores of every person, written down once more."""
    lines = []
    for q, s in zip(belief, truth, strict=True):
        winners = [k for k in range(len(q)) if q[k] >= q.max() * (1 - 1e-9)]
        one_hot = np.eye(len(q))[s]
        lines.append(
            {
                "right": (s in winners) / len(winners),
                "log_loss": -np.log(max(q[s], 1e-4)),
                "brier": ((q - one_hot) ** 2).sum(),
                "stated": q.max(),
            }
        )
    frame = pd.DataFrame(lines)
    frame["bin"] = [min(int(x * 10 + 1e-9), 9) for x in frame["stated"]]
    gap = frame.groupby("bin")[["stated", "right"]].transform("mean")
    frame["ece"] = np.sign(gap["stated"] - gap["right"]) * (frame["stated"] - frame["right"])
    return frame


def beliefs_of(post, people: pd.DataFrame) -> dict[str, np.ndarray]:
    return {
        "learner": post.learner(people).to_numpy(),
        "attacker": post.attacker(people).to_numpy(),
        "random_worlds": post.random_worlds(people).to_numpy(),
        "ideal": ab.ideal(people, table=post.table, evidence=post.evidence)
        .belief(people)
        .to_numpy(),
    }


@pytest.fixture(scope="module")
def plain(post, clinic):
    truth = pd.Index(post.table.secret.domain.values).get_indexer(clinic["diagnosis"])
    beliefs = beliefs_of(post, clinic)
    return {name: plain_scores(belief, truth) for name, belief in beliefs.items()}


def test_scores_are_those_of_plain_arithmetic(risk, plain):
    assert list(risk.scores.index) == ["learner", "attacker", "random_worlds", "ideal"]
    for name, frame in plain.items():
        line = risk.scores.loc[name]
        np.testing.assert_allclose(line[SCORES], frame[SCORES].mean())
        errors = frame[SCORES].std(ddof=1) / np.sqrt(len(frame))
        np.testing.assert_allclose(line[[f"{s}_se" for s in SCORES]], errors)
        assert line["stated"] == pytest.approx(frame["stated"].mean())
    assert risk.summary["log_loss_A"] == risk.scores.loc["attacker", "log_loss"]
    gap = risk.scores.loc["learner", "log_loss"] - risk.scores.loc["attacker", "log_loss"]
    assert risk.summary["log_loss_gain"] == pytest.approx(gap)
    assert risk.summary["ece_L"] == pytest.approx(risk.scores.loc["learner", "ece"])


def test_differences_are_paired(risk, plain):
    assert "attacker - random_worlds" in risk.score_differences.index
    for label, line in risk.score_differences.iterrows():
        one, two = label.split(" - ")
        gap = plain[one][SCORES] - plain[two][SCORES]
        np.testing.assert_allclose(line[SCORES], gap.mean(), atol=1e-12)
        errors = gap.std(ddof=1) / np.sqrt(len(gap))
        np.testing.assert_allclose(line[[f"{s}_se" for s in SCORES]], errors)


def test_bins_and_their_intervals(risk, plain):
    for name, frame in plain.items():
        lines = risk.calibration.loc[name]
        assert lines["people"].sum() == len(frame)
        for bin_, line in lines.iterrows():
            inside = frame[frame["bin"] == round(10 * bin_.left)]
            assert inside["stated"].between(bin_.left - 1e-9, bin_.right + 1e-9).all()
            assert line["people"] == len(inside)
            assert line["stated"] == pytest.approx(inside["stated"].mean())
            assert line["observed"] == pytest.approx(inside["right"].mean())
            k = round(inside["right"].sum())
            if abs(inside["right"].sum() - k) < 1e-9:  # no ties in part
                interval = stats.binomtest(k, len(inside)).proportion_ci(method="wilson")
                assert (line["low"], line["high"]) == pytest.approx((interval.low, interval.high))


def test_counted_people_score_like_listed_ones(post, clinic, risk):
    counted = clinic.value_counts().rename("weight").reset_index()
    again = post.assess(counted, weights="weight")
    assert len(again.rows) < len(clinic)
    for frame in ("scores", "score_differences", "calibration"):
        np.testing.assert_allclose(getattr(again, frame), getattr(risk, frame), atol=1e-12)


def test_harm_is_scored_by_its_question(post, clinic):
    harm = ["HIV", "depression", "hepatitis"]
    risk = post.assess(clinic, harm=harm)
    truth = (~clinic["diagnosis"].isin(harm)).to_numpy().astype(int)
    belief = post.attacker(clinic)
    inside = belief[harm].sum(axis=1).to_numpy()
    frame = plain_scores(np.stack([inside, 1 - inside], axis=1), truth)
    np.testing.assert_allclose(risk.scores.loc["attacker", SCORES], frame[SCORES].mean())


def test_gain_leaves_the_scores_alone(post, clinic, risk):
    n = len(post.table.secret.domain)
    again = post.assess(clinic, gain=np.diag(np.arange(1.0, n + 1)))
    pd.testing.assert_frame_equal(again.scores, risk.scores)
    assert again.summary["GT_A"] != risk.summary["GT_A"]


def simulated(rng, n: int, beliefs: np.ndarray, stated: np.ndarray):
    """Threats of n people whose secrets follow `beliefs`, while `stated` is what is believed."""
    size = beliefs.shape[1]
    truth = (rng.random(n)[:, None] > beliefs.cumsum(axis=1)).sum(axis=1).clip(max=size - 1)
    guess = read_gain(ab.Domain("s", [str(i) for i in range(size)]))
    who, one = np.arange(n), np.ones(n, dtype=np.int64)
    flat = np.full((n, size), 1 / size)
    belief = pair_threats(stated, who, truth, guess)
    worlds = pair_threats(flat, who, truth, guess)
    return {"L": belief, "A": belief, "RW": worlds, "I": worlds}, one


def test_calibrated_beliefs_err_by_chance_only():
    """Over 300 tables the error of a calibrated belief has the stated mean and spread."""
    rng = np.random.default_rng(7)
    z, surprise = [], []
    for _ in range(300):
        q = rng.dirichlet([1.0, 0.7, 0.5, 0.4], size=600)
        scores = score(ScoreSums.of(*simulated(rng, 600, q, q)))
        line = scores.table.loc["attacker"]
        z.append((line["ece"] - line["ece_chance"]) / line["ece_chance_sd"])
        expected = -(q * np.log(np.maximum(q, 1e-4))).sum(axis=1).mean()
        surprise.append((line["log_loss"] - expected) / line["log_loss_se"])
    assert abs(np.mean(z)) < 4 / np.sqrt(300)
    assert abs(np.std(z) - 1) < 4 / np.sqrt(600)
    # The error of the mean over people is larger than that given their beliefs, and no smaller.
    assert abs(np.mean(surprise)) < 4 / np.sqrt(300)
    assert 0.7 < np.std(surprise) < 1 + 4 / np.sqrt(600)


def test_beliefs_that_are_too_sure_are_found():
    rng = np.random.default_rng(8)
    q = rng.dirichlet(np.ones(4), size=2000)
    sure = q**3 / (q**3).sum(axis=1, keepdims=True)
    scores = score(ScoreSums.of(*simulated(rng, 2000, q, sure)))
    assert set(scores.cautions) == {"A", "L"}
    assert scores.cautions["A"].excess > 0.1 and "overconfident" in scores.cautions["A"].text
    honest = score(ScoreSums.of(*simulated(rng, 2000, q, q)))
    assert not honest.cautions and not honest.below_random_worlds and honest.below_text == ""


@pytest.fixture(scope="module")
def misled():
    """Somebody whose prior says the opposite of the truth, so that beliefs are worse than none."""
    x = ["a", "b"] * 100
    people = pd.DataFrame({"x": x, "s": ["u" if v == "a" else "v" for v in x]})
    table = ab.ReleasedTable.horizontal(people.assign(x="*"), "s", domains={"x": ["a", "b"]})
    wrong = np.array([[1.0, 400.0], [400.0, 1.0]])
    post = ab.fit(table, beta={"x": wrong}, draws=50, seed=1, progressbar=False)
    return post, post.assess(people)


def test_an_attacker_below_random_worlds_is_called_so(misled):
    post, risk = misled
    assert risk.scores.loc["attacker", "log_loss"] > risk.scores.loc["random_worlds", "log_loss"]
    assert risk.belief_scores.below_random_worlds
    assert risk.text.startswith("The attacker's beliefs score worse")
    assert "therefore unreliable" in risk.measures.loc["max_Ti", "caution"]
    assert risk.measures.loc["GT_A", "caution"] == ""
    page = render(post, risk)
    first = page.split('<div class="points">')[0]
    assert "score worse" in first and "unreliable" in first
    for section in ("measures", "rows", "pictures"):
        part = page.split(f'<section id="{section}">')[1].split("</section>")[0]
        assert "Do not rely on the relative threats" in part
    inference = risk.wp29()[2]
    assert "as sure of it" not in inference.finding
    assert "largest relative threat (max_Ti), unreliable" in inference.figures
    assert json.loads(risk.to_json())["below_random_worlds"] is True


def test_json_and_page_show_the_scores(risk, post):
    written = json.loads(risk.to_json())
    by_name = {line["belief"]: line for line in written["scores"]}
    assert by_name["attacker"]["log_loss"] == risk.scores.loc["attacker", "log_loss"]
    assert {line["belief"] for line in written["calibration"]} == set(risk.scores.index)
    worst = written["calibration"][0]
    assert set(worst) == {"belief", "from", "to", "stated", "observed", "people", "low", "high"}
    page = render(post, risk)
    assert 'id="calibration"' in page and risk.belief_scores.worst_bin("L") in page


def test_limit_on_what_being_in_the_table_teaches(risk):
    gain = float(risk.summary["log_loss_gain"])
    over, under = (check_limits(risk, max_log_loss_gain=gain + d)[0] for d in (-0.01, 0.01))
    assert over.exceeded and not under.exceeded
    with pytest.raises(ab.errors.AnonbayesError, match="'max_los_gain' is not a limit"):
        check_limits(risk, max_los_gain=1.0)
    with pytest.raises(ab.errors.AnonbayesError, match="max_log_loss_gain=-1"):
        check_limits(risk, max_log_loss_gain=-1)


def test_simulation_adds_to_the_errors(clinic):
    table = ab.datasets.load("clinic_local")
    post = ab.fit(table, method="gibbs", draws=40, chains=2, seed=2, progressbar=False)
    risk = post.assess(clinic.iloc[:400])
    assert risk.standard_errors["log_loss_A"] > 0 and risk.standard_errors["log_loss_RW"] == 0
    truth = pd.Index(table.secret.domain.values).get_indexer(clinic["diagnosis"].iloc[:400])
    frame = plain_scores(post.attacker(clinic.iloc[:400]).to_numpy(), truth)
    people = frame["log_loss"].std(ddof=1) / np.sqrt(400)
    both = np.hypot(people, risk.standard_errors["log_loss_A"])
    assert risk.scores.loc["attacker", "log_loss_se"] == pytest.approx(both)


def test_reliability_picture(risk):
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    assert risk.plot_reliability(["attacker", "learner", "ideal"], ax=ax) is ax
    assert [text.get_text().split(":")[0] for text in ax.get_legend().get_texts()] == [
        "attacker",
        "learner",
        "ideal",
    ]
    marks = ax.collections[1].get_offsets()
    np.testing.assert_allclose(marks[:, 1], risk.calibration.loc["attacker", "observed"])
    with pytest.raises(ab.errors.AnonbayesError, match="beliefs='nobody'"):
        risk.plot_reliability(["nobody"], ax=ax)
