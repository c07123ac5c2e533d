"""The colours of the charts, on a light and on a dark page."""

import math
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Hue:
    """One colour of the report, on a light and on a dark page."""

    light: str
    dark: str

    @property
    def name(self) -> str:
        """Name of the colour as a class of the page."""
        return f"h{self.light[1:]}"


# Okabe and Ito's colours, which the colour-blind can tell apart; lightened for the dark page.
INK = Hue("#1c2128", "#e6e9ee")
MUTED = Hue("#6a7282", "#8d97a7")
ACCENT = Hue("#0072b2", "#56b4e9")
GREEN = Hue("#00805c", "#2fc594")
ORANGE = Hue("#c25400", "#ff9248")
PINK = Hue("#b35a92", "#e79ac8")

DEPTHS = (
    Hue("#829020", "#76802a"),
    Hue("#bf6420", "#c78038"),
    Hue("#b8366a", "#e58a86"),
    Hue("#35125f", "#ffefd0"),
)
"""Colours of depths 1, 4, 16, and of `DEEPEST` or more. The deeper, the more a colour differs from
the page in lightness, so that colour-blind eyes see the order too. None looks like `ACCENT`, the
colour of the answer."""
DEEPEST = 64


@cache
def depth_hue(depth: int) -> Hue:
    """Returns the colour of a depth, which is the same in every chart of every report."""
    last = len(DEPTHS) - 1
    place = min(1.0, math.log(depth) / math.log(DEEPEST)) * last
    first = min(int(place), last - 1)
    low, high, part = DEPTHS[first], DEPTHS[first + 1], place - first
    return Hue(_mixed(low.light, high.light, part), _mixed(low.dark, high.dark, part))


def _mixed(colour: str, other: str, part: float) -> str:
    pairs = zip(_channels(colour), _channels(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in pairs)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
