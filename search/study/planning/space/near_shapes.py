"""The shapes of a budget that are nearest to a wanted depth and feed-forward ratio."""

import math
from collections.abc import Sequence

from fathom.models.shape import Shape

DEPTH_COUNTS = 3
"""Weight of depth against ratio in the distance of shapes: 10 % in depth equals 30 % in ratio."""


def nearest_shape(shapes: tuple[Shape, ...], *, depth: float, ff_ratio: float) -> Shape:
    """The feasible shape nearest to a point: by depth first, then by ratio, both in log."""
    nearest_depth = min({shape.depth for shape in shapes}, key=lambda d: abs(math.log(d / depth)))
    return min(
        (shape for shape in shapes if shape.depth == nearest_depth),
        key=lambda shape: shape.off_ratio(ff_ratio),
    )


def middle_shape(shapes: tuple[Shape, ...]) -> Shape:
    """The feasible shape of middle depth whose ratio is nearest to 4, by which speeds are
    measured."""
    depths = sorted({shape.depth for shape in shapes})
    return nearest_shape(shapes, depth=depths[len(depths) // 2], ff_ratio=4.0)


def comparable_shape(shapes: Sequence[Shape], *, depth: float, ff_ratio: float) -> Shape:
    """The feasible shape near a depth whose ratio is nearly this one, even if another depth is
    nearer: the effect of the ratio is known too little to compare depths across ratios."""

    def off(shape: Shape) -> float:
        return DEPTH_COUNTS * abs(math.log(shape.depth / depth)) + shape.off_ratio(ff_ratio)

    return min(shapes, key=off)
