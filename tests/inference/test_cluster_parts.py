"""Anatomies in parts on workers: the numbers of one machine, and nothing of the rows here."""

import os
import signal
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab
from anonbayes.beliefs.register import Register, read_register
from anonbayes.cluster import Tasks, local_client
from anonbayes.errors import PopulationWarning
from anonbayes.inference.dirichlet import resolve_prior
from anonbayes.inference.fit import crossfit_posterior
from anonbayes.inference.vertical import crossfit, left_out
from anonbayes.inference.vertical import parts as parts_module
from anonbayes.inference.vertical.group_layout import VerticalLayout
from anonbayes.inference.vertical.parts import fit_parts
from anonbayes.inference.weights import Evidenced, crossfit_weights
from anonbayes.risk import summed

HOW = {"sensitive": "ill", "group": "g"}
QUICK = {"folds": 3, "rounds": 3, "seed": 5}


def write(folder, sizes=(40, 25, 31)):
    """Parts of so many groups of three. Age 7 is in the last part only; text and parquet."""
    rng, parts, frames = np.random.default_rng(2), [], []
    for i, groups in enumerate(sizes):
        ill = np.concatenate([rng.permutation(5)[:3] for _ in range(groups)])
        age = np.where(rng.random(len(ill)) < 0.7, ill, rng.integers(5, 7 + (i == 2), len(ill)))
        g = np.repeat(np.arange(groups), 3)
        qit = pd.DataFrame({"g": g, "age": age, "sex": rng.choice(["f", "m"], len(ill))})
        st = pd.DataFrame({"g": g, "ill": [f"illness {s}" for s in ill]})
        pair = [folder / f"{name}{i}.{'parquet' if i == 1 else 'csv'}" for name in ("q", "s")]
        for frame, path in zip((qit, st), pair, strict=True):
            if i == 1:
                frame.to_parquet(path)
            else:
                frame.to_csv(path, sep=";", index=False)
        parts.append(tuple(pair))
        frames.append((qit, ill))
    return parts, frames


