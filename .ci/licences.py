"""List the licences of everything that anonbayes brings along: `make licences`.

Ends with 1 when a distribution states none, or one that asks more of users than to keep notices.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata

from packaging.requirements import Requirement

EXTRAS = ("", "big", "nutpie", "graph")
# Weak copyleft concerns changes to the library itself, and is kept by installing it from PyPI.
COPYLEFT = re.compile(
    r"(?<!L)(?<!Lesser )(?:\bA?GPL|GNU (?:Affero )?General Public)", re.IGNORECASE
)

WORDS = {
    "LGPL-3.0": "GNU LESSER GENERAL PUBLIC LICENSE Version 3",
    "GPL": "GNU GENERAL PUBLIC LICENSE",
    "Apache-2.0": "Apache License Version 2.0",
    "BSD-3-Clause": "may be used to endorse or promote products",
    "BSD-2-Clause": "Redistributions in binary form must reproduce",
    "MIT": "Permission is hereby granted, free of charge",
}


def closure(name: str) -> dict[str, metadata.Distribution]:
    """Distributions that a distribution needs, itself left out."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [(name, extra) for extra in EXTRAS]
    seen = set()
    while waiting:
        wanted = waiting.pop()
        if wanted in seen:
            continue
        seen.add(wanted)
        try:
            distribution = metadata.distribution(wanted[0])
        except metadata.PackageNotFoundError:
            continue  # an extra that is not installed
        found[distribution.metadata["Name"].lower()] = distribution
        for text in distribution.requires or []:
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": wanted[1]}):
                waiting += [(needed.name, extra) for extra in ("", *needed.extras)]
    found.pop(name, None)
    return found


def licence(distribution: metadata.Distribution) -> str:
    """What a distribution says about its licence, in one line."""
    about = distribution.metadata
    if expression := about.get("License-Expression"):
        return str(expression)
    named = [c.rpartition(" :: ")[2] for c in about.get_all("Classifier") or [] if "License" in c]
    stated = (about.get("License") or "").strip().splitlines()
    return (
        "; ".join(dict.fromkeys(named)) or (stated[0] if stated else "") or from_file(distribution)
    )


def from_file(distribution: metadata.Distribution) -> str:
    """Licence whose words stand in the file that a distribution brings."""
    for file in distribution.files or []:
        if file.parent.name == "licenses" or file.name.upper().startswith("LICEN"):
            text = " ".join(file.read_text(encoding="utf-8").split())
            for name, words in WORDS.items():
                if words in text:
                    return f"{name} (from {file.name})"
    return ""


def main() -> int:
    """Print a line per distribution."""
    bad = []
    for name, distribution in sorted(closure("anonbayes").items()):
        words = licence(distribution)
        print(f"{name:30} {distribution.version:14} {words or 'NOT STATED'}")
        if not words or COPYLEFT.search(words):
            bad.append(name)
    if bad:
        print("look at:", ", ".join(bad))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
