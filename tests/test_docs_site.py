"""What the documentation generates from the code, and the check of the built site."""

from __future__ import annotations

import importlib
import re

import pytest

import anonbayes
from tests.docs_blocks import ROOT


@pytest.fixture(autouse=True)
def extensions(monkeypatch):
    """Make the extensions of the site importable; they need no Sphinx for this."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    monkeypatch.syspath_prepend(str(ROOT / "docs"))


def extension(name: str):
    return importlib.import_module(name)


def test_the_reference_has_every_public_name_once():
    groups = extension("api_pages").public_names()
    names = [name for group in groups.values() for name in group]
    assert sorted(names) == sorted(n for n in dir(anonbayes) if not n.startswith("_"))
    assert "RandomizedResponse" in groups["Channels"]
    assert "ReleasedTable" in groups["Released tables"]
    assert groups["Other names"] == ["AnonbayesError"]


def test_pages_of_modules_list_what_they_offer():
    api = extension("api_pages")
    text = api.module_page("pie")
    assert text.startswith("anonbayes.pie\n=============\n")
    assert all(re.search(rf"^   {name}$", text, re.MULTILINE) for name in anonbayes.pie.__all__)
    assert "   anonbayes.budgets\n" in api.index()


def test_every_command_has_a_section():
    line = extension("command_line")
    sections = {name: line.section(name, command) for name, command in line.commands()}
    assert {"anonbayes assess", "anonbayes run", "anonbayes diagnose"} <= set(sections)
    assess = sections["anonbayes assess"]
    assert "| `--draws INTEGER` | Draws per chain. Default: `1000`. |" in assess
    assert re.search(r"\| `--sensitive TEXT` \| Sensitive column.* Needed\. \|", assess)


def test_every_command_shows_an_example():
    """That the examples work is tested with the commands."""
    line = extension("command_line")
    for name, command in line.commands():
        if not getattr(command, "commands", None):
            assert f"```sh\n{name}" in line.section(name, command), name


def test_long_examples_are_folded_before_options():
    fold = extension("command_line").fold
    assert fold("anonbayes a --b c", width=12) == "anonbayes a \\\n    --b c"
    assert fold("anonbayes a --b c") == "anonbayes a --b c"


def test_included_files_link_to_pages_of_the_site():
    included = extension("included")
    pages = included.shown_by(ROOT / "docs")
    assert pages["README.md"] == "docs/about.md"
    text = "[a](models/README.md#keys) ![b](docs/images/b.png) [c](https://x.org) [d](docs/faq.md)"
    assert included.relink(text, "README.md", pages) == (
        "[a](scenarios.md#keys) ![b](images/b.png) [c](https://x.org) [d](faq.md)"
    )
    assert (
        included.relink("[e](island.toml)", "models/README.md", {}) == "[e](../models/island.toml)"
    )


def test_links_of_notebooks_are_led_from_their_place():
    included = extension("included")
    text = "[a](../models/k.toml) [b](first_steps.ipynb) [c](../docs/faq.md) [d](../README.md)"
    pages = {"README.md": "docs/index.md"}
    assert included.relink(text, "notebooks/n.ipynb", pages, base="docs/notebooks") == (
        "[a](../../models/k.toml) [b](first_steps.ipynb) [c](../faq.md) [d](../index.md)"
    )


def test_the_gallery_has_all_notebooks_first_steps_first():
    gallery = extension("gallery")
    stems = [file.stem for file in gallery.notebooks()]
    assert stems[0] == "first_steps"
    assert set(stems) == {file.stem for file in (ROOT / "notebooks").glob("*.ipynb")}
    page = [gallery.MARK]
    gallery.expand(None, "gallery", page)
    for file in gallery.notebooks():
        title, first = gallery.heading(file)
        assert title and first, file.name
        assert f"## [{title}](notebooks/{file.name})" in page[0]


PAGE = """<!doctype html><link rel="stylesheet" href="style.css"><link rel="next" href="https://x.org">
<h1 id="top">t</h1><a href="https://elsewhere.org">fine</a><a href="#top">up</a>{}"""


@pytest.mark.parametrize(
    "body, problem",
    [
        ("", None),
        ("<img src='picture.png'>", None),
        ("<a href='other.html#there'>x</a>", None),
        ("<script src='https://cdn.org/a.js'></script>", "loads https://cdn.org/a.js"),
        ("<img src='//cdn.org/a.png'>", "loads //cdn.org/a.png"),
        ("<style>@import 'https://fonts.org/x.css';</style>", "loads https://fonts.org/x.css"),
        ("<a href='absent.html'>x</a>", "links to absent.html, which is not there"),
        ("<a href='other.html#gone'>x</a>", "links to other.html#gone, but"),
        ("<img src='absent.png'>", "links to absent.png, which is not there"),
    ],
)
def test_the_check_of_the_site_finds_what_is_wrong(body, problem, tmp_path):
    (tmp_path / "index.html").write_text(PAGE.format(body))
    (tmp_path / "other.html").write_text("<p id='there'>")
    (tmp_path / "picture.png").touch()
    (tmp_path / "style.css").write_text("a { background: url(picture.png); }")
    found = extension("check_site").problems(tmp_path.resolve())
    assert [f for f in found if problem is None or problem not in f] == []
    assert bool(found) == (problem is not None)


def test_the_check_of_the_site_reads_style_sheets(tmp_path):
    (tmp_path / "a.css").write_text("@font-face { src: url('https://fonts.org/f.woff'); }")
    assert extension("check_site").problems(tmp_path) == ["a.css loads https://fonts.org/f.woff"]
