"""Charts for papers, as PNG and SVG, on a light ground. The only home of matplotlib."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from search.report.chart import MUTED, Axis, Band, Chart, Line, Mark, Marker, Points

INCHES = (6.4, 4.8)
DOTS_PER_INCH = 160
LETTERS_PER_INCH = 18
BAND_OPACITY = 0.16
SYMBOLS = {
    Marker.DOT: ("o", 5.0),
    Marker.SMALL: ("D", 3.5),
    Marker.DIAMOND: ("D", 5.5),
    Marker.STAR: ("*", 12.0),
    Marker.BAR: ("_", 13.0),
    Marker.SQUARE: ("s", 5.0),
    Marker.HOLLOW: ("o", 5.0),
    Marker.ABOVE: ("^", 5.5),
    Marker.CROSS: ("x", 6.0),
    Marker.PLUS: ("+", 7.0),
}
"""Symbol and size in points."""
OPEN = (Marker.HOLLOW, Marker.ABOVE)
PAPER: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED.light,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.1,
    "grid.color": "#e4e7ec",
    "grid.linewidth": 0.6,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    # The same records give the same bytes.
    "svg.hashsalt": "fathom",
    "text.parse_math": False,
}


def save_static(charts: Sequence[Chart], folder: Path) -> None:
    """Every chart as `KEY.png` and `KEY.svg`; needs no display."""
    with matplotlib.rc_context(PAPER):
        for chart in charts:
            figure = _figure(chart)
            figure.savefig(folder / f"{chart.key}.png", metadata={"Software": None})
            figure.set_layout_engine("none")  # it is laid out; doing it again takes as long
            figure.savefig(folder / f"{chart.key}.svg", metadata={"Date": None, "Creator": None})


def _figure(chart: Chart) -> Figure:
    figure = Figure(figsize=INCHES, dpi=DOTS_PER_INCH, layout="constrained")
    axes = figure.add_subplot()
    for order, mark in enumerate(chart.marks, start=2):
        _draw(axes, mark, order)
    figure.suptitle(chart.title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    axes.set_title(chart.question, fontsize=8.5, color=MUTED.light, loc="left", pad=8)
    axes.set_xlabel(chart.x.label)
    axes.set_ylabel(chart.y.label)
    if chart.x.log:
        axes.set_xscale("log")
    if chart.y.log:
        axes.set_yscale("log")
    axes.set_xlim(chart.x.low, chart.x.high)
    axes.set_ylim(chart.y.low, chart.y.high)
    _set_ticks(axes.xaxis, chart.x)
    _set_ticks(axes.yaxis, chart.y)
    if axes.get_legend_handles_labels()[0]:
        # Below the axes, where it hides no point.
        title = chart.legend_title or None
        columns = _columns([mark.name for mark in chart.marks])
        figure.legend(loc="outside lower left", ncols=columns, title=title, alignment="left")
    return figure


def _columns(names: Sequence[str]) -> int:
    """As many as fit into the width of a figure, beside the symbols."""
    return max(1, min(6, int(INCHES[0] * LETTERS_PER_INCH / (max(map(len, names)) + 7))))


def _set_ticks(side: XAxis | YAxis, axis: Axis) -> None:
    side.set_major_locator(FixedLocator([value for value, _ in axis.ticks]))
    side.set_major_formatter(FixedFormatter([text for _, text in axis.ticks]))
    side.set_minor_locator(NullLocator())


def _draw(axes: Axes, mark: Mark, order: int) -> None:
    match mark:
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
            axes.plot(
                mark.x,
                mark.y,
                color=mark.hue.light,
                linestyle="--" if mark.dash else "-",
                linewidth=0.75 * mark.width,
                label=mark.name if mark.in_legend else None,
                zorder=order,
            )
        case Points():
            _draw_points(axes, mark, order)


def _draw_points(axes: Axes, points: Points, order: int) -> None:
    symbol, size = SYMBOLS[points.marker]
    colour = points.hue.light
    axes.plot(
        points.x,
        points.y,
        linestyle="none",
        marker=symbol,
        markersize=size,
        markerfacecolor="none" if points.marker in OPEN else colour,
        markeredgecolor=colour,
        markeredgewidth=1.2 if symbol in "x+_^" else 0.8,
        label=points.name if points.in_legend else None,
        zorder=order,
    )
    for x, (low, high) in zip(points.x, points.bars, strict=False):
        axes.plot((x, x), (low, high), color=colour, linewidth=1.3, zorder=order)
