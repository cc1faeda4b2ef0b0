"""What scenario files may say, and what is said about those that say something else."""

import json
from pathlib import Path

import pytest

from anonbayes.risk.measures import LIMITS
from anonbayes.scenario.assessment_keys import IDENTITY_LIMITS, AssessmentLimits
from anonbayes.scenario.keys import ScenarioError, Section, build
from anonbayes.scenario.load import KINDS, request
from anonbayes.scenario.release_assessment import Assessment
from anonbayes.scenario.starter import readme, schema

MODELS = Path(__file__).parents[2] / "models"
GOOD = {
    "kind": "assessment",
    "question": "?",
    "cleartext": {"dataset": "table1"},
    "release": {"scheme": "mondrian", "sensitive": "Dis", "k": 2},
}


def make(section=Assessment, base=Path(), **changes):
    return build(section, GOOD | changes, base=base, source="x.toml")


def problems(**changes):
    with pytest.raises(ScenarioError) as caught:
        make(**changes)
    return str(caught.value)


def test_defaults_and_types():
    made = make(model={"alpha": [1, 2], "chains": 2})
    assert (made.model.chains, made.model.draws, made.model.alpha) == (2, 1000, [1, 2])
    assert isinstance(made.release.suppression, float)
    assert made.outputs.netcdf is True


def test_unknown_keys_name_the_nearest():
    assert "unknown key 'model.chain'. Did you mean 'chains'" in problems(model={"chain": 2})
    assert "Did you mean 'release'" in problems(releases={})
    assert "Did you mean 'name'" in problems(victims=[{"nam": "x"}])


def test_every_problem_is_listed_at_once():
    text = problems(model={"draws": 0, "chains": "two"}, seed=True, question=3)
    assert text.count("x.toml: ") == 4
    assert "model.draws = 0 must be at least 1." in text
    assert "model.chains must be a whole number, got 'two'." in text
    assert "seed must be a whole number, got True." in text
    assert "question must be text, got 3." in text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "assesment"}, "Did you mean 'assessment'"),
        ({"release": {"scheme": "mondrian", "k": 2}}, "release: sensitive is missing"),
        ({"release": {"scheme": "recode", "sensitive": "Dis"}}, "scheme 'recode' needs k"),
        ({"release": {"scheme": "anatomy", "sensitive": "Dis"}}, "needs l"),
        ({"release": {"dataset": "x", "scheme": "recode"}}, "exactly one of"),
        ({"release": {"dataset": "table1_recoded", "k": 3}}, "k does not apply"),
        ({"release": {"dataset": "t", "local": True}}, "local does not apply"),
        ({"release": {"file": "nowhere.csv", "sensitive": "Dis"}}, "there is no file"),
        ({"cleartext": {"dataset": "a", "file": __file__}}, "either dataset or file"),
        ({"limits": {"max_threatened": 1.5}}, "must be at most 1"),
        ({"limits": {"max_cost": 1.5}}, "must be at most 1"),
        ({"limits": {"max_relative_threat": 0}}, "must be larger than 0"),
        ({"limits": {"at_most": {"Ti_q59": 2.0}}}, "'Ti_q59' is not a measure"),
        ({"limits": {"preset": "ema"}}, "ema_0070"),
        ({"victims": {"name": "x"}}, "victims must be a list"),
        ({"victims": [{"name": "x"}, {"name": "x"}]}, "same name"),
        ({"sweep": {"release.k": 2}}, "sweep.release.k must be a list"),
        ({"model": 3}, "model must be a table"),
    ],
)
def test_problems(changes, said):
    assert said in problems(**changes)


def test_limits_on_threats_need_the_cleartext():
    content = {k: v for k, v in GOOD.items() if k != "cleartext"}
    content |= {"release": {"dataset": "table1_recoded"}, "limits": {"max_threatened": 0.5}}
    with pytest.raises(ScenarioError, match=r"need \[cleartext\]"):
        build(Assessment, content, base=Path(), source="x.toml")


def test_columns_of_a_mixed_table():
    def column(**keys):
        return {"release": {"scheme": "columns", "sensitive": "Dis", "columns": {"Nat": keys}}}

    assert make(**column(method="bins", lower=0, upper=1, bins=2)).release.columns["Nat"].bins == 2
    assert "release.columns.Nat: method 'bins' needs bins." in problems(
        **column(method="bins", lower=0, upper=1)
    )
    assert "epsilon does not apply" in problems(**column(method="clear", epsilon=1))
    assert "needs sensitive" in problems(**column(method="utility_optimized_rr", epsilon=1))


def test_paths_are_relative_to_the_file(tmp_path):
    (tmp_path / "people.csv").write_text("a;b\n1;2\n")
    made = make(base=tmp_path, cleartext={"file": "people.csv"})
    assert made.cleartext.file == tmp_path / "people.csv"


def test_every_key_is_explained():
    def sections(parent):
        for child in parent.__subclasses__():
            yield child
            yield from sections(child)

    kinds = set(KINDS.values())  # loads them
    found = list(sections(Section))
    assert kinds < set(found) and len(found) > 20
    for section in found:
        for name, field in section.model_fields.items():
            assert field.description.endswith("."), (section, name)


def test_keys_follow_the_measures():
    others = {"at_most", "at_least", "preset", "require_convergence", *IDENTITY_LIMITS}
    assert set(AssessmentLimits.model_fields) - others == set(LIMITS)


def test_options_make_the_request_of_a_file():
    keys = {f"release.{name}": value for name, value in GOOD["release"].items()}
    keys |= {"question": "?", "cleartext.dataset": "table1", "seed": None, "release.drop": []}
    assert request("assessment", keys, name="x").settings == make()
    with pytest.raises(ScenarioError) as caught:
        request("assessment", keys | {"release.k": 0, "limits.max_cost": 7}, name="x")
    assert str(caught.value).splitlines() == [
        "--k 0 must be at least 1.",
        "--max-cost 7 must be at most 1.",
    ]
    missing = {name: value for name, value in keys.items() if name != "release.k"}
    with pytest.raises(ScenarioError, match="--scheme 'mondrian' needs --k, the smallest"):
        request("assessment", missing, name="x")


# -- what is derived from the keys ----------------------------------------------------------------


def test_written_documents_are_up_to_date():
    advice = "python -m anonbayes.scenario.starter models"
    assert (MODELS / "scenario.schema.json").read_text(encoding="utf-8") == schema(), advice
    assert (MODELS / "README.md").read_text(encoding="utf-8") == readme(MODELS), advice


@pytest.fixture(scope="module")
def validator():
    jsonschema = pytest.importorskip("jsonschema")
    made = jsonschema.Draft7Validator(json.loads(schema()))
    made.check_schema(made.schema)
    return made


@pytest.mark.parametrize("file", sorted(MODELS.glob("*.toml")), ids=lambda f: f.stem)
def test_shipped_scenarios_fit_the_schema(file, validator):
    import tomllib

    assert list(validator.iter_errors(tomllib.loads(file.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"model": {"drawz": 3}},
        {"model": {"draws": 0}},
        {"kind": "survey"},
        {"question": 3},
        {"limits": {"max_relative_threat": 0}},
        {"release": {"scheme": "recoding", "sensitive": "Dis", "k": 2}},
        {"victims": [{"known": {}}]},
    ],
)
def test_schema_and_checks_refuse_the_same(changes, validator):
    assert validator.is_valid(GOOD)
    assert not validator.is_valid(GOOD | changes)
    problems(**changes)
