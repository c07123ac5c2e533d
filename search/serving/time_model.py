"""The time of a shape by its depth and width, fitted to a few shapes of the same budget.

    time = fixed + depth * (layer + width * slope)

Weights take as long at every depth of a budget, which has the same number of them: their time is in
the fixed part. A layer takes its time whatever its width, and its activations take theirs. All
three are at least 0. Standard errors are those of the fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from fathom.models.shape import Shape
from fathom.search.serving.values import Duration, ShapeTimes

FEWEST = 3
"""Fewest shapes of a model: as many as it has coefficients."""
FEWEST_FOR_ERROR = 5
"""Fewest shapes that say how far the model is off where it was not fitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeModel:
    """The seconds of a step by depth and width."""

    fixed: float
    layer: float
    """Seconds of a layer besides those that grow with its width."""
    width: float
    """Seconds of a layer for each feature of its stream."""

    def seconds(self, shape: Shape) -> float:
        """Returns the seconds of a shape of the same budget."""
        return self.fixed + shape.depth * (self.layer + self.width * shape.d_model)


def fit_times(shapes: Sequence[Shape], seconds: Sequence[float]) -> TimeModel:
    """Returns the model with the least relative errors.

    Raises:
        ValueError: with fewer than `FEWEST` shapes.
    """
    if len(shapes) < FEWEST:
        raise ValueError(f"a model of times takes {FEWEST} shapes, got {len(shapes)}")
    columns = np.array([[1, shape.depth, shape.depth * shape.d_model] for shape in shapes], float)
    relative = columns / np.asarray(seconds)[:, None]
    unit = relative.max(axis=0)
    found, _ = nnls(relative / unit, np.ones(len(shapes)))
    fixed, layer, width = (found / unit).tolist()
    return TimeModel(fixed=fixed, layer=layer, width=width)


def worst_error(shapes: Sequence[Shape], seconds: Sequence[float]) -> float | None:
    """Returns the largest relative error when each shape in turn is left out of the fit and
    predicted; the ends are never left out, as they would be extrapolated. None with too few shapes,
    which are in ascending order of depth."""
    if len(shapes) < FEWEST_FOR_ERROR:
        return None
    errors = []
    for left in range(1, len(shapes) - 1):
        others = [index for index in range(len(shapes)) if index != left]
        model = fit_times([shapes[i] for i in others], [seconds[i] for i in others])
        errors.append(abs(model.seconds(shapes[left]) / seconds[left] - 1))
    return max(errors)


def spread(number: int, most: int) -> NDArray[np.int64]:
    """Returns at most `most` of `number` places in ascending order, both ends among them."""
    return np.unique(np.linspace(0, number - 1, min(number, most)).round().astype(np.int64))


def with_modelled(
    measured: Sequence[ShapeTimes], others: Sequence[Shape]
) -> tuple[tuple[ShapeTimes, ...], float | None]:
    """Returns the measured times with those of other shapes of the budget, by ascending depth, and
    the largest relative error of the model."""
    shapes = [times.shape for times in measured]
    tokens = [times.token.seconds for times in measured]
    prefills = [times.prefill.seconds for times in measured]
    errors = [worst_error(shapes, tokens), worst_error(shapes, prefills)]
    known = [error for error in errors if error is not None]
    worst = max(known, default=None)
    modelled = []
    if others:
        of_token, of_prefill = fit_times(shapes, tokens), fit_times(shapes, prefills)
        modelled = [
            ShapeTimes(
                shape=shape,
                prefill=_modelled(of_prefill, shape, worst),
                token=_modelled(of_token, shape, worst),
                measured=False,
            )
            for shape in others
        ]
    return tuple(sorted((*measured, *modelled), key=lambda times: times.shape.depth)), worst


def _modelled(model: TimeModel, shape: Shape, worst: float | None) -> Duration:
    seconds = model.seconds(shape)
    return Duration(seconds, (worst or 0.0) * seconds / 2)  # the worst error as two standard errors
