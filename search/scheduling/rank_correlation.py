"""Rank correlations, ties included. Standard formulas, so that the analysis needs numpy alone."""

from math import sqrt

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def order_kept(x: Array, y: Array, *, apart: float) -> tuple[float | None, int]:
    """Of the pairs whose `y` are further apart than that: how much better than chance `x` orders
    them, from -1 to 1, and how many they are. With all pairs and no ties it is Kendall's tau.
    """
    upper = np.triu_indices(len(x), 1)
    in_x, in_y = (x[:, None] - x)[upper], (y[:, None] - y)[upper]
    told = np.abs(in_y) > apart
    agreed = np.sign(in_x[told]) * np.sign(in_y[told])
    return (float(agreed.mean()) if len(agreed) else None), len(agreed)


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
