"""Every code block of README and documentation does what it says."""

from __future__ import annotations

import re
from typing import Any

import matplotlib.pyplot as plt
import pytest

from tests import docs_blocks
from tests.docs_blocks import (
    ROOT,
    Block,
    blocks,
    check_json,
    check_toml,
    pages,
    run_python,
    run_shell,
)

PAGES = [page for page in pages() if blocks(page)]
KINDS = {"python", "sh", "toml", "json", "text"}
#: The page whose commands draw a report in full; elsewhere the report is left empty to save time.
WHOLE_REPORT = "docs/reading-a-report.md"
#: Blocks that cannot be run, by page. Every one needs a reason beside it, and a place here.
NOT_RUN: dict[str, int] = {
    "docs/attackers.md": 1,
    "docs/bayesian-workflow.md": 1,
    "docs/clusters.md": 1,
}  # simuk compiles anew in every round


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A folder with the files that the pages speak of."""
    docs_blocks.furnish(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    plt.close("all")


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run_in_order(page, desk, monkeypatch):
    if page != WHOLE_REPORT:
        monkeypatch.setattr("anonbayes.reporting.page.render", lambda *_, **__: "<!doctype html>")
    names: dict[str, Any] = {"__name__": page}
    for block in blocks(page):
        if block.note == "not run" or block.language == "text":
            continue
        if block.language == "python":
            run_python(block, names)
        else:
            {"sh": run_shell, "toml": check_toml, "json": check_json}[block.language](block)


def test_every_block_has_a_language_that_is_checked():
    unknown = [
        f"{b}: {b.language!r}" for page in PAGES for b in blocks(page) if b.language not in KINDS
    ]
    assert not unknown


def test_blocks_that_are_not_run_are_counted():
    skipped: dict[str, int] = {}
    for page in PAGES:
        for block in blocks(page):
            if block.note == "not run":
                skipped[page] = skipped.get(page, 0) + 1
    assert skipped == NOT_RUN


def test_every_make_target_that_texts_name_exists():
    for name in [*pages(), ".ci/run"]:
        text = (ROOT / name).read_text(encoding="utf-8")
        # In code only: `make test`, or a line of a script that starts with it.
        for words in re.findall(r"(?:^ *|[{`] ?)make ((?:[a-z]+ ?)+)", text, re.MULTILINE):
            assert set(words.split()) <= docs_blocks.make_targets(), (name, words)


def test_the_commands_that_a_release_is_tried_with_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    lines = re.findall(r"^ +(anonbayes .*\n)", workflow, re.MULTILINE)
    assert any(line.startswith("anonbayes assess") for line in lines)
    run_shell(Block("release.yml", 1, "sh", "".join(lines)))
    assert (tmp_path / "clinic" / "report.html").is_file()


def python(text: str) -> Block:
    return Block("page.md", 1, "python", text)


@pytest.mark.parametrize(
    "text",
    ["print(1)\n# 2\n", "1 + 1\n# 3\n", "print(1)\n", "1\n", "x = 1\n# 1\n"],
)
def test_a_wrong_or_missing_output_is_noticed(text):
    with pytest.raises(AssertionError, match=r"page\.md:1 prints"):
        run_python(python(text), {})


def test_outputs_are_prints_then_the_last_value():
    run_python(python("# a comment\nprint('a', 1)\n'b'\n# a 1\n# 'b'\n"), {})


@pytest.mark.parametrize(
    "text, problem",
    [
        ("make nonsense\n", "make has no"),
        ("curl example.org\n", "nobody knows"),
        ("anonbayes describe absent.csv --sensitive x\n", "describe absent.csv"),
        (
            "anonbayes describe \\\n  released.csv --sensitive diagnosis  # exit code 3\n",
            "released",
        ),
        ("anonbayes describe released.csv --sensitve diagnosis\n", "sensitve"),
    ],
)
def test_a_shell_line_that_does_not_work_is_noticed(text, problem, desk):
    with pytest.raises((AssertionError, pytest.fail.Exception), match=problem):
        run_shell(Block("page.md", 1, "sh", text))


def test_an_excerpt_that_differs_is_noticed():
    with pytest.raises(AssertionError, match="exceeded"):
        docs_blocks.assert_part({"exceeded": True}, {"exceeded": False, "format": 1}, "")
    with pytest.raises(AssertionError):
        docs_blocks.assert_part({"measures": {"GT_A": 0.33}}, {"measures": {"GT_A": 0.34}}, "")
