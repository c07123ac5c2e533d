"""Training throughput of this machine by model size, evaluations included; measured.

What a device does in a second varies a thousandfold over the sizes of a ladder: a small model does
not fill a GPU. Half powers of ten are measured, when a size near them is first asked for.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from math import log10

import torch

from fathom.models.shape import Shape
from fathom.objectives.contract import Objective
from fathom.objectives.text.language.objective import Language
from fathom.search.study.budget import Budget, evaluation_steps, expand_budgets
from fathom.search.study.config import StudyConfig
from fathom.search.study.plan import Machine
from fathom.search.study.shapes import feasible_shapes, nearest_shape
from fathom.search.training.assignment import standalone_spec
from fathom.search.training.evaluation import autocast
from fathom.search.training.loop import advance
from fathom.search.training.state import Training, TrainPlan
from fathom.search.training.trial import train_plan

MEASURED_SECONDS = 0.7
"""Duration of a measurement of training steps, in seconds; it begins after two steps."""
DEAREST_STEP_SECONDS = 0.5
"""Longest training step that is measured, in seconds; if the budget's batch takes longer, a smaller
one is measured."""


class TrainingPace:
    """Measures training throughput by model size, for studies that differ in their budget alone."""

    def __init__(
        self, study: Callable[[int], StudyConfig], objective: Language, machine: Machine
    ) -> None:
        """`study` returns the study of one budget; `machine` is the estimate without
        measurements."""
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._study, self._objective = study, objective.to(self._device)
        self._machine = machine
        self._known: dict[float, float] = {}

    def machine(self, params: int) -> Machine:
        """The machine with the throughput measured for a budget of this size."""
        half_power = round(2 * log10(params)) / 2
        if half_power not in self._known:
            self._known[half_power] = self._measured(round(10**half_power))
        return replace(self._machine, flops_per_second=self._known[half_power])

    def _measured(self, params: int) -> float:
        """FLOPs per second of a whole trial, evaluations included."""
        config, objective = self._study(params), self._objective
        torch.set_num_threads(config.resources.threads)
        (budget,) = expand_budgets(config)
        shapes = feasible_shapes(config, budget, objective.vocab_size)
        depths = sorted({shape.depth for shape in shapes})
        shape = nearest_shape(shapes, depth=depths[len(depths) // 2], ff_ratio=4.0)
        plan = self._plan(config, budget, shape)
        parametrization = config.model.parametrization.build()
        training = Training(shape, parametrization, plan, seed=0, device=self._device)
        tokens = plan.batch_size * objective.context
        trained = budget.tokens / tokens * _seconds_per_step(training, objective)
        windows = len(evaluation_steps(config, budget)) * objective.eval_windows
        readings = windows * objective.context / tokens
        evaluated = readings * _seconds_per_reading(training, objective)
        return budget.tokens * shape.train_flops_per_token / (trained + evaluated)

    def _plan(self, config: StudyConfig, budget: Budget, shape: Shape) -> TrainPlan:
        spec = standalone_spec("pace", config, budget, shape)
        plan = train_plan(config, budget, spec, self._device.type)
        sequence_flops = shape.train_flops_per_token * self._objective.context
        affordable = int(DEAREST_STEP_SECONDS * self._machine.flops_per_second / sequence_flops)
        batch_size = max(1, min(budget.batch_size, affordable))
        return replace(plan, batch_size=batch_size, compiled=False)


def _seconds_per_step(training: Training, objective: Objective) -> float:
    """Mean seconds per training step."""
    advance(training, objective, goal=2)
    began = time.perf_counter()
    while (passed := time.perf_counter() - began) < MEASURED_SECONDS:
        advance(training, objective, goal=training.step + 1)
    return passed / (training.step - 2)


def _seconds_per_reading(training: Training, objective: Objective) -> float:
    """Seconds per evaluated batch: the second one, since the first allocates memory."""
    batch = objective.batch(seed=0, step=0, batch_size=training.plan.batch_size)
    with torch.no_grad(), autocast(training.device, training.plan):
        float(objective.loss(training.model, batch))
        began = time.perf_counter()
        float(objective.loss(training.model, batch))
    return time.perf_counter() - began
