"""Measures how often the answer is right: whole searches in worlds whose best depth is known.

python -m benchmarks.answers.planted.coverage
python -m benchmarks.answers.planted.coverage --studies 10     # a quicker look
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import exp, log, log10

import numpy as np
from numpy.random import Generator

from benchmarks.printed_table import PrintedTable, add_json_option
from benchmarks.simulate.study import search
from benchmarks.worlds.planted import (
    BEST_RATIO,
    Curve,
    World,
    asymmetric,
    deeper_is_better,
    flat,
    notched,
    plateau_and_cliff,
    shallower_is_better,
    symmetric,
    two_humps,
)
from fathom.models.shape import Shape
from fathom.search.analysis.answer.optimum import Located, Optimum
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.study.file.study_file import parse
from fathom.search.study.keys.config import StudyConfig

DEEPEST = 32
STUDY = f"""
study: planted
objective: {{name: language, context: 64}}
space: {{depth: [1, {DEEPEST}]}}
train: {{evaluations: 8}}
"""
STARVED = "trials: 3\nconfirm: {depths: 2, seeds: 1, rates: [1]}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A world and where its curve is lowest; None where it has no lowest point inside."""

    world: World
    depth: float | None
    curve: Curve


def one_hump(
    kind: Callable[[float, float], Curve],
    *,
    best: tuple[float, float] = (3, 12),
    curvature: tuple[float, float] = (0.03, 0.15),
) -> Callable[[Generator], Planted]:
    """Worlds with one best depth between two, of shallow and steep curves, quiet and noisy."""

    def plant(generator: Generator) -> Planted:
        depth = exp(generator.uniform(log(best[0]), log(best[1])))
        curve = kind(depth, exp(generator.uniform(log(curvature[0]), log(curvature[1]))))
        return Planted(world=world(curve, generator), depth=depth, curve=curve)

    return plant


def without_optimum(make: Callable[[Generator], Curve]) -> Callable[[Generator], Planted]:
    """Worlds without a best depth inside the range."""

    def plant(generator: Generator) -> Planted:
        curve = make(generator)
        return Planted(world=world(curve, generator), depth=None, curve=curve)

    return plant


def humps(generator: Generator) -> Planted:
    """Two valleys a factor of 3 to 8 apart, of which the one or the other is better."""
    apart = exp(generator.uniform(log(3), log(8)))
    shallow = exp(generator.uniform(log(1.5), log(24 / apart)))
    best, other = generator.permutation([shallow, shallow * apart]).tolist()
    curvature = exp(generator.uniform(log(0.03), log(0.15)))
    curve = two_humps(best, other, gap=generator.uniform(0.003, 0.02), curvature=curvature)
    return Planted(world=world(curve, generator), depth=best, curve=curve)


def notch(low: float, high: float) -> Callable[[Generator], Planted]:
    """Worlds whose best depth is a notch, so many factors of two wide, in a curve with one hump."""

    def plant(generator: Generator) -> Planted:
        smooth, place = np.exp(generator.uniform(log(2), log(16), 2)).tolist()
        curve = notched(
            symmetric(smooth, exp(generator.uniform(log(0.01), log(0.05)))),
            place,
            width=log(2) * generator.uniform(low, high),
            loss=generator.uniform(0.005, 0.02),
        )
        return lowest_of(curve, generator)

    return plant


def cliff(generator: Generator) -> Planted:
    """A plateau that falls by 0.005 to 0.02 nats a factor of e, up to a cliff."""
    curve = plateau_and_cliff(
        exp(generator.uniform(log(3), log(20))),
        slope=generator.uniform(0.005, 0.02),
        height=exp(generator.uniform(log(0.02), log(0.3))),
    )
    return lowest_of(curve, generator)


def lowest_of(curve: Curve, generator: Generator) -> Planted:
    """The world of a curve, with the lowest of its points on a fine grid."""
    grid = np.geomspace(1, DEEPEST, 2000).tolist()
    return Planted(world=world(curve, generator), depth=min(grid, key=curve), curve=curve)


def at_an_end(generator: Generator) -> Planted:
    """One hump, lowest at 1 to 1.4 layers or 23 to 32: beside it depths end on one side."""
    place = exp(generator.uniform(0, log(1.4)))
    place = float(generator.choice([place, DEEPEST / place]))
    return one_hump(symmetric, best=(place, place))(generator)


def falling_with_size(generator: Generator) -> Planted:
    """One hump of one of three sizes; ten times the parameters have half the best depth."""
    size = int(generator.choice([300_000, 1_000_000, 3_000_000]))
    shift = (size / 1_000_000) ** -log10(2)
    planted = one_hump(symmetric, best=(3 * shift, 12 * shift))(generator)
    return replace(planted, world=replace(planted.world, budget=size))


def heavy_tails(generator: Generator) -> Planted:
    """One hump, with noise between seeds by Student's t of 3 degrees of freedom."""
    planted = one_hump(symmetric)(generator)
    return replace(planted, world=replace(planted.world, tails=3.0))


