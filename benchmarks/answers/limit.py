"""The fewest whole trainings by which any design could reach a given width of the interval."""

from collections.abc import Sequence
from math import sqrt

import numpy as np
from scipy.optimize import linprog, root_scalar
from scipy.stats import t

from benchmarks.worlds.planted import Curve

UNKNOWN = 3
"""What is unknown of a curve of a known family: its best depth, its steepness and its level."""
STEP = 1e-3
"""Step of a derivative, in ln depth."""


def fewest_trainings(curve: Curve, noise: float, width: float, depths: Sequence[int]) -> float:
    """The fewest whole trainings after which the 95 % interval of the best depth is `width`, in ln
    depth.

    Only the best depth, the steepness and the level of the curve are unknown, and the noise, which
    the misses from the curve tell. The trainings are spread over the depths in the best way for
    that curve (c-optimal: Elfving 1952), as if any share of one could be trained.
    """
    reach = noise * _error_of_best(curve, depths)

    def too_wide(trainings: float) -> float:
        return 2 * float(t.ppf(0.975, trainings - UNKNOWN)) * reach / sqrt(trainings) - width

    found = root_scalar(too_wide, bracket=(UNKNOWN + 0.1, 1e6))
    assert found.root is not None, found.flag
    return found.root


def _error_of_best(curve: Curve, depths: Sequence[int]) -> float:
    """Standard error of ln(best depth) after one training, spread in the best way, for a noise of 1
    nat: the least sum of absolute weights with which losses estimate the best depth."""
    moved = np.exp(STEP)
    effects = np.array(
        [
            [(curve(depth / moved) - curve(depth * moved)) / (2 * STEP), curve(depth), 1.0]
            for depth in depths
        ]
    ).T
    signed = np.hstack([effects, -effects])
    split = linprog(np.ones(2 * len(depths)), A_eq=signed, b_eq=[1.0, 0.0, 0.0])
    assert split.fun is not None, split.message
    return float(split.fun)
