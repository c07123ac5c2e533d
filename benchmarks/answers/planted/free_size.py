"""Measures how often size and depth are right where both are searched, on planted surfaces.

python -m benchmarks.answers.planted.free_size

Whole searches at equal operations whose losses are known. The best shape is the lowest of all that
the study could train. An interval is right if it holds the best depth, or size; `identified` is
wrong if its interval does not. The region of size and depth together is right if the loss of one of
its cells, at the usual ratio, is within 0.001 nats of the lowest.
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, log
from pathlib import Path

import numpy as np

from benchmarks.printed_table import PrintedTable, add_json_option
from benchmarks.simulate.driver import SimulatedWorkers, new_scheduler
from benchmarks.worlds.surfaces import SURFACES, PlantedSurface
from fathom.models.shape import Shape
from fathom.search.analysis.answer.finding import find_optimum
from fathom.search.analysis.answer.optimum import Located
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.study.file.study_file import parse

STUDY = """
study: planted
objective: {name: language, context: 32}
budgets: [200B]
count: train_flops
space: {params: [20k, 400k], depth: [1, 16], head_dim: 8}
trials: 28
train: {batch_size: 8, evaluations: 8}
"""
SAME = 0.001
"""Nats up to which a loss counts as the lowest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedSurface:
    """The answer of one search, and if it was right."""

    depth: bool
    """True if the best depth lies in its interval."""
    size: bool
    together: bool
    kinds: tuple[Kind, Kind]
    """Verdicts on depth and size."""
    cost: float
    """Nats that the named shape costs against the best."""
    spent: float
    """Whole trainings that the search has spent."""


def main() -> None:
    """Prints a row for each kind of surface, and keeps the numbers of all together."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=40, help="studies of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first: other surfaces")
    add_json_option(parser)
    arguments = parser.parse_args()
    heads = ("planted", "studies", "depth covered", "size covered", "both covered",
             "identified", "identified wrong", "cost, nats", "trainings")  # fmt: skip
    table, found = PrintedTable(dict.fromkeys(heads, ""), arguments.json), list[SearchedSurface]()
    for kind in SURFACES:
        numbers = range(arguments.first, arguments.first + arguments.studies)
        of_kind = [one for number in numbers if (one := search(kind, number))]
        table.add(kind, *cells(of_kind))
        found += of_kind
    table.add("all", *cells(found))


def cells(found: Sequence[SearchedSurface]) -> list[str]:
    """The cells of a row: counts, shares that are right, mean cost and trainings."""
    verdicts = [
        (kind, right)
        for one in found
        for kind, right in zip(one.kinds, (one.depth, one.size), strict=True)
    ]
    identified = [right for kind, right in verdicts if kind is Kind.IDENTIFIED]
    covered = (
        f"{np.mean([getattr(one, name) for one in found]):.1%}"
        for name in ("depth", "size", "together")
    )
    return [
        str(len(found)), *covered, f"{len(identified)} of {len(verdicts)}",
        f"{1 - np.mean(identified):.1%}" if identified else "-",
        f"{np.mean([one.cost for one in found]):.4f}",
        f"{np.mean([one.spent for one in found]):.1f}",
    ]  # fmt: skip


def search(kind: str, number: int) -> SearchedSurface | None:
    """A whole search of a surface of a kind; None if it has no answer."""
    surface = SURFACES[kind](np.random.default_rng([number, len(kind)]))
    config = parse(f"{STUDY}seed: {number}\n")
    with tempfile.TemporaryDirectory() as path:
        scheduler = new_scheduler(config, Path(path))
        SimulatedWorkers(scheduler, surface).run()
        records, (budget,) = scheduler.records, scheduler.budgets.values()
    found = find_optimum(records, seed=config.seed)
    if not isinstance(found, Located) or found.best_size is None or found.shape is None:
        return None
    size, best = found.best_size, surface.best(budget.shapes)
    assert size.interval is not None, "it is located"
    return SearchedSurface(
        depth=found.interval[0] <= best.depth <= found.interval[1],
        size=size.interval[0] <= best.params_total <= size.interval[1],
        together=any(_is_lowest(surface, budget.shapes, *cell) for cell in size.region),
        kinds=(found.kind, size.verdict.kind),
        cost=surface.final(found.shape) - surface.final(best),
        spent=sum(r.shared_tokens / r.spec.shared_horizon for r in records),
    )


def _is_lowest(surface: PlantedSurface, shapes: Sequence[Shape], size: int, depth: int) -> bool:
    """True if the shapes that are nearest to a size and a depth have about the lowest loss."""

    def away(shape: Shape) -> float:
        return hypot(log(shape.params_total / size) / 2, log(shape.depth / depth))

    least = min(map(away, shapes))
    near = [shape for shape in shapes if away(shape) <= least + 0.02]
    return min(map(surface.final, near)) <= surface.final(surface.best(shapes)) + SAME


if __name__ == "__main__":
    main()
