"""The measured depths against the curve through them."""

from itertools import pairwise
from math import exp, sqrt

import numpy as np
from scipy.special import fdtrc

from fathom.search.analysis.curve_families import DepthPoints
from fathom.search.analysis.curve_fit import CLEAR, Fit, whole_depth

CHANCE_OF_FLAT = 0.01
"""Significance level: below this chance of such differences without any effect of depth, depth has
an effect."""
PARAMETERS = 5
"""Parameters of the curve `a L^-p + b L^q + c`: depths beyond as many test whether it fits."""
CHANCE_OF_MISFIT = 0.05
"""Chance of such misses, where the curve holds, below which it is held not to. Of ladders
whose loss has a single minimum, 0 to 3 % are refused: the expected error of a loss grows with its
height above the best."""


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


def better_measured(found: Fit, depth: int, interval: tuple[int, int]) -> int:
    """The tested depth of the interval with the lowest loss, if that is lower than the loss of
    `depth` by more than one standard error of the difference; else `depth`.

    The loss of a depth that was not tested is that of the curve. Where losses have a notch or a
    step, the curve passes over it, and its lowest point lies beside the best depth.
    """
    points = found.points
    inside = (interval[0] <= points.depths) & (points.depths <= interval[1])
    if not inside.any():
        return depth
    lowest = int(np.where(inside, points.losses, np.inf).argmin())
    loss, error = found.power(depth), points.errors[lowest]
    for place in np.flatnonzero(points.depths == depth).tolist():
        loss, error = points.losses[place], points.joint_errors[place, lowest]
    better = loss - points.losses[lowest] > error
    return int(points.depths[lowest]) if better else depth


def fits(found: Fit, degrees_of_freedom: int) -> bool:
    """True unless the measured losses lie too far from every curve of the family (F test against
    the noise between seeds, which has so many degrees of freedom).

    With two minima or a step no curve fits. Five depths or fewer show nothing, and where one loss
    fits all depths there is no shape to test.
    """
    spare = len(found.points.depths) - PARAMETERS
    if spare < 1 or degrees_of_freedom < 1 or one_loss_fits(found.points, degrees_of_freedom):
        return True
    return float(fdtrc(spare, degrees_of_freedom, found.squares / spare)) > CHANCE_OF_MISFIT


def one_loss_fits(points: DepthPoints, degrees_of_freedom: int) -> bool:
    """True if one loss for all depths explains the measurements (generalised F test)."""
    precision = np.linalg.inv(points.covariance)
    around = points.losses - precision.sum(axis=0) @ points.losses / precision.sum()
    spare = len(points.losses) - 1
    squares = float(around @ precision @ around)
    return float(fdtrc(spare, degrees_of_freedom, squares / spare)) > CHANCE_OF_FLAT


def informative_depths(points: DepthPoints) -> tuple[int, ...]:
    """Depths whose training would show the shape of losses that no curve fits: in the gaps beside
    every tested depth that is better than its neighbours."""
    depths, found = points.depths.tolist(), set()
    ringed = np.concatenate([[np.inf], points.losses, [np.inf]])
    valleys = (points.losses < ringed[:-2]) & (points.losses < ringed[2:])
    for index in np.flatnonzero(valleys).tolist():
        around = depths[max(0, index - 1) : index + 2]
        found |= {whole_depth(sqrt(low * high)) for low, high in pairwise(around)}
    return tuple(sorted(found - set(depths)))
