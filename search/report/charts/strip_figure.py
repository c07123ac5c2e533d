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
MOST_COLUMNS = 4
WIDTH, HEIGHT = 3.3, 2.6
"""Inches of a small chart with its title."""
TOP, BOTTOM = 0.62, 0.3
"""Inches above and below them, for the sentence and for where it is from."""
LETTERS_PER_INCH = 10.5


def save_strip(charts: Sequence[Chart], folder: Path, *, study: str, summary: str) -> None:
    """Save `answer.png` and `answer.svg` with the answer of every budget; none without any."""
    if not charts:
        return
    columns = min(MOST_COLUMNS, len(charts))
    rows = math.ceil(len(charts) / columns)
    width = max(columns, 2) * WIDTH
    text = fill(summary, int(width * LETTERS_PER_INCH))
    top = TOP + 0.21 * text.count("\n")
    height = rows * HEIGHT + top + BOTTOM
    with matplotlib.rc_context(PAPER):
        figure = Figure(figsize=(width, height), dpi=160)
        for number, chart in enumerate(charts):
            row, column = divmod(number, columns)
            left = (column * width / columns + 0.62) / width
            low = (BOTTOM + (rows - 1 - row) * HEIGHT + 0.5) / height
            size = (width / columns - 0.8) / width, (HEIGHT - 1.1) / height
            _draw_small(figure.add_axes((left, low, *size)), chart)
        edge = 0.12 / width
        figure.text(edge, 1 - 0.12 / height, study, color=MUTED.light, fontsize=9, va="top")
        figure.text(
            edge, 1 - 0.34 / height, text, color=INK.light, fontsize=11.5, weight="bold", va="top"
        )
        source = "Brackets and bands: 95 % interval of the best depth. Made by Fathom."
        figure.text(edge, 0.1 / height, source, color=MUTED.light, fontsize=7.5)
        save_both(figure, folder / NAME)


def _draw_small(axes: Axes, chart: Chart) -> None:
    axes.set(xlim=(chart.x.low, chart.x.high), ylim=(chart.y.low, chart.y.high))
    axes.set(xscale="log" if chart.x.log else "linear")
    for order, mark in enumerate(chart.marks, start=2):
        draw_mark(axes, mark, order)
    set_ticks(axes.xaxis, chart.x)
    set_ticks(axes.yaxis, chart.y)
    axes.set_xlabel(chart.x.label, fontsize=8, color=MUTED.light)
    axes.set_ylabel(chart.y.label, fontsize=8, color=MUTED.light)
    question, _, found = chart.title.rpartition(": ")
    place: dict[str, Any] = {"transform": axes.transAxes, "ha": "left", "clip_on": False}
    axes.text(-0.17, 1.28, question, fontsize=7, color=MUTED.light, **place)
    axes.text(-0.17, 1.14, found, fontsize=10, weight="bold", color=INK.light, **place)
