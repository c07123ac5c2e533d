"""Draws charts for papers, and the answer as one picture to share, as PNG and SVG by matplotlib."""

import io
import math
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import compress, groupby, repeat
from multiprocessing import get_context
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from fathom.search.report.charts.chart import Axis, Band, Chart, Labels, Line, Mark, Marker, Points
from fathom.search.report.charts.colours import INK, MUTED

WIDTH, HEIGHT = 6.4, 4.8
"""Width and height of a figure in inches; one with many rows in its legend is higher."""
LEFT, RIGHT, TOP, BOTTOM = 0.78, 0.28, 0.62, 0.52
"""Inches from the axes to the sides, and to the legend below them.

They are fixed, since matplotlib's own layout draws a figure twice to find them.
"""
LEGEND_ROW, LEGEND_TITLE, LEGEND_EDGE = 0.158, 0.18, 0.16
"""Height in inches of a row of the legend, of its title, and of its edge."""
LOWEST_AXES = 2.7
DOTS_PER_INCH = 300
LETTERS_PER_INCH = 18
SVG_METADATA = {"Date": None, "Creator": None}
"""No date and no creator, so that the same records give the same bytes."""
CHARTS_A_PROCESS = 20
"""Number of charts that take as long to draw as another process takes to start."""
BAND_OPACITY = 0.16
MOST_VECTORS = 300
"""Most points of one name that an SVG draws as vectors; more become a bitmap in it."""
SYMBOLS = {
    Marker.DOT: ("o", 5.0),
    Marker.STAR: ("*", 12.0),
    Marker.BAR: ("_", 13.0),
    Marker.HOLLOW: ("o", 5.0),
    Marker.ABOVE: ("^", 5.5),
    Marker.CROSS: ("x", 6.0),
}
"""Marker -> matplotlib's symbol for it, and the symbol's size in points."""
PAPER: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED.light,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.color": "#e4e7ec",
    "grid.linewidth": 0.6,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    # The same records give the same bytes.
    "svg.hashsalt": "fathom",
    # Letters stay letters, which a drawing program can edit.
    "svg.fonttype": "none",
    "text.parse_math": False,
}
SMALL_LEFT, SMALL_EDGE = 0.62, 0.12
"""Inches from the left of a small chart to its axis, and to its texts."""


