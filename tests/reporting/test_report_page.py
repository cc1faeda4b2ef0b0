"""The HTML report as text: what it says, what it keeps to itself, what it never does."""

import base64
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import anonbayes as ab
from anonbayes.diagnostics import plot_geweke
from anonbayes.formats import number, ratio, share
from anonbayes.reporting.page import chain_pictures, draw, render
from anonbayes.reporting.sections import by_number, row_contributions, row_table
from anonbayes.risk.measures import check_limits

EVIL = "<script>alert(1)</script>"


PEOPLE = pd.DataFrame(
    {
        "Nat": ["M", "J", "M", "J", "C", "I", "C", "I"],
        "ZIP": ["45501", "45502", "45501", "45502", "55501", "55502", "55501", "55502"],
        "Dis": ["Heart", "Flu", "Heart", "HIV", "Flu", "Heart", "Flu", "HIV"],
    }
)


@pytest.fixture(scope="module")
def post():
    """Two groups of four with nested cells: everything is exact."""
    cells = {"Nat": ["{J, M}"] * 4 + ["{C, I}"] * 4, "ZIP": ["4550*"] * 4 + ["5550*"] * 4}
    table = ab.ReleasedTable.horizontal(
        PEOPLE.assign(**cells), "Dis", domains={c: sorted(set(PEOPLE[c])) for c in cells}
    )
    return ab.fit(table, seed=1, draws=100, progressbar=False)


@pytest.fixture(scope="module")
def risk(post):
    return post.assess(PEOPLE)


@pytest.fixture(scope="module")
def page(post, risk):
    return render(post, risk)


def order(text, *ids):
    return [text.index(f'id="{name}"') for name in ids]


def test_sections_come_in_order(page):
    ids = "verdict measures rows pictures officers model convergence repeat".split()
    places = order(page, *ids)
    assert places == sorted(places)


def test_every_measure_is_there_with_its_meaning_and_error(page, risk):
    text = page.replace("&#39;", "'")
    for name, line in risk.measures.iterrows():
        assert f"<code>{name}</code>" in text
        assert line["meaning"] in text
    # RF is exact here, as all records can be listed.
    assert page.count('<dd class="error">exact</dd>') == len(risk.measures)


def test_the_verdict_answers_the_four_questions(page):
    headline = page.split("<h1>")[1].split("</h1>")[0]
    assert "Being in the table does not raise the share of secrets guessed right" in headline
    for question in (
        "What does being in the table cost?",
        "Who is threatened?",
        "How sure is the attacker?",
        "be trusted?",
    ):
        assert question in page
    assert "exact under the model" in page and "draws are independent" in page


def test_officers_see_both_kinds_of_risk(page, risk):
    for words in ("Singling out", "Linkability", "Inference", "prosecutor", "journalist",
                  "marketer", "random worlds", "Opinion 05/2014"):  # fmt: skip
        assert words in page
    start = page.index("<table", page.index("Risks by attacker") - 200)
    heads = re.findall(r"<th[^>]*>(.*?)</th>", page[start : page.index("</thead>", start)], re.S)
    assert "Average" not in heads  # what is right on average is no mean of the beliefs beside it
    assert {
        "Largest probability for one person", "Share of people found or guessed right"
    } <= {re.sub("<.*?>", "", head).strip() for head in heads}  # fmt: skip
    assert all(answer.finding in page.replace("&#39;", "'") for answer in risk.wp29())


def test_how_to_repeat_it(page, post):
    assert "seed=1" in page and post.table.fingerprint in page
    for name in ("anonbayes", "pymc", "arviz", "numpy", "numba"):
        assert post.idata.attrs[f"{name}_version"] in page


def test_nothing_is_loaded_from_elsewhere(page):
    assert not re.findall(r"https?:|@import|url\(", page)
    assert all(uri.startswith("data:") for uri in re.findall(r'(?:src|href)="([^"#][^"]*)"', page))
    assert "default-src &#39;none&#39;" in page


def test_people_are_numbers_unless_asked_for(post):
    people = PEOPLE.set_axis([f"Person {c}" for c in "ABCDEFGH"], axis=0)
    risk = post.assess(people)
    hidden = render(post, risk)
    assert "Person " not in hidden
    assert [row[0] for row in row_table(by_number(risk)).rows] == [
        people.index.get_loc(label) for label in risk.threatened.index
    ]
    rows = hidden[hidden.index('id="rows-data"') :].split("</script>")[0]
    assert not any(str(value) in rows for value in people["Dis"])
    shown = render(post, risk, show_values=True)
    assert f"Person {risk.threatened.index[0][-1]}" in shown
    assert "Treat this file like the cleartext" in shown


IMAGE = "<img src=x onerror=alert(1)>"


def evil_release(column=IMAGE):
    """A table in which every name and value is markup, and some are mathematics."""
    frame = pd.DataFrame(
        {
            column: [EVIL, EVIL, "$x$", "$\\frac$"] * 3,
            "b&b": ["</script><b>", "'\"", "</script><b>", "'\""] * 3,
            "<title>": [EVIL, "</style>", EVIL, "<!--", EVIL, "]]>"] * 2,
        }
    )
    return ab.ReleasedTable.horizontal(frame, "<title>"), frame


