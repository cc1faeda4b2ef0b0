"""The report in a real browser."""

import json
import re

import pytest
from report_browser import Browser, find_chromium
from test_report_page import EVIL, IMAGE, evil_release

import anonbayes as ab

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="Chromium is not installed")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    found = Browser(find_chromium(), tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    """Report on the clinic, and the assessment behind it."""
    post = ab.fit(ab.datasets.load("clinic_local"), seed=1, draws=100, progressbar=False)
    risk = post.assess(ab.datasets.load("clinic"), samples=1000)
    folder = tmp_path_factory.mktemp("clinic")
    file = ab.report(post, risk, folder / "report.html", title="clinic_k4_l3_local.csv")
    alone = ab.report(post, None, folder / "alone.html")
    return file, alone, risk


def click(browser, selector):
    browser.run(f"document.querySelector({json.dumps(selector)}).click()")


def type_into(browser, selector, text):
    browser.run(
        f"(() => {{ const box = document.querySelector({json.dumps(selector)});"
        f"box.value = {json.dumps(text)};"
        "box.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


def column(browser, number):
    cells = f"#rows-table tbody td:nth-child({number + 1})"
    return browser.run(f"[...document.querySelectorAll('{cells}')].map(c => c.textContent)")


def status(browser):
    return browser.run("document.getElementById('rows-status').textContent")


@pytest.mark.parametrize("which", [0, 1], ids=["assessed", "release alone"])
@pytest.mark.parametrize("width", [1280, 390])
def test_quiet_and_within_the_window(browser, clinic, width, which):
    browser.open(clinic[which], width=width)
    assert browser.problems == [] and browser.requests == [] and browser.dialogs == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("[...document.images].every(i => i.complete && i.naturalWidth > 100)")
    # Text is large enough, and no figure or sentence is cut off at the side.
    assert browser.run("parseFloat(getComputedStyle(document.body).fontSize)") >= 15
    cut = browser.run(
        "[...document.querySelectorAll('h1, h2, h3, p, dd, dt, figure')].filter(e => "
        "!e.closest('.scroll') && e.getBoundingClientRect().right > innerWidth + 1).length"
    )
    assert cut == 0


def test_words_in_tables_are_not_torn_apart(browser, clinic):
    browser.open(clinic[0], width=390)
    narrowest = browser.run(
        "Math.min(...[...document.querySelectorAll('tbody th')].filter(e => e.offsetParent)"
        ".map(e => e.clientWidth))"
    )
    assert narrowest > 60


def test_sorting(browser, clinic):
    browser.open(clinic[0])
    _, _, risk = clinic
    expected = [str(label) for label in risk.threatened.index[:25]]
    assert sorted(column(browser, 0)) == sorted(expected)
    assert column(browser, 1)[0] == f"× {risk.threatened['Ti'].iloc[0]:#.3g}"
    click(browser, "#rows-table th:nth-child(3) button")
    beliefs = [float(x.rstrip("%")) for x in column(browser, 2)]
    assert beliefs == sorted(beliefs, reverse=True)
    assert beliefs[0] == pytest.approx(100 * risk.threatened["p_A"].max(), abs=0.05)
    click(browser, "#rows-table th:nth-child(3) button")
    assert float(column(browser, 2)[0].rstrip("%")) == pytest.approx(
        100 * risk.threatened["p_A"].min(), abs=0.05
    )
    click(browser, "#rows-table th:nth-child(1) button")
    assert [int(x) for x in column(browser, 0)] == sorted(risk.threatened.index)[:25]
    sorts = browser.run(
        "[...document.querySelectorAll('#rows-table th')].map(h => h.getAttribute('aria-sort'))"
    )
    assert sorts[0] == "ascending" and set(sorts[1:]) == {"none"}


def test_filtering(browser, clinic):
    browser.open(clinic[0])
    _, _, risk = clinic
    ratio, belief = risk.threatened["Ti"], risk.threatened["p_A"]
    type_into(browser, "#rows-threat", "3")
    assert f"of {(ratio >= 3).sum()} rows" in status(browser)
    type_into(browser, "#rows-belief", "50")
    both = int(((ratio >= 3) & (belief >= 0.5)).sum())
    assert both > 1 and status(browser).endswith(f"of {both} rows")
    click(browser, "#rows-controls button[type=reset]")
    browser.run("new Promise(done => setTimeout(done, 20))")
    assert f"of {len(risk.threatened):,} rows" in status(browser)
    label = str(risk.threatened.index[40])
    type_into(browser, "#rows-text", label)
    assert column(browser, 0) == [label] and status(browser) == "1–1 of 1 row"
    type_into(browser, "#rows-text", "nobody")
    assert column(browser, 0) == [] and status(browser) == "No row fits."


def test_pages(browser, clinic):
    browser.open(clinic[0])
    _, _, risk = clinic
    first = column(browser, 0)
    click(browser, "#rows-next")
    second = column(browser, 0)
    assert not set(first) & set(second) and status(browser).startswith("26–50 of")
    click(browser, "#rows-back")
    assert column(browser, 0) == first
    type_into(browser, "#rows-size", "100")
    assert len(column(browser, 0)) == 100
    seen = set()
    while not browser.run("document.getElementById('rows-next').disabled"):
        seen |= set(column(browser, 0))
        click(browser, "#rows-next")
    assert seen | set(column(browser, 0)) == {str(label) for label in risk.threatened.index}


def test_script_and_server_write_numbers_alike(browser, clinic):
    browser.open(clinic[0])
    text = clinic[0].read_text(encoding="utf-8")
    body = text[text.index('id="rows-table"') :].split("<tbody>")[1].split("</tbody>")[0]
    served = re.findall(r'<td class="num">([^<]*)</td>', body)
    shown = browser.run(
        "[...document.querySelectorAll('#rows-table tbody td')].map(c => c.textContent)"
    )
    assert sorted(served) == sorted(shown)


def test_markup_in_labels_is_shown_not_run(browser, tmp_path):
    table, frame = evil_release()
    post = ab.fit(table, seed=1, progressbar=False)
    file = tmp_path / "<b>report & co</b>.html".replace("/", "")
    ab.report(post, post.assess(frame), file, show_values=True, title=EVIL, command=EVIL)
    browser.open(file)
    assert browser.dialogs == [] and browser.problems == [] and browser.requests == []
    shown = browser.run("document.body.innerText")
    assert shown.count(EVIL) > 5 and IMAGE in shown
    assert browser.run("document.title").startswith(EVIL)
    click(browser, "#rows-table th:nth-child(2) button")
    type_into(browser, "#rows-text", "<script>")
    assert EVIL in browser.run("document.getElementById('rows-table').textContent")
    assert browser.dialogs == [] and browser.problems == []


def test_the_policy_stops_what_escaping_might_miss(browser, clinic, tmp_path):
    """The second line of defence works: markup that got in could neither run nor call home."""
    text = clinic[0].read_text(encoding="utf-8")
    planted = "<script>alert(1)</script><img src='https://127.0.0.1:9/x' onerror='alert(2)'>"
    file = tmp_path / "planted.html"
    file.write_text(text.replace("<footer>", planted + "<footer>"), encoding="utf-8")
    browser.open(file)
    assert browser.dialogs == []
    assert any("Content Security Policy" in problem for problem in browser.problems)


def test_print(browser, clinic):
    browser.open(clinic[0])
    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        hidden = browser.run(
            "['nav', '#rows-controls', '#rows-next'].map(s => "
            "getComputedStyle(document.querySelector(s)).display)"
        )
        assert hidden == ["none"] * 3
        assert browser.run("getComputedStyle(document.querySelector('#officers')).breakBefore") == (
            "page"
        )
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")
    pdf = browser.print()
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    assert pdf.startswith(b"%PDF") and 5 <= pages <= 25
