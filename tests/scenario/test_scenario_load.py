"""Reading scenario files, overrides and sweeps."""

import pandas as pd
import pytest

from anonbayes.scenario.keys import ScenarioError
from anonbayes.scenario.load import load
from anonbayes.scenario.people_in_clear import with_numbers

TEXT = """
kind = "assessment"
question = "?"
seed = 1
[cleartext]
dataset = "table1"
[release]
scheme = "mondrian"
sensitive = "Dis"
k = 2
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TEXT)
    return path


def test_results_go_beside_the_file(file):
    found = load(file)
    assert found.name == "mine"
    assert found.directory == file.parent / "out" / "mine"
    assert load(file, overrides=["outputs.directory=there"]).directory == file.parent / "there"


def test_overrides(file):
    found = load(
        file,
        overrides=["release.k=3", "threats.harm=['HIV', \"Flu\"]", "release.sensitive = Nat",
                   "outputs.plots=false", "model.beta={Nat = 2.0}"],
    )  # fmt: skip
    assert found.settings.release.k == 3
    assert found.settings.threats.harm == ("HIV", "Flu")
    assert found.settings.release.sensitive == ("Nat",)  # a bare word is a text
    assert found.settings.outputs.plots is False
    assert found.settings.model.beta == {"Nat": 2.0}
    assert found.content["release"]["k"] == 3


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("release.kk=3", "unknown key 'release.kk'. Did you mean 'k'"),
        ("release.k", "must be key=value"),
        ("a b=3", "is not a key"),
        ("release.k.x=3", "'k' is not a table"),
        ("release.k=many", "must be a whole number, got 'many'"),
    ],
)
def test_bad_overrides(file, override, said):
    with pytest.raises(ScenarioError) as caught:
        load(file, overrides=[override])
    assert said in str(caught.value)


def test_sweep_has_every_combination(file):
    file.write_text(TEXT + '[sweep]\n"release.k" = [2, 4]\n"release.l" = [1, 2]\n')
    found = load(file)
    assert list(found.variants) == ["k=2 l=1", "k=2 l=2", "k=4 l=1", "k=4 l=2"]
    assert [(v.release.k, v.release.l) for v in found.variants.values()][2] == (4, 1)
    assert all(not v.sweep for v in found.variants.values())
    assert found.settings.release.k == 2  # untouched


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        ('"release.k" = [2, 0]', "mine.toml (k=0): release.k = 0 must be at least 1"),
        ('"release.kay" = [2]', "unknown key 'release.kay'"),
        ('"release.k" = []', "has no values"),
        (f'"release.k" = {list(range(1, 300))}', "more than 200"),
    ],
)
def test_bad_sweeps(file, sweep, said):
    file.write_text(TEXT + f"[sweep]\n{sweep}\n")
    with pytest.raises(ScenarioError) as caught:
        load(file)
    assert said in str(caught.value)


def test_files_that_are_no_scenarios(tmp_path):
    bad = tmp_path / "bad.toml"
    with pytest.raises(ScenarioError, match="no file"):
        load(bad)
    bad.write_text("kind = 1 2")
    with pytest.raises(ScenarioError, match=r"not valid TOML.*line 1"):
        load(bad)
    bad.write_text('question = "?"')
    with pytest.raises(ScenarioError, match=r"has no kind.*assessment, survey"):
        load(bad)
    bad.write_text('kind = "surveys"')
    with pytest.raises(ScenarioError, match="Did you mean 'survey'"):
        load(bad)
    bad.write_bytes(b"kind = '\xff'")
    with pytest.raises(ScenarioError, match="cannot be read"):
        load(bad)


def test_columns_that_spell_numbers_become_numbers():
    frame = with_numbers(pd.DataFrame({"age": ["30", "41"], "zip": ["04104", "1"]}))
    assert frame.to_dict("list") == {"age": [30, 41], "zip": ["04104", "1"]}


def test_keys_that_only_a_sweep_sets_need_not_stand_twice(file):
    text = TEXT.replace("k = 2", "")
    assert text != TEXT
    file.write_text(text + '[sweep]\n"release.k" = [2, 4]\n')
    assert [v.release.k for v in load(file).variants.values()] == [2, 4]
