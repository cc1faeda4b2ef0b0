"""Links between Markdown pages lead somewhere, in the repository as on the site."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest

from tests.docs_blocks import FENCE, ROOT, pages

LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")


def prose(page: str | Path) -> str:
    """Text of a page without its code."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.sub(r"`[^`\n]*`", "code", FENCE.sub("", text))


def slug(heading: str) -> str:
    """Anchor that GitHub and MyST give to a heading."""
    text = re.sub(r"[`*]", "", heading.strip().lower())
    kept = "".join(c for c in text if c in " -_" or unicodedata.category(c)[0] in "LN")
    return kept.replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def broken(page: str) -> list[str]:
    """Links of a page that lead nowhere."""
    found = []
    for link in LINK.finditer(prose(page)):
        path, _, anchor = link["target"].partition("#")
        if "://" in path:
            continue
        file = (ROOT / page).parent / path if path else ROOT / page
        if not file.exists():
            found.append(link["target"])
        elif anchor and anchor not in anchors(file):
            found.append(link["target"])
    return found


@pytest.mark.parametrize("page", pages())
def test_links_lead_somewhere(page):
    assert broken(page) == []


@pytest.mark.parametrize("page", pages())
def test_pictures_say_what_they_show(page):
    silent = [m["target"] for m in LINK.finditer(prose(page)) if m["image"] and not m["text"]]
    assert silent == []


def test_all_pictures_are_shown_somewhere():
    text = "".join((ROOT / page).read_text(encoding="utf-8") for page in pages())
    unused = [f.name for f in (ROOT / "docs" / "images").iterdir() if f"/{f.name})" not in text]
    assert unused == []


def test_every_page_is_in_a_table_of_contents():
    listed = set()
    for page in (ROOT / "docs").glob("*.md"):
        for entries in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), re.DOTALL):
            listed |= {re.sub(r".*<(.+)>", r"\1", line) for line in entries.splitlines()}
    written = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    assert written <= listed


def test_the_architecture_names_every_room():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.+?`) \|", text, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)/?`", row)}
    there = {p.stem for p in (ROOT / "anonbayes").iterdir() if p.suffix == ".py" or p.is_dir()}
    assert named == {name for name in there if not name.startswith("_")} - {"steps"}


def test_broken_links_are_noticed(tmp_path, monkeypatch):
    (tmp_path / "a.md").write_text("# A b\n[x](absent.md) [y](#a-b) [z](#c) `[q](code.md)`\n")
    monkeypatch.setattr("tests.test_docs_links.ROOT", tmp_path)
    assert broken("a.md") == ["absent.md", "#c"]
