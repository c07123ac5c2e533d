"""Compares a search of size and depth with an exhaustive grid of both at the same amount.

fathom run configs/size_flops.yaml
python -m benchmarks.answers.trained.size_grid runs/size_flops --budget 50B \
    --table benchmarks/data/size_grid.csv --json benchmarks/figures/size_grid.json

The grid trains sizes and depths of the study to the end, all of them unless fewer are asked for,
at the middle of the feed-forward ratios. Rows are appended training by training: the same command
goes on.
"""

import argparse
import csv
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import hypot, log, sqrt
from pathlib import Path
from statistics import fmean

from benchmarks.answers.trained.ladder import Job, spread, train_lacking
from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.models.shape import Shape
from fathom.objectives.keys import parse_count
from fathom.search.analysis.answer.optimum import Located
from fathom.search.api import load
from fathom.search.formatting import format_count, rounded_count
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import Budget, expand_budgets
from fathom.search.study.planning.space.near_shapes import nearest_shape
from fathom.search.study.planning.space.shapes import feasible_shapes, lattice


@dataclass(frozen=True, slots=True)
class Cell:
    """A size and a depth of the grid."""

    size: int
    """Of the lattice of sizes."""
    shape: Shape
    losses: tuple[float, ...]
    """Loss of each seed, nats."""

    @property
    def loss(self) -> float:
        """Mean over the seeds, nats."""
        return fmean(self.losses)


