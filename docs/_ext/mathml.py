"""Formulas as MathML, which browsers show by themselves: no script, no network.

Not every system has a font with mathematical signs of all sizes, so one is put beside the pages:
STIX Two Math, from the package ziamath.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from fontTools.ttLib import TTFont
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)
FONT = "STIXTwoMath-Regular"


def render(node: nodes.math | nodes.math_block, *, as_block: bool) -> str:
    """MathML of a formula; what cannot be translated is a warning, and shown as it is written."""
    text = node.astext()
    try:
        return str(tex2mathml(text, as_block=as_block))
    except MathError as error:
        logger.warning("formula %r: %s", text, error, location=node)
        return f"<code>{nodes.unescape(text)}</code>"


def visit_inline(writer: Any, node: nodes.math) -> None:
    """Write a formula inside a sentence."""
    writer.body.append(render(node, as_block=False))
    raise nodes.SkipNode


def visit_display(writer: Any, node: nodes.math_block) -> None:
    """Write a formula on a line of its own; wide ones scroll."""
    writer.body.append(f'<div class="formula">{render(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def add_font(app: Sphinx, error: Exception | None) -> None:
    """Put the font beside the style sheet that names it."""
    target = Path(app.outdir) / "_static" / f"{FONT}.woff"
    if error is None and app.builder.format == "html" and not target.exists():
        with resources.as_file(resources.files("ziamath") / "fonts" / f"{FONT}.ttf") as source:
            font = TTFont(source)
        font.flavor = "woff"
        font.save(target)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer under the name ``mathml``, and its font."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    app.connect("build-finished", add_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
