"""The answer with its charts as one picture: for link previews, and for slides."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill, wrap
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from fathom.search.report.charts.chart import Chart
from fathom.search.report.charts.colours import MUTED
from fathom.search.report.charts.paper_figures import (
    PAPER,
    SMALL_EDGE,
    SMALL_LEFT,
    SVG_METADATA,
    draw_small,
)

EDGE, LINE = 0.2, 0.14
"""Inches from the sides to all texts; inches from the top to the first text, and from the last to
the bottom."""
CLAIM_TOP, CHARTS_BOTTOM = 0.36, 0.82
"""Inches from the top to the claim, and from the bottom to the axes of the charts."""
CLAIM_POINTS = (13.0, 11.0, 9.0)
"""Sizes of the claim's letters, the largest first; the first that fits is taken."""
MOST_LINES = 3
LINE_SPACING = 1.25
LETTERS = 118.0
"""Letters per inch in a line of the claim, multiplied by the font size in points."""
CHART_TEXTS, BELOW_AXES = 0.9, 0.5
"""Inches that a chart's texts take above its axes, and below them."""
CHART_LETTERS, QUESTION_LETTERS = 13, 16.5
"""Letters per inch of a chart's title, and of the smaller question above it."""
MOST_COLUMNS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureSize:
    """The size of a picture."""

    width: float
    """Width in inches."""
    height: float
    """Height in inches."""
    dots_per_inch: int


PREVIEW = PictureSize(width=7.5, height=3.9375, dots_per_inch=160)
"""1200 x 630 pixels, as link previews take."""
SLIDE = PictureSize(width=10.0, height=5.625, dots_per_inch=300)
"""16:9, as slides are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPicture:
    """The values of a picture."""

    heading: str
    claim: str
    charts: tuple[Chart, ...]
    source: str
    """How much was trained, and the digest, in a line."""
    program: str
    """Name and version of the program that made it."""


def save_picture(shown: AnswerPicture, path: Path, size: PictureSize) -> None:
    """Saves the picture as PNG, with its texts as metadata, or as SVG, by the ending of `path`;
    the same picture gives the same bytes."""
    points, lines = _claim_lines(shown.claim, size.width)
    with matplotlib.rc_context(PAPER):
        figure = Figure(figsize=(size.width, size.height), dpi=size.dots_per_inch)

        def write(x: float, y: float, text: str, **style: Any) -> None:
            figure.text(x / size.width, y / size.height, text, **style)

        top = CLAIM_TOP + len(lines) * LINE_SPACING * points / 72
        _draw_charts(figure, shown.charts, size, top)
        bold: dict[str, Any] = {"weight": "bold", "linespacing": LINE_SPACING, "va": "top"}
        write(EDGE, size.height - CLAIM_TOP, "\n".join(lines), fontsize=points, **bold)
        quiet: dict[str, Any] = {"color": MUTED.light, "fontsize": 8}
        write(EDGE, size.height - LINE, shown.heading, va="top", **quiet)
        write(EDGE, LINE, f"Bands: 95 % interval. {shown.source}", **quiet)
        write(size.width - EDGE, LINE, shown.program, ha="right", **quiet)
        figure.savefig(path, metadata=_metadata(shown) if path.suffix == ".png" else SVG_METADATA)


def _draw_charts(figure: Figure, charts: Sequence[Chart], size: PictureSize, top: float) -> None:
    """Draws charts in rows that begin `top` inches below the top of the picture."""
    if not charts:
        return
    columns = min(MOST_COLUMNS, len(charts))
    column = (size.width - 2 * EDGE) / columns
    row = (size.height - top - CHARTS_BOTTOM + BELOW_AXES) / math.ceil(len(charts) / columns)
    inches = column - SMALL_LEFT, max(0.3, row - CHART_TEXTS - BELOW_AXES)
    for number, chart in enumerate(charts):
        left = EDGE + number % columns * column + SMALL_LEFT - SMALL_EDGE
        bottom = size.height - top - (number // columns + 1) * row + BELOW_AXES
        box = (left / size.width, bottom / size.height)
        axes = figure.add_axes((*box, inches[0] / size.width, inches[1] / size.height))
        question = fill(chart.question, int(column * QUESTION_LETTERS), break_on_hyphens=False)
        draw_small(axes, replace(chart, question=question), int(column * CHART_LETTERS))


def _claim_lines(claim: str, width: float) -> tuple[float, list[str]]:
    """Font size in points and lines of a claim that is to fit `width` inches."""
    for points in CLAIM_POINTS:
        lines = wrap(claim, int((width - 2 * EDGE) * LETTERS / points))
        if len(lines) <= MOST_LINES:
            break
    return points, lines


def _metadata(shown: AnswerPicture) -> dict[str, str]:
    """Returns the picture's texts by the keywords of the PNG standard."""
    return {
        "Title": shown.heading,
        "Description": shown.claim,
        "Comment": shown.source,
        "Software": shown.program,
    }
