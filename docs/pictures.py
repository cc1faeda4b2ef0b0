"""Pictures of reports for these pages, taken in Chromium: ``make pictures``.

Two reports are made from the package's own tables, so that the pictures show what the pages say:
the clinic locally recoded (closed form), and anatomized (Markov chains).
"""

from __future__ import annotations

import base64
import io
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "reporting"))
IMAGES = HERE / "images"
WIDTH = 900
MARGIN = 12
COLOURS = 64


@dataclass(frozen=True)
class Picture:
    """A piece of a report, from the top of one element to the top or bottom of another."""

    report: str
    name: str
    first: str
    last: str
    before_last: bool = False


PICTURES = (
    Picture("local", "report", "header", "#verdict .points"),
    Picture("local", "report-verdict", "#verdict", "#verdict"),
    Picture("local", "report-measures", "#measures", "#measures h3:nth-of-type(2)", True),
    Picture("local", "report-relative-threat", "#measures h3:nth-of-type(2)",
            "#measures h3:nth-of-type(3)", True),
    Picture("local", "report-usefulness", "#measures h3:nth-of-type(3)",
            "#measures h3:nth-of-type(5)", True),
    Picture("local", "report-thresholds", "#measures h3:nth-of-type(5)", "#measures"),
    Picture("local", "report-rows", "#rows", "#rows tbody tr:nth-child(8)"),
    Picture("local", "report-contributions", "#rows h3", "#rows"),
    Picture("local", "report-pictures", "#pictures", "#pictures figure:nth-of-type(2)"),
    Picture("local", "report-officers", "#officers", "#officers .questions"),
    Picture("local", "report-risks", "#officers > h3:nth-of-type(2)",
            "#officers > h3:nth-of-type(3)", True),
    Picture("local", "report-model", "#model", "#model h3", True),
    Picture("anatomy", "report-convergence", "#convergence", "#convergence tr:nth-child(6)"),
)  # fmt: skip


def make_reports(folder: Path) -> dict[str, Path]:
    """Both reports, as `anonbayes assess` writes them."""
    import anonbayes as ab

    people = ab.datasets.load("clinic")
    files = {}
    for name, evidence in (("local", "auto"), ("anatomy", "independent")):  # which needs chains
        table = ab.datasets.load(f"clinic_{name}")
        post = ab.fit(table, evidence=evidence, seed=1, progressbar=False)
        files[name] = folder / f"clinic_{name}.html"
        ab.report(post, post.assess(people), files[name])
    return files


def take(browser, picture: Picture) -> None:
    """Save one picture with few colours, which is all that a page of text needs."""
    edge = "top" if picture.before_last else "bottom"
    box = browser.run(
        f"""(() => {{
          const first = document.querySelector({picture.first!r}).getBoundingClientRect();
          const last = document.querySelector({picture.last!r}).getBoundingClientRect();
          return [first.top + scrollY, last.{edge} + scrollY];
        }})()"""
    )
    top = max(0.0, box[0] - MARGIN)
    clip = {"x": 0, "y": top, "width": WIDTH, "height": box[1] + MARGIN * (
        -0.5 if picture.before_last else 1
    ) - top, "scale": 1}  # fmt: skip
    found = browser.call(
        "Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True
    )
    image = Image.open(io.BytesIO(base64.b64decode(found["data"]))).convert("RGB")
    small = image.quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(IMAGES / f"{picture.name}.png", optimize=True)


def main() -> None:
    """Make the reports and take all pictures."""
    from report_browser import Browser, find_chromium

    program = find_chromium()
    if program is None:
        raise SystemExit("Chromium is needed to take pictures.")
    with tempfile.TemporaryDirectory() as folder:
        reports = make_reports(Path(folder))
        browser = Browser(program, Path(folder) / "profile")
        try:
            for name, file in reports.items():
                browser.open(file, width=WIDTH)
                for picture in PICTURES:
                    if picture.report == name:
                        take(browser, picture)
        finally:
            browser.close()


if __name__ == "__main__":
    main()
