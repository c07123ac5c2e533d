"""A small model, how it trains, and a study and a trial around it, for tests of the training."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fathom.models.parametrization import Parametrization, Scheme
from fathom.models.shape import Count, Shape
from fathom.search.records import Report, Stage, TrialRecord, TrialSpec, with_report
from fathom.search.study.file.study_file import parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import evaluation_steps, expand_budgets, rung_steps
from fathom.search.training.assignment import Assignment
from fathom.search.training.loop import train
from fathom.search.training.state import Measurement, Training, TrainPlan
from tests.support.toy import CPU, Successor

PARAMETRIZATION = Parametrization(
    scheme=Scheme.COMPLETEP, base_width=16, base_depth=2, base_head_dim=8, init_std=0.1
)
SHAPE = Shape(depth=2, d_model=16, d_ff=32, n_heads=2, head_dim=8, vocab_size=8, context=6)
PLAN = TrainPlan(
    steps=40, batch_size=4, learning_rate=1e-2, warmup_steps=3, cooldown_steps=8, weight_decay=0.1,
    betas=(0.9, 0.95), eps=1e-12, grad_clip=1.0, evaluation_steps=(3, 10, 17, 40), bfloat16=False,
)  # fmt: skip
SHORT_PLAN = replace(
    PLAN, steps=12, batch_size=8, warmup_steps=2, cooldown_steps=2, grad_clip=0.5,
    evaluation_steps=(4, 8, 12),
)  # fmt: skip

CONFIG = parse(
    """
study: toy
objective: {name: language, context: 6}
budgets: [4k]
tokens: 2400
train: {batch_size: 4, evaluations: 10, learning_rate: 1e-2}
stopping: {first_rung: 0.2, eta: 2, median_of: 3}
model: {parametrization: {base_width: 16, base_head_dim: 8}}
"""
)
(BUDGET,) = expand_budgets(CONFIG)
SPEC = TrialSpec(
    trial="4k-explore-000", study="toy", stage=Stage.EXPLORE, budget=BUDGET.params,
    count=Count.TOTAL, horizon_tokens=BUDGET.tokens, shape=SHAPE, seed=0, learning_rate=1e-2,
    rate_scale=1.0, prunable=True,
)  # fmt: skip
RUNGS = rung_steps(CONFIG, BUDGET)
EVALUATIONS = evaluation_steps(CONFIG, BUDGET)

Losses = list[tuple[int, float, float]]
"""Step, held-out loss and training loss of each evaluation."""


def new_training(plan: TrainPlan = PLAN, *, shape: Shape = SHAPE, seed: int = 0) -> Training:
    return Training(shape, PARAMETRIZATION, plan, seed=seed, device=CPU)


def run_to_end(
    training: Training, plan: TrainPlan = PLAN, *, objective: Successor | None = None, seed: int = 0
) -> list[Measurement]:
    """Measurements of the training to its end, by this plan and on data of this seed."""
    training.plan, training.seed = plan, seed
    return list(train(training, objective or Successor()))


def losses(measurements: list[Measurement]) -> Losses:
    return [(point.step, point.loss, point.train_loss) for point in measurements]


def losses_reported(report: Report) -> Losses:
    """Losses of a report, without the clock."""
    return [(point.step, point.loss, point.train_loss) for point in report.points]


def losses_of(training: Training) -> list[float]:
    """Held-out and training losses of the evaluations of a training, which runs to its end."""
    return [loss for point in losses([*train(training, Successor())]) for loss in point[1:]]


def lack_memory(training: Training, weight: str, call: int) -> None:
    """Makes the gradient of a weight lack memory, once, when it is computed for this time."""
    calls = 0

    def hook(_: Tensor) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    parameter: Any = training.model.get_parameter(weight)
    parameter.register_post_accumulate_grad_hook(hook)


def record_of(spec: TrialSpec, report: Report) -> TrialRecord:
    """The record of a trial after its only report."""
    began = TrialRecord(
        spec=spec, outcome=None, reason="", curve=(), rungs={}, started=0.0, ended=None,
        setup_seconds=0.0, peak_memory_bytes=None,
    )  # fmt: skip
    return replace(with_report(began, report), outcome=report.outcome, ended=1.0)


def assignment(folder: Path, config: StudyConfig = CONFIG, spec: TrialSpec = SPEC) -> Assignment:
    """The trial of a study of one budget, with its checkpoint in the folder."""
    folder.mkdir(exist_ok=True)
    (budget,) = expand_budgets(config)
    return Assignment(config, budget, spec, str(checkpoint(folder)))


def checkpoint(folder: Path) -> Path:
    return folder / f"{SPEC.trial}.pt"
