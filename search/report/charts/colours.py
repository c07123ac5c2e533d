"""The colours of the charts, on a light and on a dark page."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hue:
    """One colour of the report, on a light and on a dark page."""

    light: str
    dark: str

    @property
    def name(self) -> str:
        """Its name as a class of the page."""
        return f"h{self.light[1:]}"


# Okabe and Ito's colours, which the colour-blind can tell apart; lightened for the dark page.
INK = Hue("#1c2128", "#e6e9ee")
MUTED = Hue("#7b8494", "#8d97a7")
ACCENT = Hue("#0072b2", "#56b4e9")
GREEN = Hue("#00805c", "#2fc594")
ORANGE = Hue("#c25400", "#ff9248")
PINK = Hue("#b35a92", "#e79ac8")

DEPTHS = (
    Hue("#4d9ca9", "#a343ad"),
    Hue("#f85206", "#7d7973"),
    Hue("#a562ff", "#0ca422"),
    Hue("#527a5a", "#de72fa"),
    Hue("#6b4b80", "#a8aeb7"),
    Hue("#ab0000", "#cfc09a"),
    Hue("#000fff", "#a9ff0b"),
    Hue("#53292c", "#f9fff9"),
)
"""Colours from the shallowest depth to the deepest, away from the page in lightness.

A search over colours found them: any two are far apart for eyes of every kind, and each has a
contrast of at least 3 to its page, as `tests/search/report/test_charts.py` measures.
"""


def depth_hue(depth: int, depths: Sequence[int]) -> Hue:
    """Returns the colour of a depth by its rank among all depths, so that neighbours differ."""
    ranked = sorted(set(depths))
    last = len(DEPTHS) - 1
    position = last * ranked.index(depth) / (len(ranked) - 1) if len(ranked) > 1 else last / 2
    if len(ranked) <= len(DEPTHS):
        return DEPTHS[round(position)]
    index = min(int(position), last - 1)
    first, other = DEPTHS[index], DEPTHS[index + 1]
    part = position - index
    return Hue(_mixed(first.light, other.light, part), _mixed(first.dark, other.dark, part))


def _mixed(colour: str, other: str, part: float) -> str:
    pairs = zip(_channels(colour), _channels(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in pairs)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
