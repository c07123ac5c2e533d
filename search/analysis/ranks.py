"""Rank correlations, ties included. Standard formulas, so that the analysis needs numpy alone."""

from math import sqrt

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def kendall_tau(x: Array, y: Array) -> float | None:
    """Kendall's tau-b; None when one side is all ties."""
    upper = np.triu_indices(len(x), 1)
    in_x = np.sign(x[:, None] - x)[upper]
    in_y = np.sign(y[:, None] - y)[upper]
    norm = sqrt(float((in_x @ in_x) * (in_y @ in_y)))
    return float(in_x @ in_y) / norm if norm else None


def spearman_rho(x: Array, y: Array) -> float | None:
    """Spearman's rank correlation; None when one side is all ties."""
    ranks = np.stack([places(x), places(y)])
    centred = ranks - ranks.mean(axis=1, keepdims=True)
    norm = sqrt(float((centred[0] @ centred[0]) * (centred[1] @ centred[1])))
    return float(centred[0] @ centred[1]) / norm if norm else None


def places(values: Array) -> Array:
    """Place of each value, from 1 for the lowest; equal values share their mean place."""
    below = (values < values[:, None]).sum(axis=1)
    equal = (values == values[:, None]).sum(axis=1)
    place: Array = below + (equal + 1) / 2
    return place
