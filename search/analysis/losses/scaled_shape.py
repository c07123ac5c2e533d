"""Shapes of any size with the options of a known shape, and the FLOPs to train them on a token."""

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from math import log, sqrt

from fathom.models.shape import Count, Shape

FLOPS_OF_A_PARAMETER = 6.0
"""FLOPs that a parameter of a matrix costs for each training token."""
TOLERANCE = 0.005
"""Largest relative difference from a size at which a shape counts as having that size."""
WIDEST = 2**20
"""Largest width that is tried."""


def with_scaled(shapes: Collection[Shape]) -> tuple[Shape, ...]:
    """The shapes, and shapes of all other depths up to twice the deepest: each is derived from a
    shape of the nearest depth, with a width that keeps `depth * d_model**2`.

    An added shape has the heads of the shape that it is derived from; only its depth, width and
    `ff_ratio` are meaningful.
    """
    depths = {shape.depth for shape in shapes}
    scaled = []
    for depth in range(1, 2 * max(depths) + 1):
        nearest = min(depths, key=lambda other: abs(log(other / depth)))
        for near in (shape for shape in shapes if shape.depth == nearest != depth):
            width = near.multiple(near.d_model * sqrt(nearest / depth)) or near.groups
            d_ff = near.multiple(near.ff_ratio * width)
            scaled.append(replace(near, depth=depth, d_model=width, d_ff=d_ff))
    return (*shapes, *scaled)


def scaled_shape(template: Shape, params: float, depth: int, count: Count) -> Shape:
    """The shape with `depth` layers nearest to the size `params`, with the template's options and
    ratios."""
    step = template.head_dim * template.heads_step
    low, high = 1, max(2, WIDEST // step)
    while high - low > 1:
        middle = (low + high) // 2
        narrow = _of_width(template, depth, middle * step).size(count) <= params
        low, high = (middle, high) if narrow else (low, middle)
    return min(
        (
            _of_size(_of_width(template, depth, width * step), params, count)
            for width in (low, high)
        ),
        key=lambda shape: (
            abs(shape.size(count) / params - 1) > TOLERANCE,
            shape.off_ratio(template.ff_ratio),
        ),
    )


def _of_width(template: Shape, depth: int, d_model: int) -> Shape:
    step = template.heads_step
    heads = template.n_heads * d_model / template.d_model
    return replace(
        template,
        depth=depth,
        encoder_depth=round(depth * template.encoder_depth / template.depth),
        d_model=d_model,
        d_ff=template.multiple(template.ff_ratio * d_model),
        n_heads=step * max(1, round(heads / step)),
    )


def _of_size(shape: Shape, params: float, count: Count) -> Shape:
    """The shape with its feed-forward width changed to be nearest to the size `params`."""
    if not shape.d_ff:
        return shape
    step = shape.groups
    each = replace(shape, d_ff=shape.d_ff + step).size(count) - shape.size(count)
    missing = step * round((params - shape.size(count)) / each)
    return replace(shape, d_ff=max(step, shape.d_ff + missing))


def flops_per_token(template: Shape | None, count: Count) -> Callable[[float, float], float]:
    """Returns a function of size and depth that gives the FLOPs to train on a token: by the shape,
    or 6 per counted parameter if no shape is known."""
    if template is None:
        return lambda params, _: FLOPS_OF_A_PARAMETER * params
    return partial(_of_shape, template, count)


def _of_shape(template: Shape, count: Count, params: float, depth: float) -> float:
    layers = max(template.least_depth, round(depth))
    shape = scaled_shape(template, params, layers, count)
    return shape.train_flops_per_token * params / shape.size(count)
