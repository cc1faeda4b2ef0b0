"""Threats computed on a Dask cluster, to the last bit those of one machine."""

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab
from anonbayes.risk import assess as risk_assess
from anonbayes.risk.threats import read_gain, weighted_sum


def people(n=180):
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 28, n),
            "nat": rng.choice(list("MJCK"), n),
            "ill": rng.choice(["flu", "hiv", "cold"], n, p=[0.6, 0.1, 0.3]),
        },
        index=[f"p{i}" for i in range(n)],
    )


def coarse(age):
    return f"{age // 2 * 2}-{age // 2 * 2 + 1}"


def exact(frame):
    shown = frame.assign(age=frame["age"].map(coarse))
    return ab.ReleasedTable.horizontal(shown, "ill", domains={"age": range(20, 28)})


def sampled(frame):
    ages = [f"{a - 1}-{a}" if i % 2 else f"{a}-{a + 1}" for i, a in enumerate(frame["age"])]
    return ab.ReleasedTable.horizontal(
        frame.assign(age=ages), "ill", domains={"age": range(19, 29)}
    )


def latent(frame):
    channel = ab.RandomizedResponse(ab.Domain("ill", ["cold", "flu", "hiv"]), epsilon=2.0)
    return ab.ReleasedTable.horizontal(frame, "ill", channels={"ill": channel})


def vertical(frame):
    group = np.arange(len(frame)) // 3
    return ab.ReleasedTable.vertical(
        frame[["age", "nat"]].assign(g=group).reset_index(drop=True),
        pd.DataFrame({"g": group, "ill": frame["ill"].to_numpy()}),
        group="g",
        sensitive="ill",
    )


def fitted(make):
    frame = people()
    return ab.fit(make(frame), draws=60, tune=20, chains=2, seed=3, progressbar=False), frame


def assert_same(one, two):
    pd.testing.assert_frame_equal(one.rows, two.rows, check_exact=True)
    pd.testing.assert_series_equal(one.summary, two.summary, check_exact=True)
    pd.testing.assert_series_equal(one.standard_errors, two.standard_errors, check_exact=True)
    assert one.to_json(rows=True) == two.to_json(rows=True)


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (exact, {}),
        (sampled, {"harm": {"hiv", "cold"}}),
        (latent, {"kind": "conditional"}),
        (vertical, {"gain": [[1.0, 0.3, 0.1], [0.2, 2.0, 0.7], [0.4, 0.4, 0.4]]}),
    ],
)
def test_every_number_is_that_of_one_machine(client, make, settings):
    post, frame = fitted(make)
    here = post.assess(frame, **settings)
    assert_same(post.assess(frame, client=client, **settings), here)


@pytest.mark.parametrize("make", [sampled, vertical])
def test_blocks_of_any_size_give_the_same(make, monkeypatch):
    """Rounding does not depend on the neighbours: one record, seven records, all of them."""
    post, frame = fitted(make)
    gain = np.random.default_rng(1).random((4, 3))
    whole = post.assess(frame, gain=gain)
    for records in (1, 7):
        monkeypatch.setattr(risk_assess, "MOST_BYTES", records * 8 * 20 * 3)
        assert_same(post.assess(frame, gain=gain), whole)


def test_sums_round_alike_everywhere():
    """A product of matrices would fail this: it rounds by position and size."""
    rng = np.random.default_rng(2)
    weights, batches = rng.random(20), rng.random((20, 37, 5))
    whole = weighted_sum(weights, batches)
    np.testing.assert_allclose(whole, np.tensordot(weights, batches, axes=1), rtol=1e-13)
    for i in range(37):
        np.testing.assert_array_equal(weighted_sum(weights, batches[:, i : i + 1])[0], whole[i])
    gain = read_gain(ab.Domain("x", range(5)), gain=rng.random((6, 5)))
    belief = rng.dirichlet(np.ones(5), 41)
    np.testing.assert_allclose(gain.expected(belief), belief @ gain.matrix.T, rtol=1e-13)
    for i in range(41):
        np.testing.assert_array_equal(gain.expected(belief[i : i + 1])[0], gain.expected(belief)[i])


@pytest.mark.parametrize("make", [exact, vertical])
def test_a_dask_dataframe_is_counted_where_it_is(client, make):
    """Two partitions; the measures are those of all rows in memory, to the last bit."""
    import dask.dataframe as dd

    post, frame = fitted(make)
    parts = dd.from_pandas(frame.assign(extra=range(len(frame))), npartitions=2, sort=False)
    whole = post.assess(frame)
    for found in (post.assess(parts, client=client), post.assess(parts)):
        pd.testing.assert_series_equal(found.summary, whole.summary, check_exact=True)
        pd.testing.assert_series_equal(
            found.standard_errors, whole.standard_errors, check_exact=True
        )
        assert found.rows["weight"].sum() == len(frame) > len(found.rows)
        assert found.text == whole.text
    with pytest.raises(ab.AnonbayesError, match="whose rows are counted"):
        post.assess(parts, weights="extra")
    with pytest.raises(ab.AnonbayesError, match="has no column 'nat', which the released"):
        post.assess(parts.drop(columns="nat"), client=client)


def test_people_who_are_not_in_the_release_are_named(client):
    post, frame = fitted(exact)
    wrong = frame.assign(age=[20 + (a + 3) % 8 for a in frame["age"]], nat="M")
    with pytest.raises(
        ab.AnonbayesError, match=r"Row 'p\d+' of the cleartext matches no row"
    ) as here:
        post.assess(wrong)
    with pytest.raises(ab.AnonbayesError) as there:
        post.assess(wrong, client=client)
    assert str(there.value) == str(here.value)


def test_a_bad_client_is_refused():
    post, frame = fitted(exact)
    with pytest.raises(ab.AnonbayesError, match=r"must be a distributed\.Client"):
        post.assess(frame, client=4)
