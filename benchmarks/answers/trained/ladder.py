"""Trains the exhaustive answer as a table: every depth, several ratios and seeds, to the end.

python -m benchmarks.answers.trained.ladder benchmarks/ladder.yaml \\
    --table benchmarks/data/ladder.csv

The table has the columns that `benchmarks/worlds/curve_tables.py` names, so that any rule, sampler
or searcher can be replayed on it without training. Rows are appended trial by trial: the same
command goes on.
"""

import argparse
import csv
import math
import multiprocessing
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import torch

from fathom.models.shape import Shape
from fathom.objectives.contract import Objective
from fathom.objectives.prepare import prepare
from fathom.search.records import derive_seed
from fathom.search.study.file.study_file import load
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import Budget, expand_budgets
from fathom.search.study.planning.space.near_shapes import nearest_shape
from fathom.search.study.planning.space.shapes import feasible_shapes
from fathom.search.training.assignment import standalone_spec
from fathom.search.training.loop import train
from fathom.search.training.state import Training
from fathom.search.training.trial import train_plan

Job = tuple[Path, int, Shape, int]
"""Study file, budget, shape, seed."""
Row = dict[str, float]


def main() -> None:
    """Trains the curves that the table lacks and appends them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path, help="study file: budgets, space, training")
    parser.add_argument("--table", type=Path, required=True, help="CSV to append to")
    parser.add_argument("--depths", type=int, default=10, help="depths a budget")
    parser.add_argument("--ratios", type=int, default=3, help="ratios a depth")
    parser.add_argument("--seeds", type=int, default=2, help="seeds a shape")
    parser.add_argument("--workers", type=int, default=2, help="processes, of one thread each")
    arguments = parser.parse_args()
    config = load(arguments.study)
    vocab_size = _objective(arguments.study).vocab_size
    wanted = [
        (arguments.study, budget.params, shape, seed)
        for seed in range(arguments.seeds)
        for budget in expand_budgets(config)
        for shape in rungs_of_ladder(config, budget, vocab_size, arguments.depths, arguments.ratios)
    ]
    train_lacking(wanted, arguments.table, arguments.workers)


def train_lacking(wanted: Sequence[Job], table: Path, workers: int) -> None:
    """Trains the curves that a table lacks, on so many processes, and appends them."""
    trained = known(table)
    jobs = [job for job in wanted if key(job) not in trained]
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        for done, rows in enumerate(pool.imap_unordered(curve, jobs), 1):
            append(table, rows)
            print(f"{done} of {len(jobs)}", flush=True)


def rungs_of_ladder(
    config: StudyConfig, budget: Budget, vocab_size: int, depths: int, ratios: int
) -> list[Shape]:
    """Shapes of the ladder: depths evenly spaced in log, and at each depth ratios evenly spaced in
    log.
    """
    shapes = feasible_shapes(config, budget, vocab_size)
    feasible = sorted({shape.depth for shape in shapes})
    chosen = sorted(
        {min(feasible, key=lambda f: abs(math.log(f / d))) for d in spread(feasible, depths)}
    )
    for depth in feasible:  # whole depths lie too close together at the shallow end
        if len(chosen) < depths and depth not in chosen:
            chosen = sorted([*chosen, depth])
    low, high = config.space.ff_ratio
    found = {
        nearest_shape(shapes, depth=depth, ff_ratio=low * (high / low) ** ((k + 0.5) / ratios))
        for depth in chosen
        for k in range(ratios)
    }
    return sorted(found, key=lambda shape: (shape.depth, shape.d_model))


def spread(feasible: list[int], number: int) -> list[float]:
    """Returns that many depths over the range, evenly spaced in log."""
    low, high = feasible[0], feasible[-1]
    return [low * (high / low) ** (k / (number - 1)) for k in range(number)]


def curve(job: Job) -> list[Row]:
    """Trains one shape with one seed; returns a row for every evaluation."""
    torch.set_num_threads(1)
    path, params, shape, seed = job
    config, objective = load(path), _objective(path).to(torch.device("cpu"))
    whole = next(budget for budget in expand_budgets(config) if budget.params == params)
    budget = whole.of_shape(shape)
    plan = train_plan(
        config,
        budget,
        standalone_spec(f"{budget.label}-ladder", config, budget, shape, seed=seed),
        "cpu",
    )
    luck = derive_seed(config.seed, "trial", seed)
    build = config.model.parametrization.build()
    training = Training(shape, build, plan, seed=luck, device=torch.device("cpu"))
    measured = list(train(training, objective))
    pace = training.train_seconds / training.step
    return [
        {
            "d_model": shape.d_model,
            "depth": shape.depth,
            "d_ff": shape.d_ff,
            "seed": seed,
            "params_total": shape.params_total,
            "params_non_embedding": shape.params_non_embedding,
            "tokens": measurement.step * budget.tokens_per_step,
            "seconds_per_step": round(pace, 6),
            "loss": round(measurement.loss, 5),
        }
        for measurement in measured
    ]


@cache
def _objective(path: Path) -> Objective:
    return prepare(load(path).objective)


def key(job: Job) -> tuple[int, ...]:
    """Returns the columns that identify a curve of a table."""
    _, _, shape, seed = job
    return shape.d_model, shape.depth, shape.d_ff, seed


def known(table: Path) -> set[tuple[int, ...]]:
    """Identities (columns of `key`) of the curves that the table has."""
    return {
        (int(row["d_model"]), int(row["depth"]), int(row["d_ff"]), int(row["seed"]))
        for row in _rows(table)
    }


def _rows(table: Path) -> Iterator[dict[str, str]]:
    if table.exists():
        with table.open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file)


def append(table: Path, rows: list[Row]) -> None:
    """Appends the rows of a curve to the table; a new table gets the column names first."""
    fresh = not table.exists()
    with table.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        if fresh:
            writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
