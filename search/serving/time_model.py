"""Interpolates the times of shapes of a budget that were not measured.

As for training steps, interpolation is linear in the logarithms of time and depth. The standard
errors are due to the interpolation.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fathom.models.shape import Shape
from fathom.search.serving.values import Duration, ShapeTimes
from fathom.search.study.timing.step_times import step_times

FEWEST_FOR_ERROR = 5
"""Fewest measured shapes to estimate the error of interpolated times."""


def worst_error(shapes: Sequence[Shape], seconds: Sequence[float]) -> float | None:
    """Returns the largest relative error when each shape in turn is left out and interpolated; None
    with too few shapes. Shapes are in ascending order of depth; the first and the last are never
    left out, as they would be extrapolated."""
    if len(shapes) < FEWEST_FOR_ERROR:
        return None
    known = list(zip(shapes, seconds, strict=True))
    return max(
        abs(step_times(known[:place] + known[place + 1 :]).seconds(shape) / took - 1)
        for place, (shape, took) in enumerate(known[1:-1], start=1)
    )


def spread(number: int, most: int) -> NDArray[np.int64]:
    """Returns at most `most` evenly spread indices below `number`, ascending, including both
    ends."""
    return np.unique(np.linspace(0, number - 1, min(number, most)).round().astype(np.int64))


def with_modelled(
    measured: Sequence[ShapeTimes], others: Sequence[Shape]
) -> tuple[tuple[ShapeTimes, ...], float | None]:
    """Returns the measured times with those of other shapes of the budget, by ascending depth, and
    the largest relative error of the interpolation."""
    shapes = [times.shape for times in measured]
    tokens = [times.token.seconds for times in measured]
    prefills = [times.prefill.seconds for times in measured]
    errors = [worst_error(shapes, tokens), worst_error(shapes, prefills)]
    worst = max((error for error in errors if error is not None), default=None)

    def modelled(shape: Shape, seconds: Sequence[float]) -> Duration:
        told = step_times(zip(shapes, seconds, strict=True)).seconds(shape)
        return Duration(told, (worst or 0.0) * told / 2)  # the worst error as two standard errors

    told = [
        ShapeTimes(
            shape=shape,
            prefill=modelled(shape, prefills),
            token=modelled(shape, tokens),
            measured=False,
        )
        for shape in others
    ]
    return tuple(sorted((*measured, *told), key=lambda times: times.shape.depth)), worst
