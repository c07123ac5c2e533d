"""A chart as values: axes with ticks, and marks in data units.

`page_figures.py` draws it for the page and `paper_figures.py` for papers, from the same values.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fathom.search.formatting import format_count, rounded_count
from fathom.search.report.charts.colours import Hue

MOST_TICKS = 7


class Form(StrEnum):
    """Format of a value for people."""

    PLAIN = "plain"
    """Four significant digits."""
    COUNT = "count"
    """Three significant digits, in thousands or more."""
    FIXED = "fixed"
    """Four decimals."""

    def text(self, value: float) -> str:
        """Returns the value in this form; `page.js` formats the values of lines in the same way."""
        match self:
            case Form.COUNT:
                return rounded_count(value)
            case Form.FIXED:
                return f"{value:.4f}"
        return f"{value:.4g}"


class Marker(StrEnum):
    """Shape of a point, with the same meaning in every chart: filled for a value measured to the
    end, hollow for one that was not, a caret for one off the scale, a cross for no loss, a bar for
    a mean or for a place that holds the best, a star for the answer."""

    DOT = "dot"
    STAR = "star"
    BAR = "bar"
    HOLLOW = "hollow"
    ABOVE = "above"
    CROSS = "cross"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis: its label with the unit, its ends and its ticks."""

    label: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False
    quantity: str
    """Short name of the values in hover texts."""
    form: Form = Form.PLAIN
    """Form in which the axis's values are written in hover texts and tables."""

    def place(self, value: float) -> float:
        """Returns a value's position between the ends, as a share of the axis."""
        return self.places((value,))[0]

    def places(self, values: Sequence[float]) -> list[float]:
        """Returns the position of each value between the ends."""
        if self.log:
            whole = math.log(self.high / self.low)
            return [math.log(value / self.low) / whole for value in values]
        return [(value - self.low) / (self.high - self.low) for value in values]

    @property
    def edge(self) -> float:
        """Height at which points above the scale are drawn."""
        return self.high - 0.04 * (self.high - self.low)


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """A mark of a chart: separate points, perhaps with error bars."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    hover: tuple[str, ...]
    hue: Hue
    marker: Marker
    bars: tuple[tuple[float, float], ...] = ()
    """(low, high) of a vertical error bar for each point; empty without bars."""
    values: tuple[tuple[float, float | None], ...] = ()
    """The values of each point, for points that are not drawn at their values; a None has no value.
    Empty where all points are drawn at their values."""
    in_legend: bool = True
    hues: tuple[Hue, ...] = ()
    """Colour of each point, if they differ; the legend then shows `hue`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A mark of a chart: a curve."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    hue: Hue
    hover: str
    has_values: bool = True
    """False for a line that marks a place on the x axis, whose heights are no values."""
    dash: bool = False
    width: float = 2
    in_legend: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A mark of a chart: the area between two curves."""

    name: str
    x: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    hue: Hue


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Texts, each beside a place; its first letter stands right of that place."""

    name: str = "names"
    x: tuple[float, ...]
    y: tuple[float, ...]
    texts: tuple[str, ...]
    hues: tuple[Hue, ...]
    above: bool = False
    """True if each text is centred above its place."""


Mark = Points | Line | Band | Labels


def visible(*marks: Mark) -> tuple[Mark, ...]:
    """Returns the marks that have at least one point."""
    return tuple(mark for mark in marks if mark.x)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One figure; `key` names its files."""

    key: str
    title: str
    question: str
    """Budget, tokens and counting rule for which the chart holds."""
    caption: str
    """Text on how to read the chart."""
    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    budget: int | None = None
    """Budget of the chart; None for a chart across budgets."""
    legend_title: str = ""
    wide: bool = False
    """True if the chart takes the whole width of the page."""


def linear_ticks(low: float, high: float) -> tuple[tuple[float, str], ...]:
    """Returns round numbers between two ends, each with as many decimals as tell them apart."""
    raw = (high - low) / (MOST_TICKS - 1)
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= raw * (1 - 1e-9))
    decimals = next(d for d in range(15) if math.isclose(step, round(step, d), rel_tol=1e-6))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple((i * step, f"{i * step:.{decimals}f}") for i in range(first, last + 1))


def log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Returns round numbers between two ends of a log scale."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for leads in ((1, 2, 5), (1, 3), (1,)):
        ticks = [lead * 10.0**d for d in decades for lead in leads if low <= lead * 10.0**d <= high]
        if len(ticks) < 3:
            return tuple(value for value, _ in linear_ticks(low, high))
        if len(ticks) <= MOST_TICKS:
            return tuple(ticks)
    return tuple(ticks[:: math.ceil(len(ticks) / MOST_TICKS)])


def spread_ticks(values: Sequence[int], low: float, high: float) -> tuple[int, ...]:
    """Returns the tested depths whose labels fit beside each other on a log scale."""
    room = math.log(high / low) / 12
    kept: list[int] = []
    for value in sorted(set(values)):
        if low <= value <= high and (not kept or math.log(value / kept[-1]) >= room):
            kept.append(value)
    return tuple(kept)


def depth_axis(depths: Sequence[int]) -> Axis:
    """Returns a log axis over the depths that were tried, with ticks at them."""
    low, high = min(depths) / 1.25, max(depths) * 1.25
    return Axis(
        label="depth (layers)",
        low=low,
        high=high,
        log=True,
        ticks=tuple((depth, str(depth)) for depth in spread_ticks(depths, low, high)),
        quantity="depth",
    )


def log_axis(
    label: str,
    low: float,
    high: float,
    *,
    quantity: str,
    form: Form = Form.PLAIN,
    text: Callable[[float], str] = "{:g}".format,
) -> Axis:
    """Returns a log axis with ticks at round numbers, each written as `text` writes it."""
    return Axis(
        label=label,
        low=low,
        high=high,
        log=True,
        ticks=tuple((tick, text(tick)) for tick in log_ticks(low, high)),
        quantity=quantity,
        form=form,
    )


def params_axis(count: str, low: float, high: float) -> Axis:
    """Returns a log axis over sizes; `count` names the counting rule."""
    label = f"parameters ({count} count)"
    return log_axis(label, low, high, quantity="parameters", form=Form.COUNT, text=format_count)


def depth_grid(low: int, high: int) -> tuple[int, ...]:
    """Returns whole depths about evenly spread on a log scale, with both ends; between whole depths
    a curve describes no model."""
    return tuple(dict.fromkeys(round(depth) for depth in log_grid(low, high)))


def log_grid(low: float, high: float, steps: int = 60) -> tuple[float, ...]:
    """Returns values evenly spread on a log scale, with both ends."""
    return tuple(low * (high / low) ** (i / steps) for i in range(steps + 1))
