"""Measures how often what the posterior says is true, by kind of planted world and by table.

python -m benchmarks.answers.planted.calibration benchmarks/data/ladder.csv \\
    benchmarks/data/ladders/*.csv
python -m benchmarks.answers.planted.calibration --ladders 40 --first 9000  # others, no table

A cell has, of the depths whose probability of costing more than 0.005 nats against the best lies in
its range, the mean of this probability and the share that do. `wrong` counts the ladders whose
identified depth costs more than 0.005 nats against the best, of those that are identified, and
`hidden` the wrong ones where only a depth between the trained ones is so much better. The last
column has the share of the depths of a table whose loss lies in the 95 % band of the others.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.random import Generator

from benchmarks.answers.planted.coverage import CASES, Planted, one_hump
from benchmarks.answers.planted.left_out import left_out
from benchmarks.answers.planted.low_seeds import DEPTHS, is_wrong, ladder
from benchmarks.printed_table import PrintedTable, add_json_option
from benchmarks.worlds.planted import symmetric
from fathom.search.analysis.answer.finding import find_with_posterior
from fathom.search.analysis.answer.verdict import PLATEAU_WIDTH, Kind
from fathom.search.analysis.curve_families import Array

SEEDS = 2
EDGES = (0.0, 0.05, 0.25, 0.75, 0.95, 1.0)
COLUMNS = {
    "worlds or table": "", "depths": "",
    **{f"{low:.0%} to {high:.0%}": "" for low, high in pairwise(EDGES)},
    "wrong": "", "hidden": "", "in the 95 % band": "",
}  # fmt: skip
FEW = 10
"""Depths below which a range is not reported."""


def rough(deviation: float) -> Callable[[Generator], Planted]:
    """Worlds with one hump whose depths each have an effect of their own, nats."""

    def plant(generator: Generator) -> Planted:
        planted = one_hump(symmetric)(generator)
        own, smooth = deviation * generator.standard_normal(64), planted.curve

        def curve(depth: float) -> float:
            return smooth(depth) + float(own[round(depth)])

        return replace(planted, curve=curve, world=replace(planted.world, curve=curve))

    return plant


PLANTED = {name: plant for name, (plant, _, changes) in CASES.items() if not changes} | {
    f"rough by {deviation}": rough(deviation) for deviation in (0.002, 0.004)
}


def main() -> None:
    """Prints a row for each kind of world and for each table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", type=Path, nargs="*", help="tables, as `fathom analyse` reads")
    parser.add_argument("--ladders", type=int, default=20, help="ladders of each kind of world")
    parser.add_argument("--first", type=int, default=0, help="number of the first: other ladders")
    add_json_option(parser)
    told = parser.parse_args()
    table = PrintedTable(COLUMNS, told.json)
    for name, plant in PLANTED.items():
        numbers = range(told.first, told.first + told.ladders)
        ladders = [read_ladder(plant, number) for number in numbers]
        found = np.concatenate([said for said, _ in ladders])
        identified, wrong, hidden = np.sum([counts for _, counts in ladders], axis=0).tolist()
        table.add(name, len(found), *cells(found), f"{wrong} of {identified}", hidden, "")
    for path in told.tables:
        inside = [low <= loss <= high for loss, low, high in left_out(path)]
        table.add(path.stem, len(inside), *[""] * (len(EDGES) + 1), f"{np.mean(inside):.2f}")


def read_ladder(plant: Callable[[Generator], Planted], number: int) -> tuple[Array, list[bool]]:
    """Returns for every whole depth of a planted ladder the probability that it costs more than
    `PLATEAU_WIDTH`, and 1 if it does, else 0; (depths, 2). Then whether a depth is identified,
    whether it costs more than that, and whether it does so against untrained depths alone."""
    generator = np.random.default_rng([number, SEEDS])
    planted = plant(generator)
    optimum, posterior = find_with_posterior(ladder(planted, SEEDS, generator), seed=0)
    if posterior is None:
        return np.empty((0, 2)), [False] * 3
    depths = posterior.depths
    losses = np.array([planted.curve(depth) for depth in depths.tolist()])
    said = (posterior.regrets > PLATEAU_WIDTH).mean(axis=0)
    wrong = is_wrong(planted, optimum)
    above_trained = losses - losses[np.isin(depths, DEPTHS)].min()
    hidden = wrong and bool(above_trained[depths == optimum.optimal_depth] <= PLATEAU_WIDTH)
    counts = [optimum.kind is Kind.IDENTIFIED, wrong, hidden]
    return np.stack([said, losses - losses.min() > PLATEAU_WIDTH], axis=1), counts


def cells(found: Array) -> list[str]:
    """Returns `said, true` of each range of probabilities; `-` where it has few depths."""
    places = np.searchsorted(EDGES[1:-1], found[:, 0], side="right")
    groups = [found[places == place] for place in range(len(EDGES) - 1)]
    means = [group.mean(axis=0).tolist() if len(group) >= FEW else [] for group in groups]
    return [", ".join(f"{mean:.2f}" for mean in pair) or "-" for pair in means]


if __name__ == "__main__":
    main()
