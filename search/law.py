"""How the best depth follows the size of a model, across budgets.

Two laws. Logarithmic (Levine et al. 2020): `ln d_model = a + b * depth` for models of 12 * depth *
d_model**2 parameters, so depth grows about as the logarithm of size. Power: `ln depth = a + b * ln
params`. Both are fitted to the same losses in ln depth, so that their errors can be compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, isfinite, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit, wrightomega

from search.optimum import Optimum
from search.verdict import Verdict

Array = NDArray[np.float64]

LOGARITHMIC = "logarithmic"
POWER = "power"
FEWEST_BUDGETS = 3
"""Two parameters pass through any two budgets; the third is the first that can disagree."""

SMALLEST_ERROR = 0.01
"""Of ln depth; no optimum is known better than to a percent, whatever its interval."""
SETTLED = 1e-9
"""Change of ln depth below which a fit has arrived."""
SMALLEST_GROWTH = 1e-3
"""Growth of ln depth over the budgets below which a logarithmic law would need an endless `b`."""

LEVINE_A, LEVINE_B = 5.039, 0.0555
LEVINE_DEPTHS = (6, 48)
"""Constants of arXiv 2006.12467 and the depths that they were fitted on. They give depth 95 at 1T
parameters; the authors' blog says 92."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a law says about one size."""

    params: float
    law: str
    depth: float
    d_model: float | None
    """Width at which layers with `d_ff = 4 * d_model` hold all of `params`."""
    interval: tuple[float, float] | None
    """95 % for the depth of the law's line; None when the law comes without its errors."""
    extrapolated: bool
    """Outside the sizes that the law was fitted on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """A law fitted across the budgets of a study; its `params` are counted as the study counts."""

    name: str
    """`logarithmic` or `power`."""
    a: float
    b: float
    covariance: tuple[tuple[float, float], tuple[float, float]]
    """Of (a, b)."""
    degrees_of_freedom: int
    """Budgets fitted, less two."""
    params_range: tuple[int, int]
    """Smallest and largest budget fitted."""
    leave_one_out_error: float | None
    """Mean |ln depth| by which budgets are missed when predicted from the others.

    None with three budgets, since two are too few to fit; also when a fit without one fails.
    """

    def predict(self, params: float) -> Prediction:
        """Depth and width for a number of parameters.

        Raises:
            ValueError: when the law has no depth of at least 1 there.
        """
        _check_params(params)
        depth, slopes = _depth_and_slopes(self.name, np.array([self.a, self.b]), np.array([params]))
        spread = sqrt(slopes[0] @ np.array(self.covariance) @ slopes[0])
        factor = exp(min(700.0, float(stdtrit(self.degrees_of_freedom, 0.975)) * spread))
        found = _checked_depth(float(depth[0]), params, f"the fitted {self.name} law")
        low, high = self.params_range
        return Prediction(
            params=params,
            law=self.name,
            depth=found,
            d_model=sqrt(params / (12 * found)),
            interval=(max(1.0, found / factor), found * factor),
            extrapolated=not low <= params <= high,
        )


def levine2020(params: float) -> Prediction:
    """The published logarithmic law; `params` without embeddings.

    Raises:
        ValueError: below about 0.32M parameters, where it has no depth of at least 1.
    """
    _check_params(params)
    line = np.array([LEVINE_A, LEVINE_B])
    depth = float(_depth_and_slopes(LOGARITHMIC, line, np.array([params]))[0][0])
    found = _checked_depth(depth, params, "the law of Levine et al. 2020")
    low, high = LEVINE_DEPTHS
    return Prediction(
        params=params,
        law="levine2020",
        depth=found,
        d_model=exp(LEVINE_A + LEVINE_B * found),
        interval=None,
        extrapolated=not low <= found <= high,
    )


def usable(optima: Sequence[Optimum]) -> tuple[Optimum, ...]:
    """The optima to fit a law on; an edge says only on which side the best depth lies."""
    return tuple(
        own
        for own in optima
        if own.verdict in (Verdict.IDENTIFIED, Verdict.PLATEAU) and own.interval
    )


def fit_laws(optima: Sequence[Optimum]) -> tuple[Law, ...]:
    """The laws that fit, best first; empty with fewer than three usable budgets.

    Best is the lowest leave-one-out error, or, with three budgets, the smallest weighted squares.
    The logarithmic law is left out where depth does not grow, or grows like size.
    """
    points = _points(usable(optima))
    laws = [law for name in (LOGARITHMIC, POWER) if (law := _fit(name, points))]
    judged = [replace(law, leave_one_out_error=_leave_one_out(law.name, points)) for law in laws]
    return tuple(sorted(judged, key=lambda law: _badness(law, points)))


@dataclass(frozen=True, slots=True)
class _Points:
    """Budgets, the ln of their best depths and its standard error."""

    params: Array
    log_depth: Array
    error: Array

    def without(self, index: int) -> "_Points":
        kept = np.arange(len(self.params)) != index
        return _Points(self.params[kept], self.log_depth[kept], self.error[kept])


def _points(optima: Sequence[Optimum]) -> _Points:
    return _Points(
        np.array([own.budget for own in optima], dtype=np.float64),
        np.log([own.vertex or 1.0 for own in optima]),
        np.array([_error(own) for own in optima], dtype=np.float64),
    )


def _error(optimum: Optimum) -> float:
    """Standard error of ln depth: a 95 % interval is 3.92 of them wide."""
    assert optimum.vertex_interval is not None, "a usable optimum has an interval"
    low, high = optimum.vertex_interval
    return max(SMALLEST_ERROR, log(high / low) / 3.92)


def _fit(name: str, points: _Points) -> Law | None:
    """Weighted least squares in ln depth; None when the budgets are too few or the law can't be."""
    if len(points.params) < FEWEST_BUDGETS:
        return None
    line = _least_squares(name, points)
    if line is None:
        return None
    depth, slopes = _depth_and_slopes(name, line, points.params)
    residuals = (points.log_depth - np.log(depth)) / points.error
    freedom = len(points.params) - 2
    # Intervals are trusted as errors, but for a line that misses them: then the misses count.
    scale = max(1.0, float(residuals @ residuals) / freedom)
    weighted = slopes / points.error[:, None]
    (aa, ab), (ba, bb) = (scale * np.linalg.pinv(weighted.T @ weighted)).tolist()
    return Law(
        name=name,
        a=float(line[0]),
        b=float(line[1]),
        covariance=((aa, ab), (ba, bb)),
        degrees_of_freedom=freedom,
        params_range=(int(points.params.min()), int(points.params.max())),
        leave_one_out_error=None,
    )


