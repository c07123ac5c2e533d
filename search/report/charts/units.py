"""Converts a chart of losses in nats to the unit of the losses in a table."""

from dataclasses import replace

from fathom.models.unit import NATS, Unit
from fathom.search.report.charts.chart import Band, Chart, Labels, Line, Mark, Points, linear_ticks


def in_unit(chart: Chart | None, unit: Unit) -> Chart | None:
    """The chart with its vertical axis converted from nats to a unit."""
    if chart is None or unit == NATS:
        return chart
    low, high = sorted(_values((chart.y.low, chart.y.high), unit))
    y = replace(chart.y, label=unit.label, low=low, high=high, ticks=linear_ticks(low, high))
    return replace(chart, y=y, marks=tuple(_mark(mark, unit) for mark in chart.marks))


def _mark(mark: Mark, unit: Unit) -> Mark:
    match mark:
        case Points():
            values = tuple((at, y if y is None else unit.value(y)) for at, y in mark.values)
            bars = tuple((unit.value(low), unit.value(high)) for low, high in mark.bars)
            return replace(mark, y=_values(mark.y, unit), bars=bars, values=values)
        case Band():
            return replace(mark, low=_values(mark.low, unit), high=_values(mark.high, unit))
        case Line() | Labels():
            return replace(mark, y=_values(mark.y, unit))


def _values(losses: tuple[float, ...], unit: Unit) -> tuple[float, ...]:
    return tuple(map(unit.value, losses))
