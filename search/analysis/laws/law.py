"""Scaling laws of the best depth with the size of a model, fitted across budgets.

Two laws. Logarithmic (Levine et al. 2020): `ln d_model = a + b * depth` for models of 12 * depth *
d_model**2 parameters, so depth grows about as the logarithm of size. Power: `ln depth = a + b * ln
params`. Both are fitted to the same depths, in ln depth, so that their errors can be compared
(`law_fit.py`). `null_laws.py` has the laws that claim less.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import exp, inf, isfinite, log, sqrt
from statistics import median
from typing import Protocol

import numpy as np
from scipy.special import wrightomega

from fathom.search.analysis.answer.optimum import DepthCost, Located, Optimum
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.analysis.laws.law_fit import (
    NORMAL_95,
    Form,
    LawFit,
    SizedDepths,
    cut_sides,
    fit_form,
    leave_one_out,
    sized_depths,
)
from fathom.search.analysis.losses.depth_estimates import Array

LOGARITHMIC = "logarithmic"
POWER = "power"

SMALLEST_GROWTH = 1e-3
"""Smallest growth of ln depth over the sizes; below it, `b` of a logarithmic law would be
unbounded.
"""
FEWEST_BUDGETS = 3
"""Fewest budgets: a law of two parameters passes through any two, and only a third can disagree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The prediction of a law for one size."""

    params: float
    law: str
    depth: float
    d_model: float | None
    """Width at which layers with `d_ff = 4 * d_model` have `params` parameters in total."""
    interval: tuple[float, float] | None
    """95 % interval for the best depth of a budget of this size; None when the law comes without
    errors."""
    extrapolated: bool
    """True if the size, or the tokens, lie outside the range that the law was fitted to."""
    tokens: float | None = None
    """Training tokens at which the depth is best; None for a law over sizes alone."""


class DepthLaw(Protocol):
    """A law of the best depth, fitted or published, over sizes alone or over tokens as well."""

    def predict(self, params: float, tokens: float | None = None) -> Prediction:
        """The best depth for a number of parameters and of training tokens. A law over sizes alone
        ignores `tokens`: it holds at the tokens of its budgets.

        Raises:
            ValueError: when the law has no depth of at least 1 there, or needs `tokens`.
        """
        ...


def predictions(
    law: DepthLaw, sizes: Iterable[float], tokens: float | None = None
) -> Iterator[Prediction]:
    """Yields the predictions of a law, without sizes at which it has no depth."""
    for size in sizes:
        with suppress(ValueError):
            yield law.predict(size, tokens)


def nats_away(depth: float, best: float, curvature: float) -> float:
    """Cost in nats of `depth` when `best` is the best depth; `curvature` is the cost of a unit of
    ln depth."""
    return curvature * log(depth / best) ** 2


def price(depth: int, prediction: Prediction, curvature: float) -> DepthCost:
    """Cost of a depth compared with the predicted best one; its interval has the least and the most
    cost over the prediction's interval. `curvature` is the cost, nats, of a unit of ln depth."""
    low, high = prediction.interval or (prediction.depth, prediction.depth)
    ends = sorted(nats_away(depth, best, curvature) for best in (low, high))
    least = 0.0 if low <= depth <= high else ends[0]
    nats = nats_away(depth, prediction.depth, curvature)
    return DepthCost(depth=depth, nats=nats, interval=(least, ends[1]))


def usual_curvature(budgets: Iterable[float | None]) -> float | None:
    """The median curvature of the budgets that have one, nats per squared unit of ln depth; None
    without any."""
    rising = [curvature for curvature in budgets if curvature is not None]
    return median(rising) if rising else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """A law fitted across the budgets of a study; its `params` are counted as the study counts."""

    name: str
    """`logarithmic` or `power`."""
    a: float
    b: float
    covariance: tuple[tuple[float, float], tuple[float, float]]
    """Covariance of (a, b)."""
    budgets: int
    """Number of budgets fitted."""
    bounds: int
    """Number of fitted budgets that only bound their best depth from one side."""
    params_range: tuple[int, int]
    """Smallest and largest budget fitted."""
    leave_one_out_error: float | None
    """Mean error of ln depth when each budget is predicted from the others.

    None when the law can't be fitted without one of the budgets.
    """
    scatter: float = 0.0
    """Standard deviation of ln depth about the line, beyond the errors of the optima."""

    @property
    def degrees_of_freedom(self) -> int:
        """Number of measured budgets minus two, from which the scatter is estimated."""
        return self.budgets - self.bounds - 2

    def predict(self, params: float, tokens: float | None = None) -> Prediction:
        """The predicted depth and width for a number of parameters, whatever the `tokens`.

        The interval is for the true best depth of a new budget of this size, with the error of the
        line and the scatter about it. The chance that another law is true is included only in the
        interval of `WeighedLaws.predict`.

        Raises:
            ValueError: when the law has no depth of at least 1 there.
        """
        return predict_by(*self._fitted, params, self.params_range, law=self.name)

    def depth_at(self, params: float) -> tuple[float, float]:
        """The depth at a size, possibly below 1, and the variance of ln best depth of a new budget
        of this size."""
        return _depth_at(*self._fitted, np.array([params], dtype=np.float64))

    @property
    def _fitted(self) -> tuple[Form, LawFit]:
        fit = LawFit(np.array([self.a, self.b]), np.array(self.covariance), self.scatter)
        return partial(depth_and_slopes, self.name), fit


