"""Measures answers of tables that a search of settings left, with a planted effect of depth.

Twelve settings beside depth, of which a few matter, drawn at random or near good trials as TPE
does; some trials fail. The oracle knows what every setting but depth does, and answers from what
is left. `python -m benchmarks.answers.tables.searches --first 5000`
"""

import argparse
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.answer.verdict import PLATEAU_WIDTH, FlatRange, Kind
from fathom.search.tables.analysis import analyse_table
from fathom.search.tables.errors import TableError
from fathom.search.tables.open_table import rows_of
from fathom.search.tables.question import TableQuestion

Array = NDArray[np.float64]
Row = dict[str, object]

KINDS = ("important", "unimportant", "rate", "size", "end", "stopped", "many")
"""Depth matters; does not; its best goes with the rate; size goes with depth; it is at an end; most
trials were stopped early; there are 1,000 trials or more."""
TRIALS = {"many": (1000, 2000)}
"""Kind -> fewest and most trials, where they are not 100 to 700."""
TOKENS, RUNGS, KEPT = 1e9, (1 / 16, 1 / 4, 1.0), 1 / 3
"""Tokens of a whole training, and the shares of them after which the best third goes on."""
NUMBERS, CATEGORIES = 8, 3
SHALLOWEST = 2
FAILED = 1e9


@dataclass(frozen=True)
class SearchWorld:
    """A planted search and its truth."""

    rows: list[Row]
    left: list[Row]
    """The same without the effects of all settings but depth, at one size."""
    depths: NDArray[np.int64]
    regrets: Array
    """What each depth costs with the other settings at their best, nats."""


class _Losses:
    """The planted loss above the best; a point is depth, size, rate, seven numbers, categories."""

    def __init__(self, draws: np.random.Generator, kind: str, deepest: int) -> None:
        ends = (SHALLOWEST, deepest)
        self.best = draws.choice(ends) if kind == "end" else draws.uniform(4, deepest / 1.6)
        self.steep = draws.uniform(0.03, 0.2) * (kind != "unimportant")
        self.lean, self.size = draws.uniform(-0.6, 0.6), draws.uniform(0.01, 0.05)
        strong = draws.uniform(0.4, 1.2) * draws.choice([-1, 1])
        self.shift = strong if kind == "rate" else draws.normal(0, 0.15)
        self.rate = draws.uniform(0.05, 0.3)
        self.weights = np.exp(draws.uniform(np.log(5e-4), np.log(0.05), NUMBERS - 1))
        self.places = draws.uniform(-0.6, 0.6, NUMBERS - 1)
        self.pairs = draws.normal(0, 0.004, 2)
        self.choices = np.exp(draws.uniform(np.log(5e-4), np.log(0.02), CATEGORIES))

    def of_depth(self, depth: Array) -> Array:
        """Cost of each depth with the other settings at their best, nats."""
        x = np.log(depth / self.best)
        found: Array = self.steep * x**2 * np.exp(self.lean * x)
        return found

    def of_others(self, point: Array) -> float:
        """Cost of a point's settings but depth against the best ones for it, nats."""
        off = point[2] - self.shift * np.log(point[0] / self.best)
        away = point[3 : 2 + NUMBERS] - self.places
        found = self.size * point[1] ** 2 + self.rate * off**2 * (1 + 0.5 * off) ** 2
        found += (self.weights * away**2 * np.exp(0.4 * away)).sum()
        found += self.pairs[0] * away[0] * away[1] + self.pairs[1] * away[2] * off
        return float(found + self.choices @ (point[2 + NUMBERS :] != 0))


class _Halving:
    """Early stopping: a trial goes on at a rung if it is in the best third of those before it."""

    def __init__(self, draws: np.random.Generator) -> None:
        self.gap, self.growth = draws.uniform(0.2, 0.6), draws.uniform(0.0, 0.3)
        self.seen: dict[float, list[float]] = {share: [] for share in RUNGS}

    def end(self, final: float, depth: float) -> tuple[float, float]:
        """Last loss of a trial, and its share of the tokens; deep models learn later."""
        for share in RUNGS:
            loss = final + self.gap * (depth / 7) ** self.growth * (share**-0.3 - 1)
            self.seen[share].append(loss)
            if share < 1 and loss > np.quantile(self.seen[share], KEPT):
                break
        return float(loss), share


