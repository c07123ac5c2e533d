"""Training speed by model size, measured on this machine or a worker when it is first needed.

A device's FLOPs per second vary a thousandfold over the sizes of a ladder, because a small model
does not fill a GPU. So the speed is measured at half powers of ten of the size.
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
    """Measures a training in this process, and keeps the rate for later plans."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rate = measured_rate(config, budget, shape, objective.to(device), device)
    torch.cuda.empty_cache()  # else what it took stays with this process, beside the trials
    keep_speeds(device_name(config.resources), binned([rate]))
    return rate


class SpeedBySize:
    """Measures the training speed of models by their size, once for each half power of ten."""

    def __init__(
        self,
        study: Callable[[int], StudyConfig],
        objective: NextToken,
        machine: Machine,
        measure: Measure = measure_here,
    ) -> None:
        """`study` returns the study of one budget; `machine` is the estimate before any
        measurement, which stays where the trials' devices are not here."""
        self._study, self._objective = study, objective
        self._machine, self._measure = machine, measure
        self._known: dict[float, Speed] = {}

    def machine(self, params: int) -> Machine:
        """Returns the machine with the speed measured for a budget of so many parameters."""
        if not self._machine.here:
            return self._machine
        half_power = round(2 * log10(params)) / 2
        if half_power not in self._known:
            self._known[half_power] = self._measured(round(10**half_power))
        return replace(self._machine, speed=self._known[half_power], notes=())

    def _measured(self, params: int) -> Speed:
        """Measures the shape of middle depth; returns the estimate corrected by that."""
        config = self._study(params)
        (budget,) = expand_budgets(config)
        shapes = feasible_shapes(config, budget, self._objective.vocab_size)
        depths = sorted({shape.depth for shape in shapes})
        shape = nearest_shape(shapes, depth=depths[len(depths) // 2], ff_ratio=4.0)
        rate = self._measure(config, budget, shape, self._objective)
        return replace(self._machine.speed, measured=(rate,)) if rate else self._machine.speed