def _least_squares(name: str, points: _Points) -> Array | None:
    """(a, b) by Gauss-Newton, from the straight line; None when it does not settle at b > 0."""
    line = _straight_line(name, points)
    if name == POWER:
        return line
    for _ in range(100):
        if not line[1] > 0:
            return None
        depth, slopes = _depth_and_slopes(name, line, points.params)
        misses = (points.log_depth - np.log(depth)) / points.error
        step = _solve(slopes / points.error[:, None], misses)
        if np.abs(slopes @ step).max() < SETTLED:
            return line if np.ptp(np.log(depth)) > SMALLEST_GROWTH else None
        # b > 0 must hold all the way: no step changes it by more than half.
        line += step / max(1.0, 2 * abs(step[1]) / line[1])
    return None


def _straight_line(name: str, points: _Points) -> Array:
    """The law as a line: exact for the power law, a start for the other, whose x has errors."""
    depth = np.exp(points.log_depth)
    if name == POWER:
        x, y = np.log(points.params), points.log_depth
    else:
        x, y = depth, np.log(points.params / (12 * depth)) / 2
    design = np.stack([np.ones_like(x), x], axis=1) / points.error[:, None]
    return _solve(design, y / points.error)


def _solve(design: Array, values: Array) -> Array:
    """Least squares; the shortest solution where there are several."""
    return np.asarray(np.linalg.lstsq(design, values, rcond=None)[0], dtype=np.float64)


def _depth_and_slopes(name: str, line: Array, params: Array) -> tuple[Array, Array]:
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


def _leave_one_out(name: str, points: _Points) -> float | None:
    """Mean |ln depth| error over the budgets; None when there are too few or a fit fails."""
    if len(points.params) <= FEWEST_BUDGETS:
        return None
    errors = []
    for index in range(len(points.params)):
        law = _fit(name, points.without(index))
        if law is None:
            return None
        depth, _ = _depth_and_slopes(name, np.array([law.a, law.b]), points.params[[index]])
        errors.append(abs(log(float(depth[0])) - float(points.log_depth[index])))
    return float(np.mean(errors))


def _badness(law: Law, points: _Points) -> tuple[bool, float]:
    """Sorts laws: those with a leave-one-out error first, by it; the others by weighted squares."""
    if law.leave_one_out_error is not None:
        return False, law.leave_one_out_error
    depth, _ = _depth_and_slopes(law.name, np.array([law.a, law.b]), points.params)
    return True, float(np.sum(((points.log_depth - np.log(depth)) / points.error) ** 2))


def _check_params(params: float) -> None:
    if not (isfinite(params) and params > 0):
        raise ValueError(f"`params` must be a positive number, got {params}; for example 175e9")


def _checked_depth(depth: float, params: float, law: str) -> float:
    if not depth >= 1:
        raise ValueError(
            f"a model has at least one layer, but {law} gives depth {depth:.2f} at {params:.3g} "
            "parameters; ask for more parameters"
        )
    return depth
