"""Pictures of the guide pages, drawn by the pages' own code: ``make pictures``."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import matplotlib
from PIL import Image

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
PAGES = ("docs/local-privacy.md", "docs/pie.md", "docs/quantization.md", "docs/plots.md")
COLOURS = 128


def main() -> None:
    """Run the pages' Python blocks where their pictures belong; few colours will do."""
    from tests.docs_blocks import blocks, run_python

    matplotlib.use("Agg")
    with contextlib.chdir(HERE / "images"):
        for page in PAGES:
            names: dict[str, object] = {}
            for block in blocks(page):
                if block.language == "python" and not block.note:
                    run_python(block, names)
        for file in Path().glob("*.png"):
            if file.name.startswith(tuple(f"{Path(page).stem}-" for page in PAGES)):
                image = Image.open(file).convert("RGB")
                image.quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)


if __name__ == "__main__":
    main()