def stalls(generator: Generator) -> Planted:
    """One hump, and 10 to 20 % of the trainings stall."""
    planted = one_hump(symmetric)(generator)
    return replace(planted, world=replace(planted.world, stalls=generator.uniform(0.1, 0.2)))


def growing_noise(generator: Generator) -> Planted:
    """One hump, with noise between seeds that grows like the root of depth up to depth itself."""
    planted = one_hump(symmetric)(generator)
    growth = generator.uniform(0.5, 1.0)
    return replace(planted, world=replace(planted.world, noise_growth=growth))


def noisy_when_deep(generator: Generator) -> Planted:
    """One hump, with noise between seeds that is five times as large at 32 layers as at 6."""
    planted = one_hump(symmetric)(generator)
    return replace(planted, world=replace(planted.world, noise_growth=log(5) / log(32 / 6)))


def two_decimals(generator: Generator) -> Planted:
    """One hump, with losses of two decimals."""
    planted = one_hump(symmetric)(generator)
    return replace(planted, world=replace(planted.world, decimals=2))


def unlucky_shape(generator: Generator) -> Planted:
    """One hump; at one depth near the best, shapes of a lower ratio than 4 lose 0.01 to 0.03."""
    planted = one_hump(symmetric)(generator)
    assert planted.depth is not None, "a hump has a lowest point"
    unlucky, lost = (
        round(planted.depth * 2 ** generator.uniform(-1, 1)),
        generator.uniform(0.01, 0.03),
    )

    def effect(shape: Shape) -> float:
        return lost if shape.depth == unlucky and shape.ff_ratio < BEST_RATIO else 0.0

    return replace(planted, world=replace(planted.world, shape_effect=effect))


def moving_rates(generator: Generator) -> Planted:
    """One hump, with a best rate that moves by a factor of four over a factor of eight in depth."""
    planted = one_hump(symmetric)(generator)
    exponent = generator.choice([-2 / 3, 2 / 3])
    moving = replace(planted.world, best_rate=lambda depth: (depth / 6) ** exponent)
    return replace(planted, world=moving)


def world(curve: Curve, generator: Generator) -> World:
    """Returns a world of this curve, with crossings, spikes, divergence and noise between seeds."""
    drift = generator.uniform(-0.1, 0.1)
    return World(
        curve=curve,
        noise=exp(generator.uniform(log(0.002), log(0.008))),
        ratio_effect=generator.uniform(0.0, 0.03),
        rate_effect=generator.uniform(0.01, 0.05),
        best_rate=lambda depth: 1.2 * depth**drift,
        slow_start=generator.uniform(0.0, 0.04),
        spikes=0.03,
        divergence=0.2,
    )


AT_AN_END = "best at an end"
CASES: dict[str, tuple[Callable[[Generator], Planted], Kind, str]] = {
    "symmetric": (one_hump(symmetric), Kind.IDENTIFIED, ""),
    "steep when shallow": (
        one_hump(lambda depth, k: asymmetric(depth, 2.0, 0.6, 2 * k)), Kind.IDENTIFIED, "",
    ),
    "steep when deep": (
        one_hump(lambda depth, k: asymmetric(depth, 0.6, 2.0, 2 * k)), Kind.IDENTIFIED, "",
    ),
    "a wall when shallow": (
        one_hump(lambda depth, k: asymmetric(depth, 4.0, 1.0, 2 * k)), Kind.IDENTIFIED, "",
    ),
    "flat": (without_optimum(lambda _: flat), Kind.PLATEAU, ""),
    "deeper is better": (
        without_optimum(lambda g: deeper_is_better(g.uniform(0.02, 0.1))), Kind.EDGE, "",
    ),
    "shallower is better": (
        without_optimum(lambda g: shallower_is_better(g.uniform(0.02, 0.1))), Kind.EDGE, "",
    ),
    AT_AN_END: (at_an_end, Kind.EDGE, ""),
    "two humps": (humps, Kind.INSUFFICIENT, ""),
    "wide notch": (notch(1.0, 2.0), Kind.INSUFFICIENT, ""),
    "narrow notch": (notch(0.3, 1.0), Kind.INSUFFICIENT, ""),
    "plateau and cliff": (cliff, Kind.INSUFFICIENT, ""),
    "heavy tails": (heavy_tails, Kind.IDENTIFIED, ""),
    "stalls": (stalls, Kind.IDENTIFIED, ""),
    "growing noise": (growing_noise, Kind.IDENTIFIED, ""),
    "deep ones noisy": (noisy_when_deep, Kind.IDENTIFIED, ""),
    "two decimals": (two_decimals, Kind.IDENTIFIED, ""),
    "an unlucky shape": (unlucky_shape, Kind.IDENTIFIED, ""),
    "best falls with size": (falling_with_size, Kind.IDENTIFIED, ""),
    "moving rates": (moving_rates, Kind.IDENTIFIED, ""),
    "starved": (one_hump(symmetric), Kind.INSUFFICIENT, STARVED),
}  # fmt: skip


