"""Measures how often intervals hold the best size and depth of models at an equal amount.

Planted tables: the valley over size is a sum of two powers, that over depth is lopsided, and the
best depth goes with the size, so that no parabola is the truth.
`python -m benchmarks.answers.planted.held`
"""

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.models.spend import Coin
from fathom.search.analysis.answer.verdict import PLATEAU_WIDTH, Kind
from fathom.search.tables.analysis import analyse_table
from fathom.search.tables.open_table import rows_of
from fathom.search.tables.question import TableQuestion

Array = NDArray[np.float64]
GRID = tuple((depth, width) for depth in (2, 4, 6, 8, 12, 16) for width in (256, 384, 512, 768))
SIZES = 400
"""Sizes among which the planted best one is looked for."""


@dataclass(frozen=True)
class HeldWorld:
    """A planted table of runs at an equal amount of FLOPs, with the truth."""

    rows: list[dict[str, object]]
    depths: NDArray[np.int64]
    regrets: Array
    """What each of the depths costs at its best size, nats."""
    size: float
    """The best size."""


def held_world(seed: int) -> HeldWorld:
    """The world of a seed: a grid of shapes, or shapes that were drawn, with two seeds or three."""
    draws = np.random.default_rng(seed)
    shapes = list(GRID)
    if draws.uniform() < 0.6:
        shapes = [
            (round(exp(draws.uniform(log(2), log(20)))), 64 * int(draws.integers(3, 15)))
            for _ in range(int(draws.integers(15, 50)))
        ]
    loss, noise = _loss(draws), draws.uniform(0.001, 0.006)
    seeds = int(draws.integers(2, 4))
    rows: list[dict[str, object]] = [
        {"n_layer": depth, "d_model": width, "params": (size := 12 * depth * width**2),
         "seed": seed, "flops": 1e18, "loss": loss(depth, size) + draws.normal(0, noise)}
        for depth, width in shapes for seed in range(seeds)
    ]  # fmt: skip
    tested = [depth for depth, _ in shapes]
    depths = np.arange(min(tested), max(tested) + 1)
    ends = np.log([12 * depth * width**2 for depth, width in shapes])
    sizes = np.exp(np.linspace(ends.min(), ends.max(), SIZES))
    losses = np.array([[loss(depth, size) for size in sizes] for depth in depths.tolist()])
    lowest = losses.min(axis=1)
    return HeldWorld(rows, depths, lowest - lowest.min(), float(sizes[losses.min(axis=0).argmin()]))


def _loss(draws: np.random.Generator) -> Callable[[int, float], float]:
    best_size, best_depth = 10 ** draws.uniform(7, 8), draws.uniform(5, 11)
    down, up = draws.uniform(0.28, 0.36), draws.uniform(0.25, 0.33)
    height, steep, lean = draws.uniform(0.15, 0.5), draws.uniform(0.01, 0.06), draws.uniform(-1, 1)
    growth = draws.uniform(0, 0.4)

    def loss(depth: int, size: float) -> float:
        ratio = size / best_size
        x = log(depth / best_depth) - growth * log(ratio)
        valley = height * (ratio**-down + down / up * ratio**up)
        return float(2.5 + valley + steep * x**2 * exp(lean * x / 1.5))

    return loss


def main() -> None:
    """Prints how many intervals hold the planted size and depth, and what answers cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=40)
    parser.add_argument("--first", type=int, default=900, help="first seed")
    add_json_option(parser)
    asked = parser.parse_args()
    counts, factors = Counter[str](), []
    for seed in range(asked.first, asked.first + asked.tables):
        world = held_world(seed)
        analysis = analyse_table(rows_of("t", world.rows), {}, TableQuestion(at=Coin.FLOPS))
        [(_, size)] = analysis.sizes
        if size.interval:
            counts["size"] += size.interval[0] * 0.98 <= world.size <= size.interval[1] * 1.02
        for depth in analysis.optima:
            counts["depths"] += 1
            counts["settled"] += depth.kind.settled
            if not depth.interval or depth.optimal_depth is None:
                continue
            best = int(world.depths[world.regrets.argmin()])
            counts["depth"] += depth.interval[0] <= best <= depth.interval[1]
            factors.append(depth.interval[1] / depth.interval[0])
            cost = world.regrets[world.depths == depth.optimal_depth].item()
            counts["wrong"] += depth.kind is Kind.IDENTIFIED and cost > PLATEAU_WIDTH
    table = PrintedTable(
        {"tables": "d", "size held": "d", "with a depth": "d", "depth held": "d", "settled": "d",
         "wrong": "d", "factor": ".2f"},
        asked.json,
    )  # fmt: skip
    table.add(
        asked.tables, counts["size"], counts["depths"], counts["depth"], counts["settled"],
        counts["wrong"], float(np.median(factors)),
    )  # fmt: skip


if __name__ == "__main__":
    main()