def one_machine(frames):
    """Cross-fitting of the whole table with the folds that parts are dealt into."""
    qit = pd.concat([frame for frame, _ in frames])
    secrets = np.concatenate([ill for _, ill in frames])
    ages = np.unique(qit["age"])
    items = np.stack([np.searchsorted(ages, qit["age"]), (qit["sex"] == "m")], axis=1).astype(int)
    groups = [len(ill) // 3 for _, ill in frames]
    fold = [
        np.random.default_rng((5, i)).permutation(np.arange(n) % 3) for i, n in enumerate(groups)
    ]
    offsets = np.arange(0, len(secrets) + 1, 3)
    layout = VerticalLayout(items, secrets, offsets, [len(ages), 2], 5)
    folds = crossfit.Folds(layout, np.concatenate(fold), 1)
    return layout, crossfit.fit_folds(folds, np.ones(layout.n_cells), 3)


def assert_alike(found, frames):
    layout, here = one_machine(frames)
    np.testing.assert_allclose(found.weights["exponent"], here.weights, rtol=1e-7)
    np.testing.assert_allclose(found.weights["se"], here.error, rtol=1e-6)
    flat = layout.flatten([found.population[name] for name in ("age", "sex")])
    np.testing.assert_allclose(flat, here.population, rtol=1e-7)
    np.testing.assert_allclose(
        found.scores * found.n_rows, here.group_scores.sum(axis=0), rtol=1e-9
    )
    assert (found.n_rows, found.n_groups) == (layout.n_rows, layout.n_groups)
    return layout, here


@pytest.mark.parametrize("sample", [None, 8])
def test_parts_give_the_numbers_of_one_machine(client, tmp_path, monkeypatch, sample):
    """Also where the turns begin on a sample of the groups."""
    parts, frames = write(tmp_path)
    if sample is not None:
        monkeypatch.setattr(crossfit, "SAMPLE_GROUPS", sample)
        assert crossfit.sample_step(96) == 12
    found = fit_parts(parts, **HOW, **QUICK, client=client, beliefs=tmp_path / "beliefs")
    layout, here = assert_alike(found, frames)
    # Scores of all attributes, or of one.
    smallest = 8 * 3 * (layout.n_secrets * layout.sizes.min()) * found.rounds
    assert smallest < found.sent < 8 * 3 * layout.n_cells * found.rounds
    # Sums of every part in each round, and once the counts to be expected: no rows.
    assert found.received <= 3 * (8 * 3 * layout.n_cells + 16) * found.rounds
    files = sorted((tmp_path / "beliefs").iterdir())
    told = pd.concat([pd.read_parquet(path) for path in files])
    assert told["probability"].to_numpy() == pytest.approx(here.ownership, abs=1e-7)
    assert told.columns.tolist() == ["group", "age", "sex", "ill", "probability"]
    assert len(told) == layout.n_links and len(files) == 3


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_a_worker_that_dies_is_replaced_by_one_that_reads_again(tmp_path, monkeypatch):
    parts, frames = write(tmp_path)
    rounds, make = [], left_out.Workers._round
    with local_client(2) as fragile:

        def kill_one(self, *args):
            rounds.append(self)
            if len(rounds) == 9:
                os.kill(next(iter(fragile.run(os.getpid).values())), signal.SIGKILL)
            return make(self, *args)

        monkeypatch.setattr(left_out.Workers, "_round", kill_one)
        assert_alike(fit_parts(parts, **HOW, **QUICK, client=fragile), frames)
    assert len(rounds) > 20


def test_parts_that_are_no_table_are_refused(client, tmp_path):
    parts, _ = write(tmp_path, (4, 4, 4))
    with pytest.raises(ab.AnonbayesError, match="at least one part"):
        fit_parts([], **HOW, client=client)
    with pytest.raises(ab.AnonbayesError, match="client="):
        fit_parts(parts, **HOW, client=None)
    other = pd.read_csv(parts[2][0], sep=";").rename(columns={"sex": "gender"})
    other.to_csv(parts[2][0], sep=";", index=False)
    with pytest.raises(ab.AnonbayesError, match="gender"):
        fit_parts(parts, **HOW, client=client)
    with pytest.raises(ab.AnonbayesError, match=r"q9\.csv"):
        fit_parts([(tmp_path / "q9.csv", parts[0][1])], **HOW, client=client)


# -- assess ------------------------------------------------------------------------------------


def people_of(frames):
    """The people behind the parts, shuffled: another part may have a person's row."""
    whole = pd.concat([qit.assign(ill=[f"illness {s}" for s in ill]) for qit, ill in frames])
    return whole.drop(columns="g").sample(frac=1.0, random_state=3, ignore_index=True)


def others(n=3000):
    """A register: for ages from 5 on, age and sex together tell more of the illness than alone."""
    rng = np.random.default_rng(11)
    ill = rng.integers(5, size=n)
    age = np.where(rng.random(n) < 0.7, ill, rng.choice([5, 6, 7], n, p=[0.45, 0.45, 0.1]))
    even = np.where(age < 5, rng.random(n) < 0.5, (ill + age) % 2 == 0)
    names = [f"illness {s}" for s in ill]
    return pd.DataFrame({"age": age, "sex": np.where(even, "f", "m"), "ill": names})


def posterior_here(frames, register=None):
    """The same folds, everything in one place."""
    _, here = one_machine(frames)
    qit = pd.concat([q.assign(g=q["g"] + 1000 * i) for i, (q, _) in enumerate(frames)])
    st = pd.concat(
        [
            pd.DataFrame({"g": q["g"] + 1000 * i, "ill": [f"illness {s}" for s in ill]})
            for i, (q, ill) in enumerate(frames)
        ]
    )
    table = ab.ReleasedTable.vertical(qit, st, group="g", sensitive="ill")
    weights = crossfit_weights(table, here)
    taken = Evidenced("weighted", resolve_prior(table), weights, False, here)
    post = crossfit_posterior(table, taken, (1, 10), 1)
    if register is None:
        return post
    return replace(post, register=Register.of(post, read_register(table, register)))


def assessed_here(frames, register=None, **how):
    return posterior_here(frames, register).assess(people_of(frames), **how)


def assert_same_risk(found, here, tolerance=3e-6):
    """Who owns what is kept in 32 bits here, and in 64 there."""
    for name in ("summary", "standard_errors"):
        pd.testing.assert_series_equal(getattr(found, name), getattr(here, name), rtol=tolerance)
    for name in ("scores", "score_differences", "calibration"):
        one, two = getattr(found, name), getattr(here, name)
        pd.testing.assert_frame_equal(one, two, rtol=tolerance, atol=1e-8)
    assert found.remarks == here.remarks


@pytest.fixture(scope="module")
def fitted(client, tmp_path_factory):
    parts, frames = write(tmp_path_factory.mktemp("parts"))
    return fit_parts(parts, **HOW, **QUICK, client=client), frames


@pytest.mark.parametrize("buckets", [1, 4])
@pytest.mark.parametrize("kind", ["frame", "parquet", "text", "dask"])
def test_people_in_parts_are_assessed_as_in_one_place(
    client, fitted, tmp_path, monkeypatch, kind, buckets
):
    fit, frames = fitted
    people = people_of(frames)
    if buckets > 1:
        records = len(people.drop_duplicates())
        monkeypatch.setattr(summed, "BUCKET_BYTES", records * 5 * 16 / buckets)
    given = people
    if kind == "dask":
        given = pytest.importorskip("dask.dataframe").from_pandas(people, npartitions=3)
    elif kind != "frame":
        given = [tmp_path / f"people{i}.{kind}" for i in range(2)]
        for i, path in enumerate(given):
            half = people.iloc[i::2]
            if kind == "parquet":
                half.to_parquet(path)
            else:
                half.to_csv(path, sep=";", index=False)
    found = fit.assess(given, client=client)
    assert found.buckets > 1 if buckets > 1 else found.buckets == 1
    assert_same_risk(found, assessed_here(frames))
    assert "threatened" not in repr(found) and f"{len(people):,} people" in repr(found)


def test_a_register_tells_what_it_tells_one_machine(client, tmp_path, monkeypatch):
    parts, frames = write(tmp_path)
    people, register = people_of(frames), others()
    monkeypatch.setattr(summed, "BUCKET_BYTES", len(people.drop_duplicates()) * 5 * 16 / 3)
    for i in range(2):
        register.iloc[i::2].to_csv(tmp_path / f"others{i}.csv", sep=";", index=False)
    found = fit_parts(
        parts, **HOW, **QUICK, client=client, beliefs=tmp_path / "beliefs",
        register=tmp_path / "others*.csv",
    )  # fmt: skip
    assert_alike(found, frames)  # weights and population are those of the release
    here = posterior_here(frames, register)
    assert (0, 1) in [lift.attributes for lift in here.register.lifts]
    for one, two in zip(found.register.lifts, here.register.lifts, strict=True):
        assert one.attributes == two.attributes
        np.testing.assert_allclose(one.ratio, two.ratio, rtol=1e-6)
    told = pd.concat([pd.read_parquet(path) for path in sorted((tmp_path / "beliefs").iterdir())])
    (owned,) = here.ownership
    np.testing.assert_allclose(told["probability"], owned.data, rtol=1e-6)
    risk, same = found.assess(people, client=client), here.assess(people)
    assert risk.buckets > 1
    assert_same_risk(risk, same)
    (without,) = posterior_here(frames).ownership
    assert np.abs(owned.data - without.data).max() > 0.01


@pytest.mark.parametrize("kind", ["frame", "parquet", "text", "dask"])
def test_workers_count_the_people_of_a_register(client, fitted, tmp_path, kind):
    fit, _ = fitted
    register = given = others()
    if kind == "dask":
        given = pytest.importorskip("dask.dataframe").from_pandas(register, npartitions=3)
    elif kind != "frame":
        given = str(tmp_path / f"others*.{kind}")
        for i in range(2):
            half, path = register.iloc[i::2], tmp_path / f"others{i}.{kind}"
            if kind == "parquet":
                half.to_parquet(path)
            else:
                half.to_csv(path, sep=";", index=False)
    domains = fit.parts.plan.domains
    _, found = parts_module._read_register(fit.parts.counts, domains, given, client, ";")
    shown = found.to_frame()[register.columns].astype(str)
    expected = register.astype(str)
    assert found.n_rows == len(register)
    pd.testing.assert_series_equal(shown.value_counts(), expected.value_counts(), check_like=True)


def test_people_who_are_in_the_register_are_linked(client, fitted, monkeypatch):
    fit, frames = fitted
    people = people_of(frames)
    monkeypatch.setattr(summed, "BUCKET_BYTES", len(people.drop_duplicates()) * 5 * 16 / 3)
    register = people.drop_duplicates()[5:]
    with pytest.warns(PopulationWarning, match="'age'"):
        here = posterior_here(frames, register)
    held = replace(here.register, population=None)
    risk = replace(fit, register=held).assess(people, client=client)
    assert "linkage" in " ".join(risk.remarks)
    assert risk.remarks == here.assess(people).remarks


def test_a_register_of_other_columns_or_values_is_refused_before_the_fit(client, tmp_path):
    parts, _ = write(tmp_path, (4, 4, 4))
    for register, named in [
        (others().drop(columns="sex"), "'sex'"),
        (others().assign(age=99), r"Register.*'age'"),
    ]:
        with pytest.raises(ab.AnonbayesError, match=named):
            fit_parts(parts, **HOW, **QUICK, client=client, register=register)


def test_harm_and_other_people(client, fitted):
    fit, frames = fitted
    harm = {"illness 1", "illness 2"}
    assert_same_risk(
        fit.assess(people_of(frames), client=client, harm=harm), assessed_here(frames, harm=harm)
    )
    few = fit.assess(people_of(frames)[:100], client=client)
    assert few.summary["rows"] == 100 and "288" in few.remarks[0]


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_a_worker_that_dies_while_people_are_assessed(fitted, monkeypatch):
    fit, frames = fitted
    asked, ask = [], Tasks.ask
    with local_client(2) as fragile:

        def kill_one(self, name, *args):
            asked.append(name)
            if name == "sums":
                os.kill(next(iter(fragile.run(os.getpid).values())), signal.SIGKILL)
            return ask(self, name, *args)

        monkeypatch.setattr(Tasks, "ask", kill_one)
        assert_same_risk(fit.assess(people_of(frames), client=fragile), assessed_here(frames))
    assert "sums" in asked


def test_people_of_another_release_are_refused(client, fitted, tmp_path):
    fit, frames = fitted
    people = people_of(frames)
    with pytest.raises(ab.AnonbayesError, match="release of this cleartext"):
        fit.assess(people.assign(ill="illness 1"), client=client)
    with pytest.raises(ab.AnonbayesError, match=r"'sex'.*4 of part 0"):
        fit.assess(people.assign(sex=people["sex"].where(people.index != 4, "x")), client=client)
    age = people["age"].where(people.index != 4, 99)
    with pytest.raises(ab.AnonbayesError, match="'age'"):
        fit.assess(people.assign(age=age), client=client)
    paths, frames = write(tmp_path, (4, 4, 4))
    small, people = fit_parts(paths, **HOW, **QUICK, client=client), people_of(frames)
    last = frames[2][0]
    of_seven = [set(frames[2][1][last["g"] == g]) for g in last["g"][last["age"] == 7]]
    other = next(s for s in range(5) if not any(s in values for values in of_seven))
    stranger = pd.DataFrame({"age": [7, 7], "sex": ["f", "m"], "ill": f"illness {other}"})
    with pytest.raises(ab.AnonbayesError, match=r"2 rows .* match no row"):
        small.assess(pd.concat([people, stranger]), client=client)
    with pytest.raises(ab.AnonbayesError, match="where its parts are"):
        replace(fit, parts=None).assess(people, client=client)
    with pytest.raises(ab.AnonbayesError, match="'ill'"):
        fit.assess(people.drop(columns="ill"), client=client)
