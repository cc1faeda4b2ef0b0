"""What scenarios answer, against answers that are known otherwise."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import anonbayes as ab
from anonbayes.errors import AnonbayesError
from anonbayes.scenario.load import load, prepare, run

MODELS = Path(__file__).parents[2] / "models"


def model(name, *overrides):
    return load(MODELS / f"{name}.toml", overrides=overrides)


@pytest.fixture
def write(tmp_path):
    def make(text):
        file = tmp_path / "mine.toml"
        file.write_text('question = "?"\nseed = 1\n' + text)
        return load(file)

    return make


TABLE1 = 'kind = "assessment"\ncleartext.dataset = "table1"\n'


# -- assessments ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tested", [0, 50])
def test_island_agrees_with_the_formula(tested):
    found = run(model("island", f"release.parameters.tested={tested}"))
    assert found.measures["max_belief"] == pytest.approx(1 / (1 + (100 - tested) * 0.01), abs=1e-6)
    assert found.tables["beliefs"].loc[("any islander", 1), "attacker"] == pytest.approx(1 / 101)
    assert not found.exceeded


def test_an_assessment_is_that_of_the_python_interface(write):
    scenario = write(TABLE1 + 'release.dataset = "table1_recoded"\nlimits.max_threatened = 0.5\n')
    found = run(scenario)
    post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    risk = post.assess(ab.datasets.load("table1"))
    assert found.measures == pytest.approx(risk.summary.to_dict(), nan_ok=True)
    assert found.exceeded
    assert found.tables["population"]["mean"].sum() == pytest.approx(1)
    cost = float(risk.summary["RGT_A"])
    for limit, exceeded in ((cost + 0.01, False), (cost - 0.01, True)):
        text = f'release.dataset = "table1_recoded"\nlimits.max_cost = {limit}\n'
        assert run(write(TABLE1 + text)).exceeded == exceeded


def test_beliefs_about_victims(write):
    scenario = write(
        'kind = "assessment"\nrelease.dataset = "table1_recoded"\nlimits.max_belief = 0.5\n'
        '[[victims]]\nname = "Ann"\nknown = {Nat = "M", ZIP = ["45501"]}\nsecret = "Heart"\n'
    )
    found = run(scenario)
    # 7/12 by enumeration (MODEL 1.7); the standard error of 4 x 1000 draws is 0.004.
    assert found.measures == pytest.approx({"max_belief": 7 / 12}, abs=0.016)
    assert found.exceeded
    assert "Ann: an attacker believes 'Heart' with 58." in found.text


def test_sweep_compares_and_notes_what_does_not_exist(write):
    text = TABLE1 + 'release = {scheme = "mondrian", sensitive = "Dis", k = 2}\n[sweep]\n'
    found = run(write(text + '"release.k" = [2, 4]\n"release.l" = [1, 9]\n'))
    table = found.tables["comparison"]
    assert table.index.tolist() == ["k=2 l=1", "k=4 l=1"]
    assert (table["k"] >= [2, 4]).all()
    assert list(found.details["impossible"]) == ["k=2 l=9", "k=4 l=9"]
    assert not found.limits
    strict = run(write(text + '"release.k" = [2, 4]\n[limits]\nmax_threatened = 0.01\n'))
    assert strict.exceeded
    assert "No release keeps all limits." in strict.text
    with pytest.raises(AnonbayesError, match="sweep"):
        run(write(text + '"release.l" = [9]\n'))


def test_a_mixed_table_has_a_channel_per_column():
    prepared = prepare(model("mixed_table"))
    table, people = prepared.table, prepared.people.frame
    assert set(table.attributes) == {"sex", "age", "zip", "profession"}
    shown = table.to_frame()
    assert (shown["sex"] == people["sex"]).all()
    assert (abs(shown["age"].astype(float) - people["age"]) <= 10).all()
    assert shown["zip"].str.endswith("*").all()
    kept = (shown["profession"] == people["profession"]).mean()
    size = len(table.domains["profession"])
    expected = math.exp(3) / (size - 1 + math.exp(3))
    assert kept == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / 3000))
    again = prepare(model("mixed_table")).table
    assert again.fingerprint == table.fingerprint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('release.dataset = "table1"', "is a cleartext"),
        ('release.dataset = "table1_recode"', "Did you mean 'table1_recoded'"),
        ('release = {scheme="mondrian", sensitive="Diss", k=2}', "Did you mean 'Dis'"),
        ('release = {scheme="recode", sensitive="Dis", k=2}', "needs release.hierarchies"),
        ('release.dataset = "table1_recoded"\nthreats.harm = ["Fluu"]', "'Flu'"),
        ('release.dataset = "table1_recoded"\nmodel.beta = {Nut = 2}', "'Nat'"),
        (
            'release.dataset = "table1_recoded"\n[[victims]]\nname = "A"\nknown = {Nut = "M"}',
            "Victim 'A': 'Nut' is not an attribute",
        ),
    ],
)
def test_inputs_are_checked_before_anything_runs(write, text, said):
    with pytest.raises(AnonbayesError) as caught:
        prepare(write(TABLE1 + text))
    assert said in str(caught.value)


def test_files_of_ones_own(tmp_path, write):
    people = ab.datasets.load("table1")
    people.to_csv(tmp_path / "people.csv", sep=",", index=False)
    found = run(
        write(
            'kind = "assessment"\ncleartext = {file = "people.csv", sep = ","}\n'
            'release = {scheme = "anatomy", sensitive = "Dis", l = 2}\n'
            "model = {draws = 100, tune = 50, chains = 2}\n"
        )
    )
    assert found.fields["assessment"]["release"]["scheme"] == "vertical"


def test_adult_is_not_downloaded_behind_ones_back(monkeypatch, tmp_path):
    monkeypatch.setattr("anonbayes.datasets.cache_folder", lambda: tmp_path)
    with pytest.raises(AnonbayesError, match="not in the cache"):
        prepare(model("adult_anatomy"))


# -- the other kinds ------------------------------------------------------------------------------


def test_quantized_average():
    found = run(model("quantized_average"))
    data = np.array([38, 52, 47, 120, 61])
    assert abs(found.measures["answer"] - data.mean()) <= 10
    # The most telling answer is a corner: five numbers with a sum below 100, 100^5/5! of 200^5.
    assert found.measures["leakage"] == pytest.approx(math.log(200**5 / (100**5 / 120)))
    assert found.measures["answers"] == 10
    assert str(data.mean()) not in json.dumps(found.measures), "the truth stays private"
    table = found.tables["tradeoff"]
    assert table["largest_error"].is_monotonic_decreasing
    assert table["leakage"].is_monotonic_increasing
    assert run(model("quantized_average", "limits.max_leakage=1")).exceeded


def test_numbers_from_a_file(tmp_path, write):
    text = (
        'kind = "query"\nquality.largest_error = 1\n'
        'numbers = {lower = 0, upper = 10, file = "n.csv", column = "x"}\n'
    )
    (tmp_path / "n.csv").write_text("x\n3\n4.5\n3\n")
    assert abs(run(write(text)).measures["answer"] - 3.5) <= 1
    for content, said in (
        ("y\n3\n", "numbers.column = 'x' is not a column of 'n.csv'"),
        ("x\n3\nfour\n", "other cells than numbers"),
        ("x\n3\n11\n", "11 lies outside"),
    ):
        (tmp_path / "n.csv").write_text(content)
        with pytest.raises(AnonbayesError, match=said):
            prepare(write(text))


def test_survey_finds_the_shares():
    found = run(model("uldp_survey", 'estimation.methods=["empirical", "mle"]'))
    shares = found.tables["shares"]
    assert shares["truth"].sum() == pytest.approx(1)
    # Five times the expected loss: far beyond chance, far below an error of the estimator.
    assert found.measures["error_empirical"] < 5 * found.measures["expected_error"]
    gain = found.measures["expected_error_randomized_response"] / found.measures["expected_error"]
    assert gain > 1.5
    assert [a["holds"] for a in found.details["audits"]] == [True]
    assert run(
        model("uldp_survey", 'estimation.methods=["mle"]', "limits.max_epsilon=0.5")
    ).exceeded


def test_a_survey_says_what_shuffling_its_reports_guarantees():
    plain = ("mechanism.channel='randomized_response'", "mechanism.sensitive=[]")
    found = run(model("uldp_survey", 'estimation.methods=["mle"]', *plain))
    domain = ab.Domain("answer", ["none", "flu", "back pain", "asthma", "migraine", "sad", "HIV"])
    expected = ab.shuffled(ab.RandomizedResponse(domain, 1.0), 20_000)
    assert found.measures["shuffled_epsilon"] == expected.epsilon
    assert "If shuffled by a trusted party" in found.text
    with_open_answers = run(model("uldp_survey", 'estimation.methods=["mle"]'))
    assert "shuffled_epsilon" not in with_open_answers.measures  # which no LDP protects


def test_survey_of_real_reports(tmp_path, write):
    channel = ab.RandomizedResponse(ab.Domain("answer", ["yes", "no"]), 2.0)
    reports = channel.release(["yes"] * 900 + ["no"] * 2100, seed=1)
    (tmp_path / "r.csv").write_text("said\n" + "\n".join(reports) + "\n")
    text = (
        'kind = "survey"\nreports = {file = "r.csv", column = "said"}\n'
        'estimation.methods = ["mle"]\n'
        'mechanism = {channel = "randomized_response", epsilon = 2.0, values = ["yes", "no"]}\n'
    )
    found = run(write(text))
    assert found.measures["reports"] == 3000
    expected = channel.estimate(reports, method="mle").p[0]
    assert found.tables["shares"].loc["yes", "mle"] == pytest.approx(expected)
    (tmp_path / "r.csv").write_text("said\nmaybe\n")
    with pytest.raises(AnonbayesError, match="maybe"):
        prepare(write(text))


SIMULATED = 'kind = "survey"\nestimation.level = 0.999\n'
MADE = {
    "matrix": "mechanism.matrix = {a = {y = 0.9, n = 0.1}, b = {y = 0.2, n = 0.8}}\n",
    "invariant_pram": "mechanism.shares = {a = 3, b = 1}\nmechanism.epsilon = 2\n",
    "input_discriminative_ue": "mechanism.budgets = {a = 1, b = 3}\n",
    "subset_selection": "mechanism.epsilon = 2\nmechanism.d = 1\n",
    "longitudinal_osue": "mechanism.epsilon = 1\nmechanism.infinite = 3\n",
    "padded_sets": "mechanism.epsilon = 2\nmechanism.length = 2\n",
}


@pytest.mark.parametrize("channel", MADE)
def test_surveys_take_every_mechanism(channel, tmp_path, write):
    mechanism = f'mechanism.channel = "{channel}"\n{MADE[channel]}'
    people = "population = {people = 4000, shares = {a = 0.7, b = 0.3}}\n"
    found = run(write(f'{SIMULATED}{mechanism}{people}estimation.methods = ["empirical"]\n'))
    shares = found.tables["shares"]
    assert (shares["empirical_lower"] <= shares["truth"] + 1e-9).all()
    assert (shares["truth"] <= shares["empirical_upper"] + 1e-9).all()
    assert [audit["holds"] for audit in found.details["audits"]] == [True]
    # The same reports from a file.
    sent = prepare(write(f"{SIMULATED}{mechanism}{people}"))
    texts = sent.channel.spell(sent.reports)
    (tmp_path / "r.csv").write_text("said\n" + "\n".join(texts) + "\n")
    known = 'mechanism.values = ["a", "b"]\nreports = {file = "r.csv", column = "said"}\n'
    again = run(write(f'{SIMULATED}{mechanism}{known}estimation.methods = ["empirical"]\n'))
    assert again.tables["shares"]["empirical"].tolist() == pytest.approx(
        shares["empirical"].tolist()
    )


@pytest.mark.parametrize("how", ["sample", "split"])
def test_a_survey_of_several_attributes(how, tmp_path, write):
    text = (
        f'{SIMULATED}mechanism = {{channel = "rappor", epsilon = 4, how = "{how}"}}\n'
        'estimation.methods = ["empirical"]\nlimits.max_epsilon = 3\n'
    )
    attributes = "{sex = {f = 0.7, m = 0.3}, region = {n = 1, s = 2, w = 1}}"
    people = f"population = {{people = 4000, attributes = {attributes}}}\n"
    found = run(write(text + people))
    assert found.measures["epsilon"] == pytest.approx(4) and found.exceeded
    for name in ("sex", "region"):
        shares = found.tables[f"shares_{name}"]
        assert (shares["empirical_lower"] <= shares["truth"]).all()
        assert (shares["truth"] <= shares["empirical_upper"]).all()
        assert found.measures[f"{name}_reports"] < 4000 or how == "split"
    sent = prepare(write(text + people))
    reports = {name: part.reports for name, part in sent.parts.items()}
    asked = sent.parts["sex"].reports
    assert len(asked) == (4000 if how == "split" else len(reports["sex"]))
    with pytest.raises(AnonbayesError, match="shares or"):
        prepare(write(text + "population = {people = 10}\n"))


def test_personal_tags_are_spread_over_their_places():
    found = run(model("personalized_locations", 'estimation.methods=["mle"]'))
    truth = found.tables["shares"]["truth"]
    shares = {"clinic": 2, "station": 30, "mall": 25, "park": 20, "stadium": 8, "suburb": 10}
    expected = 0.5 * shares["suburb"] / 100 + 0.3 * 0.7
    assert truth["suburb"] == pytest.approx(expected, abs=4 * math.sqrt(0.25 / 20_000))
    assert found.measures["error_mle"] < 0.2
    assert all(a["holds"] for a in found.details["audits"])
    assert len(found.details["audits"]) == 3
    hidden = [f"mechanism.tags.'<{tag}>'.known=false" for tag in ("home", "work")]
    blind = run(model("personalized_locations", 'estimation.methods=["mle"]', *hidden))
    assert blind.measures["error_mle"] > 2 * found.measures["error_mle"]


def test_checkins_stay_within_the_bound(tmp_path, write):
    found = run(model("oneid_checkins", "population.users=5000", "protocol.gamma=50"))
    assert found.measures["bound"] == 0.01
    assert 0 < found.measures["reidentified"] <= 0.01
    assert found.tables["places"]["truth"].sum() == 5000
    with pytest.raises(AnonbayesError, match="gamma"):
        prepare(model("oneid_checkins", "protocol.gamma=1e9"))
    (tmp_path / "u.csv").write_text("at\n" + "a\n" * 60 + "b\n" * 30 + "c\n" * 10)
    found = run(
        write(
            'kind = "checkins"\npopulation = {file = "u.csv", column = "at"}\n'
            "protocol.gamma = 20\nlimits.max_reidentified = 0.0\n"
        )
    )
    assert found.tables["places"]["truth"].tolist() == [60, 30, 10]
    assert found.exceeded


def test_traces_say_what_the_definition_says(tmp_path, write):
    rng = np.random.default_rng(1)
    visits = {
        "ann": rng.choice(3, 40, p=[0.8, 0.1, 0.1]),
        "bob": rng.choice(3, 30, p=[0, 0.5, 0.5]),
    }
    lines = [f"{user};r{r}" for user, trace in visits.items() for r in trace]
    (tmp_path / "v.csv").write_text("who;where\n" + "\n".join(lines) + "\n")
    text = (
        'kind = "traces"\npopulation = {file = "v.csv", user = "who", region = "where"}\n'
        "mechanism = {epsilon = 1.0, compare = [50.0]}\n"
    )
    found = run(write(text))
    # I(U;Y) written out, of the second halves.
    p_ux = [np.bincount(t[len(t) // 2 :], minlength=3) / (len(t) // 2) / 2 for t in visits.values()]
    noise = (np.ones((3, 3)) + (math.e - 1) * np.eye(3)) / (2 + math.e)
    joint = np.array(p_ux) @ noise
    bits = (joint * np.log2(joint / joint.sum(1, keepdims=True) / joint.sum(0))).sum()
    assert found.measures["bits"] == pytest.approx(bits)
    assert bits <= found.measures["bound_exact"] <= found.measures["bound"]
    clear = found.measures["identified_in_clear"]
    assert found.tables["budgets"].loc[50.0, "identified"] == pytest.approx(clear)
    (tmp_path / "v.csv").write_text("who;where\na;1\nb;2\n")
    with pytest.raises(AnonbayesError, match="User 'a' has 1 visits"):
        prepare(write(text))


def test_more_noise_identifies_fewer_traces():
    found = run(model("pie_traces", "population.users=100", "mechanism.compare=[0.5, 8.0]"))
    table = found.tables["budgets"]
    assert table["bits"].is_monotonic_increasing
    assert table.loc[8.0, "identified"] > table.loc[0.5, "identified"] + 0.3
    assert (table["bits"] <= table["bound_exact"]).all()
    assert run(model("pie_traces", "population.users=100", "limits.max_bits=0")).exceeded


@pytest.mark.parametrize("file", sorted(MODELS.glob("*.toml")), ids=lambda f: f.stem)
def test_shipped_scenarios_are_well_formed(file):
    found = load(file)
    assert found.settings.question.endswith("?")
    assert file.read_text(encoding="utf-8").startswith("#:schema ./scenario.schema.json\n# ")


def test_the_report_of_a_sweep_names_limits_and_ties(write, tmp_path):
    text = TABLE1 + 'release = {scheme = "mondrian", sensitive = "Dis"}\n'
    found = run(write(text + '[sweep]\n"release.k" = [2, 4]\n[limits]\nmax_threatened = 1.0\n'))
    found.files["report.html"](tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"<h1>Recommended: {found.details['best']}" in page
    assert "within the limit of 100.0%" in page and "within the limit of 100.0%" in found.text


def test_a_limit_of_an_attacker_needs_chains_that_agree(write):
    text = (
        'kind = "assessment"\nrelease.dataset = "clinic_anatomy"\n'
        'cleartext.dataset = "clinic"\nmodel.evidence = "independent"\nmodel.method = "gibbs"\n'
        "model.draws = 4\nmodel.chains = 2\n"
        'attackers = [{name = "stranger", at_most = {right = 1.0}}]\n'
    )
    found = run(write(text))
    assert found.exceeded
    assert [limit.measure for limit in found.limits if limit.exceeded] == ["converged"]