IDENTIFIED = Kind.IDENTIFIED
MISLEADING = {
    "two humps": "two_humps",
    "wide notch": "wide_notch",
    "narrow notch": "narrow_notch",
    "plateau and cliff": "cliff",
}
"""Kinds of worlds with several minima or a step, and their names among the figures."""
COLUMNS = {
    "planted": "",
    "expected": "",
    "as expected": ".3f",
    "best depth in [interval]": ".3f",
    "lowest point in it": ".3f",
    "within a plateau of the best": ".3f",
    "verdicts": "",
}


def main() -> None:
    """Prints a table row for each kind of planted world."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=100, help="studies of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first: other worlds")
    parser.add_argument("--only", choices=CASES, help="one kind")
    add_json_option(parser)
    arguments = parser.parse_args()
    table = PrintedTable(COLUMNS, arguments.json)
    answers: dict[str, list[tuple[Planted, Optimum]]] = {}
    for name in [arguments.only] if arguments.only else CASES:
        numbers = range(arguments.first, arguments.first + arguments.studies)
        answers[name] = studies(name, numbers)
        table.add(*row(name, answers[name]))
    for name, (value, unit) in figures_of(answers).items():
        table.figure(name, value, unit)


def studies(name: str, numbers: Iterable[int]) -> list[tuple[Planted, Optimum]]:
    """Returns planted studies of one kind, each in its own world, with their answers."""
    plant, _, changes = CASES[name]
    found = []
    for index in numbers:
        planted = plant(np.random.default_rng([index, len(name)]))
        config: StudyConfig = parse(
            f"{STUDY}budgets: [{planted.world.budget}]\n{changes}seed: {index}\n"
        )
        found.append((planted, search(config, planted.world)))
    return found


def row(name: str, found: list[tuple[Planted, Optimum]]) -> list[object]:
    """Returns the cells of a row: shares of the studies of a kind, and how often each verdict."""
    expected = CASES[name][1]
    verdicts = Counter(optimum.kind for _, optimum in found)
    identified = [(p, o) for p, o in found if p.depth and o.kind is Kind.IDENTIFIED]
    shares: list[object] = ["-"] * 3
    if identified:
        shares = [
            round(float(np.mean([test(p, o) for p, o in identified])), 3)
            for test in (covers, covers_exactly, nearly_best)
        ]
    text = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.most_common())
    right = round(verdicts[expected] / len(found), 3)
    return [name, str(expected), right, *shares, text]


def figures_of(
    answers: Mapping[str, list[tuple[Planted, Optimum]]],
) -> dict[str, tuple[int, str]]:
    """Returns the counts of answers that the pages name, by their ids, with their units."""
    kinds = [name for name in answers if CASES[name][1] is IDENTIFIED]
    one_minimum = [pair for name in kinds for pair in answers[name]]
    others = [pair for name in MISLEADING if name in answers for pair in answers[name]]
    figures = {
        "one_minimum": len(one_minimum),
        "one_minimum_identified": len(_identified(one_minimum)),
        "one_minimum_covered": sum(covers(p, o) for p, o in _identified(one_minimum)),
        "one_minimum_wrong": _wrong(one_minimum),
        "others_identified": len(_identified(others)),
        "others_covered": sum(covers(p, o) for p, o in _identified(others)),
        "others_wrong": _wrong(others),
    }
    of_kind = {
        f"{figure}_wrong": (_wrong(answers[name]), f"worlds of {len(answers[name])}")
        for name, figure in MISLEADING.items()
        if name in answers
    }
    if AT_AN_END in answers:
        of_kind["end_wrong"] = (_wrong(answers[AT_AN_END]), f"worlds of {len(answers[AT_AN_END])}")
        of_kind["end_identified"] = (len(_identified(answers[AT_AN_END])), "answers")
    return {name: (value, "answers") for name, value in figures.items()} | of_kind


def _identified(found: list[tuple[Planted, Optimum]]) -> list[tuple[Planted, Optimum]]:
    return [(planted, optimum) for planted, optimum in found if optimum.kind is IDENTIFIED]


def _wrong(found: list[tuple[Planted, Optimum]]) -> int:
    return sum(not nearly_best(planted, optimum) for planted, optimum in _identified(found))


def covers(planted: Planted, optimum: Optimum) -> bool:
    """True if the best whole depth lies in the interval of whole depths."""
    assert isinstance(optimum, Located), "what is identified has an interval"
    low, high = optimum.interval
    return low <= min(range(1, DEEPEST + 1), key=planted.curve) <= high


def covers_exactly(planted: Planted, optimum: Optimum) -> bool:
    """True if the planted minimum lies in the interval before it is rounded to whole depths."""
    assert planted.depth is not None, "only one-humped worlds are asked"
    assert isinstance(optimum, Located), "what is identified has an interval"
    low, high = optimum.curve_minimum_interval
    return low <= planted.depth <= high


def nearly_best(planted: Planted, optimum: Optimum) -> bool:
    """True if the reported depth costs less than 0.005 nats against the best one."""
    assert optimum.optimal_depth is not None, "what is identified has a depth"
    best = min(planted.curve(depth) for depth in range(1, DEEPEST + 1))
    return planted.curve(optimum.optimal_depth) - best < 0.005


if __name__ == "__main__":
    main()