def main() -> None:
    """Trains what the grid lacks, and prints its losses beside the answer of the search."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="run folder of the search")
    parser.add_argument("--budget", required=True, help="amount of the search")
    parser.add_argument("--table", type=Path, required=True, help="CSV of the grid's curves")
    parser.add_argument("--sizes", type=int, default=99, help="most sizes, evenly spread in log")
    parser.add_argument("--depths", type=int, default=99, help="most depths, likewise")
    parser.add_argument("--seeds", type=int, default=2, help="seeds a shape")
    parser.add_argument("--workers", type=int, default=1, help="processes, of one thread each")
    add_json_option(parser)
    asked = parser.parse_args()
    run, amount = load(asked.run), parse_count(asked.budget)
    [found] = [optimum for optimum in run.conclusion.optima if optimum.budget == amount]
    assert isinstance(found, Located), "the search has an answer"
    [budget] = [each for each in expand_budgets(run.config) if each.params == amount]
    vocabulary = run.conclusion.records[0].spec.shape.vocab_size
    grid = grid_of(run.config, budget, vocabulary, sizes=asked.sizes, depths=asked.depths)
    jobs: list[Job] = [
        (run.folder.config, amount, shape, seed)
        for seed in range(asked.seeds)
        for shape in grid.values()
    ]
    train_lacking(jobs, asked.table, asked.workers)
    losses, seconds = trained(asked.table, budget.tokens_per_step)
    cells = [Cell(size, shape, tuple(losses[sizes_of(shape)])) for (size, _), shape in grid.items()]
    table = PrintedTable(dict.fromkeys(columns(cells), ""), asked.json)
    for row in rows(cells):
        table.add(*row)
    for name, value, unit, form in figures(cells, found):
        table.figure(name, value, unit, form)
    records = run.conclusion.records_of(amount)
    spent = sum(record.shared_tokens / record.spec.shared_horizon for record in records)
    table.figure("search_trainings", spent, "whole trainings that the search spent", ".1f")
    table.figure("minutes", seconds / 60, "minutes of one core, of the grid", ".0f")


def grid_of(
    config: StudyConfig, budget: Budget, vocab_size: int, *, sizes: int = 99, depths: int = 99
) -> dict[tuple[int, int], Shape]:
    """Size and depth, ascending -> the shape nearest to the middle of the ratios; of at most so
    many `sizes` and `depths`, evenly spread in log."""
    assert budget.sizes, "the size is free"
    shapes, (low, high) = feasible_shapes(config, budget, vocab_size), config.space.ff_ratio
    lists = defaultdict[tuple[int, int], list[Shape]](list)
    for shape in shapes:
        size = min(lattice(*budget.sizes), key=lambda size: abs(shape.params_total - size))
        lists[size, shape.depth].append(shape)
    of_sizes = spread_over({size for size, _ in lists}, sizes)
    of_depths = spread_over({depth for _, depth in lists}, depths)
    return {
        (size, depth): nearest_shape(tuple(some), depth=depth, ff_ratio=sqrt(low * high))
        for (size, depth), some in sorted(lists.items())
        if size in of_sizes and depth in of_depths
    }


def spread_over(values: Collection[int], most: int) -> set[int]:
    """At most so many of the values, evenly spread in log, both ends among them."""
    if len(values) <= most:
        return {*values}
    wanted = spread([min(values), max(values)], most)
    return {min(values, key=lambda value: abs(log(value / at))) for at in wanted}


def sizes_of(shape: Shape) -> tuple[int, int, int]:
    """The columns that identify a shape in the table."""
    return shape.d_model, shape.depth, shape.d_ff


def trained(
    table: Path, tokens_per_step: int
) -> tuple[Mapping[tuple[int, int, int], list[float]], float]:
    """The final losses of each shape, one for each seed, and the seconds of all training steps."""
    ends: dict[tuple[int, int, int, int], tuple[float, float]] = {}
    with table.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            one = int(row["d_model"]), int(row["depth"]), int(row["d_ff"]), int(row["seed"])
            steps = int(row["tokens"]) / tokens_per_step
            ends[one] = float(row["loss"]), steps * float(row["seconds_per_step"])
    losses = defaultdict[tuple[int, int, int], list[float]](list)
    for (*sizes, _), (loss, _) in ends.items():
        losses[sizes[0], sizes[1], sizes[2]].append(loss)
    return losses, sum(seconds for _, seconds in ends.values())


def columns(cells: Sequence[Cell]) -> list[str]:
    """The heads of the table: parameters, and each depth."""
    depths = sorted({cell.shape.depth for cell in cells})
    return ["parameters", *(f"depth {depth}" for depth in depths)]


def rows(cells: Sequence[Cell]) -> list[list[str]]:
    """A row for each size: the mean loss of each depth, the lowest of all in bold."""
    lowest = min(cells, key=lambda cell: cell.loss)
    by_place = {(cell.size, f"depth {cell.shape.depth}"): cell for cell in cells}
    _, *depths = columns(cells)

    def text(cell: Cell | None) -> str:
        if cell is None:
            return "-"
        return f"**{cell.loss:.4f}**" if cell is lowest else f"{cell.loss:.4f}"

    return [
        [rounded_count(size), *(text(by_place.get((size, depth))) for depth in depths)]
        for size in sorted({cell.size for cell in cells})
    ]


def figures(cells: Sequence[Cell], found: Located) -> list[tuple[str, object, str, str]]:
    """What sentences show: the best of the grid, and if the answer of the search agrees."""
    size, depth = found.best_size, found.optimal_depth
    assert size, "the size is free"
    assert size.size, "three sizes were trained"
    assert size.interval, "likewise"
    answer = size.size
    lowest = min(cells, key=lambda cell: cell.loss)
    near = min(
        cells,
        key=lambda cell: hypot(log(cell.size / answer) / 2, log(cell.shape.depth / depth)),
    )
    inside = (
        found.interval[0] <= lowest.shape.depth <= found.interval[1],
        size.interval[0] <= lowest.size <= size.interval[1],
    )
    words = {(True, True): "both", (True, False): "the depth only", (False, True): "the size only"}
    return [
        ("best", f"depth {lowest.shape.depth} at {rounded_count(lowest.size)}", "of the grid", ""),
        ("answer", f"depth {depth} at {format_count(answer)}", "of the search", ""),
        ("inside", words.get(inside, "neither"), "best of the grid in the intervals", ""),
        ("cost", near.loss - lowest.loss, "nats of the cell nearest to the answer", ".4f"),
        ("noise", found.noise, "nats by which seeds differ in the search", ".4f"),
        ("trainings", sum(len(cell.losses) for cell in cells), "trainings of the grid", ""),
    ]


if __name__ == "__main__":
    main()
