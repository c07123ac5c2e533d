"""Scaling laws of the best depth with the size of a model, fitted across budgets.

Two laws. Logarithmic (Levine et al. 2020): `ln d_model = a + b * depth` for models of 12 * depth *
d_model**2 parameters, so depth grows about as the logarithm of size. Power: `ln depth = a + b * ln
params`. Both are fitted to the same depths, in ln depth, so that their errors can be compared.

Each budget's best depth misses the law by the error of the optimum, which is known, and by a
scatter of its own, which is not, since no law is exact: the scatter is what the misses show beyond
the errors (Paule & Mandel), nothing when they show no more. Optima are weighted by both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, inf, isfinite, log, sqrt

import numpy as np
from scipy.special import wrightomega

from fathom.search.analysis.depth_estimates import Array, excess_variance
from fathom.search.analysis.optimum import Optimum
from fathom.search.analysis.verdict import Verdict

LOGARITHMIC = "logarithmic"
POWER = "power"

SETTLED = 1e-9
"""Change of ln depth below which a fit has converged."""
SMALLEST_GROWTH = 1e-3
"""Smallest growth of ln depth over the sizes: below it a logarithmic law would need an endless `b`.
"""
FEWEST_BUDGETS = 3
"""Two parameters pass through any two budgets; the third is the first that can disagree."""

NORMAL_95 = 1.96
"""Standard errors on each side of a 95 % interval."""
SMALLEST_ERROR = 0.01
"""Smallest standard error of ln depth: no optimum is known better than to a percent, whatever its
interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The prediction of a law for one size."""

    params: float
    law: str
    depth: float
    d_model: float | None
    """Width at which layers with `d_ff = 4 * d_model` hold all of `params`."""
    interval: tuple[float, float] | None
    """95 % interval for the best depth of a budget of this size; None when the law comes without
    errors."""
    extrapolated: bool
    """True outside the sizes that the law was fitted on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """A law fitted across the budgets of a study; its `params` are counted as the study counts."""

    name: str
    """`logarithmic` or `power`."""
    a: float
    b: float
    covariance: tuple[tuple[float, float], tuple[float, float]]
    """Covariance of (a, b)."""
    degrees_of_freedom: int
    """Budgets fitted, less two: how much is known of the scatter."""
    params_range: tuple[int, int]
    """Smallest and largest budget fitted."""
    leave_one_out_error: float | None
    """Mean error of ln depth when a budget is predicted from the others.

    None when the law can't be fitted without one of them.
    """
    scatter: float = 0.0
    """Standard deviation of ln depth about the line, beyond the errors of the optima."""

    def predict(self, params: float) -> Prediction:
        """Returns the predicted depth and width for a number of parameters.

        The interval is for the true best depth of a new budget of this size: the error of the line
        and the scatter about it. The quantile is the normal one, since the error comes from the
        optima's own intervals and not from how far they miss the line: of that, three budgets have
        one degree of freedom (t 12.7). Covered, over 600 studies a case (`coverage` in
        `tests/search/analysis/test_law.py`, 3 and 5 budgets): 95 to 98 % where the law holds
        exactly; 78 to 86 % where budgets scatter about it as widely as they err, too widely for so
        few to tell.

        Raises:
            ValueError: when the law has no depth of at least 1 there.
        """
        check_params(params)
        line = np.array([self.a, self.b])
        depth, slopes = depth_and_slopes(self.name, line, np.array([params]))
        variance = float(slopes[0] @ np.array(self.covariance) @ slopes[0]) + self.scatter**2
        factor = exp(min(700.0, NORMAL_95 * sqrt(variance)))
        found = checked_depth(float(depth[0]), params, f"the fitted {self.name} law")
        low, high = self.params_range
        return Prediction(
            params=params,
            law=self.name,
            depth=found,
            d_model=sqrt(params / (12 * found)),
            interval=(max(1.0, found / factor), found * factor),
            extrapolated=not low <= params <= high,
        )


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


def usable(optima: Sequence[Optimum]) -> tuple[Optimum, ...]:
    """The optima that a law is fitted to; an edge only says on which side the best depth lies."""
    return tuple(
        own
        for own in optima
        if own.verdict in (Verdict.IDENTIFIED, Verdict.PLATEAU) and own.curve_minimum_interval
    )


def fit_laws(optima: Sequence[Optimum]) -> tuple[Law, ...]:
    """The laws that fit, best first; empty with fewer than three usable budgets.

    Best is the lowest leave-one-out error; a law that stands or falls with one budget comes last.
    The logarithmic law is left out where depth does not grow, or grows like size.
    """
    fitted = [own for own in usable(optima) if own.count.of_parameters]
    if len(fitted) < FEWEST_BUDGETS:
        return ()
    points = _points(fitted)
    laws = [law for name in (LOGARITHMIC, POWER) if (law := _fit(name, points))]
    tested = [replace(law, leave_one_out_error=_leave_one_out(law.name, points)) for law in laws]
    tested.sort(key=lambda law: inf if (error := law.leave_one_out_error) is None else error)
    return tuple(tested)


def _points(optima: Sequence[Optimum]) -> SizedDepths:
    """Sizes and ln depths of usable optima; a 95 % interval is 3.92 standard errors wide."""
    rows = []
    for own in optima:
        assert own.curve_minimum, "a usable optimum has a lowest point"
        assert own.curve_minimum_interval, "a usable optimum has an interval"
        low, high = own.curve_minimum_interval
        error = max(SMALLEST_ERROR, log(high / low) / (2 * NORMAL_95))
        rows.append((float(own.budget), log(own.curve_minimum), error))
    return SizedDepths(*np.array(rows).T.copy())


def _fit(name: str, points: SizedDepths) -> Law | None:
    """The law by weighted least squares in ln depth; None when the fit does not converge."""
    variance = scatter_variance(name, points)
    weighed = points.scattered(variance)
    line = least_squares(name, weighed)
    if line is None:
        return None
    slopes = depth_and_slopes(name, line, points.params)[1] / weighed.error[:, None]
    (aa, ab), (ba, bb) = np.linalg.pinv(slopes.T @ slopes).tolist()
    return Law(
        name=name,
        a=float(line[0]),
        b=float(line[1]),
        covariance=((aa, ab), (ba, bb)),
        degrees_of_freedom=len(points.params) - 2,
        params_range=(int(points.params.min()), int(points.params.max())),
        leave_one_out_error=None,
        scatter=sqrt(variance),
    )


def _leave_one_out(name: str, points: SizedDepths) -> float | None:
    """Mean |ln depth| error over the budgets; None when a fit fails."""
    errors = []
    for index in range(len(points.params)):
        law = _fit(name, points.without(index))
        if law is None:
            return None
        depth, _ = depth_and_slopes(name, np.array([law.a, law.b]), points.params[[index]])
        errors.append(abs(log(float(depth[0])) - float(points.log_depth[index])))
    return float(np.mean(errors))


def check_params(params: float) -> None:
    """Raises ValueError unless the size is a positive number."""
    if not (isfinite(params) and params > 0):
        raise ValueError(f"`params` must be a positive number, got {params}; for example 175e9")


def checked_depth(depth: float, params: float, law: str) -> float:
    """Returns the depth; raises ValueError unless a model can have it."""
    if not depth >= 1:
        raise ValueError(
            f"a model has at least one layer, but {law} gives depth {depth:.2f} at {params:.3g} "
            "parameters; ask for more parameters"
        )
    return depth
