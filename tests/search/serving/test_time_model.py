"""Interpolated times: how near they are, and how far off they say they are."""

from dataclasses import replace

import pytest

from fathom.models.shape import Shape
from fathom.search.serving.time_model import spread, with_modelled, worst_error
from fathom.search.serving.values import Duration, ShapeTimes
from tests.support.models import SMALL

DEPTHS = (1, 2, 3, 4, 6, 8, 12)
SHAPES = [replace(SMALL, depth=depth, d_model=round(240 / depth**0.5)) for depth in DEPTHS]


def seconds(shape: Shape) -> float:
    return 1e-4 + shape.depth * (2e-4 + 1e-6 * shape.d_model)


def timed(shape: Shape) -> ShapeTimes:
    time = Duration(seconds(shape), 0.0)
    return ShapeTimes(shape=shape, prefill=time, token=time, measured=True)


def test_a_shape_between_measured_ones_is_interpolated_within_some_percent() -> None:
    measured = [timed(SHAPES[index]) for index in spread(len(SHAPES), 4)]
    others = [shape for shape in SHAPES if shape not in {times.shape for times in measured}]
    for times in with_modelled(measured, others)[0]:
        assert times.token.seconds == pytest.approx(seconds(times.shape), rel=0.05)
    assert len(others) == 3


def test_a_shape_off_the_model_is_told_as_its_error() -> None:
    times = list(map(seconds, SHAPES))
    near = worst_error(SHAPES, times)
    assert near is not None
    assert near < 0.05
    times[3] *= 1.2
    off = worst_error(SHAPES, times)
    assert off is not None
    assert 0.1 < off < 0.25
    assert worst_error(SHAPES[:4], times[:4]) is None, "too few to leave one out"


def test_unmeasured_shapes_stand_among_the_measured_ones_with_the_error_of_the_model() -> None:
    measured = [timed(shape) for shape in SHAPES if shape.depth != 4]
    measured[2] = replace(measured[2], token=Duration(seconds(measured[2].shape) * 1.1, 0.0))
    found, worst = with_modelled(measured, [SHAPES[3]])
    assert [times.shape.depth for times in found] == list(DEPTHS)
    assert [times.measured for times in found] == [depth != 4 for depth in DEPTHS]
    assert worst is not None
    assert found[3].token.error == pytest.approx(worst * found[3].token.seconds / 2)
