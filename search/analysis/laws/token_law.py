"""The law of depth over parameters and tokens: `ln depth = a + b ln params + c ln tokens`.

It is fitted to the best depths of several budgets at several horizons, like the laws over sizes
(`law_fit.py`). Best depths of one budget at several horizons may come from the same trainings, and
the correlation of their errors is not known. So the covariance is at least that of independent
errors, and at least that of one error shared by all horizons of a budget.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite, sqrt

import numpy as np

from fathom.models.shape import Count
from fathom.models.spend import Coin
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.laws.law import Prediction, check_params, predict_by, usable
from fathom.search.analysis.laws.law_fit import (
    NORMAL_95,
    Form,
    LawFit,
    SizedDepths,
    fit_form,
    leave_one_out,
    sized_depths,
    weighted_slopes,
)
from fathom.search.analysis.losses.depth_estimates import Array

FEWEST_POINTS = 4
"""Fewest best depths: three constants fit any three exactly, and only a fourth can disagree."""
LEAST_SPREAD = 0.25
"""Least standard deviation of ln size at equal tokens, and of ln tokens at equal size, to separate
their effects: about that of horizons a factor of 1.7 apart."""
NAME = "power law over parameters and tokens"
Row = tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLaw:
    """A law `ln depth = a + b ln params + c ln tokens`."""

    a: float
    b: float
    c: float
    """Drift: change of ln depth for each unit of ln tokens at a fixed size."""
    covariance: tuple[Row, Row, Row]
    """Covariance of (a, b, c)."""
    count: Count
    """Rule by which the sizes are counted."""
    points: int
    """Number of best depths fitted: one for each budget and horizon."""
    bounds: int
    """Number of the points that only bound the best depth from one side."""
    budgets: int
    """Number of sizes fitted."""
    params_range: tuple[int, int]
    """Smallest and largest size fitted."""
    tokens_range: tuple[int, int]
    """Fewest and most tokens fitted."""
    ratio_range: tuple[float, float]
    """Fewest and most tokens per parameter fitted."""
    leave_one_out_error: float | None
    """Mean error of ln depth when the horizons of each budget are predicted from the other budgets;
    None when the law can't be fitted without one of the budgets."""
    scatter: float = 0.0
    """Standard deviation of ln depth about the law, beyond the errors of the optima."""

    @property
    def drift_interval(self) -> tuple[float, float]:
        """95 % interval of `c`."""
        reach = NORMAL_95 * sqrt(self.covariance[2][2])
        return self.c - reach, self.c + reach

    def predict(self, params: float, tokens: float | None = None) -> Prediction:
        """The predicted depth and width for a number of parameters and of tokens.

        The interval is for the true best depth of a new budget of this size at this horizon, with
        the error of the law and the scatter about it.

        Raises:
            ValueError: when the law has no depth of at least 1 there, or `tokens` is None.
        """
        check_params(params)
        if tokens is None or not (isfinite(tokens) and tokens > 0):
            raise ValueError(f"`tokens` must be a positive number, got {tokens}; for example 20e9")
        line = np.array([self.a, self.b, self.c])
        fit = LawFit(line, np.array(self.covariance), self.scatter)
        found = predict_by(depth_of_both, fit, params, self.params_range, law=NAME, tokens=tokens)
        return replace(found, extrapolated=not self._reaches(params, tokens))

    def _reaches(self, params: float, tokens: float) -> bool:
        fitted = (
            (params, self.params_range),
            (tokens, self.tokens_range),
            (tokens / params, self.ratio_range),
        )
        return all(low <= value <= high for value, (low, high) in fitted)


def fit_token_law(optima: Sequence[Optimum]) -> TokenLaw | None:
    """The law through the best depths of several budgets at several horizons; None if these are too
    few, do not separate sizes from tokens, or are not in parameters and tokens."""
    counted = [o for o in usable(optima) if o.count.of_parameters and o.spend.coin is Coin.TOKENS]
    if len(counted) < FEWEST_POINTS:
        return None
    found = sized_depths(counted)
    tokens = np.array([float(optimum.tokens) for optimum in counted])
    points = replace(found, params=np.stack([found.params, tokens], axis=1))
    fit = _fit(points)
    return _law(fit, points, counted[0].count) if fit else None


def _law(fit: LawFit, points: SizedDepths, count: Count) -> TokenLaw:
    a, b, c = fit.constants.tolist()
    of_a, of_b, of_c = map(tuple, _cautious(fit, points).tolist())
    params, tokens = points.params.T
    ratios = tokens / params
    return TokenLaw(
        a=a,
        b=b,
        c=c,
        covariance=(of_a, of_b, of_c),
        count=count,
        points=len(params),
        bounds=int(np.count_nonzero(points.side)),
        budgets=len(np.unique(params)),
        params_range=(round(params.min()), round(params.max())),
        tokens_range=(round(tokens.min()), round(tokens.max())),
        ratio_range=(float(ratios.min()), float(ratios.max())),
        leave_one_out_error=leave_one_out(_form_and_fit, points),
        scatter=fit.scatter,
    )


def depth_of_both(line: Array, at: Array) -> tuple[Array, Array]:
    """Depths (n,) for sizes and tokens (n, 2), and the derivatives of ln depth by a, b and c (n,
    3)."""
    slopes = _slopes(at)
    return np.exp(slopes @ line), slopes


def _slopes(at: Array) -> Array:
    return np.column_stack([np.ones(len(at)), np.log(at)])


def _form_and_fit(points: SizedDepths) -> tuple[Form, LawFit] | None:
    fit = _fit(points)
    return (depth_of_both, fit) if fit else None


def _fit(points: SizedDepths) -> LawFit | None:
    """The fit to the points; None where the measured points do not separate sizes from tokens."""
    measured = points.measured
    if not tells_apart(measured.params):
        return None
    design = _slopes(measured.params) / measured.error[:, None]
    start = np.linalg.lstsq(design, measured.log_depth / measured.error, rcond=None)[0]
    return fit_form(depth_of_both, points, np.asarray(start, dtype=np.float64))


def tells_apart(at: Array) -> bool:
    """True if sizes and tokens, the columns of `at` (n, 2), each vary enough at equal values of the
    other."""
    if len(at) < 3:
        return False
    sizes, tokens = np.log(at).T
    return min(_spread_beside(sizes, tokens), _spread_beside(tokens, sizes)) >= LEAST_SPREAD


def _spread_beside(varied: Array, held: Array) -> float:
    """Standard deviation of `varied` about its regression line over `held`."""
    design = np.column_stack([np.ones(len(held)), held])
    line = np.linalg.lstsq(design, varied, rcond=None)[0]
    return float(np.std(varied - design @ line))


def _cautious(fit: LawFit, points: SizedDepths) -> Array:
    """The smallest covariance, (3, 3), that is at least that of independent errors, and at least
    that of one error shared by all horizons of a budget."""
    design = weighted_slopes(depth_of_both, fit.constants, points.scattered(fit.scatter**2))
    root = np.linalg.cholesky(fit.covariance)
    whitened = design @ root
    sizes = points.params[:, 0]
    together = np.stack([whitened[sizes == size].sum(axis=0) for size in np.unique(sizes)])
    shares, axes = np.linalg.eigh(together.T @ together)
    widened = root @ axes
    return np.asarray(widened * np.maximum(1.0, shares) @ widened.T, dtype=np.float64)
