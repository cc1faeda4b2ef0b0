"""Tables kept as distinct lines say the same as tables kept as rows."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab
from anonbayes.errors import ModelError, TableError
from anonbayes.tables.readers import table_from_dataset, table_to_dataset

AGES = range(20, 40)


def rows(n=400, seed=3, crossing=False):
    """Made-up rows with suppressed ones, two spellings of a cell, and sets."""
    rng = np.random.default_rng(seed)
    cells = ["20-29", "[20, 29]", ">=30", "31", "*"]
    if crossing:
        cells = [*cells, "25-34", "28-36"]
    frame = pd.DataFrame(
        {
            "age": rng.choice(cells, n),
            "sex": rng.choice(["f", "m", "{f, m}"], n),
            "ill": rng.choice(["flu", "cold", "gout"], n, p=[0.6, 0.3, 0.1]),
        }
    )
    hidden = rng.random(n) < 0.05
    frame.loc[hidden, ["age", "sex"]] = "*"
    return frame


def table_of(frame, **how):
    return ab.ReleasedTable.horizontal(frame, "ill", domains={"age": AGES}, **how)


@pytest.fixture(params=[False, True], ids=["nested", "crossing"])
def pair(request):
    table = table_of(rows(crossing=request.param))
    return table, table.reduced()


def same_statistics(one, two):
    assert one == two and one.fingerprint == two.fingerprint
    for name in ("n_rows", "n_groups", "n_suppressed", "k", "l", "is_nested"):
        assert getattr(one, name) == getattr(two, name), name
    pd.testing.assert_series_equal(one.group_sizes, two.group_sizes)
    pd.testing.assert_series_equal(one.group_diversity, two.group_diversity)
    assert one.secret_counts.tolist() == two.secret_counts.tolist()
    for name in one.attributes:
        assert one.columns[name].evidence.labels == two.columns[name].evidence.labels
        a, b = one.counts[name], two.counts[name]
        assert a.dtype == b.dtype and (a != b).nnz == 0
    for part in ("codes", "secret", "count"):
        assert getattr(one.records, part).tolist() == getattr(two.records, part).tolist()
    pd.testing.assert_frame_equal(one.describe(), two.describe())


def test_the_same_statistics(pair):
    table, small = pair
    assert small.n_lines < table.n_lines == table.n_rows == len(small)
    same_statistics(table, small)
    same_statistics(table, small.expanded())
    assert small.expanded().weights is None
    assert repr(small) == repr(table)


def test_suppressed_rows_are_kept_apart_from_rows_with_the_same_cells():
    frame = pd.DataFrame(
        {"age": ["*", "20-39", "*", "20-39"], "ill": ["flu", "flu", "flu", "cold"]}
    )
    small = table_of(frame).reduced()
    assert (small.n_suppressed, small.n_lines, small.n_groups) == (2, 3, 1)
    same_statistics(table_of(frame), small)


def test_rows_with_equal_cells_in_named_groups():
    frame = rows().query("age != '*'").assign(g=lambda f: np.arange(len(f)) % 7)
    table = table_of(frame, group="g")
    same_statistics(table, table.reduced())
    assert table.reduced().group_sizes.sum() == table.n_rows


def test_a_different_number_of_rows_is_a_different_table(pair):
    _, small = pair
    more = small.weights.copy()
    more[0] += 1
    assert replace(small, weights=more) != small


def test_counted_frames_are_read_and_written(pair):
    table, small = pair
    counted = small.to_frame(weights="people")
    assert len(counted) == small.n_lines and counted["people"].sum() == table.n_rows
    again = ab.ReleasedTable.horizontal(counted, "ill", domains=table.domains, weights="people")
    assert again == table and again.n_lines == small.n_lines
    pd.testing.assert_frame_equal(table.to_frame(weights="people"), counted)
    # Lines that say the same in other words become one.
    twice = pd.concat([counted, counted], ignore_index=True)
    both = ab.ReleasedTable.horizontal(twice, "ill", domains=table.domains, weights="people")
    assert both.n_lines == small.n_lines and both.n_rows == 2 * table.n_rows


def test_all_rows_can_be_shown(pair):
    table, small = pair
    frame = small.to_frame()
    key = ["age", "sex", "ill"]
    pd.testing.assert_frame_equal(
        frame.map(str).sort_values(key, ignore_index=True),
        table.to_frame().map(str).sort_values(key, ignore_index=True),
    )
    pd.testing.assert_frame_equal(small.head(7), frame.head(7), check_dtype=False)  # object or str
    assert "distinct records" in small._repr_html_()


def test_too_many_rows_to_show():
    small = table_of(pd.DataFrame({"age": ["21", "22"], "ill": ["flu", "cold"], "n": [10**9, 3]}),
                     weights="n")  # fmt: skip
    assert small.n_rows == 10**9 + 3
    with pytest.raises(TableError, match=r"to_frame\(weights='rows'\)"):
        small.to_frame()
    assert small.head(2)["age"].tolist() == [21, 21]


def test_storage_and_pickles(pair, tmp_path):
    _, small = pair
    back = table_from_dataset(table_to_dataset(small))
    assert back == small and back.weights.tolist() == small.weights.tolist()
    assert pickle.loads(pickle.dumps(small)).weights.tolist() == small.weights.tolist()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, 0], "row 1: 0 is no"),
        ([1, 1.5], "row 1: 1.5"),
        (["2", "x"], "row 1: 'x'"),
        ([1, np.inf], "row 1: inf"),
    ],
)
def test_bad_weights(values, message):
    frame = pd.DataFrame({"age": ["21", "22"], "ill": ["flu", "cold"], "n": values})
    with pytest.raises(TableError, match=f"Column 'n', {message}"):
        table_of(frame, weights="n")


def test_weights_are_refused_where_they_make_no_sense(pair):
    _, small = pair
    with pytest.raises(TableError, match="'ill'; choose another"):
        small.to_frame(weights="ill")
    with pytest.raises(TableError, match="'people' is not in the table"):
        table_of(rows(), weights="people")
    anatomy = ab.datasets.load("table1_anatomy")
    assert anatomy.reduced() is anatomy
    with pytest.raises(TableError, match="not linked"):
        anatomy.to_frame(weights="n")


def test_an_identifier_is_seen_by_rows_not_by_lines():
    """2,000 values in 2,000 lines are no identifier when each stands for many rows."""
    frame = pd.DataFrame({"zip": [f"z{i}" for i in range(2000)], "ill": ["flu", "cold"] * 1000})
    with pytest.raises(TableError, match="like an identifier"):
        ab.ReleasedTable.horizontal(frame, "ill")
    ab.ReleasedTable.horizontal(frame.assign(n=100), "ill", weights="n")


# -- what follows from a table ----------------------------------------------------------------


def people_of(table, seed=5):
    """A cleartext of which the table is a release."""
    rng = np.random.default_rng(seed)
    out = {}
    for name, column in table.columns.items():
        members = [column.evidence.members(c) for c in column.codes]
        out[name] = [column.domain.values[rng.choice(m)] for m in members]
    out[table.sensitive] = table.secret.domain.decode(table.secret_codes)
    return pd.DataFrame(out)


def test_the_same_posterior(pair):
    table, small = pair
    how = {"seed": 1, "draws": 50, "chains": 2, "cores": 1, "progressbar": False}
    one, two = ab.fit(table, **how), ab.fit(small, **how)
    assert one.method == two.method
    for name in one.draws:
        np.testing.assert_array_equal(one.draws[name], two.draws[name])
    victim = {"age": 25, "sex": "f"}
    for belief in ("learner", "attacker", "random_worlds"):
        np.testing.assert_allclose(
            getattr(one, belief)(victim), getattr(two, belief)(victim), rtol=1e-12
        )
    people = people_of(table)
    plain, counted = one.assess(people), two.assess(people)
    pd.testing.assert_series_equal(plain.summary, counted.summary, rtol=1e-12)
    pd.testing.assert_frame_equal(plain.rows, counted.rows, rtol=1e-9)
    pd.testing.assert_frame_equal(plain.leakage.groups, counted.leakage.groups)
    pd.testing.assert_frame_equal(plain.syntactic(), counted.syntactic())
    assert two.table.weights is not None


def test_the_same_model():
    frame = rows(60)
    logp = []
    for table in (table_of(frame), table_of(frame).reduced()):
        model = ab.build_model(table)
        logp.append(float(model.compile_logp(mode="FAST_COMPILE")(model.initial_point())))
    assert logp[0] == pytest.approx(logp[1], rel=1e-12)


def test_secrets_behind_a_channel():
    """Latent secrets go through the records, whose counts must be those of rows."""
    frame = rows(200)
    channel = ab.RandomizedResponse(ab.Domain("ill", ["cold", "flu", "gout"]), epsilon=2.0)
    table = table_of(frame, channels={"ill": channel})
    small = table.reduced()
    assert small.n_lines < table.n_lines and small == table
    how = {"seed": 2, "draws": 20, "tune": 5, "chains": 1, "progressbar": False}
    one, two = ab.fit(table, **how), ab.fit(small, **how)
    np.testing.assert_array_equal(one.draws["pi_ill"], two.draws["pi_ill"])
    np.testing.assert_allclose(
        one.attacker({"age": 25, "sex": "f"}), two.attacker({"age": 25, "sex": "f"}), rtol=1e-9
    )


def test_a_posterior_keeps_its_reduced_table(pair, tmp_path):
    _, small = pair
    post = ab.fit(small, seed=1, draws=20, chains=1, progressbar=False)
    post.to_netcdf(tmp_path / "post.nc")
    back = ab.Posterior.from_netcdf(tmp_path / "post.nc")
    assert back.table == small and back.table.n_lines == small.n_lines


def test_single_rows_cannot_be_kept(pair):
    _, small = pair
    with pytest.raises(ModelError, match=r"expanded\(\)"):
        ab.fit(small, keep_cleartext=True, progressbar=False)
    post = ab.fit(small.expanded(), keep_cleartext=[0], draws=5, chains=1, seed=1,
                  progressbar=False)  # fmt: skip
    assert "cleartext_age" in post.draws


def test_release_information_unfolds_what_it_can(pair):
    table, small = pair
    found = [
        ab.pie.release_information(
            ab.fit(t, seed=1, draws=20, chains=1, progressbar=False), draws=20
        ).summary["bits"]
        for t in (table, small)
    ]
    assert found[0] == pytest.approx(found[1], abs=0.1)
    huge = table_of(pd.DataFrame({"age": ["21", "22"], "ill": ["flu", "cold"], "n": [10**9, 3]}),
                    weights="n")  # fmt: skip
    post = ab.fit(huge, seed=1, draws=5, chains=1, progressbar=False)
    with pytest.raises(ab.AnonbayesError, match="too many"):
        ab.pie.release_information(post)


# -- a counted cleartext ----------------------------------------------------------------------


def test_a_counted_cleartext_is_assessed_like_its_rows(pair, tmp_path):
    table, small = pair
    people = people_of(table)
    records = ab.count_records(people, weights="people")
    assert len(records) < len(people)
    post = ab.fit(small, seed=1, draws=50, chains=2, progressbar=False)
    plain, counted = post.assess(people), post.assess(records, weights="people")
    pd.testing.assert_series_equal(plain.summary, counted.summary, rtol=1e-9)
    pd.testing.assert_series_equal(plain.standard_errors, counted.standard_errors, rtol=1e-6)
    assert counted.rows["weight"].sum() == len(people) and len(counted.rows) == len(records)
    pd.testing.assert_frame_equal(plain.thresholds(), counted.thresholds(), rtol=1e-9)
    pd.testing.assert_frame_equal(
        plain.breakdown(), counted.breakdown(), rtol=1e-9, check_like=True
    )
    classes = [pd.cut(one["age"].astype(int), [0, 25, 40, 150]) for one in (people, records)]
    pd.testing.assert_frame_equal(plain.breakdown(classes[0]), counted.breakdown(classes[1]))
    pd.testing.assert_frame_equal(plain.syntactic(), counted.syntactic(), rtol=1e-9)
    for one, two in zip(plain.wp29(), counted.wp29(), strict=True):
        assert one.figures == pytest.approx(two.figures, rel=1e-9) and one.finding == two.finding
    assert repr(plain) == repr(counted) and plain.text == counted.text
    numbers = json.loads(plain.to_json()), json.loads(counted.to_json())
    assert numbers[0]["measures"] == pytest.approx(numbers[1]["measures"], rel=1e-9)
    ideal = [
        ab.ideal(people, sensitive="ill"),
        ab.ideal(records, sensitive="ill", weights="people"),
    ]
    np.testing.assert_allclose(ideal[0].secret_mean, ideal[1].secret_mean, rtol=1e-12)
    for a, b in zip(ideal[0].means, ideal[1].means, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    ab.report(post, counted, tmp_path / "report.html")
    assert "Number of people that the row stands for" in (tmp_path / "report.html").read_text()


def test_pictures_of_a_counted_cleartext_weigh_rows():
    table = table_of(rows())
    people = people_of(table)
    post = ab.fit(table, seed=1, draws=20, chains=1, progressbar=False)
    plain = post.assess(people)
    counted = post.assess(ab.count_records(people), weights="rows")
    for name in ("plot_relative_threat", "plot_beliefs"):
        legends = [
            [t.get_text() for t in getattr(risk, name)().get_legend().get_texts()]
            for risk in (plain, counted)
        ]
        assert legends[0] == legends[1]
    heights = [
        [p.get_height() for p in risk.plot_relative_threat().patches] for risk in (plain, counted)
    ]
    np.testing.assert_allclose(heights[0], heights[1])
    ends = [risk.plot_thresholds().lines[0].get_ydata()[-1] for risk in (plain, counted)]
    assert ends[0] == pytest.approx(ends[1])


def test_count_records_of_some_columns():
    frame = rows()
    found = ab.count_records(frame, ["sex"], weights="n")
    assert found.set_index("sex")["n"].to_dict() == frame["sex"].value_counts().to_dict()
    assert found["sex"].tolist() == list(pd.unique(frame["sex"]))
    with pytest.raises(TableError, match=r"'sexx'.*'sex'"):
        ab.count_records(frame, ["sexx"])
    with pytest.raises(TableError, match="another name"):
        ab.count_records(frame, weights="sex")
