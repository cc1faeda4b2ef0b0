"""The notebooks of the repository as pages, and a list of them with a picture of each."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from included import relink, shown_by

if TYPE_CHECKING:
    from sphinx.application import Sphinx

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
MARK = "<!-- notebooks -->"
# The way to read them; others follow by name.
ORDER = (
    "first_steps",
    "horizontal_and_vertical",
    "calibrated_attackers",
    "convergence_in_practice",
    "your_own_pymc_model",
    "ldp_surveys",
    "choosing_a_release",
)
ENOUGH = 120  # letters that say what a notebook is about


def notebooks() -> list[Path]:
    """All notebooks, in the order in which to read them."""

    def place(file: Path) -> tuple[int, str]:
        return ORDER.index(file.stem) if file.stem in ORDER else len(ORDER), file.stem

    return sorted(NOTEBOOKS.glob("*.ipynb"), key=place)


def heading(file: Path) -> tuple[str, str]:
    """Title of a notebook, and its first paragraph or two."""
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    text = next("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    title, _, rest = text.partition("\n")
    first, *more = re.split(r"\n\s*\n", rest.strip())
    if len(first) < ENOUGH and more:
        first += "\n\n" + more[0]
    return title.lstrip("# "), first


def picture(file: Path) -> bytes | None:
    """First picture among the stored outputs of a notebook."""
    for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            if found := output.get("data", {}).get("image/png"):
                return base64.b64decode("".join(found))
    return None


def bring(app: Sphinx, _config: object) -> None:
    """Bring the notebooks into the source of the site."""
    folder = Path(app.srcdir) / "notebooks"
    folder.mkdir(exist_ok=True)
    wanted = {file.name: file for file in notebooks()}
    pages = shown_by(Path(app.srcdir))
    for old in folder.iterdir():
        if old.with_suffix(".ipynb").name not in wanted:
            old.unlink()
    for name, file in wanted.items():
        copy = folder / name
        text = relink(
            file.read_text(encoding="utf-8"), f"notebooks/{name}", pages, base="docs/notebooks"
        )
        if not copy.exists() or copy.read_text(encoding="utf-8") != text:
            copy.write_text(text, encoding="utf-8")
        if found := picture(file):
            copy.with_suffix(".png").write_bytes(found)


def expand(_app: Sphinx, _docname: str, source: list[str]) -> None:
    """Replace the mark of the gallery by the list of notebooks."""
    if MARK not in source[0]:
        return
    lines = []
    for file in notebooks():
        title, first = heading(file)
        lines += [f"## [{title}](notebooks/{file.name})", ""]
        if picture(file):
            lines += [f"![](notebooks/{file.stem}.png){{.thumbnail}}", ""]
        lines += [first, ""]
    names = "\n".join(f"notebooks/{file.stem}" for file in notebooks())
    lines += ["```{toctree}", ":hidden:", "", names, "```"]
    source[0] = source[0].replace(MARK, "\n".join(lines))


def setup(app: Sphinx) -> dict[str, bool]:
    """Bring the notebooks before pages are looked for; list them as the gallery is read."""
    app.connect("config-inited", bring)
    app.connect("source-read", expand)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