def predict_by(
    form: Form, fit: LawFit, params: float, params_range: tuple[int, int], *, law: str,
    tokens: float | None = None,
) -> Prediction:  # fmt: skip
    """The prediction of a fitted law at a size or, if `tokens` are given, at a size and tokens.

    Raises:
        ValueError: when the law has no depth of at least 1 there.
    """
    check_params(params)
    at = np.array([params] if tokens is None else [[params, tokens]])
    depth, variance = _depth_at(form, fit, at)
    factor = exp(min(700.0, NORMAL_95 * sqrt(variance)))
    words = f"the {law}" if tokens else f"the fitted {law} law"
    checked_depth(depth, params, words)
    low, high = params_range
    return Prediction(
        params=params,
        law=law,
        depth=depth,
        d_model=sqrt(params / (12 * depth)),
        interval=(max(1.0, depth / factor), depth * factor),
        extrapolated=not low <= params <= high,
        tokens=tokens,
    )


def _depth_at(form: Form, fit: LawFit, at: Array) -> tuple[float, float]:
    """The depth of a law at one size, and the variance of ln best depth of a new budget of this
    size."""
    depths, slopes = form(fit.constants, at)
    return float(depths[0]), float(slopes[0] @ fit.covariance @ slopes[0]) + fit.scatter**2


def depth_and_slopes(name: str, line: Array, params: Array) -> tuple[Array, Array]:
    """Depths (n,) for sizes (n,), and the slopes of their ln in a and b (n, 2).

    For the logarithmic law, which needs b > 0, it is the depth L at which 12 L exp(2a + 2bL) equals
    `params`: W(2b params / (12 exp(2a))) / 2b with Lambert's W, computed from the logarithm of its
    argument, which can't overflow.
    """
    a, b = float(line[0]), float(line[1])
    if name == POWER:
        slopes = np.stack([np.ones_like(params), np.log(params)], axis=1)
        return np.exp(slopes @ line), slopes
    if not b > 0:
        return np.full_like(params, np.nan), np.zeros((len(params), 2))
    depth = wrightomega(np.log(params / 12 * 2 * b) - 2 * a) / (2 * b)
    slopes = np.stack([np.full_like(depth, -2.0), -2 * depth], axis=1)
    return depth, slopes / (1 + 2 * b * depth)[:, None]


def usable(optima: Sequence[Optimum]) -> tuple[Located, ...]:
    """The optima that laws are fitted to: settled ones, and edges that say on which side the best
    depth lies."""
    known = (optimum for optimum in optima if isinstance(optimum, Located))
    return tuple(optimum for optimum in known if optimum.kind.settled or _is_bound(optimum))


def _is_bound(optimum: Located) -> bool:
    return optimum.kind is Kind.EDGE and not all(cut_sides(optimum))


def fit_laws(optima: Sequence[Optimum]) -> tuple[Law, ...]:
    """The laws that fit, best first; empty with too few usable budgets.

    The best law has the lowest leave-one-out error; a law that can't be fitted without one of the
    budgets comes last. The logarithmic law is left out where depth does not grow with size, or
    grows in proportion to size.
    """
    return tuple(laws_with_evidence(optima))


def laws_with_evidence(optima: Sequence[Optimum]) -> dict[Law, float]:
    """The laws of `fit_laws` in their order, each with its log evidence."""
    points = law_points(optima)
    if points is None:
        return {}
    fits = {name: fit for name in (LOGARITHMIC, POWER) if (fit := _fit(name, points))}
    laws = {_law(name, fit, points): fit.log_evidence for name, fit in fits.items()}
    best_first = sorted(laws, key=lambda law: inf if (e := law.leave_one_out_error) is None else e)
    return {law: laws[law] for law in best_first}


def law_points(optima: Sequence[Optimum]) -> SizedDepths | None:
    """The points that laws are fitted to; None where there are too few."""
    fitted = [optimum for optimum in usable(optima) if optimum.count.of_parameters]
    return sized_depths(fitted) if len(fitted) >= FEWEST_BUDGETS else None


def _law(name: str, fit: LawFit, points: SizedDepths) -> Law:
    (aa, ab), (ba, bb) = fit.covariance.tolist()
    a, b = fit.constants.tolist()
    return Law(
        name=name,
        a=a,
        b=b,
        covariance=((aa, ab), (ba, bb)),
        budgets=len(points.params),
        bounds=int(np.count_nonzero(points.side)),
        params_range=(int(points.params.min()), int(points.params.max())),
        leave_one_out_error=leave_one_out(partial(_form_and_fit, name), points),
        scatter=fit.scatter,
    )


def _form_and_fit(name: str, points: SizedDepths) -> tuple[Form, LawFit] | None:
    fit = _fit(name, points)
    return (partial(depth_and_slopes, name), fit) if fit else None


def _fit(name: str, points: SizedDepths) -> LawFit | None:
    """The fit of a law to the points; None where they do not determine a line, or the law does not
    fit."""
    if not points.hold_a_line:
        return None
    start = _straight_line(name, points)
    fit = fit_form(partial(depth_and_slopes, name), points, start)
    if fit is None or name == POWER:
        return fit
    depth, _ = depth_and_slopes(name, fit.constants, points.params)
    return fit if np.ptp(np.log(depth)) > SMALLEST_GROWTH else None


def _straight_line(name: str, points: SizedDepths) -> Array:
    """The law's constants by a straight line: exact for the power law, and a starting point for the
    logarithmic law, whose x has errors."""
    depth = np.exp(points.log_depth)
    if name == POWER:
        x, y = np.log(points.params), points.log_depth
    else:
        x, y = depth, np.log(points.params / (12 * depth)) / 2
    design = np.stack([np.ones_like(x), x], axis=1) / points.error[:, None]
    found = np.linalg.lstsq(design, y / points.error, rcond=None)[0]
    return np.asarray(found, dtype=np.float64)


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
