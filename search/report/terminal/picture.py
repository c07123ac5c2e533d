"""Loss against depth in characters: the losses of the depths, their curve, and the interval."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import shorten

from rich.console import Group
from rich.table import Table
from rich.text import Text

from fathom.search.analysis.answer.interim import DepthLoss

PICTURE_WIDTHS = (38, 60)
"""Least and greatest width of a picture, in columns."""
LEAST_HEIGHT, HEIGHT = 7, 12
"""Least and greatest height of a picture, in lines."""
LABEL = 7
"""Columns left of the picture, for the labels of losses."""
SCALE = 3
"""A loss is drawn inside the picture if it is above the best by at most this many times the median
distance."""
LEVELS = "▁▂▃▄▅▆▇█"
FINISHED, FORECAST, ABOVE, CURVE = "●", "○", "▲", "·"
Grid = list[list[tuple[str, str]]]
"""Rows of characters with their styles."""


@dataclass(frozen=True, slots=True)
class DepthPicture:
    """Content of the picture of one budget."""

    title: str
    losses: Sequence[DepthLoss]
    """Losses of two depths or more, ascending in depth."""
    curve: Callable[[float], float] | None
    interval: tuple[int, int] | None
    """95 % interval of the best depth, in whole depths."""
    best: int | None


def side_by_side(width: int) -> int:
    """Returns how many pictures fit side by side in a terminal of `width` columns."""
    return max(1, width // PICTURE_WIDTHS[0])


def pictures(drawn: Sequence[DepthPicture], width: int, height: int = HEIGHT) -> Group:
    """Returns pictures side by side, each at most `height` lines high; those that don't fit follow
    below."""
    across = min(side_by_side(width), len(drawn) or 1)
    each = min(width // across - 2, PICTURE_WIDTHS[1])
    rows = []
    for first in range(0, len(drawn), across):
        row = Table.grid(padding=(0, 2, 0, 0))
        in_row = drawn[first : first + across]
        row.add_row(*(draw(picture, each, min(height, HEIGHT)) for picture in in_row))
        rows.append(row)
    return Group(*rows)


def draw(picture: DepthPicture, width: int, height: int) -> Text:
    """Returns the picture as text of `width` columns, at least 20, and `height` lines, at least
    5."""
    columns, rows = width - LABEL - 1, height - 3
    low, high = _ends(picture.losses)
    first, last = picture.losses[0].depth, picture.losses[-1].depth
    across = math.log(last / first) or 1.0

    def column(depth: float) -> int:
        return round((columns - 1) * math.log(depth / first) / across)

    def row(loss: float) -> int:
        return round((rows - 1) * (high - loss) / (high - low))

    grid: Grid = [[(" ", "")] * columns for _ in range(rows)]
    if picture.curve:
        for place in range(columns):
            at = row(picture.curve(first * math.exp(across * place / (columns - 1))))
            if 0 <= at < rows:
                grid[at][place] = (CURVE, "dim")
    for known in picture.losses:
        bar = round((rows - 1) * known.error / (high - low))
        place, best = column(known.depth), known.depth == picture.best
        _draw_loss(grid, known, place, row(known.loss), bar, best=best)
    labels = {0: f"{high:.3f}", rows - 1: f"{low:.3f}"}
    title = shorten(picture.title, width, placeholder="").rstrip(",")
    text = Text(f"{title:<{width}}\n", style="bold")
    for number, line in enumerate(grid):
        text.append(f"{labels.get(number, ''):>{LABEL}}│", style="dim")
        for character, style in line:
            text.append(character, style=f"not bold {style}")
        text.append("\n")
    text.append(" " * LABEL + "└", style="dim")
    for character, style in _axis(picture, columns, column):
        text.append(character, style=f"not bold {style}")
    text.append("\n" + " " * (LABEL + 1) + _depths(picture.losses, columns, column), style="dim")
    return text


def sparkline(losses: Sequence[float], width: int) -> str:
    """Returns the last losses of a trial as bars, one column each; the highest loss fills its
    column."""
    shown = [loss for loss in losses if math.isfinite(loss)][-width:]
    if len(shown) < 2:
        return ""
    low, high = min(shown), max(shown)
    step = (high - low) / (len(LEVELS) - 1) or 1.0
    return "".join(LEVELS[round((loss - low) / step)] for loss in shown)


def _ends(losses: Sequence[DepthLoss]) -> tuple[float, float]:
    """Returns the lowest and the highest loss inside the picture; much higher losses are drawn on
    its edge."""
    low = min(known.loss for known in losses)
    above = sorted(known.loss - low for known in losses)
    typical = above[(len(above) + 1) // 2] if len(above) > 1 else 0.0
    return low, low + (min(above[-1], SCALE * typical) or above[-1] or 0.01)


def _draw_loss(grid: Grid, known: DepthLoss, place: int, at: int, bar: int, *, best: bool) -> None:
    """Draws the loss of one depth: a point, and a bar of one standard error to each side."""
    style = "bold green" if best else "cyan"
    if at < 0:
        grid[0][place] = (ABOVE, style)
        return
    for line in range(max(0, at - bar), min(len(grid), at + bar + 1)):
        grid[line][place] = ("│", style)
    grid[at][place] = (FINISHED if known.finished else FORECAST, style)


def _axis(
    picture: DepthPicture, columns: int, column: Callable[[float], int]
) -> list[tuple[str, str]]:
    """Returns the axis, which is heavy inside the interval and marks the best depth."""
    axis = [("─", "dim")] * columns
    first, last = picture.losses[0].depth, picture.losses[-1].depth
    if picture.interval:
        low, high = (min(max(end, first), last) for end in picture.interval)
        for place in range(column(low), column(high) + 1):
            axis[place] = ("━", "bold green")
    if picture.best and first <= picture.best <= last:
        axis[column(picture.best)] = ("┻" if picture.interval else "┴", "bold green")
    return axis


def _depths(losses: Sequence[DepthLoss], columns: int, column: Callable[[float], int]) -> str:
    """Returns the line of depths below the axis; depths without room are left out."""
    line = [" "] * columns
    free = 0
    for known in losses:
        label = str(known.depth)
        place = min(column(known.depth), columns - len(label))
        if place >= free:
            line[place : place + len(label)] = label
            free = place + len(label) + 1
    return "".join(line)