@pytest.mark.parametrize("column", [IMAGE, EVIL])
def test_labels_are_shown_not_run(column):
    table, frame = evil_release(column)
    post = ab.fit(table, seed=1, progressbar=False)
    text = render(post, post.assess(frame), show_values=True, title=EVIL, command=EVIL)
    assert (
        EVIL not in text and IMAGE not in text and "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    )
    assert len(re.findall(r"<script\b", text)) == 2  # the data and the table's own
    assert text.count("</script>") == 2 and text.count("</title>") == 1


def test_sampled_chains_are_reported():
    post = ab.fit(ab.datasets.load("table1_anatomy"), seed=1, draws=200, progressbar=False)
    text = render(post, post.assess(ab.datasets.load("table1")))
    assert "Simulation adds a standard error" in text and "R-hat" in text
    assert "quantities with the worst diagnostics" in text


@pytest.mark.parametrize(("draws", "drawn"), [(5, False), (42, False), (43, True)])
def test_few_draws_leave_pictures_out_that_need_more(draws, drawn, monkeypatch):
    monkeypatch.setattr(
        "anonbayes.reporting.page.draw", lambda plot, title, *_, **__: (plot(), title)
    )
    table = ab.datasets.load("table1_anatomy")
    post = ab.fit(table, seed=1, draws=draws, tune=10, chains=2, progressbar=False)
    titles = [title for _, title in chain_pictures(post, ab.diagnose(post))]
    assert ("Early against late draws" in titles) == drawn
    assert "Autocorrelation" in titles
    if not drawn:
        with pytest.raises(ab.AnonbayesError, match="use more draws"):
            plot_geweke(post)


def test_untrusted_chains_come_first():
    post = ab.fit(ab.datasets.load("table1_anatomy"), seed=1, draws=50, chains=1, progressbar=False)
    text = render(post, post.assess(ab.datasets.load("table1")))
    alert = text.index("rely on the numbers below yet: a single chain")
    assert text.index("<h1>") < alert < text.index("Who is threatened?")


def points(clear, released, secret="s", **how):
    """Sentences of the verdict, and the whole page, of a table."""
    table = ab.ReleasedTable.horizontal(released, sensitive=secret, **how)
    post = ab.fit(table, draws=20, seed=1, progressbar=False)
    risk = post.assess(clear)
    return risk, render(post, risk)


def test_nothing_in_the_words_exceeds_what_is_possible():
    """Tiny tables: one person, nobody doubled, beliefs of 100%, errors that are rounding."""
    one = pd.DataFrame({"a": ["x"], "s": ["p"]})
    risk, page = points(one, one, domains={"a": ["x", "y"], "s": ["p", "q"]})
    for text in (page, risk.text):
        assert "1 person is in a group that shows" in text and "in groups that" not in text
    assert "outsiders: the attacker is never twice as sure" in page and "0 people are" not in page
    assert "about 1 person, whose group shows a single value" in page
    assert "some right guesses are just as certain" in page and "above 100.0%" not in page
    hidden = pd.DataFrame({"a": list("xxyyzz"), "s": list("pppqqr")})
    stars = hidden.assign(a="*")
    risk, page = points(hidden, stars, domains={"a": list("xyz")})
    assert risk.summary["ece_A"] < 1e-12 and "(calibration error 0.0 points)" in page
    pairs = hidden.assign(t=list("uvuvuv"))
    risk, page = points(pairs, pairs, secret=["s", "t"])
    assert "p &amp; u" in page and "(&#39;p&#39;, &#39;u&#39;)</" not in page
    assert share(-0.0001) == ">-0.1%" and share(-0.02) == "-2.0%"


def test_without_cleartext(post):
    text = render(post)
    places = order(text, "verdict", "release", "officers", "model", "convergence", "repeat")
    assert places == sorted(places)
    assert 'id="rows"' not in text and "Needs the cleartext" in text
    for value in ("Heart", "Flu", "HIV"):  # estimates of the population
        assert value in text
    mean = post.secret_mean.max()
    assert f"{mean:.1%}" in text


def test_other_questions_than_secrets_have_sections(post):
    """Who is in the table, and what the choice of the anonymizer tells, or why not."""
    named = PEOPLE.set_axis([f"name {i}" for i in range(len(PEOPLE))])
    member = ab.membership(post.table, named, register=PEOPLE[::2], population=50, folds=2)
    choice = ab.downcoding(post.table, lambda frame: post.table, cleartext=PEOPLE, draws=100)
    text = render(post, membership=member, minimality=choice)
    places = order(text, "membership", "minimality", "officers")
    assert places == sorted(places)
    assert "Can it be told who is in the table?" in text and "of 50 people" in text
    assert share(float(member.summary.loc["auc", "estimate"])) in text
    assert "membership is most certain" in text and "name 0" not in text
    assert "0 of 16 cells" in text and "Members found against others" in text  # the picture
    text = render(post, minimality="It cannot be computed <here>.")
    assert "cannot be computed &lt;here&gt;" in text and 'id="membership"' not in text


def test_limits(post, risk):
    highest = float(risk.summary["max_Ti"])
    kept, broken = (
        check_limits(risk, max_relative_threat=highest * factor)[0] for factor in (1.01, 0.99)
    )
    assert (kept.exceeded, broken.exceeded) == (False, True)
    assert not check_limits(risk, max_relative_threat=highest)[0].exceeded  # at most is allowed
    text = render(post, risk, limits=(kept, broken))
    assert kept.text in text and broken.text in text
    assert "above the limit" in broken.text and "within the limit" in kept.text


@pytest.mark.parametrize(
    ("setting", "measure", "words"),
    [
        ("max_relative_threat", "max_Ti", "The largest relative threat is "),
        ("max_threatened", "GT_A", "The share of threatened people is "),
        ("max_cost", "RGT_A", "The cost of being in the table is "),
    ],
)
def test_each_limit_is_about_its_measure(post, risk, setting, measure, words):
    risk = replace(risk, summary=risk.summary + 0.02)  # nothing is 0
    found = float(risk.summary[measure])
    (kept,), (broken,) = (check_limits(risk, **{setting: found * f}) for f in (1.0, 0.9))
    assert (kept.exceeded, broken.exceeded) == (False, True)
    assert kept.to_dict() == {
        "name": setting, "measure": measure, "limit": found, "found": found, "exceeded": False
    }  # fmt: skip
    shown = number(found) if measure == "max_Ti" else share(found)
    assert broken.text.startswith(f"{words}{shown}, above the limit of "), broken.text
    assert broken.text in render(post, risk, limits=(broken,))


@pytest.mark.parametrize(
    ("limits", "part"),
    [
        ({"max_relative_threat": 0.0}, "positive factor"),
        ({"max_relative_threat": np.nan}, "positive factor"),
        ({"max_threatened": 30.0}, "max_threatened=30.0 must be a share of the people"),
        ({"max_cost": -0.1}, "max_cost=-0.1 must be a share of the people"),
        ({"max_cost": np.nan}, "max_cost=nan must be a share of the people"),
    ],
)
def test_impossible_limits(risk, limits, part):
    with pytest.raises(ab.AnonbayesError, match=part):
        check_limits(risk, **limits)


def test_bad_arguments(post, risk, tmp_path):
    other = ab.fit(ab.datasets.load("table1_anatomy"), seed=1, draws=10, progressbar=False)
    for arguments, part in (
        ((other, risk, tmp_path / "r.html"), "another release"),
        ((post, risk, tmp_path), "is a directory"),
        ((post, risk, tmp_path / "no" / "r.html"), "no directory"),
        (("post", None, tmp_path / "r.html"), "needs a Posterior"),
        ((post, tmp_path / "r.html"), "name the file with path="),
    ):
        with pytest.raises(ab.AnonbayesError, match=part):
            ab.report(*arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_report_is_replaced_only_when_complete(post, risk, tmp_path, monkeypatch):
    monkeypatch.setattr("anonbayes.reporting.page.render", lambda *_, title, **__: str(title))
    file = ab.report(post, risk, tmp_path / "report.html", title="one")
    assert file.read_bytes() == b"one"
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        ab.report(post, risk, file, title="another")
    assert file.read_bytes() == b"one" and [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_the_table_can_be_cut(post, risk):
    text = render(post, risk, max_rows=2)
    assert f"Of {len(risk.threatened)} rows, the 2 with the largest relative threat" in text
    assert len(row_table(by_number(risk), most=2).rows) == 2


def test_contributions_are_factors(risk):
    table = row_contributions(by_number(risk), top=1)
    label = risk.threatened.index[0]
    expected = 2 ** risk.contributions([label]).loc[(label, "Nat"), "adds_log2_Ti"]
    assert table.rows[0][table.head.index("Nat")] == ratio(expected)


def test_letters_that_the_font_lacks_are_left_to_the_browser():
    """The font of matplotlib knows no Japanese: boxes in the picture, and a warning for each."""

    def plot(title):
        figure = Figure()
        figure.add_subplot().set_title(title)
        return figure

    def text(title):
        uri = draw(lambda: plot(title), "", "").uri
        return base64.b64decode(uri.split(",")[1]).decode()

    assert ">心臓病</text>" in text("心臓病")
    assert "<text" not in text("heart disease")  # drawn, so that it looks the same everywhere


def test_other_warnings_of_a_picture_are_passed_on():
    class Warns(Figure):
        def savefig(self, *args, **kwargs):
            warnings.warn("mind the gap", UserWarning, stacklevel=2)
            super().savefig(*args, **kwargs)

    with pytest.warns(UserWarning, match="mind the gap"):
        draw(Warns, "", "")
