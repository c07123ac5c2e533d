"""A chart as values: axes with ticks, and marks in data units.

`page_figures.py` draws the interactive version and `paper_figures.py` the printed one, both from
the same values.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fathom.search.formatting import format_count

VIRIDIS = (
    (68, 1, 84),
    (70, 50, 127),
    (54, 92, 141),
    (39, 127, 142),
    (31, 161, 135),
    (74, 194, 109),
    (159, 218, 58),
    (253, 231, 37),
)
"""Eight colours of matplotlib's viridis, in which lightness rises throughout."""
MOST_TICKS = 7


@dataclass(frozen=True, slots=True)
class Hue:
    """One colour of the report, on a light and on a dark page."""

    light: str
    dark: str


# Okabe and Ito's colours, which the colour-blind can tell apart; lightened for the dark page.
INK = Hue("#1c2128", "#e6e9ee")
MUTED = Hue("#7b8494", "#8d97a7")
ACCENT = Hue("#0072b2", "#56b4e9")
GREEN = Hue("#00805c", "#2fc594")
ORANGE = Hue("#c25400", "#ff9248")
PINK = Hue("#b35a92", "#e79ac8")


class Marker(StrEnum):
    """Shape of a point; hollow ones have no loss at the horizon."""

    DOT = "dot"
    SMALL = "small"
    DIAMOND = "diamond"
    STAR = "star"
    BAR = "bar"
    SQUARE = "square"
    HOLLOW = "hollow"
    ABOVE = "above"
    CROSS = "cross"
    PLUS = "plus"


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
    hover: str = ".4~g"
    """Format of the values in hover texts, in d3's notation."""

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
    """The values behind each point, for points that are drawn elsewhere than at their values; a
    None has no value. Empty where all are drawn at their values."""
    in_legend: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A curve."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    hue: Hue
    hover: str = ""
    has_values: bool = True
    """False for a line that marks a place on the x axis, whose heights are no values."""
    dash: bool = False
    width: float = 2
    in_legend: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """The area between two curves."""

    name: str
    x: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    hue: Hue


Mark = Points | Line | Band


def visible(*marks: Mark) -> tuple[Mark, ...]:
    """Returns the marks that have a point."""
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


def depth_hue(depth: int, depths: Sequence[int]) -> Hue:
    """Returns the colour of a depth by its rank among all depths, so that neighbours differ."""
    ranked = sorted(set(depths))
    place = ranked.index(depth) / (len(ranked) - 1) if len(ranked) > 1 else 0.5
    # The ends of the scale with a contrast below 3 to either page are left out.
    return Hue(_viridis(0.58 * (1 - place)), _viridis(1 - 0.65 * place))


def _viridis(place: float) -> str:
    position = place * (len(VIRIDIS) - 1)
    index = min(int(position), len(VIRIDIS) - 2)
    part = position - index
    mixed = (
        round(a + (b - a) * part) for a, b in zip(VIRIDIS[index], VIRIDIS[index + 1], strict=True)
    )
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def linear_ticks(low: float, high: float) -> tuple[tuple[float, str], ...]:
    """Returns round numbers between two ends, with the decimals that tell them apart."""
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
    """Returns those of the tested depths whose labels fit beside each other on a log scale."""
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
        hover=".3~g",
    )


def log_axis(
    label: str,
    low: float,
    high: float,
    *,
    quantity: str,
    hover: str = ".4~g",
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
        hover=hover,
    )


def params_axis(count: str, low: float, high: float) -> Axis:
    """Returns a log axis over sizes; `count` names the counting rule."""
    label = f"parameters ({count} count)"
    return log_axis(label, low, high, quantity="parameters", hover=".3~s", text=format_count)


def log_grid(low: float, high: float, steps: int = 60) -> tuple[float, ...]:
    """Returns values evenly spread on a log scale, with both ends."""
    return tuple(low * (high / low) ** (i / steps) for i in range(steps + 1))