def search_world(seed: int, kind: str, *, guided: bool) -> SearchWorld:
    """The world of a seed and a kind; most trials of a `guided` search are near good ones."""
    draws = np.random.default_rng([seed, KINDS.index(kind), guided])
    trials = int(np.exp(draws.uniform(*np.log(TRIALS.get(kind, (100, 700))))))
    deepest = int(draws.integers(12, 25))
    losses = _Losses(draws, kind, deepest)
    growth = draws.uniform(0.6, 1.3) if kind == "size" else 0.0
    noise = np.exp(draws.uniform(np.log(5e-4), np.log(0.004)))
    points: list[Array] = []
    ends: list[float] = []
    shares: list[float] = []
    halving = _Halving(draws) if kind == "stopped" else None
    for trial in range(trials):
        near = guided and trial > max(20, trials // 8) and draws.uniform() < 0.85
        point = _near(draws, points, ends, deepest) if near else _drawn(draws, growth, deepest)
        above = float(losses.of_depth(point[0])) + losses.of_others(point)
        points.append(point)
        end = 2.8 + above + draws.normal(0, noise * (1 + 5 * min(above, 1)))
        end, share = halving.end(end, point[0]) if halving else (end, 1.0)
        ends.append(end)
        shares.append(share)
    failed = draws.uniform(size=trials) < 0.03
    depths = np.arange(SHALLOWEST, deepest + 1)
    regrets = losses.of_depth(depths.astype(np.float64))
    trained = [*zip(points, ends, shares, strict=True)]
    rows = [_row(*ended[:2], lost) for ended, lost in zip(trained, failed.tolist(), strict=True)]
    spent = [{"tokens": share * TOKENS} if halving else {} for share in shares]
    return SearchWorld(
        rows=[row | more for row, more in zip(rows, spent, strict=True)],
        left=[
            {"depth": int(point[0]), "params": 1e7, "loss": end - losses.of_others(point),
             "seed": seed}
            for seed, (point, end, share) in enumerate(trained) if share == 1
        ],
        depths=depths,
        regrets=regrets - regrets.min(),
    )  # fmt: skip


def _drawn(draws: np.random.Generator, growth: float, deepest: int) -> Array:
    depth = draws.integers(SHALLOWEST, deepest + 1)
    size = growth * np.log(depth / 7) + draws.uniform(-1, 1) * (0.6 if growth else 1.2)
    numbers = draws.uniform(-1, 1, NUMBERS)
    return np.array([depth, size, *numbers, *draws.integers(0, 3, CATEGORIES)])


def _near(
    draws: np.random.Generator, points: list[Array], ends: list[float], deepest: int
) -> Array:
    top = np.argsort(ends)[: max(5, len(ends) // 8)]
    point: Array = points[draws.choice(top)].copy()
    point[0] = np.clip(round(point[0] * np.exp(draws.normal(0, 0.25))), SHALLOWEST, deepest)
    point[1] += draws.normal(0, 0.15)
    numbers = slice(2, 2 + NUMBERS)
    point[numbers] = np.clip(point[numbers] + draws.normal(0, 0.2, NUMBERS), -1, 1)
    changed = draws.uniform(size=CATEGORIES) < 0.15
    point[2 + NUMBERS :][changed] = draws.integers(0, 3, changed.sum())
    return point


def _row(point: Array, loss: float, lost: bool) -> Row:
    numbers = {f"u{i}": round(float(u), 5) for i, u in enumerate(point[3 : 2 + NUMBERS])}
    texts = {f"c{i}": "abc"[int(c)] for i, c in enumerate(point[2 + NUMBERS :])}
    shape = {"depth": int(point[0]), "params": float(f"{1e7 * np.exp(point[1]):.5g}")}
    return {**shape, "lr": 1e-3 * 10 ** point[2], **numbers, **texts,
            "loss": FAILED if lost else loss}  # fmt: skip


def _answer(rows: list[Row]) -> Optimum | None:
    try:
        return analyse_table(rows_of("t", rows), {}, TableQuestion()).optima[0]
    except TableError as error:
        print(f"refused: {error}")
        return None


def _settled(answer: Optimum | None) -> bool:
    """True for a settled answer in which depth has an effect."""
    return bool(answer and answer.kind.settled and not isinstance(answer.verdict.cause, FlatRange))


def main() -> None:
    """Prints what is settled, wrong and covered, by kind of world."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=5, help="of each kind, and of each sampler")
    parser.add_argument("--first", type=int, default=5000, help="first seed")
    add_json_option(parser)
    asked = parser.parse_args()
    heads = {"world": "", "tables": "d", "settled": "d", "by the oracle": "d",
             "identified, wrong": "d", "plateau covers": "d", "interval holds": "d"}  # fmt: skip
    table = PrintedTable(heads, asked.json)
    for kind in KINDS:
        for guided in (False, True):
            sums: dict[str, int] = defaultdict(int)
            for seed in range(asked.first, asked.first + asked.tables):
                world = search_world(seed, kind, guided=guided)
                sums["oracle"] += _settled(_answer(world.left))
                answer = _answer(world.rows)
                if answer is None or answer.optimal_depth is None:
                    continue
                best = int(world.depths[world.regrets.argmin()])
                cost = world.regrets[world.depths == answer.optimal_depth].item()
                sums["settled"] += _settled(answer)
                sums["wrong"] += answer.kind is Kind.IDENTIFIED and cost > PLATEAU_WIDTH
                sums["covers"] += best in answer.plateau or not world.regrets.any()
                low, high = answer.interval or (best, best)
                sums["holds"] += low <= best <= high or not world.regrets.any()
            table.add(
                f"{kind}, {'guided' if guided else 'random'}", asked.tables, sums["settled"],
                sums["oracle"], sums["wrong"], sums["covers"], sums["holds"],
            )  # fmt: skip


if __name__ == "__main__":
    main()
