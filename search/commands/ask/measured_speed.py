"""Training throughput by model size of this machine, or of a cluster's workers; measured.

What a device does in a second varies a thousandfold over the sizes of a ladder: a small model does
not fill a GPU. Half powers of ten are measured, when a size near them is first asked for.
"""

from collections.abc import Callable
from dataclasses import replace
from math import log10

import torch

from fathom.models.shape import Shape
from fathom.objectives.next_token import NextToken
from fathom.search.study.hardware.device_speed import Rate, Speed, binned, keep_speeds
from fathom.search.study.hardware.machine import Machine, device_name
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import Budget, expand_budgets
from fathom.search.study.planning.shapes import feasible_shapes, nearest_shape
from fathom.search.training.calibrate import measured_rate

Measure = Callable[[StudyConfig, Budget, Shape, NextToken], Rate | None]
"""Measures a training; None where it could not."""


def measure_here(
    config: StudyConfig, budget: Budget, shape: Shape, objective: NextToken
) -> Rate | None:
    """The speed of a training in this process, which is kept; the device is freed again."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rate = measured_rate(config, budget, shape, objective.to(device), device)
    torch.cuda.empty_cache()  # else what it took stays with this process, beside the trials
    keep_speeds(device_name(config.resources), binned([rate]))
    return rate


class SpeedBySize:
    """Measures training throughput by model size, for studies that differ in their budget alone."""

    def __init__(
        self,
        study: Callable[[int], StudyConfig],
        objective: NextToken,
        machine: Machine,
        measure: Measure = measure_here,
    ) -> None:
        """`study` returns the study of one budget; `machine` is the estimate without
        measurements, which remains where the devices of the trials are not here."""
        self._study, self._objective = study, objective
        self._machine, self._measure = machine, measure
        self._known: dict[float, Speed] = {}

    def machine(self, params: int) -> Machine:
        """The machine with the throughput measured for a budget of this size."""
        if not self._machine.here:
            return self._machine
        half_power = round(2 * log10(params)) / 2
        if half_power not in self._known:
            self._known[half_power] = self._measured(round(10**half_power))
        return replace(self._machine, speed=self._known[half_power], notes=())

    def _measured(self, params: int) -> Speed:
        """The estimate, corrected by the speed of the middle depth."""
        config = self._study(params)
        (budget,) = expand_budgets(config)
        shapes = feasible_shapes(config, budget, self._objective.vocab_size)
        depths = sorted({shape.depth for shape in shapes})
        shape = nearest_shape(shapes, depth=depths[len(depths) // 2], ff_ratio=4.0)
        rate = self._measure(config, budget, shape, self._objective)
        return replace(self._machine.speed, measured=(rate,)) if rate else self._machine.speed
