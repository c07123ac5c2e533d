"""The two laws as curves through points: a size gives a depth, misses are counted in ln depth.

`LOGARITHMIC` is `ln d_model = a + b * depth` at 12 * depth * d_model**2 parameters (Levine et al.
2020), `POWER` is `ln depth = a + b * ln params`. Both have one line, `(a, b)`.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import wrightomega

from fathom.search.analysis.depth_estimates import Array, excess_variance

LOGARITHMIC = "logarithmic"
POWER = "power"

SETTLED = 1e-9
"""Change of ln depth below which a fit has converged."""
SMALLEST_GROWTH = 1e-3
"""Smallest growth of ln depth over the sizes: below it a logarithmic law would need an endless `b`.
"""


@dataclass(frozen=True, slots=True)
class SizedDepths:
    """Sizes, the ln of their best depths and the standard errors of these; each (sizes,)."""

    params: Array
    log_depth: Array
    error: Array

    def without(self, index: int) -> "SizedDepths":
        """The sizes and depths without the point at `index`."""
        kept = np.arange(len(self.params)) != index
        return SizedDepths(self.params[kept], self.log_depth[kept], self.error[kept])

    def scattered(self, variance: float) -> "SizedDepths":
        """The points with a variance between sizes added to their squared errors."""
        return replace(self, error=np.sqrt(self.error**2 + variance))

    def misses(self, name: str, line: Array) -> Array:
        """Residuals of ln depth from the law, in standard errors; (sizes,)."""
        depth, _ = depth_and_slopes(name, line, self.params)
        return np.asarray((self.log_depth - np.log(depth)) / self.error, dtype=np.float64)


def depth_and_slopes(name: str, line: Array, params: Array) -> tuple[Array, Array]:
    """Depths (n,) for sizes (n,), and the slopes of their ln in a and b (n, 2).

    The logarithmic law asks for the depth L at which 12 L exp(2a + 2bL) parameters are reached:
    W(2b params / (12 exp(2a))) / 2b with Lambert's W, here of the logarithm, which can't overflow.
    """
    a, b = float(line[0]), float(line[1])
    if name == POWER:
        slopes = np.stack([np.ones_like(params), np.log(params)], axis=1)
        return np.exp(slopes @ line), slopes
    depth = wrightomega(np.log(params / 12 * 2 * b) - 2 * a) / (2 * b)
    slopes = (
        np.stack([np.full_like(depth, -2.0), -2 * depth], axis=1) / (1 + 2 * b * depth)[:, None]
    )
    return depth, slopes


def least_squares(name: str, points: SizedDepths) -> Array | None:
    """Returns (a, b) by Gauss-Newton, from the straight line; None when it does not converge at b >
    0."""
    line = _straight_line(name, points)
    if name == POWER:
        return line
    for _ in range(100):
        if not line[1] > 0:
            return None
        depth, slopes = depth_and_slopes(name, line, points.params)
        step = _solve(slopes / points.error[:, None], points.misses(name, line))
        if np.abs(slopes @ step).max() < SETTLED:
            return line if np.ptp(np.log(depth)) > SMALLEST_GROWTH else None
        # b > 0 must hold all the way: no step changes it by more than half.
        line += step / max(1.0, 2 * abs(step[1]) / line[1])
    return None


def _straight_line(name: str, points: SizedDepths) -> Array:
    """The law as a line: exact for the power law, a start for the other, whose x has errors."""
    depth = np.exp(points.log_depth)
    if name == POWER:
        x, y = np.log(points.params), points.log_depth
    else:
        x, y = depth, np.log(points.params / (12 * depth)) / 2
    design = np.stack([np.ones_like(x), x], axis=1) / points.error[:, None]
    return _solve(design, y / points.error)


def _solve(design: Array, values: Array) -> Array:
    """Solves a least-squares problem; the shortest solution if there are several."""
    return np.asarray(np.linalg.lstsq(design, values, rcond=None)[0], dtype=np.float64)


def scatter_variance(name: str, points: SizedDepths) -> float:
    """Variance between sizes beyond the errors of their depths; 0 where these explain all."""

    def misses(variance: float) -> tuple[Array, Array] | None:
        weighed = points.scattered(variance)
        line = least_squares(name, weighed)
        return None if line is None else (weighed.misses(name, line), weighed.error)

    return excess_variance(misses, len(points.params) - 2)
