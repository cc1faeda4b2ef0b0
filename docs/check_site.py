"""Look through the built site: nothing may be loaded from elsewhere, no link inside may be broken.

``python docs/check_site.py docs/_build/html`` prints what is wrong and ends with exit code 1.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes that make a browser load something; of <link> only what is not mere information.
LOADING = {"src", "srcset", "poster", "data", "background"}
INFORMATION = {"canonical", "author", "license", "next", "prev", "index", "search", "genindex"}
STYLE_LOADS = re.compile(r"(?:url\(|@import)\s*['\"]?\s*((?:https?:)?//[^'\")\s]+)")


class Page(HTMLParser):
    """Addresses in a page: loaded, linked, and the anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []
        self.anchors: set[str] = set()
        self.loaded += STYLE_LOADS.findall(text)
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the addresses of one element."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "link" and not INFORMATION & set(given.get("rel", "").split()):
            self.loaded.append(given.get("href", ""))
        if tag == "a" and "href" in given:
            self.linked.append(given["href"])
        self.loaded += [
            value for name, value in given.items() if name in LOADING and tag != "object"
        ]


def elsewhere(address: str) -> bool:
    """Whether an address leaves the site."""
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme in ("http", "https", "ftp")


def problems(site: Path) -> list[str]:
    """All that is wrong with a site, in words."""
    files = [file for file in sorted(site.rglob("*.html")) if "_static" not in file.parts]
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in files}
    found = []
    for file, page in pages.items():
        name = file.relative_to(site)
        found += [f"{name} loads {address}" for address in page.loaded if elsewhere(address)]
        for address in page.linked + page.loaded:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or not (parts.path or parts.fragment):
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not target.exists():
                found.append(f"{name} links to {address}, which is not there")
            elif parts.fragment and target in pages:
                if unquote(parts.fragment) not in pages[target].anchors:
                    found.append(f"{name} links to {address}, but that page has no such place")
    for file in sorted(site.rglob("*.css")):
        loaded = STYLE_LOADS.findall(file.read_text(encoding="utf-8"))
        found += [f"{file.relative_to(site)} loads {address}" for address in loaded]
    return found


def main() -> int:
    """Print the problems of the site named on the command line."""
    site = Path(sys.argv[1]).resolve()
    found = problems(site)
    print("\n".join(found) or f"{site}: nothing loaded from elsewhere, no broken link")
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