def save_static(charts: Sequence[Chart], folder: Path) -> None:
    """Saves every chart as `KEY.png` and `KEY.svg`; no display is needed.

    A chart takes a fifth of a second, so many charts are divided among processes.
    """
    processes = min(os.cpu_count() or 1, len(charts) // CHARTS_A_PROCESS)
    if processes < 2:
        _save(charts, folder)
        return
    shares = [charts[first::processes] for first in range(processes)]
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        list(pool.map(_save, shares, repeat(folder)))


def _save(charts: Sequence[Chart], folder: Path) -> None:
    with matplotlib.rc_context(PAPER):
        for chart in charts:
            figure = _drawn(chart)
            figure.savefig(folder / f"{chart.key}.png", metadata={"Software": None})
            figure.savefig(folder / f"{chart.key}.svg", metadata=SVG_METADATA)
            figure.clear()


class ShownFigure(Figure):
    """A figure that a notebook shows by itself, without pyplot's list of open figures."""

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        self.savefig(content, format="png")
        return content.getvalue()


def static(chart: Chart) -> ShownFigure:
    """Returns the chart as a figure to show, change or save."""
    with matplotlib.rc_context(PAPER):
        return _drawn(chart)


def _drawn(chart: Chart) -> ShownFigure:
    figure = ShownFigure(figsize=(WIDTH, HEIGHT), dpi=DOTS_PER_INCH)
    axes = figure.add_subplot()
    _draw_chart(axes, chart)
    _place(figure, axes, _legend_inches(figure, axes, chart.legend_title))
    _write(figure, axes, chart)
    return figure


def _legend_inches(figure: Figure, axes: Axes, title: str) -> float:
    """Puts the legend below the axes, where it hides no point; returns its height in inches."""
    names = axes.get_legend_handles_labels()[1]
    if not names:
        return 0.0
    # As many as fit into the width of a figure.
    columns = max(1, min(6, int(WIDTH * LETTERS_PER_INCH / (max(map(len, names)) + 7))))
    figure.legend(loc="lower left", ncols=columns, title=title or None, alignment="left")
    rows = math.ceil(len(names) / columns)
    return rows * LEGEND_ROW + (LEGEND_TITLE if title else 0.0) + LEGEND_EDGE


def _place(figure: Figure, axes: Axes, legend: float) -> None:
    height = max(HEIGHT, TOP + LOWEST_AXES + BOTTOM + legend)
    figure.set_figheight(height)
    inner = (WIDTH - LEFT - RIGHT, height - TOP - BOTTOM - legend)
    low, size = (BOTTOM + legend) / height, (inner[0] / WIDTH, inner[1] / height)
    axes.set_position((LEFT / WIDTH, low, *size))
    axes.yaxis.set_label_coords((0.24 - LEFT) / inner[0], 0.5)
    axes.xaxis.set_label_coords(0.5, -0.27 / inner[1])


def _write(figure: Figure, axes: Axes, chart: Chart) -> None:
    top = 1 - 0.09 / figure.get_figheight()
    figure.suptitle(chart.title, x=0.01, y=top, ha="left", fontsize=11, fontweight="bold")
    axes.set_title(chart.question, fontsize=8.5, color=MUTED.light, loc="left", y=1.0, pad=8)
    axes.set_xlabel(chart.x.label)
    axes.set_ylabel(chart.y.label)


def _draw_chart(axes: Axes, chart: Chart) -> None:
    """Draws the scales, the marks and the ticks of a chart."""
    # Before anything is drawn, so that matplotlib looks for no limits of its own.
    axes.set(xlim=(chart.x.low, chart.x.high), ylim=(chart.y.low, chart.y.high))
    axes.set(xscale=_scale(chart.x), yscale=_scale(chart.y))
    for order, (_, alike) in enumerate(groupby(chart.marks, _look), start=2):
        _draw_marks(axes, list(alike), order)
    _set_ticks(axes.xaxis, chart.x)
    _set_ticks(axes.yaxis, chart.y)


def _scale(axis: Axis) -> str:
    return "log" if axis.log else "linear"


def _set_ticks(side: XAxis | YAxis, axis: Axis) -> None:
    """Puts the ticks of a chart on an axis, and no others."""
    side.set_major_locator(FixedLocator([value for value, _ in axis.ticks]))
    side.set_major_formatter(FixedFormatter([text for _, text in axis.ticks]))
    side.set_minor_locator(NullLocator())


def _look(mark: Mark) -> object:
    """Key of a mark; lines with the same key are drawn together, as there may be thousands."""
    return (mark.name, mark.hue, mark.dash, mark.width) if isinstance(mark, Line) else id(mark)


def _draw_marks(axes: Axes, alike: Sequence[Mark], order: int) -> None:
    """Draws a mark, or lines of one look; marks of a higher order lie above."""
    match mark := alike[0]:
        case Band():
            axes.fill_between(
                mark.x,
                mark.low,
                mark.high,
                color=mark.hue.light,
                alpha=BAND_OPACITY,
                linewidth=0,
                label=mark.name,
                zorder=1,
            )
        case Line():
            lines = [line for line in alike if isinstance(line, Line)]
            drawn = LineCollection(
                [list(zip(line.x, line.y, strict=True)) for line in lines],
                colors=mark.hue.light,
                linestyles="--" if mark.dash else "-",
                linewidths=0.75 * mark.width,
                label=mark.name if any(line.in_legend for line in lines) else "",
                zorder=order,
            )
            axes.add_collection(drawn, autolim=False)
        case Points():
            _draw_points(axes, mark, order)
        case Labels():
            _draw_labels(axes, mark)


def _draw_labels(axes: Axes, labels: Labels) -> None:
    for x, y, text, hue in zip(labels.x, labels.y, labels.texts, labels.hues, strict=True):
        axes.annotate(
            text,
            (x, y),
            xytext=(0, 6) if labels.above else (4, 0),
            textcoords="offset points",
            ha="center" if labels.above else "left",
            va="bottom" if labels.above else "center",
            color=hue.light,
            fontsize=7.5,
            fontweight="bold",
            annotation_clip=False,
        )


def _draw_points(axes: Axes, points: Points, order: int) -> None:
    symbol, size = SYMBOLS[points.marker]
    hollow = points.marker is Marker.HOLLOW
    hues = points.hues or (points.hue,) * len(points.x)
    for hue in dict.fromkeys((points.hue, *hues)):  # `scatter` takes three times as long
        chosen = [own == hue for own in hues]
        axes.plot(
            list(compress(points.x, chosen)),
            list(compress(points.y, chosen)),
            symbol,
            color=hue.light,
            markersize=size,
            markerfacecolor="none" if hollow else hue.light,
            markeredgewidth=1.2 if symbol in "x_^" else 0.8,
            label=points.name if points.in_legend and hue == points.hue else None,
            zorder=order,
            rasterized=len(points.x) > MOST_VECTORS,
        )
    for x, (low, high) in zip(points.x, points.bars, strict=False):
        axes.plot((x, x), (low, high), color=points.hue.light, linewidth=1.3, zorder=order)


def draw_small(axes: Axes, chart: Chart, letters: int) -> None:
    """Draws a small chart under its texts, in lines of at most `letters` letters."""
    _draw_chart(axes, chart)
    axes.tick_params(labelsize=7)
    axes.set_xlabel(chart.x.label, fontsize=8, color=MUTED.light)
    axes.set_ylabel(chart.y.label, fontsize=8, color=MUTED.light)
    inches = axes.get_window_extent().width / axes.figure.dpi
    axes.yaxis.set_label_coords((0.18 - SMALL_LEFT) / inches, 0.5)
    found = fill(chart.title, letters)
    _write_above(axes, 6, found, fontsize=9, weight="bold", color=INK.light)
    high = 9 + 12 * len(found.splitlines())
    _write_above(axes, high, chart.question, fontsize=7.5, color=MUTED.light)


def _write_above(axes: Axes, points: float, text: str, **style: Any) -> None:
    """Writes text above a chart, beginning at the left end of the chart's labels."""
    left = -72 * (SMALL_LEFT - SMALL_EDGE)
    place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate(text, (0, 1), (left, points), va="bottom", **place, **style)
