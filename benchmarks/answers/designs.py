"""Measures cost and answers of a search beside those of plain ladders, by the same statistics.

python -m benchmarks.answers.designs
python -m benchmarks.answers.designs --worlds 400 --only "six depths, two seeds" --kind symmetric

A ladder trains depths to the end at one ratio and one rate, in worlds whose best depth is known.
The search drops the hopeless early, and looks for the best ratio and rate besides.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp, log

import numpy as np
from numpy.random import Generator

from benchmarks.answers.coverage import CASES, STUDY, Planted, covers_exactly, nearly_best
from benchmarks.answers.limit import fewest_trainings
from benchmarks.simulate.study import search_records
from benchmarks.worlds.planted import World
from fathom.search.analysis.optimum import Located, Optimum, find_optimum
from fathom.search.analysis.verdict import Kind
from fathom.search.records import Stage, TrialRecord
from fathom.search.study.file.study_file import parse

Train = Callable[[int, int], None]
"""Trains a depth with a seed and keeps the record."""

ONE_HUMP = ("symmetric", "steep when shallow", "steep when deep", "a wall when shallow")
NOISES = {"quiet": (0.001, 0.002), "usual": (0.002, 0.008), "loud": (0.01, 0.02)}
"""Kind of world -> lowest and highest noise between seeds, nats; quiet is that of large models."""
SIX = (1, 2, 4, 8, 16, 32)
SEVEN = (1, 2, 4, 6, 9, 14, 24)
NINE = (1, 2, 3, 4, 6, 9, 14, 21, 32)

HEADER = """\
| design | noise | trainings | by the limit | other rates | width in ln depth | covers | wrong |\
 identified: width | covers | wrong | verdicts |
|---|---|---|---|---|---|---|---|---|---|---|---|"""
"""Trainings: whole ones at the study's own rate, by tokens; beside them those at other rates.
By the limit: the trainings divided by the fewest by which any design could reach that width.
Wrong: the depth named costs 0.005 nats or more against the best one."""


@dataclass(frozen=True, slots=True)
class HandLadder:
    """A ladder by hand: all depths with `seeds`, then one more seed for each number in `best`."""

    depths: Sequence[int]
    seeds: int = 1
    best: Sequence[int] = ()
    """Each number is a further seed, and at how many of the best depths."""

    def run(self, world: World, generator: Generator) -> list[TrialRecord]:
        """The records of the ladder in a world."""
        records = [
            train(world, depth, seed, generator)
            for seed in range(self.seeds)
            for depth in self.depths
        ]
        for further, count in enumerate(self.best):
            records += [
                train(world, depth, self.seeds + further, generator)
                for depth in best_depths(records, count)
            ]
        return records


@dataclass(frozen=True, slots=True)
class WholeSearch:
    """A search with the default settings, of which only the training is replaced."""

    def run(self, world: World, generator: Generator) -> list[TrialRecord]:
        """The records of the search in a world."""
        settings = f"budgets: [{world.budget}]\nseed: {generator.integers(2**31)}\n"
        return search_records(parse(f"{STUDY}{settings}"), world)


LADDERS = {
    "six depths, two seeds": HandLadder(SIX, 2),
    "six depths, one seed; a second for the three best": HandLadder(SIX, 1, (3,)),
    "six depths, one seed; a second and a third for the three best": HandLadder(SIX, 1, (3, 3)),
    "seven depths, one seed; a second for the four best": HandLadder(SEVEN, 1, (4,)),
    "seven depths, two seeds": HandLadder(SEVEN, 2),
    "nine depths, one seed; a second for the three best": HandLadder(NINE, 1, (3,)),
    "nine depths, two seeds": HandLadder(NINE, 2),
}
DESIGNS: dict[str, HandLadder | WholeSearch] = {"the search": WholeSearch(), **LADDERS}


def train(world: World, depth: int, seed: int, generator: Generator) -> TrialRecord:
    """The record of one training of the ladder."""
    spec = world.spec(world.shape(depth), seed=seed, stage=Stage.CONFIRM)
    return world.record(spec, generator)


def best_depths(records: Sequence[TrialRecord], count: int) -> list[int]:
    """The depths of the lowest mean losses, ascending."""
    losses: dict[int, list[float]] = {}
    for record in records:
        if record.loss is not None:
            losses.setdefault(record.spec.shape.depth, []).append(record.loss)
    return sorted(sorted(losses, key=lambda depth: float(np.mean(losses[depth])))[:count])


@dataclass(frozen=True, slots=True)
class DesignAnswer:
    """The answer of a design in a world."""

    planted: Planted
    optimum: Optimum
    cost: float
    """Whole trainings at the study's own rate: tokens over the horizon."""
    rates: float
    """Whole trainings at other rates."""


