"""Tests if a key of the training recipe moves the best depth: ladders that differ in that key.

python -m benchmarks.answers.trained.recipe configs/quickstart.yaml --key model.norm \\
    --values layer rms
python -m benchmarks.answers.trained.recipe configs/quickstart.yaml --key train.batch_size \\
    --values 2 8 32 --rates 0.5 1 2 --root

Every depth is trained to the end at each value, with one feed-forward ratio and several seeds. With
several learning rates the loss at a depth is that of its best rate.
"""

import argparse
import math
import multiprocessing
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from benchmarks.answers.trained.ladder import rungs_of_ladder
from fathom.models.shape import Shape
from fathom.objectives.contract import Objective
from fathom.objectives.prepare import prepare
from fathom.search.records import derive_seed
from fathom.search.study.file.study_file import load
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.training.assignment import standalone_spec
from fathom.search.training.loop import train
from fathom.search.training.state import Training
from fathom.search.training.trial import train_plan


@dataclass(frozen=True, slots=True)
class LadderRun:
    """One training of the comparison."""

    study: Path
    overrides: tuple[str, ...]
    value: str
    rate: float
    """Multiple of the study's learning rate."""
    budget: int
    shape: Shape
    seed: int


@dataclass(frozen=True, slots=True)
class LadderResult:
    """The loss and the speed of one training."""

    run: LadderRun
    loss: float
    """Held-out loss at the end, nats per token."""
    seconds_per_step: float


def main() -> None:
    """Trains every ladder and prints the losses by depth, one column a value."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", type=Path)
    parser.add_argument("--set", action="append", default=[], help="key=value for every ladder")
    parser.add_argument("--key", required=True, help="key that differs, such as model.norm")
    parser.add_argument("--values", nargs="+", required=True)
    parser.add_argument("--rates", nargs="+", type=float, default=[1.0])
    parser.add_argument(
        "--root", action="store_true", help="rates are multiples of the root of value / first value"
    )
    parser.add_argument("--depths", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2, help="processes, of one thread each")
    arguments = parser.parse_args()
    runs = planned(arguments)
    with multiprocessing.get_context("spawn").Pool(arguments.workers) as pool:
        results = list(pool.imap_unordered(trained, runs))
    for budget in sorted({run.budget for run in runs}):
        print(table([result for result in results if result.run.budget == budget]))


def planned(arguments: argparse.Namespace) -> list[LadderRun]:
    """Every training, in the order of the seeds."""
    runs = []
    for value in arguments.values:
        changes = (*arguments.set, "train.evaluations=1", f"{arguments.key}={value}")
        config = load(arguments.study, changes)
        vocab_size = objective_of(arguments.study, changes).vocab_size
        scale = math.sqrt(float(value) / float(arguments.values[0])) if arguments.root else 1.0
        runs += [
            LadderRun(arguments.study, changes, value, rate * scale, budget.params, shape, seed)
            for budget in expand_budgets(config)
            for shape in rungs_of_ladder(config, budget, vocab_size, arguments.depths, 1)
            for rate in arguments.rates
            for seed in range(arguments.seeds)
        ]
    return sorted(runs, key=lambda run: run.seed)


@cache
def objective_of(study: Path, overrides: tuple[str, ...]) -> Objective:
    """The objective of a study, prepared once in each process."""
    return prepare(load(study, overrides).objective)


def trained(run: LadderRun) -> LadderResult:
    """Trains one shape with one seed to the end."""
    torch.set_num_threads(1)
    config = load(run.study, run.overrides)
    rate = config.train.learning_rate * run.rate
    config = load(run.study, (*run.overrides, f"train.learning_rate={rate}"))
    budget = next(budget for budget in expand_budgets(config) if budget.params == run.budget)
    spec = standalone_spec("ladder", config, budget, run.shape, seed=run.seed)
    cpu = torch.device("cpu")
    plan = train_plan(config, budget, spec, "cpu")
    seed = derive_seed(config.seed, "trial", run.seed)
    scheme = config.model.parametrization.build()
    training = Training(run.shape, scheme, plan, seed=seed, device=cpu)
    objective = objective_of(run.study, run.overrides).to(cpu)
    *_, last = train(training, objective)
    return LadderResult(run, last.loss, training.train_seconds / training.step)


def table(results: Sequence[LadderResult]) -> str:
    """Losses by depth at one budget as Markdown: the mean over seeds, and its standard error."""
    values = sorted({result.run.value for result in results}, key=str)
    depths = sorted({result.run.shape.depth for result in results})
    losses = {value: best_rate(results, value) for value in values}
    lines = [
        f"Budget {results[0].run.budget}",
        "",
        "| depth | " + " | ".join(values) + " |",
        "|---" * (len(values) + 1) + "|",
    ]
    for depth in depths:
        cells = [f"{mean:.4f} ± {error:.4f}" for mean, error in (losses[v][depth] for v in values)]
        lines.append(f"| {depth} | " + " | ".join(cells) + " |")
    best = [str(min(depths, key=lambda depth: losses[value][depth])) for value in values]
    paces = [
        1e3 * statistics.median(r.seconds_per_step for r in results if r.run.value == value)
        for value in values
    ]
    lines.append("| best depth | " + " | ".join(best) + " |")
    lines.append("| ms a step | " + " | ".join(f"{pace:.2f}" for pace in paces) + " |")
    return "\n".join(lines) + "\n"


def best_rate(results: Sequence[LadderResult], value: str) -> Mapping[int, tuple[float, float]]:
    """Depth -> lowest mean loss over the rates, and its standard error."""
    losses: dict[tuple[int, float], list[float]] = defaultdict(list)
    for result in results:
        if result.run.value == value:
            losses[result.run.shape.depth, result.run.rate].append(result.loss)
    best: dict[int, tuple[float, float]] = {}
    for (depth, _), values in losses.items():
        error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
        best[depth] = min(best.get(depth, (math.inf, 0.0)), (statistics.mean(values), error))
    return best


if __name__ == "__main__":
    main()
