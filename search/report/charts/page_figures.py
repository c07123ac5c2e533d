"""Interactive charts for the page, as JSON for plotly.js. The only home of plotly.

Plotly's Python objects check every value, which takes as long as the rest of a page; a test runs
these checks on every kind of chart instead.
"""

import html
from collections.abc import Sequence
from math import log10
from typing import Any

from plotly.offline import get_plotlyjs

from fathom.search.report.charts.chart import Axis, Band, Chart, Line, Mark, Marker, Points

BAND_OPACITY = 0.16
SYMBOLS = {
    Marker.DOT: ("circle", 8),
    Marker.SMALL: ("diamond", 7),
    Marker.DIAMOND: ("diamond", 10),
    Marker.STAR: ("star", 17),
    Marker.BAR: ("line-ew-open", 18),
    Marker.SQUARE: ("square", 9),
    Marker.HOLLOW: ("circle-open", 8),
    Marker.ABOVE: ("triangle-up-open", 9),
    Marker.CROSS: ("x-thin-open", 8),
    Marker.PLUS: ("cross-thin-open", 9),
}
"""Marker -> symbol and size in pixels."""


def plotly_script() -> str:
    """Returns the source of plotly.js, to be embedded once in a page."""
    return str(get_plotlyjs())


def interactive(chart: Chart) -> dict[str, Any]:
    """Returns the chart as JSON values for plotly.js, in the colours of a light page."""
    return {
        "data": [_trace(mark, chart) for mark in chart.marks],
        "layout": {
            "xaxis": _plotly_axis(chart.x),
            "yaxis": _plotly_axis(chart.y),
            "legend": {
                "orientation": "h",
                "x": 0,
                "y": 1.02,
                "yanchor": "bottom",
                "title": _plotly_legend_title(chart),
                "tracegroupgap": 0,
            },
            "margin": {"l": 60, "r": 14, "t": 20, "b": 50},
            "hovermode": "closest",
            "hoverlabel": {"align": "left"},
        },
    }


def _plotly_legend_title(chart: Chart) -> dict[str, Any]:
    # Beside the entries, a title pushes the last of a row out of a narrow figure.
    return {"text": html.escape(chart.legend_title), "font": {"size": 12}, "side": "top"}


def palette(charts: Sequence[Chart]) -> dict[str, str]:
    """Returns each colour of the charts on a light page -> its colour on a dark one."""
    hues = {mark.hue for chart in charts for mark in chart.marks}
    return {hue.light: hue.dark for hue in sorted(hues, key=lambda hue: hue.light)}


def _plotly_axis(axis: Axis) -> dict[str, Any]:
    ends = [log10(end) if axis.log else end for end in (axis.low, axis.high)]
    return {
        "type": "log" if axis.log else "linear",
        "range": ends,
        "title": {"text": html.escape(axis.label), "standoff": 10},
        "tickvals": [value for value, _ in axis.ticks],
        "ticktext": [html.escape(text) for _, text in axis.ticks],
        "zeroline": False,
        "automargin": True,
    }


def _trace(mark: Mark, chart: Chart) -> dict[str, Any]:
    x, y = chart.x, chart.y
    axes = f"{x.quantity} %{{x:{x.hover}}}, {y.quantity} %{{y:{y.hover}}}"
    match mark:
        case Band():
            own = _band(mark)
        case Line():
            shown = f"{html.escape(mark.hover)}<br>{axes}" if mark.has_values else mark.hover
            own = _line(mark) | {"hovertemplate": f"{shown}<extra></extra>"}
        case Points():
            own = _points(mark) | _hover(mark, chart)
    return {"type": "scatter", "name": html.escape(mark.name), **own}


def _hover(points: Points, chart: Chart) -> dict[str, Any]:
    """Returns what a person reads who points at a point: its values, wherever it is drawn."""
    x, y = chart.x, chart.y
    values = points.values or tuple(zip(points.x, points.y, strict=True))
    templates = []
    for _, height in values:
        shown = f"{x.quantity} %{{customdata[0]:{x.hover}}}"
        if height is not None:
            shown += f", {y.quantity} %{{customdata[1]:{y.hover}}}"
            shown += "" if y.low <= height <= y.high else " (off scale)"
        templates.append(f"%{{text}}<br>{shown}<extra></extra>")
    return {"customdata": [list(pair) for pair in values], "hovertemplate": templates}


def _band(band: Band) -> dict[str, Any]:
    return {
        "x": [*band.x, *reversed(band.x)],
        "y": [*band.low, *reversed(band.high)],
        "mode": "none",
        "fill": "toself",
        "fillcolor": _translucent(band.hue.light),
        "hoverinfo": "skip",
    }


def _line(line: Line) -> dict[str, Any]:
    return _common(line) | {
        "mode": "lines",
        "line": {
            "color": line.hue.light,
            "width": line.width,
            "dash": "dash" if line.dash else "solid",
        },
    }


def _points(points: Points) -> dict[str, Any]:
    symbol, size = SYMBOLS[points.marker]
    bars = {"error_y": _plotly_bars(points)} if points.bars else {}
    return {
        **_common(points),
        **bars,
        "mode": "markers",
        "marker": {
            "color": points.hue.light,
            "symbol": symbol,
            "size": size,
            "line": {"width": 2 if symbol.endswith("open") else 0, "color": points.hue.light},
        },
        "text": [html.escape(text).replace(": ", "<br>", 1) for text in points.hover],
    }


def _common(mark: Line | Points) -> dict[str, Any]:
    return {
        "legendgroup": html.escape(mark.name),
        "showlegend": mark.in_legend,
        "x": list(mark.x),
        "y": list(mark.y),
    }


def _plotly_bars(points: Points) -> dict[str, Any]:
    up = [high - y for y, (_, high) in zip(points.y, points.bars, strict=True)]
    down = [y - low for y, (low, _) in zip(points.y, points.bars, strict=True)]
    return {
        "type": "data",
        "symmetric": False,
        "array": up,
        "arrayminus": down,
        "thickness": 1.6,
        "width": 4,
        "color": points.hue.light,
    }


def _translucent(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{BAND_OPACITY})"
