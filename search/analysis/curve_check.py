"""The measured depths against the curve through them."""

from math import exp

import numpy as np

from fathom.search.analysis.curve_fit import CLEAR, Fit


def uncontradicted(found: Fit, interval: tuple[float, float]) -> tuple[float, float]:
    """The interval of the best depth, widened until no measurement contradicts it.

    It holds every tested depth within one standard error of the curve's lowest loss. It also holds
    a depth that is clearly better than one which the curve calls better, unless the lowest depth
    is clearly better still.
    """
    points = found.points
    lowest = exp(float(found.fits.lowest()[0][found.fits.likeliest, 0]))
    held = points.losses - found.power(lowest) <= points.errors
    curve = np.array([found.power(depth) for depth in points.depths.tolist()])
    measured = points.losses - points.losses[:, None]
    against = (curve > curve[:, None]) & (measured < -CLEAR * points.joint_errors)
    held |= against.any(axis=0) & (points.height(CLEAR) == 0)
    depths = points.depths[held].tolist()
    return min([interval[0], *depths]), max([interval[1], *depths])
