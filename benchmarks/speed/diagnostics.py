"""Measures the cost of layer metrics, as a share of a trial's time, by the time of its parts.

python -m benchmarks.speed.diagnostics configs/quickstart.yaml

Steps with and without them take turns, and so do evaluations and layer metrics; each figure is a
median, and the shares are those of a whole trial with the evaluations that its study asks for. On a
CPU the seconds are CPU time of the process, which other processes do not lengthen.
"""

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter, process_time

import torch

from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.models.shape import Shape
from fathom.objectives.contract import Objective
from fathom.objectives.prepare import prepare
from fathom.search.formatting import format_count
from fathom.search.records import Stage, TrialSpec
from fathom.search.study.file.study_file import load
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import Budget, evaluation_steps, expand_budgets
from fathom.search.study.planning.plan import vocab_size_of
from fathom.search.study.planning.space.near_shapes import nearest_shape
from fathom.search.study.planning.space.shapes import feasible_shapes
from fathom.search.training.layer_metrics import diagnose, diagnostics_steps
from fathom.search.training.loop import advance
from fathom.search.training.state import Training
from fathom.search.training.trial import train_plan
from fathom.search.training.utilisation import matrix_rate, utilisation

STEPS = 20
"""Training steps of one timed turn."""
ROUNDS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosticsCost:
    """Seconds of the parts of a trial."""

    step: float
    step_looking: float
    evaluation: float
    look: float
    end: float
    """Seconds of measuring utilisation and generation at the end of a trial."""

    def shares(self, steps: int, evaluated: Sequence[int]) -> tuple[float, float, float]:
        """Returns the shares of a trial's time that steps, layer metrics and its end add."""
        whole = steps * self.step + len(evaluated) * self.evaluation
        added = (
            steps * (self.step_looking - self.step),
            len(diagnostics_steps(evaluated)) * self.look,
            self.end,
        )
        return added[0] / whole, added[1] / whole, added[2] / whole


COLUMNS = (
    "budget",
    "depth x d_model",
    "step",
    "evaluation",
    "look",
    "steps",
    "looks",
    "end",
    "together",
)


def main() -> None:
    """Prints a row for the shallowest, a middle and the deepest shape of every budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path, help="study file")
    add_json_option(parser)
    arguments = parser.parse_args()
    config = load(arguments.study)
    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    objective = prepare(config.objective).to(device)
    matrix_rate(device, False)  # once a process, and a process trains many trials
    vocab_size = vocab_size_of(config.objective)
    table = PrintedTable(dict.fromkeys(COLUMNS, ""), arguments.json)
    for budget in expand_budgets(config):
        for shape in three(feasible_shapes(config, budget, vocab_size)):
            added = cost(config, budget, shape, objective, device)
            table.add(*row(config, budget, shape, added))


def three(shapes: tuple[Shape, ...]) -> list[Shape]:
    """The shallowest, a middle and the deepest shape, with d_ff near 4 d_model."""
    low, high = shapes[0].depth, shapes[-1].depth
    depths = (low, (low * high) ** 0.5, high)
    return [nearest_shape(shapes, depth=depth, ff_ratio=4.0) for depth in depths]


def cost(
    config: StudyConfig, budget: Budget, shape: Shape, objective: Objective, device: torch.device
) -> DiagnosticsCost:
    """Median costs of the parts of a trial of a shape, timed in turns."""
    spec = TrialSpec(
        trial="cost", study=config.study, stage=Stage.EXPLORE, budget=budget.params,
        count=budget.count, horizon_tokens=budget.tokens, shape=shape, seed=0,
        learning_rate=config.train.learning_rate, rate_scale=1.0, prunable=False,
    )  # fmt: skip
    plan = replace(train_plan(config, budget, spec, device.type), steps=10**9, compiled=False)
    training = Training(shape, config.model.parametrization.build(), plan, seed=0, device=device)
    model = training.transformer

    def steps(diagnostics: bool) -> None:
        training.plan = replace(plan, diagnostics=diagnostics)
        advance(training, objective, goal=training.step + STEPS)

    def look() -> None:
        diagnose(model, training.optimizer, objective)

    def evaluate() -> None:
        objective.evaluate(model)

    parts: list[Callable[[], object]] = [
        lambda: steps(True),
        lambda: steps(False),
        evaluate,
        look,
        lambda: utilisation(model, tokens_per_second=1.0, bfloat16=False),
    ]
    seconds: list[list[float]] = [[] for _ in parts]
    for _ in range(ROUNDS + 1):
        for times, part in zip(seconds, parts, strict=True):
            times.append(timed(part, device))
    medians = [statistics.median(times[1:]) for times in seconds]  # the first round warms up
    with_look, without, *rest = medians
    return DiagnosticsCost(
        step_looking=with_look / STEPS,
        step=without / STEPS,
        evaluation=rest[0],
        look=rest[1],
        end=rest[2],
    )


def timed(part: Callable[[], object], device: torch.device) -> float:
    """Seconds that a call takes."""
    clock = process_time if device.type == "cpu" else perf_counter
    began = clock()
    part()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - began


def row(
    config: StudyConfig, budget: Budget, shape: Shape, added: DiagnosticsCost
) -> tuple[str, ...]:
    """Returns the cells of a shape's row."""
    shares = added.shares(budget.steps, evaluation_steps(config, budget))
    times = (added.step, added.evaluation, added.look)
    return (
        format_count(budget.params),
        f"{shape.depth} x {shape.d_model}",
        *(f"{1e3 * seconds:.2f} ms" for seconds in times),
        *(f"{share:+.2%}" for share in (*shares, sum(shares))),
    )


if __name__ == "__main__":
    main()
