"""Seconds of a training step of models of any size, from the measured steps of some sizes."""

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fathom.models.shape import Shape
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.timing.device_speed import Speed, TimeSource
from fathom.search.study.timing.step_times import (
    MeasuredSteps,
    StepTimes,
    TimedShape,
    estimated_times,
)

MOST_SIZES = 4
"""Most sizes whose steps are timed."""
ALIKE = 1.2
"""Factor within which shapes count as of one size: neighbouring sizes of a space are further
apart."""


@dataclass(frozen=True)
class SizedTimes:
    """Seconds of a training step of shapes of any size, fitted to timed ones.

    The time of a step is a sum: a constant, and times for each layer, each parameter and each
    feature of a layer. These times are at least 0, and fitted by least relative errors.
    """

    timed: tuple[tuple[int, tuple[TimedShape, ...]], ...]
    """Parameters of each size, and its timed shapes."""
    source: TimeSource = TimeSource.MEASURED

    def seconds(self, shape: Shape) -> float:
        """Seconds of a step."""
        return float(_terms(shape.params_total, shape.depth) @ self._each)

    @cached_property  # read for each of many thousand shapes
    def _each(self) -> Any:
        """Seconds for each of the `_terms`, an array."""
        np = _numpy()
        columns = np.array(
            [_terms(size, shape.depth) / shape.seconds for size, of in self.timed for shape in of]
        )
        units = columns.max(axis=0)
        each, kept = np.zeros(len(units)), np.arange(len(units))
        while True:
            found = np.linalg.lstsq(columns[:, kept] / units[kept], np.ones(len(columns)))[0]
            if found.min() >= 0:
                each[kept] = found / units[kept]
                return each
            kept = np.delete(kept, found.argmin())


def _terms(size: int, depth: int) -> Any:
    """The terms with which a step's time grows; the width of a layer is taken from the root of its
    parameters."""
    return _numpy().array([1.0, depth, size, math.sqrt(size * depth)])


def _numpy() -> Any:
    """Imports NumPy, which plans of fixed sizes do without."""
    return importlib.import_module("numpy")


Times = StepTimes | SizedTimes
NO_TIMES: Mapping[int, Times] = {}


def sizes_to_time(shapes: Sequence[Shape]) -> dict[int, list[Shape]]:
    """The shapes of each size whose steps are timed, keyed by parameters: at most `MOST_SIZES`
    sizes, evenly spread in log from the smallest to the largest."""
    by_size: dict[int, list[Shape]] = {}
    size = 0
    for shape in sorted(shapes, key=lambda shape: shape.params_total):
        size = size if shape.params_total < ALIKE * size else shape.params_total
        by_size.setdefault(size, []).append(shape)
    sizes, last = list(by_size), min(MOST_SIZES, len(by_size)) - 1
    chosen = [sizes[round(step * (len(sizes) - 1) / max(1, last))] for step in range(last + 1)]
    return {size: by_size[size] for size in chosen}


def estimated_sizes(shapes: Sequence[Shape], tokens_per_step: int, speed: Speed) -> SizedTimes:
    """Step times by the speed that a plan assumes, before any step is measured."""
    timed = {
        size: estimated_times(of_size, tokens_per_step, speed).timed
        for size, of_size in sizes_to_time(shapes).items()
    }
    return SizedTimes(tuple(timed.items()), TimeSource.ESTIMATE)


def times_by_budget(steps: MeasuredSteps | None, config: StudyConfig) -> Mapping[int, Times]:
    """Step times of each budget, the same for all if sizes are free; empty before they are
    measured."""
    if steps and config.count.frees_size:
        return dict.fromkeys(config.budgets, SizedTimes(tuple(steps.budgets.items())))
    return steps.times if steps else NO_TIMES
