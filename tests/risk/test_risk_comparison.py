"""Releases side by side, re-identification risks, the questions of WP29, and the pictures."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab
from anonbayes.errors import AnonbayesError, TableError
from anonbayes.risk.measures import check_preset
from anonbayes.risk.syntactic import privacy_models
from anonbayes.risk.threat_plots import plot_relative_threat

CLEAR = ab.datasets.load("clinic")


@pytest.fixture(scope="module")
def risks():
    return {
        name: ab.fit(
            ab.datasets.load(name),
            evidence="independent",
            draws=20,
            tune=20,
            seed=1,
            progressbar=False,
        ).assess(CLEAR)
        for name in ("clinic_global", "clinic_local", "clinic_anatomy")
    }


# -- privacy models -----------------------------------------------------------------------------


def test_privacy_models_against_counting_with_pandas():
    table = ab.datasets.load("clinic_local")
    frame = table.to_frame()
    secret = frame[table.sensitive]
    keys = [frame[name].astype(str) for name in table.attributes]
    shown = frame[~(frame[list(table.attributes)] == "*").all(axis=1)]
    whole = secret.value_counts(normalize=True)
    entropy, ratio, distance = [], [], []
    for _, of_group in shown.groupby([key[shown.index] for key in keys])[table.sensitive]:
        n = of_group.value_counts()
        p = n / n.sum()
        entropy.append(np.exp(-(p * np.log(p)).sum()))
        ratio.append(n.iloc[0] / n.iloc[1:].sum())
        distance.append(p.reindex(whole.index, fill_value=0).sub(whole).abs().sum() / 2)
    found = privacy_models(table, population=pd.concat([CLEAR, CLEAR]))
    assert found["entropy_l"] == pytest.approx(min(entropy))
    assert found["recursive_c"] == pytest.approx(max(ratio))
    assert found["t"] == pytest.approx(max(distance))
    # Everybody appears twice in the population, so that at most half of those who fit are in it.
    assert 0 < found["delta_low"] <= found["delta_high"] <= 0.5


# -- compare ------------------------------------------------------------------------------------


def test_compare_is_the_summaries_side_by_side(risks):
    found = ab.compare(risks)
    for name, risk in risks.items():
        pd.testing.assert_series_equal(
            found.table.loc[name, risk.summary.index].astype(float),
            risk.summary,
            check_names=False,
        )
    assert found.table["scheme"].tolist() == ["horizontal", "horizontal", "vertical"]
    assert found.table.loc["clinic_global", "suppressed"] == 122
    assert found.standard_errors.loc["clinic_anatomy", "GT_A"] > 0
    labels = ab.compare(risks.values()).table.index.tolist()
    assert labels == ["horizontal k=4 l=3 #1", "horizontal k=4 l=3 #2", "vertical k=3 l=3"]


def test_efficient_releases_are_not_clearly_beaten(risks):
    found = ab.compare(risks)
    lost = found.table["two_way_error"].to_numpy(float)
    for threat in ("RGT_A", "max_Ti"):
        harm, noise = found.table[threat].to_numpy(float), found.noise(threat).to_numpy()
        for i, kept in enumerate(found.efficient(threat=threat)):
            beaten = False
            for j in range(len(harm)):
                worse = harm[j] - harm[i] > 2 * noise[j, i] or lost[j] - lost[i] > 0.005
                better = harm[i] - harm[j] > 2 * noise[j, i] or lost[i] - lost[j] > 0.005
                beaten |= better and not worse
            assert kept == (not beaten)


def test_ties_are_ties_and_limits_decide(risks):
    twice = ab.compare({**risks, "again": risks["clinic_local"]})
    both = {"clinic_local", "again"}
    assert twice.noise().loc["again", "clinic_local"] == pytest.approx(
        np.sqrt(2) * twice.standard_errors.loc["again", "RGT_A"]
    )
    assert twice.efficient()[twice.recommend().best]
    chosen = twice.recommend(among=both)
    assert {chosen.best, *chosen.ties} == both
    limited = twice.recommend(among=["clinic_global", "clinic_anatomy"], limited=True)
    lost = twice.table["two_way_error"]
    assert lost[limited.best] <= lost[["clinic_global", "clinic_anatomy"]].min() + 0.005
    assert twice.recommend(among=[]) is None


def test_usefulness_is_that_of_the_tables(risks):
    """An independent count: shares of every pair, from the cleartext with pandas."""
    risk = risks["clinic_local"]
    table, post = risk.post.table, risk.post
    errors = []
    for a, name in enumerate(table.attributes):
        counted = pd.crosstab(CLEAR[table.sensitive], CLEAR[name], normalize="all")
        estimated = post.secret_mean[:, None] * post.means[a]
        frame = pd.DataFrame(estimated, table.secret.domain.values, table.domains[name].values)
        errors.append((frame - counted.reindex_like(frame).fillna(0)).abs().to_numpy().sum() / 2)
    line = ab.compare(risks).table.loc["clinic_local"]
    assert line["two_way_error"] == pytest.approx(np.mean(errors))
    assert 0 < line["margin_error"] < line["two_way_error"] and 0 < line["loss"] < 1


def test_accuracy_is_that_of_the_learner_on_people_of_whom_it_did_not_learn(risks):
    """Half of the clinic is released; guesses about the other half are counted one by one."""
    half = CLEAR.iloc[::2].reset_index(drop=True)
    rest = CLEAR.iloc[1::2].reset_index(drop=True)
    risks = {}
    for k in (5, 100):
        release = ab.anonymize.mondrian(half, sensitive="diagnosis", k=k, l=2)
        post = ab.fit(release, evidence="independent", seed=1, progressbar=False, draws=20, tune=20)
        risks[f"k = {k}"] = post.assess(half)
    found = ab.compare(risks, holdout=rest)
    columns = [c for c in rest if c != "diagnosis"]
    by = {}
    for name, risk in risks.items():
        right = risk.post.learner(rest[columns]).idxmax(axis=1) == rest["diagnosis"]
        by[name] = right.to_numpy(float)
        line = found.table.loc[name]
        assert line["accuracy"] == pytest.approx(right.mean(), abs=1e-3)  # ties
        best = ab.ideal(half, table=risk.post.table, evidence="independent")
        clear = best.belief(rest[columns]).idxmax(axis=1) == rest["diagnosis"]
        assert line["accuracy_clear"] == pytest.approx(clear.mean(), abs=1e-3)
        error = found.standard_errors.loc[name, "accuracy"]
        assert error == pytest.approx(right.std(ddof=0) / np.sqrt(len(rest)), rel=0.01)
    # Of the people of whom it learned, the model of the cleartext knows more.
    own = ab.compare(risks).table
    assert (own["accuracy_clear"] > found.table["accuracy_clear"]).all()
    assert own.loc["k = 5", "accuracy"] == risks["k = 5"].summary["GT_L"]
    # The two do not differ by more than the error of these people: both may be chosen.
    one, two = by.values()
    error = (one - two).std() / np.sqrt(len(rest))
    assert found.accuracy_noise.iloc[0, 1] == pytest.approx(error, rel=0.01)  # ties
    apart = abs(one.mean() - two.mean()) > 2 * error
    assert (found._differences("RGT_A", "accuracy")[1][0, 1] != 0) == apart
    with pytest.raises(AnonbayesError, match="usefulness"):
        found.recommend(usefulness="beauty")


def test_only_releases_of_the_same_people_compare(risks):
    one = risks["clinic_local"]
    other = one.post.assess(CLEAR.iloc[:500])
    with pytest.raises(TableError, match="different cleartext"):
        ab.compare([one, other])
    with pytest.raises(TableError, match="A threat means"):
        ab.compare([one, one.post.assess(CLEAR.copy(), harm={"HIV"})])
    gains = np.eye(len(one.post.table.secret.domain))
    doubled = gains * np.where(np.arange(len(gains)) == 0, 2.0, 1.0)
    with pytest.raises(TableError, match="A threat means"):  # of the very same frame
        ab.compare([one.post.assess(CLEAR, gain=gains), one.post.assess(CLEAR, gain=doubled)])
    with pytest.raises(AnonbayesError, match="nothing to compare"):
        ab.compare([])
    with pytest.raises(AnonbayesError, match="2 different names"):
        ab.compare([one, one], names=["a", "a"])
    with pytest.raises(AnonbayesError, match=r"post\.assess"):
        ab.compare([one.post])


# -- counting rows ------------------------------------------------------------------------------


def test_prosecutor_and_marketer_count_rows(risks):
    table = risks["clinic_local"].post.table
    frame = table.to_frame().drop(columns="diagnosis").astype(str)
    size = frame.groupby(list(frame.columns))["sex"].transform("size")
    found = ab.reidentification_risk(table, threshold=0.1).table
    assert found.loc["prosecutor", "highest"] == 1 / table.k
    assert found.loc["prosecutor", "average"] == pytest.approx((1 / size).mean())
    assert found.loc["prosecutor", "at_risk"] == pytest.approx((1 / size > 0.1).mean())
    # Everyone in the table: the marketer names as many as there are classes.
    assert found.loc["marketer", "average"] == pytest.approx(table.n_groups / table.n_rows)
    assert found.loc["journalist"].equals(found.loc["prosecutor"].rename("journalist"))


def test_journalist_counts_the_population():
    frame = pd.DataFrame({"x": ["{a, b}", "{a, b}", "c"], "y": ["*", "*", "2"], "s": [1, 2, 1]})
    table = ab.ReleasedTable.horizontal(frame, "s", domains={"x": ["a", "b", "c"], "y": [1, 2]})
    people = pd.DataFrame(itertools.product("abc", [1, 2], range(2)), columns=["x", "y", "copy"])
    found = ab.reidentification_risk(table, population=people)
    # Eight people have x in {a, b}; two are (c, 2).
    assert found.rows["journalist"].tolist() == [1 / 8, 1 / 8, 1 / 2]
    assert found.table.loc["marketer", "average"] == pytest.approx((1 / 8 + 1 / 8 + 1 / 2) / 3)
    assert found.rows["prosecutor"].tolist() == [1 / 2, 1 / 2, 1.0]
    with pytest.raises(TableError, match="population table has no column 'y'"):
        ab.reidentification_risk(table, population=people[["x"]])
    with pytest.raises(AnonbayesError, match="threshold=0"):
        ab.reidentification_risk(table, threshold=0)


def test_suppressed_rows_are_left_out(risks):
    table = risks["clinic_global"].post.table
    found = ab.reidentification_risk(table)
    assert found.suppressed == 122 and len(found.rows) == 2878
    assert found.table.loc["prosecutor", "highest"] == 1 / table.k


def test_both_ways_of_looking_side_by_side(risks):
    risk = risks["clinic_anatomy"]
    found = risk.syntactic()
    # Anatomy publishes tuples in clear: rows are found, secrets are hidden in groups of three.
    unique = ~CLEAR.drop(columns="diagnosis").duplicated(keep=False)
    assert found.loc["prosecutor", "highest"] == 1.0
    assert found.loc["attacker", "average"] == risk.summary["GT_A"]
    assert found.loc["random worlds", "highest"] == pytest.approx(1 / 3)
    single, linked, inferred = risk.wp29()
    assert single.figures["people who match exactly one released row"] == unique.sum()
    assert linked.figures["highest probability of a link"] == 1.0
    sure = (risk.rows["p_A"] >= 0.9) & (risk.rows["threatened_A"] > 0)
    assert f"The secrets of {sure.sum():,} people are guessed right" in inferred.finding
    nobody = risks["clinic_local"].wp29()[0]
    assert nobody.finding == "No: everyone matches at least 4 rows of the release."


def test_candidates_are_the_rows_that_fit(risks):
    risk = risks["clinic_local"]
    table = risk.post.table
    for i in (0, 1234, 2999):
        fits = np.ones(table.n_rows, dtype=bool)
        for name, column in table.columns.items():
            code = table.domains[name].index(CLEAR[name].iloc[i])
            fits &= column.evidence.matrix.toarray()[column.codes, code] > 0
        assert risk.rows["candidates"].iloc[i] == fits.sum()


# -- pictures -----------------------------------------------------------------------------------


def test_scatter_shows_every_threatened_row(risks):
    risk = risks["clinic_local"]
    for under in ("A", "L"):
        rows = risk.rows[risk.rows[f"threatened_{under}"] > 0]
        ax = risk.plot_beliefs(under)
        shown = np.concatenate([c.get_offsets() for c in ax.collections[:2]])
        expected = rows[["p_L", "p_A"]].drop_duplicates().to_numpy()
        assert {tuple(p) for p in shown} == {tuple(p) for p in expected}
        weight = rows[f"threatened_{under}"]
        more = round(weight[rows["p_A"] > rows["p_L"]].sum())
        total = round(risk.summary[f"GT_{under}"] * risk.summary["rows"])
        said = [t.get_text().split(": ") for t in ax.get_legend().texts]
        assert [int(number.replace(",", "")) for _, number in said] == [more, total - more]
    with pytest.raises(AnonbayesError, match="choose one of 'A', 'L'"):
        risk.plot_beliefs("I")


def test_histogram_holds_all_weight_and_parts_at_zero(risks):
    risk = risks["clinic_local"]
    ax = plot_relative_threat(risk, "L", bins=25)
    heights = sum(p.get_height() for p in ax.patches)
    assert heights == pytest.approx(risk.rows["threatened_L"].sum())
    assert any(abs(p.get_x()) < 1e-9 for p in ax.patches)
    hit = risk.rows[risk.rows["threatened_L"] > 0]
    right = sum(p.get_height() for p in ax.patches if p.get_x() > -1e-9)
    assert right == pytest.approx(hit.loc[hit["Ti"] > 1, "threatened_L"].sum())


def test_threshold_curve_reads_as_rows_above(risks):
    risk = risks["clinic_local"]
    line = risk.plot_thresholds().get_lines()[0]
    x, y = (np.asarray(v, dtype=float) for v in line.get_data())
    for cut in (0.9, 1.5, 2.5):
        # Steps change at a value: just right of the cut the curve is what lies above it.
        at = y[np.flatnonzero(x > cut).max()]
        above = risk.threatened[risk.threatened["Ti"] > cut]
        assert at == pytest.approx(above["threatened_A"].sum() / 3000)


def test_group_sizes_add_up(risks):
    for risk in risks.values():
        heights = sum(p.get_height() for p in risk.plot_group_sizes().patches)
        assert heights == risk.post.table.group_sizes.sum()


def test_top_rows_are_named(risks):
    risk = risks["clinic_local"]
    ax = risk.plot_top_rows(5)
    labels = [t.get_text() for t in ax.get_yticklabels()]
    assert labels == [str(i) for i in risk.threatened.index[:5]][::-1]


def test_plane_joins_efficient_releases(risks):
    found = ab.compare(risks)
    ax = found.plot(threat="max_Ti")
    kept = 100 * (1 - found.table["two_way_error"][found.efficient(threat="max_Ti")])
    np.testing.assert_allclose(ax.get_lines()[0].get_xdata(), np.sort(kept.astype(float)))


def test_pictures_of_a_release_that_threatens_nobody():
    """Two groups in which the attacker never names the right value of the rows given."""
    frame = pd.DataFrame({"x": ["*"] * 4, "s": ["u", "u", "u", "v"]})
    table = ab.ReleasedTable.horizontal(frame, "s", domains={"x": ["a", "b"]})
    people = pd.DataFrame({"x": ["a"], "s": ["v"]})
    risk = ab.fit(table, draws=5, seed=1, progressbar=False).assess(people)
    assert risk.summary["GT_A"] == 0 and np.isnan(risk.summary["max_Ti"])
    for plot in ("beliefs", "relative_threat", "thresholds", "group_sizes", "top_rows"):
        ax = getattr(risk, f"plot_{plot}")()
        ax.figure.canvas.draw()
    assert risk.contributions().empty
    assert risk.text.startswith("Nobody is threatened (0 of 1 person)")


def test_random_worlds_of_anatomy_with_repeated_records():
    """Shares of the victim's record and of its secret, group by group, ties counted."""
    rng = np.random.default_rng(8)
    size, n = 4, 40
    people = pd.DataFrame(
        {
            "x": rng.integers(0, 5, n),
            "y": rng.integers(0, 2, n),
            "group": np.repeat(range(n // size), size),
            "s": np.concatenate([rng.choice(6, size, replace=False) for _ in range(n // size)]),
        }
    )
    table = ab.ReleasedTable.vertical(
        people[["x", "y", "group"]], people[["group", "s"]], group="group", sensitive="s"
    )
    clear = people.drop(columns="group")
    risk = ab.fit(table, draws=20, tune=5, seed=1, progressbar=False).assess(clear)
    right = 0.0
    for i, row in people.iterrows():
        same = people[(people["x"] == row["x"]) & (people["y"] == row["y"])]
        belief = pd.Series(0.0, index=range(6))
        for group in same["group"]:  # once per copy of the record in the group
            belief[people.loc[people["group"] == group, "s"].to_numpy()] += 1 / size
        belief /= belief.sum()
        assert risk.rows.loc[i, "p_RW"] == pytest.approx(belief[row["s"]])
        best = np.isclose(belief, belief.max())
        right += best[row["s"]] / best.sum()
    assert risk.summary["GT_RW"] == pytest.approx(right / n)


def test_other_stakes_cannot_be_compared(risks):
    """Not even on the very same frame, and not when both are matrices."""
    post = risks["clinic_local"].post
    n = len(post.table.secret.domain)
    harm = post.assess(CLEAR, harm=[post.table.secret.domain.values[0]])
    one, two = (post.assess(CLEAR, gain=np.diag(np.arange(k, n + k))) for k in (1.0, 2.0))
    for pair in ([risks["clinic_local"], harm], [one, two]):
        with pytest.raises(TableError, match=r"harm= or gain="):
            ab.compare(pair)
    assert (
        len(ab.compare([one, post.assess(CLEAR, gain=np.diag(np.arange(1.0, n + 1)))]).table) == 2
    )


@pytest.mark.parametrize(("name", "highest"), [("clinic_local", 0.25), ("clinic_anatomy", 1.0)])
def test_presets_ask_for_the_chance_to_pick_a_row(name, highest):
    """An Anatomy shows records in clear: groups of three do not make its highest risk a third."""
    table = ab.datasets.load(name)
    rows = table.to_frame()[list(table.attributes)].astype(str).value_counts()
    assert highest == (1 / table.k if table.scheme == "horizontal" else 1 / rows.min())
    assert check_preset(table, "group_of_5").found == pytest.approx(highest)
