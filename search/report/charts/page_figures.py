"""Charts as SVG for the page, which fit any width, and the values that a reader points at.

Places are shares of the axes, so one drawing fits a phone, a screen and a sheet of paper: points
and texts keep their size, and curves are stretched while their lines keep their width. The drawing
needs no script; descriptions of points and the tables of values do.
"""

import gzip
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise
from typing import Any

from fathom.search.report.charts.chart import Band, Chart, Labels, Line, Marker, Points
from fathom.search.report.charts.colours import Hue

STEPS = 20_000
"""Steps into which an axis is divided for curves; a script reads their values from the drawing."""
EDGE = 1e-3
"""Share of an axis by which a point may lie outside it and still be drawn."""


class FigureData:
    """Texts for the page's script, which shows them at a point or a line and in tables.

    These texts are compressed: uncompressed, those of a thousand trials would be most of a page.
    """

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._figures: dict[str, dict[str, list[Any]]] = {}
        self.trials: Sequence[Mapping[str, Any]] = ()
        """A row for each trial, of the table that a reader can sort: its values by heading."""

    def add(self, chart: Chart) -> None:
        """Adds a chart: descriptions of its points and lines, in drawing order."""
        points = [mark for mark in chart.marks if isinstance(mark, Points)]
        lines = [mark for mark in chart.marks if isinstance(mark, Line)]
        described = [
            [self._number(hover), *values]
            for mark in points
            for hover, values in zip(mark.hover, point_values(mark, chart), strict=True)
        ]
        self._figures[chart.key] = {
            "series": list(_series(chart)),
            "points": described,
            "lines": [self._number(mark.hover) for mark in lines],
        }

    def _number(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    @property
    def encoded(self) -> str:
        """The texts and the figures as JSON, compressed by gzip, in base64."""
        found = {
            "texts": list(self._texts),
            "figures": self._figures,
            "heads": list(self.trials[0]) if self.trials else [],
            "trials": [list(row.values()) for row in self.trials],
        }
        plain = json.dumps(found, separators=(",", ":")).encode()
        return b64encode(gzip.compress(plain, mtime=0)).decode()


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A mark of a legend: its name, colour and symbol."""

    name: str
    hue: Hue
    symbol: str
    """A marker's name, or `line`, `dash` or `band`."""
    series: int | str
    """Number of the series in the drawing, for marks of this name; empty for a band."""


@dataclass(frozen=True, slots=True)
class PageFigure:
    """A chart as the templates take it."""

    chart: Chart
    svg: str
    axes: dict[str, tuple[float, float, bool, str, str]]
    """Name of an axis -> its low end, its high end, whether it is logarithmic, its quantity, and
    the form of its values."""
    legend: tuple[LegendEntry, ...]


def page_figure(chart: Chart, data: FigureData) -> PageFigure:
    """Returns the chart as SVG with its legend, and adds to `data` the values that the page shows
    where a reader points at a mark."""
    data.add(chart)
    return PageFigure(
        chart=chart,
        svg=_svg(chart),
        axes={
            name: (axis.low, axis.high, axis.log, axis.quantity, axis.form.value)
            for name, axis in (("x", chart.x), ("y", chart.y))
        },
        legend=_legend(chart),
    )


def palette(charts: Sequence[Chart]) -> list[Hue]:
    """Returns every colour of the charts, once."""
    hues: set[Hue] = set()
    for chart in charts:
        for mark in chart.marks:
            hues |= set(mark.hues) if isinstance(mark, Labels) else {mark.hue}
            hues |= set(mark.hues) if isinstance(mark, Points) else set()
    return sorted(hues, key=lambda hue: hue.light)


def _svg(chart: Chart) -> str:
    series = _series(chart)
    lines = [mark for mark in chart.marks if isinstance(mark, Line)]
    curves = [_band(mark, chart) for mark in chart.marks if isinstance(mark, Band)]
    curves += [_lines(list(alike), chart, series) for _, alike in groupby(lines, _look)]
    marks = [mark for mark in chart.marks if isinstance(mark, Points)]
    points = [_points(mark, chart, series[mark.name]) for mark in marks]
    texts = [_labels(mark, chart) for mark in chart.marks if isinstance(mark, Labels)]
    box = f'viewBox="0 0 {STEPS} {STEPS}" preserveAspectRatio="none"'
    stretched = f'<svg class="curves" width="100%" height="100%" {box}>{"".join(curves)}</svg>'
    return _frame(chart) + stretched + "".join(points) + "".join(texts)


def _frame(chart: Chart) -> str:
    """Returns the grid, the ticks and the labels of both axes."""
    parts = []
    for value, text in chart.x.ticks:
        x = _share(chart.x.place(value))
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y2="100%"/>')
        parts.append(f'<text class="tick" x="{x}" y="100%" dy="18">{escape(text)}</text>')
    for value, text in chart.y.ticks:
        y = _share(1 - chart.y.place(value))
        parts.append(f'<line class="grid" x2="100%" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="tick left" y="{y}" dx="-8" dy="4">{escape(text)}</text>')
    parts.append('<line class="axis" x2="100%" y1="100%" y2="100%"/>')
    parts.append(f'<text class="label" x="100%" y="100%" dy="38">{escape(chart.x.label)}</text>')
    parts.append(f'<text class="label top" dx="-46" dy="-12">{escape(chart.y.label)}</text>')
    return "".join(parts)


def _band(band: Band, chart: Chart) -> str:
    around = _path((*band.x, *band.x[::-1]), (*band.low, *band.high[::-1]), chart)
    return f'<path class="band {band.hue.name}" d="{around}z"/>'


def _look(line: Line) -> tuple[str, str, float]:
    """Returns a line's name, its classes in the page and its width."""
    dash, mark = " dash" if line.dash else "", "" if line.has_values else " mark"
    return line.name, f"{line.hue.name}{dash}{mark}", line.width


def _lines(lines: Sequence[Line], chart: Chart, series: dict[str, int]) -> str:
    """Returns lines of one look as SVG; the look is written once, as there may be hundreds of
    lines."""
    name, classes, width = _look(lines[0])
    drawn = "".join(f'<path class="line" d="{_path(line.x, line.y, chart)}"/>' for line in lines)
    return f'<g class="{classes}" data-s="{series[name]}" stroke-width="{width:g}">{drawn}</g>'


def _points(points: Points, chart: Chart, series: int) -> str:
    parts = []
    for x, (low, high) in zip(points.x, points.bars, strict=False):
        place = _share(chart.x.place(x))
        if chart.y.place(low) > 1 or chart.y.place(high) < 0:
            continue
        ends = (_share(min(1.0, max(0.0, 1 - chart.y.place(end)))) for end in (low, high))
        parts.append('<line class="bar" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>'.format(place, *ends))
    for x, y, hue in zip(points.x, points.y, points.hues or (None,) * len(points.x), strict=True):
        places = f'x="{_share(chart.x.place(x))}" y="{_share(1 - chart.y.place(y))}"'
        hidden = "" if -EDGE <= chart.y.place(y) <= 1 + EDGE else ' visibility="hidden"'
        own = f' class="{hue.name}"' if hue else ""
        parts.append(f'<use href="#m-{points.marker}" {places}{hidden}{own}/>')
    return f'<g class="points {points.hue.name}" data-s="{series}">{"".join(parts)}</g>'


def point_values(points: Points, chart: Chart) -> list[list[str]]:
    """Returns the values to show for each point: its true values, wherever it is drawn."""
    values = points.values or tuple(zip(points.x, points.y, strict=True))
    shown = []
    for (x, y), bar in zip(values, points.bars or [None] * len(values), strict=True):
        facts = [f"{chart.x.quantity} {chart.x.form.text(x)}"]
        if y is not None:
            off = "" if 0 <= chart.y.place(y) <= 1 else " (off scale)"
            facts.append(f"{chart.y.quantity} {chart.y.form.text(y)}{off}")
        if bar:
            facts.append(f"bar {chart.y.form.text(bar[0])} to {chart.y.form.text(bar[1])}")
        shown.append(facts)
    return shown


def _labels(labels: Labels, chart: Chart) -> str:
    kind = "name above" if labels.above else "name"
    moved = 'dy="-10"' if labels.above else 'dx="5" dy="4"'
    parts = []
    for x, y, text, hue in zip(labels.x, labels.y, labels.texts, labels.hues, strict=True):
        places = f'x="{_share(chart.x.place(x))}" y="{_share(1 - chart.y.place(y))}"'
        key = "" if labels.above else f'<tspan class="{hue.name}">●</tspan> '
        parts.append(f'<text class="{kind}" {places} {moved}>{key}{escape(text)}</text>')
    return "".join(parts)


def _legend(chart: Chart) -> tuple[LegendEntry, ...]:
    series = _series(chart)
    entries: dict[str, LegendEntry] = {}
    for mark in chart.marks:
        match mark:
            case Band():
                entries.setdefault(mark.name, LegendEntry(mark.name, mark.hue, "band", ""))
            case Line() | Points() if mark.in_legend:
                entry = LegendEntry(mark.name, mark.hue, _symbol(mark), series[mark.name])
                entries.setdefault(mark.name, entry)
    return tuple(entries.values())


def _symbol(mark: Line | Points) -> str:
    if isinstance(mark, Points):
        return mark.marker.value
    return "dash" if mark.dash else "line"


def _series(chart: Chart) -> dict[str, int]:
    """Returns a number for each name; marks of the same name are one series."""
    names = (mark.name for mark in chart.marks if isinstance(mark, Line | Points))
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def _path(x: Sequence[float], y: Sequence[float], chart: Chart) -> str:
    """Returns the data of an SVG path in whole steps; `page.js` turns them back into values."""
    across = [round(STEPS * place) for place in chart.x.places(x)]
    down = [STEPS - round(STEPS * place) for place in chart.y.places(y)]
    parts = [f"M{across[0]} {down[0]}"]
    for (x0, y0), (x1, y1) in pairwise(zip(across, down, strict=True)):
        parts.append(f"l{x1 - x0} {y1 - y0}")
    return "".join(parts).replace(" -", "-")


def _share(place: float) -> str:
    return f"{100 * place:.2f}%"


SYMBOLS = {
    Marker.DOT: '<circle r="3.8"/>',
    Marker.STAR: (
        '<path d="M0-9 2.2-3 8.6-2.8 3.5 1.1 5.3 7.3 0 3.7-5.3 7.3-3.5 1.1-8.6-2.8-2.2-3z"/>'
    ),
    Marker.BAR: '<path class="open" d="M-9 0H9"/>',
    Marker.HOLLOW: '<circle class="open" r="3.6"/>',
    Marker.ABOVE: '<path d="M0-5 6 4 0 1-6 4z"/>',
    Marker.CROSS: '<path class="open" d="M-4-4 4 4M-4 4 4-4"/>',
}
"""Marker -> its drawing around the origin, in pixels."""
