"""The law through crossings of depths, `ln d_model = a + b * depth` (Levine et al. 2020).

The width is that of layers with `d_ff = 4 * d_model` which hold all parameters at the crossing:
sqrt(parameters / (12 * depth)). What `law.py` fits through the best depth of each budget is the
same law by another way.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.special import chdtrc

from fathom.search.analysis.depth_estimates import Array

FEWEST_CROSSINGS = 3
"""Fewest crossings: two parameters pass through any two; the third is the first that can disagree.
"""
DOUBT = 0.01
"""Significance level: a law is not supported when its residuals would be so large with less than
this probability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossingLaw:
    """The law through crossings, or the reason why there is none."""

    crossings: int
    """Number of crossings of neighbouring depths that the law is fitted to."""
    supported: bool
    reason: str
    """Judgement on the law in one sentence."""
    a: float | None = None
    b: float | None = None
    """Slope of ln d_model, for each layer. Both are None with fewer than three crossings."""
    a_interval: tuple[float, float] | None = None
    b_interval: tuple[float, float] | None = None
    """95 % interval of `b`."""


def fit_crossing_law(depths: Array, log_params: Array, drawn: Array) -> CrossingLaw:
    """The law through n crossings (n,), whose errors are those of their draws (n, draws)."""
    count = len(depths)
    if count < FEWEST_CROSSINGS:
        reason = (
            f"a law needs {FEWEST_CROSSINGS} crossings of neighbouring depths, and there "
            f"{'is' if count == 1 else 'are'} {count}"
        )
        return CrossingLaw(crossings=count, supported=False, reason=reason)
    widths = (log_params - np.log(12 * depths)) / 2
    drawn_widths = (drawn - np.log(12 * depths)[:, None]) / 2
    weights = np.linalg.pinv(np.cov(drawn_widths))
    design = np.stack([np.ones(count), depths], axis=1)
    solve = np.linalg.pinv(design.T @ weights @ design) @ design.T @ weights
    line = solve @ widths
    misses = widths - design @ line
    squares = float(misses @ weights @ misses)
    error_factor = sqrt(max(1.0, squares / (count - 2)))
    lines = line[:, None] + error_factor * (solve @ (drawn_widths - widths[:, None]))
    (a_low, b_low), (a_high, b_high) = np.quantile(lines, [0.025, 0.975], axis=1).tolist()
    chance = float(chdtrc(count - 2, squares))
    return CrossingLaw(
        crossings=count,
        supported=chance >= DOUBT and b_low > 0,
        reason=_judgement(b_low, b_high, chance),
        a=float(line[0]),
        b=float(line[1]),
        a_interval=(a_low, a_high),
        b_interval=(b_low, b_high),
    )


def _judgement(b_low: float, b_high: float, chance: float) -> str:
    """The judgement on a fitted law in one sentence."""
    if chance < DOUBT:
        return "no line goes through the crossings: they miss it by far more than they err"
    if b_low <= 0 <= b_high:
        return "the width at the crossing may as well not grow with depth: b may be 0"
    if b_high < 0:
        return "the width at the crossing falls with depth, against the law"
    return "the crossings miss the line by no more than their errors allow"
