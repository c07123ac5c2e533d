"""The picture of a card: the answer with its charts in 1200 x 630 pixels, as link previews take."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill, wrap
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from fathom.search.report.charts.chart import Chart
from fathom.search.report.charts.colours import MUTED
from fathom.search.report.charts.paper_figures import PAPER, SMALL_LEFT, STRIP_EDGE, draw_small

PIXELS = (1200, 630)
DOTS_PER_INCH = 160
WIDTH, HEIGHT = (pixels / DOTS_PER_INCH for pixels in PIXELS)
EDGE, LINE = 0.2, 0.14
"""Inches from the sides to all texts, and from the top and the bottom to the first and the last."""
CLAIM_TOP, CHARTS_BOTTOM = 0.36, 0.82
"""Inches from the top to the claim, and from the bottom to the axes of the charts."""
CLAIM_POINTS = (13.0, 11.0, 9.0)
"""Sizes of the claim's letters, the largest first; the first that fits is taken."""
MOST_LINES = 3
LINE_SPACING = 1.25
LETTERS = 118.0
"""Letters of the claim in an inch of width, times their size in points."""
CHART_TEXTS = 0.92
"""Inches from the claim to the axes of the charts, with the texts that stand above these."""
CHART_LETTERS, QUESTION_LETTERS = 12, 16.5
"""Letters in an inch of a chart's title, and of the smaller question above it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardPicture:
    """What the picture shows."""

    heading: str
    claim: str
    charts: tuple[Chart, ...]
    source: str
    """How much was trained, and the digest, in a line."""
    program: str
    """Name and version of the program that made it."""


def save_card_picture(card: CardPicture, path: Path) -> None:
    """Saves the picture as PNG, with its texts as metadata; the same card gives the same bytes."""
    points, lines = _claim_lines(card.claim)
    with matplotlib.rc_context(PAPER):
        figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DOTS_PER_INCH)
        bold: dict[str, Any] = {"weight": "bold", "linespacing": LINE_SPACING, "va": "top"}
        claim = "\n".join(lines)
        figure.text(*_place(EDGE, HEIGHT - CLAIM_TOP), claim, fontsize=points, **bold)
        _draw_charts(figure, card.charts, CLAIM_TOP + len(lines) * LINE_SPACING * points / 72)
        quiet: dict[str, Any] = {"color": MUTED.light, "fontsize": 8}
        figure.text(*_place(EDGE, HEIGHT - LINE), card.heading, va="top", **quiet)
        below = f"Brackets and bands: 95 % interval. {card.source}"
        figure.text(*_place(EDGE, LINE), below, **quiet)
        figure.text(*_place(WIDTH - EDGE, LINE), card.program, ha="right", **quiet)
        figure.savefig(path, metadata=_metadata(card))


def _draw_charts(figure: Figure, charts: Sequence[Chart], top: float) -> None:
    """Draws charts beside each other, so many inches below the top of the picture."""
    if not charts:
        return
    column = (WIDTH - 2 * EDGE) / len(charts)
    inches = (column - SMALL_LEFT, HEIGHT - top - CHART_TEXTS - CHARTS_BOTTOM)
    for number, chart in enumerate(charts):
        left = EDGE + number * column + SMALL_LEFT - STRIP_EDGE
        axes = figure.add_axes((*_place(left, CHARTS_BOTTOM), *_place(*inches)))
        letters = int(column * QUESTION_LETTERS)
        question = fill(chart.question, letters, break_on_hyphens=False)
        draw_small(axes, replace(chart, question=question), int(column * CHART_LETTERS))
        axes.tick_params(labelsize=7)


def _place(x: float, y: float) -> tuple[float, float]:
    """Inches as shares of the picture's width and height."""
    return x / WIDTH, y / HEIGHT


def _claim_lines(claim: str) -> tuple[float, list[str]]:
    """Size of the letters in points, and the lines, of a claim."""
    for points in CLAIM_POINTS:
        lines = wrap(claim, int((WIDTH - 2 * EDGE) * LETTERS / points))
        if len(lines) <= MOST_LINES:
            break
    return points, lines


def _metadata(card: CardPicture) -> dict[str, str]:
    """Texts by the keywords that the standard of PNG names."""
    return {
        "Title": card.heading,
        "Description": card.claim,
        "Comment": card.source,
        "Software": card.program,
    }
