"""Measures what one loss that was logged too low does to the answer of a ladder.

python -m benchmarks.answers.planted.low_seeds
python -m benchmarks.answers.planted.low_seeds --first 100    # other ladders

Ladders of ten depths in worlds with one hump, every shape with as many seeds. One loss is lowered;
a negative number raises it, as a stall does. `wrong` is identified and at least 0.005 nats above
the best; `named` means that a note or the verdict names the seed, or counts it as stalled.
"""

import argparse
from collections.abc import Iterator

import numpy as np

from benchmarks.answers.planted.coverage import CASES, Planted, nearly_best
from benchmarks.printed_table import PrintedTable, add_json_option
from benchmarks.worlds.planted import finished
from fathom.search.analysis.answer.finding import find_optimum
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.analysis.losses.stalls import find_stalls
from fathom.search.records import TrialRecord

DEPTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
KINDS = ("symmetric", "steep when shallow", "steep when deep", "a wall when shallow")
SEEDS = (2, 3, 4)
LOWER = (0.0, 0.05, 0.1, 0.3, 0.5, -0.05, -0.1)
COLUMNS = ("seeds", "too low by", "ladders", "settled", "wrong", "named", "others left out")


def main() -> None:
    """Prints a row for each number of seeds and each distance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ladders", type=int, default=20, help="ladders of each kind of row")
    parser.add_argument("--first", type=int, default=0, help="number of the first: other ladders")
    add_json_option(parser)
    told = parser.parse_args()
    table = PrintedTable(dict.fromkeys(COLUMNS, ""), told.json)
    for seeds in SEEDS:
        for lower in LOWER:
            numbers = range(told.first, told.first + told.ladders)
            found = np.array([list(_outcome(number, seeds, lower)) for number in numbers])
            table.add(seeds, lower, told.ladders, *found.sum(axis=0).tolist())


def _outcome(number: int, seeds: int, lower: float) -> Iterator[int]:
    """Yields 1 or 0 for settled, for wrong and for named, and how many other seeds are left out."""
    generator = np.random.default_rng([number, seeds])
    planted = CASES[KINDS[number % len(KINDS)]][0](generator)
    records = ladder(planted, seeds, generator)
    place = int(generator.integers(len(records)))
    spec, loss = records[place].spec, records[place].loss
    assert loss is not None, "a ladder has trained to the end"
    records[place] = finished(spec, loss - lower)
    optimum, stalls = find_optimum(records, seed=0), find_stalls(records)
    yield int(optimum.kind.settled)
    yield int(is_wrong(planted, optimum))
    yield int(spec.trial in stalls.left_out or spec.shape in stalls.in_doubt)
    yield len(stalls.left_out - {spec.trial})


def ladder(planted: Planted, seeds: int, generator: np.random.Generator) -> list[TrialRecord]:
    """The trials of every depth, with the world's noise and losses of at most four decimals."""
    world, records = planted.world, []
    for depth in DEPTHS:
        for seed in range(seeds):
            spec = world.spec(world.shape(depth), seed=seed)
            loss = world.expected_loss(spec.shape) + world.seed_noise(depth, generator)
            records.append(finished(spec, round(loss, min(4, world.decimals))))
    return records


def is_wrong(planted: Planted, optimum: Optimum) -> bool:
    """True if a depth is identified that costs more than a plateau is wide."""
    return optimum.kind is Kind.IDENTIFIED and not nearly_best(planted, optimum)


if __name__ == "__main__":
    main()