def answers(
    design: HandLadder | WholeSearch, kinds: Sequence[str], noise: str, number: int
) -> list[DesignAnswer]:
    """The answers of a design in planted worlds, the kinds of curves in turn."""
    found = []
    for index in range(number):
        generator = np.random.default_rng([index, 401])
        planted = CASES[kinds[index % len(kinds)]][0](generator)
        low, high = np.log(NOISES[noise])
        world = replace(planted.world, noise=exp(generator.uniform(low, high)))
        planted = replace(planted, world=world)
        records = design.run(world, generator)
        spent = {
            at_rate: sum(r.tokens for r in records if (r.spec.rate_scale == 1) is at_rate)
            / world.horizon
            for at_rate in (True, False)
        }
        optimum = find_optimum(records, seed=index, draws=1000)
        found.append(DesignAnswer(planted, optimum, cost=spent[True], rates=spent[False]))
    return found


def row(name: str, noise: str, found: Sequence[DesignAnswer]) -> str:
    """Returns one table row."""
    placed = [a for a in found if isinstance(a.optimum, Located) and a.planted.depth]
    identified = [a for a in placed if a.optimum.kind is Kind.IDENTIFIED]
    named = [a for a in found if a.optimum.optimal_depth is not None and a.planted.depth]
    cells = [
        name,
        noise,
        f"{np.mean([a.cost for a in found]):.1f}",
        mean(placed, times_the_limit),
        f"{np.mean([a.rates for a in found]):.1f}",
        mean(placed, width),
        mean(placed, lambda a: covers_exactly(a.planted, a.optimum)),
        mean(named, lambda a: not nearly_best(a.planted, a.optimum)),
        mean(identified, width),
        mean(identified, lambda a: covers_exactly(a.planted, a.optimum)),
        mean(identified, lambda a: not nearly_best(a.planted, a.optimum)),
        ", ".join(
            f"{count} {verdict}"
            for verdict, count in Counter(a.optimum.kind for a in found).most_common()
        ),
    ]
    return f"| {' | '.join(cells)} |"


def width(answer: DesignAnswer) -> float:
    """Width of the interval in ln depth, before rounding."""
    assert isinstance(answer.optimum, Located), "only answers with an interval are asked"
    low, high = answer.optimum.curve_minimum_interval
    return log(high / low)


def times_the_limit(answer: DesignAnswer) -> float:
    """The trainings at the study's own rate, divided by the fewest that could reach the width."""
    planted = answer.planted
    fewest = fewest_trainings(planted.curve, planted.world.noise, width(answer), range(1, 33))
    return answer.cost / fewest


def mean(found: Sequence[DesignAnswer], value: Callable[[DesignAnswer], float]) -> str:
    """The mean over the answers as a cell."""
    return f"{np.mean([value(answer) for answer in found]):.3f}" if found else "-"


def main() -> None:
    """Prints a table row for each design and noise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=100, help="worlds for each row")
    parser.add_argument("--only", choices=DESIGNS, help="one design")
    parser.add_argument("--kind", choices=CASES, help="one kind of curve; else four with one hump")
    parser.add_argument("--noise", choices=NOISES, help="one noise")
    asked = parser.parse_args()
    print(HEADER)
    for name in [asked.only] if asked.only else DESIGNS:
        for noise in [asked.noise] if asked.noise else NOISES:
            kinds = [asked.kind] if asked.kind else ONE_HUMP
            print(row(name, noise, answers(DESIGNS[name], kinds, noise, asked.worlds)), flush=True)


if __name__ == "__main__":
    main()
