"""The answer as one picture to share: the small charts of all budgets beside each other."""

import math
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fathom.search.report.charts.chart import Chart
from fathom.search.report.charts.colours import INK, MUTED
from fathom.search.report.charts.paper_figures import PAPER, draw_mark, save_both, set_ticks

NAME = "answer"
LEAST_COLUMNS, MOST_COLUMNS = 1.5, 4
"""Width of a picture in small charts: one of a single chart fits a telephone."""
WIDTH, HEIGHT = 3.3, 2.6
"""Inches of a small chart with its title."""
TOP, BOTTOM = 0.7, 0.3
"""Inches above and below them, for the sentence and for where it is from."""
MARGIN, EDGE = 0.62, 0.12
"""Inches from the left of a small chart to its axis, and to its texts."""
LETTERS_PER_INCH = 10.5
"""Letters of the sentence; those above a chart are smaller."""


def save_strip(charts: Sequence[Chart], folder: Path, *, study: str, summary: str) -> None:
    """Saves `answer.png` and `answer.svg` with the answer of every budget; none without any."""
    if not charts:
        return
    columns = min(MOST_COLUMNS, len(charts))
    rows = math.ceil(len(charts) / columns)
    width = max(columns, LEAST_COLUMNS) * WIDTH
    text = fill(summary, int(width * LETTERS_PER_INCH))
    top = TOP + 0.21 * text.count("\n")
    height = rows * HEIGHT + top + BOTTOM
    with matplotlib.rc_context(PAPER):
        figure = Figure(figsize=(width, height), dpi=160)
        for number, chart in enumerate(charts):
            row, column = divmod(number, columns)
            left = (column * width / columns + MARGIN) / width
            low = (BOTTOM + (rows - 1 - row) * HEIGHT + 0.5) / height
            size = (width / columns - 0.8) / width, (HEIGHT - 1.1) / height
            letters = int((width / columns - 2 * EDGE) * 1.2 * LETTERS_PER_INCH)
            _draw_small(figure.add_axes((left, low, *size)), chart, letters)
        edge = EDGE / width
        figure.text(edge, 1 - 0.12 / height, study, color=MUTED.light, fontsize=9, va="top")
        figure.text(
            edge, 1 - 0.34 / height, text, color=INK.light, fontsize=11.5, weight="bold", va="top"
        )
        source = "Brackets and bands: 95 % interval of the best depth. Made by Fathom."
        figure.text(edge, 0.1 / height, source, color=MUTED.light, fontsize=7.5)
        save_both(figure, folder / NAME)


def _draw_small(axes: Axes, chart: Chart, letters: int) -> None:
    """Draws a small chart under its texts, which have so many letters a line."""
    axes.set(xlim=(chart.x.low, chart.x.high), ylim=(chart.y.low, chart.y.high))
    axes.set(xscale="log" if chart.x.log else "linear")
    for order, mark in enumerate(chart.marks, start=2):
        draw_mark(axes, mark, order)
    set_ticks(axes.xaxis, chart.x)
    set_ticks(axes.yaxis, chart.y)
    axes.set_xlabel(chart.x.label, fontsize=8, color=MUTED.light)
    axes.set_ylabel(chart.y.label, fontsize=8, color=MUTED.light)
    found = fill(chart.title, letters)
    _write_above(axes, 15, found, fontsize=9, weight="bold", color=INK.light)
    high = 18 + 12 * len(found.splitlines())
    _write_above(axes, high, chart.question, fontsize=7.5, color=MUTED.light)


def _write_above(axes: Axes, points: float, text: str, **style: Any) -> None:
    """Writes text above a chart, from the left end of its labels on."""
    left = -72 * (MARGIN - EDGE)
    place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate(text, (0, 1), (left, points), va="bottom", **place, **style)
