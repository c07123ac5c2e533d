"""Compares one auto-sized training with a search at the size that it ends at and at its cost.

python -m benchmarks.papers.auto_sizing benchmarks/auto_sizing.yaml --strengths 0.05 0.1 0.2

The deepest shape of the study's last budget is trained with each strength. At the size that is
left, half as many operations try a ladder of depths, and the other half train the best of them. The
last column has that depth trained with all of them, as if the answer had been known. Losses are of
the same held-out text.
"""

import argparse
import math
import multiprocessing
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from benchmarks.answers.trained.ladder import rungs_of_ladder
from fathom.models.shape import Shape
from fathom.objectives.prepare import prepare
from fathom.papers.sizing.layer_sizes import LayerSizes, params_left
from fathom.papers.sizing.left import sizes_left
from fathom.search.records import derive_seed
from fathom.search.study.file.study_file import load
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.training.assignment import standalone_spec
from fathom.search.training.loop import train
from fathom.search.training.state import Training
from fathom.search.training.trial import train_plan


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedRun:
    """One training of the comparison."""

    study: Path
    overrides: tuple[str, ...]
    shape: Shape
    seed: int
    strength: float = 0.0
    cost: float | None = None
    """Operations of the training, three forward passes a token; None for the study's tokens."""

    def at_cost(self, other: "SizedRun", share: float) -> "SizedRun":
        """The same with a share of the operations of another training."""
        tokens = expand_budgets(load(other.study, other.overrides))[-1].tokens
        return replace(self, cost=share * tokens * other.shape.train_flops_per_token)


@dataclass(frozen=True, slots=True)
class SizedResult:
    """The loss of a training and what it left."""

    run: SizedRun
    loss: float
    """Held-out loss at the end, nats per token."""
    params: int
    """Parameters left, all counted."""
    sizes: tuple[LayerSizes, ...]

    @property
    def layers(self) -> int:
        """Layers that still have a branch."""
        return sum(sizes.branches > 0 for sizes in self.sizes)


def main() -> None:
    """Trains everything and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", type=Path)
    parser.add_argument("--strengths", nargs="+", type=float, required=True)
    parser.add_argument("--set", action="append", default=[], help="key=value for every training")
    parser.add_argument("--depths", type=int, default=3, help="depths of each ladder")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2, help="processes, of one thread each")
    arguments = parser.parse_args()
    study, overrides = arguments.study, tuple(arguments.set)
    with multiprocessing.get_context("fork").Pool(arguments.workers) as pool:
        start = starting_shape(study, overrides)
        print(f"{_shape_in_words(start)}\n\n{HEADER}", flush=True)
        for strength in (0.0, *arguments.strengths):
            runs = [
                SizedRun(
                    study=study, overrides=overrides, shape=start, seed=seed, strength=strength
                )
                for seed in range(arguments.seeds)
            ]
            sized = pool.map(trained, runs, chunksize=1)
            tries = pool.map(trained, ladder_at(sized, arguments.depths), chunksize=1)
            finals = [best_of(tries, trial.run, share) for share in (0.5, 1.0) for trial in sized]
            results = pool.map(trained, finals, chunksize=1)
            print(row(sized, results[: len(sized)], results[len(sized) :]), flush=True)


def starting_shape(study: Path, overrides: Sequence[str]) -> Shape:
    """The deepest shape of the ladder at the study's last budget."""
    config = load(study, overrides)
    vocab_size = prepare(config.objective).vocab_size
    return rungs_of_ladder(config, expand_budgets(config)[-1], vocab_size, 2, 1)[-1]


def trained(run: SizedRun) -> SizedResult:
    """Trains one shape with one seed to the end."""
    torch.set_num_threads(1)
    overrides = [*run.overrides, f"train.auto_sizing.strength={run.strength}"]
    if run.cost is not None:
        overrides.append(f"tokens={round(run.cost / run.shape.train_flops_per_token)}")
    config = load(run.study, overrides)
    budget, cpu = expand_budgets(config)[-1], torch.device("cpu")
    spec = standalone_spec("sized", config, budget, run.shape, seed=run.seed)
    plan = train_plan(config, budget, spec, "cpu")
    seed = derive_seed(config.seed, "trial", run.seed)
    recipe = config.model.parametrization.build()
    training = Training(run.shape, recipe, plan, seed=seed, device=cpu)
    *_, last = train(training, prepare(config.objective).to(cpu))
    sizes = tuple(sizes_left(training.transformer))
    return SizedResult(run, last.loss, params_left(run.shape, sizes), sizes)


def ladder_at(sized: Sequence[SizedResult], depths: int) -> list[SizedRun]:
    """A ladder of depths for each seed at the mean size left, whose trainings together take half as
    many operations as one auto-sized training, which computes with all its parameters to the end.
    """
    first = sized[0].run
    size = round(statistics.mean(trial.params for trial in sized))
    at_size = (*first.overrides, "count=total", f"budgets=[{size}]")
    config = load(first.study, at_size)
    (budget,) = expand_budgets(config)
    shapes = rungs_of_ladder(config, budget, first.shape.vocab_size, depths, 1)
    return [
        replace(trial.run, overrides=at_size, shape=shape, strength=0.0).at_cost(
            first, 0.5 / len(shapes)
        )
        for trial in sized
        for shape in shapes
    ]


def best_of(tries: Sequence[SizedResult], sized: SizedRun, share: float) -> SizedRun:
    """The best depth that a seed tried, trained with a share of the auto-sized training's cost."""
    same_seed = [trial for trial in tries if trial.run.seed == sized.seed]
    return min(same_seed, key=lambda trial: trial.loss).run.at_cost(sized, share)


HEADER = (
    "| strength | parameters left | layers left | loss | depths of the search | its loss | search "
    "- auto-sized | depth known - auto-sized |\n|---|---|---|---|---|---|---|---|"
)


def row(
    sized: Sequence[SizedResult], searched: Sequence[SizedResult], known: Sequence[SizedResult]
) -> str:
    """A line of the table: means over seeds, and paired differences with their standard errors."""
    params, layers, loss = (
        statistics.mean(getattr(trial, name) for trial in sized)
        for name in ("params", "layers", "loss")
    )
    depths = " ".join(str(trial.run.shape.depth) for trial in searched)
    return (
        f"| {sized[0].run.strength:g} | {params:,.0f} | {layers:g} | {loss:.3f} | {depths} | "
        f"{statistics.mean(trial.loss for trial in searched):.3f} | "
        f"{difference(searched, sized)} | {difference(known, sized)} |"
    )


def difference(some: Sequence[SizedResult], others: Sequence[SizedResult]) -> str:
    """The mean difference in loss of the same seeds, with its standard error."""
    gains = [a.loss - b.loss for a, b in zip(some, others, strict=True)]
    error = statistics.stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else math.nan
    return f"{statistics.mean(gains):+.3f} ± {error:.3f}"


def _shape_in_words(shape: Shape) -> str:
    return (
        f"From depth {shape.depth}, d_model {shape.d_model}, d_ff {shape.d_ff}, "
        f"{shape.params_total:,} parameters"
    )


if __name__ == "__main__":
    main()
