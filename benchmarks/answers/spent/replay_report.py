"""The results of a replay as a Markdown table for each budget and a figure."""

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

DOUBLINGS, STEPS = 6, 4
"""Answers are compared from 1/64 of the ladder's tokens on, four times per doubling."""
SHOWN = (16, 8, 4, 2, 1)
"""Columns of the table, as inverse shares of the ladder's tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """Results of one search; tokens are shares of the ladder's."""

    until: float
    """Tokens after which the answer stayed right to the end; infinite if it ended wrong."""
    spent: float
    """Tokens at which the search ended or was cut off."""
    right: tuple[bool, ...]
    """True at each of `points()` if the answer was in the plateau."""
    regret: tuple[float, ...]
    """Regret in nats at each of `points()`; without an answer, that of the worst depth."""


@dataclass(frozen=True, slots=True)
class Entry:
    """All repetitions of one searcher on one budget."""

    name: str
    ours: bool
    found: tuple[Repetition, ...]

    def until(self, share: float) -> float:
        """A quantile of the tokens until right; an observed value, since some are infinite."""
        tokens = [result.until for result in self.found]
        return float(np.quantile(tokens, share, method="inverted_cdf"))

    def right(self, point: int) -> float:
        """Share of repetitions with a right answer at one of `points()`."""
        return float(np.mean([result.right[point] for result in self.found]))

    def regrets(self, point: int) -> tuple[float, float]:
        """Median and mean regret at one of `points()`, in nats."""
        regrets = [result.regret[point] for result in self.found]
        return float(np.median(regrets)), float(np.mean(regrets))

    @property
    def rank(self) -> tuple[float, ...]:
        """Sort key: median tokens until right, share right at the end, mean regret."""
        return self.until(0.5), -self.right(-1), self.regrets(-1)[1]


def points() -> tuple[float, ...]:
    """Shares of the ladder's tokens at which answers are compared; the last is 1."""
    return tuple(2 ** (k / STEPS - DOUBLINGS) for k in range(DOUBLINGS * STEPS + 1))


def markdown(title: str, text: str, entries: Sequence[Entry]) -> Iterator[str]:
    """Lines of the Markdown table of one budget: a row per searcher, soonest right first."""
    yield f"\n### {title}\n"
    if text:
        yield f"{text}\n"
    shares = [f"1/{share}" if share > 1 else "end" for share in SHOWN]
    heads = [
        *("search", "tokens until right: median", "quartiles", "9 of 10"),
        *(f"right at {share}" for share in shares),
        *(f"regret at {share}" for share in shares),
        *("spent", "n"),
    ]
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for entry in sorted(entries, key=lambda entry: entry.rank):
        yield f"| {' | '.join(_cells(entry))} |"


def draw(found: Mapping[str, Sequence[Entry]], path: Path) -> None:
    """Saves a figure of the share of right answers against tokens spent, a panel per budget."""
    across = min(2, len(found))
    down = math.ceil(len(found) / across)
    figure = Figure(figsize=(7.5 * across, 4.5 * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).flat
    for panel, (title, entries) in zip(panels, found.items(), strict=False):
        for entry in sorted(entries, key=lambda entry: entry.rank):
            right = [entry.right(point) for point in range(len(points()))]
            style = {"color": "black", "linewidth": 2.5} if entry.ours else {"linewidth": 1}
            panel.plot(points(), right, label=entry.name, **style)
        panel.set_xscale("log", base=2)
        panel.set_ylim(-0.03, 1.03)
        panel.set_title(textwrap.fill(title, 80), fontsize=9)
        panel.set_xlabel("tokens spent, share of the ladder's")
        panel.set_ylabel("right answers, share of searches")
        panel.legend(fontsize=5, loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(path, dpi=130)


def _cells(entry: Entry) -> Iterator[str]:
    name = f"**{entry.name}**" if entry.ours else entry.name
    yield name
    yield _share(entry.until(0.5))
    yield f"{_share(entry.until(0.25))} to {_share(entry.until(0.75))}"
    yield _share(entry.until(0.9))
    shown = [points().index(1 / share) for share in SHOWN]
    yield from (f"{entry.right(point):.2f}" for point in shown)
    for point in shown:
        median, mean = entry.regrets(point)
        yield f"{median:.4f} ({mean:.4f})"
    yield f"{np.median([result.spent for result in entry.found]):.3f}"
    yield str(len(entry.found))


def _share(tokens: float) -> str:
    return "never" if math.isinf(tokens) else f"{tokens:.3f}"
