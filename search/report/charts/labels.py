"""Names that stand beside the ends of their lines, apart from one another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fathom.search.report.charts.chart import Axis, Labels
from fathom.search.report.charts.colours import Hue

GAP = 0.045
"""Smallest distance of two names, as a share of the height of a chart."""
LATE = 0.8
"""Share of a chart's width from which on a line ends at the right edge."""


@dataclass(frozen=True, slots=True)
class LineEnd:
    """The end of a line that gets a name."""

    x: float
    y: float
    hue: Hue


def end_labels(ends: Mapping[str, LineEnd], x: Axis, y: Axis) -> Labels:
    """Returns the names at the right, each as near to the end of its line as others let it.

    A line that ends before the edge has its name where it ends.
    """
    early = {name: end for name, end in ends.items() if x.place(end.x) < LATE}
    late = sorted(
        ((name, end) for name, end in ends.items() if name not in early), key=lambda pair: pair[1].y
    )
    heights = apart([y.place(end.y) for _, end in late], GAP)
    low, high = y.low, y.high
    edge = max((end.x for _, end in late), default=x.high)
    shown = [(name, end.x, end.y, end.hue) for name, end in early.items() if low < end.y < high]
    shown += [
        (name, edge, _value(y, height), end.hue)
        for (name, end), height in zip(late, heights, strict=True)
    ]
    return Labels(
        x=tuple(place for _, place, _, _ in shown),
        y=tuple(height for _, _, height, _ in shown),
        texts=tuple(name for name, _, _, _ in shown),
        hues=tuple(hue for _, _, _, hue in shown),
    )


def apart(places: Sequence[float], gap: float) -> list[float]:
    """Returns ascending places from 0 to 1, moved as little as keeps them a gap apart."""
    moved: list[float] = []
    for place in places:
        moved.append(max(min(1.0, max(0.0, place)), moved[-1] + gap if moved else 0.0))
    ceiling = 1.0
    for index in reversed(range(len(moved))):
        moved[index] = min(moved[index], ceiling)
        ceiling = moved[index] - gap
    return moved


def _value(axis: Axis, place: float) -> float:
    if axis.log:
        return axis.low * float((axis.high / axis.low) ** place)
    return axis.low + place * (axis.high - axis.low)
