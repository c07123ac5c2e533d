"""Formulas as SVG, drawn at build time: no script, and no font that a reader's machine may lack."""

from xml.etree import ElementTree

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator
from ziamath.config import config
from ziamath.zmath import Latex

logger = logging.getLogger(__name__)

SIZE = 16.0
"""Pixels of the letters while they are drawn; on the page they are as large as the text."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    # Every formula holds its own glyphs: shared ones are named alike whatever their size.
    config.svg2 = False
    config.precision = 2
    app.add_html_math_renderer("svg", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def inline(self: HTML5Translator, node: nodes.Element) -> None:
    """A formula in a line of text."""
    self.body.append(drawn(node, inline=True))
    raise nodes.SkipNode


def display(self: HTML5Translator, node: nodes.Element) -> None:
    """A formula on lines of its own; narrow windows scroll it."""
    self.body.append(f'<div class="formula">{drawn(node, inline=False)}</div>')
    raise nodes.SkipNode


def drawn(node: nodes.Element, *, inline: bool) -> str:
    """The formula as SVG on the text's base line, in its colour; its source is its title."""
    latex = node.astext()
    formula = Latex(latex, size=SIZE, color="currentColor", inline=inline, title=latex)
    if "\\" in formula.mathmlstr():
        logger.warning("a command in `%s` is none that can be drawn", latex, location=node)
    svg = formula.svgxml()
    for side in ("width", "height"):
        svg.set(side, f"{float(svg.get(side, 0)) / SIZE:.3f}em")
    svg.set("style", f"vertical-align: {formula.getyofst() / SIZE:.3f}em")
    svg.set("role", "img")
    return ElementTree.tostring(svg, encoding="unicode")
