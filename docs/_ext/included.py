"""Pages that are files of the repository, such as its README, without copies of them.

A line ``<!-- include: CONTRIBUTING.md -->`` in a page is replaced by that file. Links in it,
written for readers of the repository, are led to the page of the site that shows the same file.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
MARK = re.compile(r"^<!-- include: (\S+) -->$", re.MULTILINE)
LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?(\))")


def shown_by(docs: Path) -> dict[str, str]:
    """Files of the repository and the pages that include them."""
    return {
        file: f"docs/{page.name}"
        for page in docs.glob("*.md")
        for file in MARK.findall(page.read_text(encoding="utf-8"))
    }


def relink(text: str, file: str, pages: dict[str, str], *, base: str = "docs") -> str:
    """Text of a file with its relative links as seen from a folder of the site."""

    def lead(match: re.Match[str]) -> str:
        before, target, anchor, after = match.groups()
        if "://" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(file), target))
        path = pages.get(path, path)
        path = re.sub(r"^notebooks/", "docs/notebooks/", path)
        return f"{before}{posixpath.relpath(path, base)}{anchor or ''}{after}"

    return LINK.sub(lead, text)


def expand(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace the marks of a page by the files that they name."""
    pages = shown_by(Path(app.srcdir))

    def include(match: re.Match[str]) -> str:
        app.env.note_dependency(str(ROOT / match[1]))
        return relink((ROOT / match[1]).read_text(encoding="utf-8"), match[1], pages)

    source[0] = MARK.sub(include, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen to pages as they are read."""
    app.connect("source-read", expand)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
