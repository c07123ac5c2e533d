"""The confirmation trials of a shape as a worker trains them: one by one, and as one model.

python -m benchmarks.speed.batched_trials configs/quickstart.yaml --tokens 100k

Unlike `benchmarks.speed.packing`, it includes their evaluations, diagnostics and checkpoints. On a
CPU the seconds are CPU time of the process, which other processes do not lengthen.
"""

import argparse
import platform
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter, process_time

import torch

from fathom.models.shape import Shape
from fathom.objectives.prepare import prepare
from fathom.objectives.text.language.objective import Language
from fathom.search.records import Report
from fathom.search.scheduling.trained_depths import FRESH_SEEDS_FROM
from fathom.search.study.keys.config import StudyConfig, load
from fathom.search.study.planning.budget import Budget, expand_budgets
from fathom.search.study.planning.shapes import feasible_shapes, nearest_shape
from fathom.search.training.assignment import Assignment, standalone_spec
from fathom.search.training.batched_trials import BatchedTrials
from fathom.search.training.trial import RunningTrial


def shapes_of(config: StudyConfig, budget: Budget, vocab_size: int) -> Iterator[Shape]:
    """The shallowest, a middle and the deepest shape, all of about one ratio."""
    shapes = feasible_shapes(config, budget, vocab_size)
    depths = sorted({shape.depth for shape in shapes})
    for depth in (depths[0], depths[len(depths) // 2], depths[-1]):
        yield nearest_shape(shapes, depth=depth, ff_ratio=4.0)


def both_ways(
    config: StudyConfig, budget: Budget, shape: Shape, objective: Language, *, trials: int
) -> tuple[float, float, float]:
    """CPU seconds one by one and as one model, and the largest difference of final losses, nats."""
    device = objective_device()
    clock = perf_counter if device.type == "cuda" else process_time
    with tempfile.TemporaryDirectory() as folder:
        given = []
        for seed in range(FRESH_SEEDS_FROM, FRESH_SEEDS_FROM + trials):
            spec = standalone_spec(f"{budget.label}-{seed}", config, budget, shape, seed=seed)
            given.append(Assignment(config, budget, spec, str(Path(folder) / f"{seed}.pt")))
        began = clock()
        alone = [last_of(RunningTrial(one, objective, device).reports()) for one in given]
        between = clock()
        again = [replace(one, checkpoint=f"{one.checkpoint}.together") for one in given]
        *_, together = BatchedTrials(again, objective, device).reports()
        ended = clock()
    gaps = (abs(final(one) - final(own)) for one, (_, own) in zip(alone, together, strict=True))
    return between - began, ended - between, max(gaps)


def objective_device() -> torch.device:
    """The device of the benchmark: a GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def last_of(reports: Iterator[Report]) -> Report:
    """Returns the report that ends a trial."""
    *_, last = reports
    return last


def final(report: Report) -> float:
    """Returns the final loss of a trial, nats."""
    return report.points[-1].loss


def main() -> None:
    """Print a row for each of three shapes of every budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path)
    parser.add_argument("--tokens", default="100k")
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    config = load(options.study, [f"tokens={options.tokens}"])
    objective = prepare(config.objective).to(objective_device())
    assert isinstance(objective, Language), "of the objectives it alone judges several models"
    print(
        f"{options.trials} trials of {options.tokens} tokens, medians of {options.rounds}; ", end=""
    )
    print(f"python {platform.python_version()}, torch {torch.__version__}\n")
    print("| budget | depth | one by one, s | as one model, s | ratio | losses differ by |")
    print("|---|---|---|---|---|---|")
    for budget in expand_budgets(config):
        for shape in shapes_of(config, budget, objective.vocab_size):
            rounds = [
                both_ways(config, budget, shape, objective, trials=options.trials)
                for _ in range(options.rounds)
            ]
            alone, together, gap = map(statistics.median, zip(*rounds, strict=True))
            ratio = statistics.median(one / other for one, other, _ in rounds)
            print(f"| {budget.label} | {shape.depth} | {alone:.1f} | {together:.1f} ", end="")
            print(f"| {ratio:.2f} | {gap:.1e} |", flush=True)


if __name__ == "__main__":
    main()
