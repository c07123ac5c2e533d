"""Training throughput of this machine by model size; measured.

What a device does in a second varies a thousandfold over the sizes of a ladder: a small model does
not fill a GPU. Half powers of ten are measured, when a size near them is first asked for.
"""

from collections.abc import Callable
from dataclasses import replace
from math import log10

import torch

from fathom.objectives.next_token import NextToken
from fathom.search.study.budget import expand_budgets
from fathom.search.study.config import StudyConfig
from fathom.search.study.hardware.machine import Machine, device_name
from fathom.search.study.hardware.speed import Speed, binned, keep_speeds
from fathom.search.study.shapes import feasible_shapes, nearest_shape
from fathom.search.training.measure_speed import measured_rate


class TrainingPace:
    """Measures training throughput by model size, for studies that differ in their budget alone."""

    def __init__(
        self, study: Callable[[int], StudyConfig], objective: NextToken, machine: Machine
    ) -> None:
        """`study` returns the study of one budget; `machine` is the estimate without
        measurements, which remains where the devices of the trials are not here."""
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._study, self._objective = study, objective
        self._machine = machine
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
        """The estimate, corrected by the speed of the middle depth; the device is freed again."""
        config, objective = self._study(params), self._objective.to(self._device)
        (budget,) = expand_budgets(config)
        shapes = feasible_shapes(config, budget, objective.vocab_size)
        depths = sorted({shape.depth for shape in shapes})
        shape = nearest_shape(shapes, depth=depths[len(depths) // 2], ff_ratio=4.0)
        rate = measured_rate(config, budget, shape, objective, self._device)
        del objective
        torch.cuda.empty_cache()  # else what it took stays with this process, beside the trials
        keep_speeds(device_name(config.resources), binned([rate]))
        return replace(self._machine.speed, measured=(rate,))
