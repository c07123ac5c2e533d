"""Measures how well laws of depth predict where best depths scatter about a known law.

python -m benchmarks.answers.laws.law_scatter
python -m benchmarks.answers.laws.law_scatter --first 1000    # other laws and budgets

Answers of planted ladders, at sizes from 300k to 30M, moved to the best depths of a power law, a
logarithmic one and a falling one, with a scatter. Predicted is the best depth at 3, 10 and 100
times the largest budget: `held` by the law, and by a new budget with its own scatter. The width of
the interval, in ln depth, is divided by that of an oracle which knows the scatter.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import exp, log
from unittest.mock import patch

import numpy as np
from numpy.random import Generator

from benchmarks.answers.planted.coverage import CASES
from benchmarks.answers.planted.low_seeds import KINDS, ladder
from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.search.analysis.answer.finding import find_optimum
from fathom.search.analysis.answer.optimum import Located
from fathom.search.analysis.laws import law_fit
from fathom.search.analysis.laws.law import LOGARITHMIC, depth_and_slopes
from fathom.search.analysis.laws.weighed_laws import weigh_laws

SIZES = (300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000)
BUDGETS = (3, 4, 5)
SCATTERS = (0.0, 0.03, 0.05, 0.08, 0.15)
BEYOND = (3, 10, 100)
COLUMNS = {
    "scatter": "", "budgets": "", "predictions": "",
    **{f"held at {times}x": ".0%" for times in BEYOND}, "new budget held": ".0%",
    **{f"width at {times}x": ".2f" for times in BEYOND},
}  # fmt: skip
Law = Callable[[float], float]
"""Size -> best depth."""


def main() -> None:
    """Prints a row for each scatter and number of budgets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=10, help="studies of each law and row")
    parser.add_argument("--ladders", type=int, default=40, help="planted ladders to draw from")
    parser.add_argument("--first", type=int, default=0, help="number of the first: other studies")
    add_json_option(parser)
    told = parser.parse_args()
    table = PrintedTable(COLUMNS, told.json)
    pool = [found for i in range(told.ladders) if (found := answered(told.first + i))]
    for scatter in SCATTERS:
        for budgets in BUDGETS:
            rows = [
                row
                for number in range(told.first, told.first + told.studies)
                for plant in (power, logarithmic, falling)
                for row in _predictions(plant, budgets, scatter, number, pool)
            ]
            held, new, width = np.moveaxis(np.array(rows).reshape(-1, len(BEYOND), 3), -1, 0)
            of_width = np.median(width, axis=0).tolist()
            table.add(scatter, budgets, held.size, *held.mean(axis=0), new.mean(), *of_width)


def power(generator: Generator) -> Law:
    """A power law of 3 to 6 layers at the smallest size."""
    first, exponent = generator.uniform(3, 6), generator.uniform(0.15, 0.5)
    return lambda params: first * (params / SIZES[0]) ** exponent


def falling(generator: Generator) -> Law:
    """A power law of 12 to 24 layers at the smallest size, fewer at larger ones."""
    first, exponent = generator.uniform(12, 24), generator.uniform(0.05, 0.2)
    return lambda params: first * (params / SIZES[0]) ** -exponent


def logarithmic(generator: Generator) -> Law:
    """A logarithmic law of 3 to 6 layers at the smallest size."""
    first, b = generator.uniform(3, 6), generator.uniform(0.05, 0.12)
    line = np.array([log(SIZES[0] / 12 / first) / 2 - b * first, b])
    return lambda params: float(depth_and_slopes(LOGARITHMIC, line, np.array([params]))[0][0])


def answered(number: int) -> tuple[Located, float] | None:
    """The answer of a planted ladder of two seeds, and the depth where its curve is lowest; None
    where it is not settled."""
    generator = np.random.default_rng([number, 2])
    planted = CASES[KINDS[number % len(KINDS)]][0](generator)
    optimum = find_optimum(ladder(planted, 2, generator), seed=0)
    if not isinstance(optimum, Located) or not optimum.kind.settled or planted.depth is None:
        return None
    return optimum, planted.depth


def moved(answer: tuple[Located, float], params: int, best: float) -> Located:
    """The answer as if its budget were of a size with another best depth."""
    optimum, planted = answer
    low, high = (end * best / planted for end in optimum.curve_minimum_interval)
    return replace(
        optimum, budget=params, depths=(), curve_minimum_interval=(low, high),
        curve_minimum=optimum.curve_minimum * best / planted,
    )  # fmt: skip


def _predictions(
    plant: Callable[[Generator], Law], budgets: int, scatter: float, number: int,
    pool: Sequence[tuple[Located, float]],
) -> Iterator[tuple[float, float, float]]:  # fmt: skip
    """Yields for each size beyond the budgets if the interval holds the law and a new budget, and
    its width as a share of the oracle's."""
    generator = np.random.default_rng([number, budgets, round(1000 * scatter)])
    law = plant(generator)
    sizes = SIZES[:budgets]
    depths = [_scattered(law(params), scatter, generator) for params in sizes]
    answers = [pool[i] for i in generator.integers(len(pool), size=budgets)]
    optima = [moved(*at) for at in zip(answers, sizes, depths, strict=True)]
    laws = weigh_laws(optima)
    with patch.object(law_fit, "SCATTERS", {scatter: 1.0}):
        oracle = weigh_laws(optima)
    assert laws is not None
    assert oracle is not None, "measured budgets have a power law"
    for times in BEYOND:
        far = float(times * SIZES[budgets - 1])
        low, high = laws.predict(far).interval or (1.0, 1.0)
        least, most = oracle.predict(far).interval or (1.0, 1.0)
        new = _scattered(law(far), scatter, generator)
        width = log(high / low) / log(most / least)
        yield float(low <= law(far) <= high), float(low <= new <= high), width


def _scattered(depth: float, scatter: float, generator: Generator) -> float:
    return depth * exp(scatter * generator.standard_normal())


if __name__ == "__main__":
    main()
