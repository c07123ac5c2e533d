"""Fits a law of the best depth by maximum likelihood; some best depths are only bounded from one
side.

A best depth is measured, with a normal error of its ln, or bounded: it is at least (or at most)
some depth. A bound enters by the probability of that side (Tobin 1958). If all depths are measured,
this is weighted least squares. The likelihood of a law that is a line in ln depth has one maximum.

Each budget's best depth differs from the law by the error of the optimum, which is known, and,
since no law is exact, by an unknown scatter. Three to five budgets hardly determine the scatter, so
every law is fitted with the same scatters (`SCATTERS`), weighted by how well they explain the
residuals of measured depths.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np
from scipy.special import log_ndtr, logsumexp

from fathom.search.analysis.answer.optimum import Located
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.analysis.losses.depth_estimates import Array

Form = Callable[[Array, Array], tuple[Array, Array]]
"""Function of constants (k,) and sizes (n,), or sizes and tokens (n, 2), that returns depths (n,)
and the derivatives of ln depth by the constants, (n, k). Depths are NaN for invalid constants."""

SCATTERS = {
    0.0: 0.34, 0.02: 0.11, 0.04: 0.11, 0.07: 0.1, 0.1: 0.1, 0.15: 0.09, 0.25: 0.09, 0.5: 0.06,
}  # fmt: skip
"""Standard deviation of ln best depth about a law, beyond its errors -> prior probability. Chosen
on simulated laws; `python -m benchmarks.answers.laws.law_scatter` compares other choices."""
SETTLED = 1e-9
"""Change of ln depth below which a fit has converged."""
MOST_STEPS = 100
SMALLEST_STEP = 1e-6
"""Smallest share of a Newton step that is tried."""
ROUNDING = 1e-12
"""Relative decrease of a likelihood that counts as due to rounding."""
NORMAL_95 = 1.96
"""Standard errors on each side of a 95 % interval."""
SMALLEST_ERROR = 0.01
"""Smallest standard error of ln depth: no optimum counts as known to better than one percent."""
AT_END = 1e-6
"""Relative distance within which an end of an interval equals a depth, as depths are computed from
logarithms."""
MOSTLY_BEYOND = 0.5
"""Share of an edge's draws without a lowest point inside the tested range, from which on the best
depth counts as only bounded."""


@dataclass(frozen=True, slots=True)
class SizedDepths:
    """Best depths of sizes as points for a law: ln depth, its standard error and its side, each
    (sizes,)."""

    params: Array
    """Sizes, (sizes,), or sizes and tokens, (sizes, 2), for a law over both."""
    log_depth: Array
    error: Array
    side: Array
    """0 for a measured depth, 1 where the best depth is at least this depth, -1 where it is at most
    this."""

    def at(self, kept: Array) -> "SizedDepths":
        """The subset of the points that `kept` selects, a boolean mask over sizes."""
        columns = (self.params, self.log_depth, self.error, self.side)
        return SizedDepths(*(column[kept] for column in columns))

    def left_out(self) -> "Iterator[tuple[SizedDepths, SizedDepths]]":
        """Yields, for each size, the points of all other sizes, and the points of that size."""
        sizes = self.params if self.params.ndim == 1 else self.params[:, 0]
        for size in np.unique(sizes):
            yield self.at(sizes != size), self.at(sizes == size)

    @property
    def measured(self) -> "SizedDepths":
        """The measured points."""
        return self.at(self.side == 0)

    @property
    def hold_a_line(self) -> bool:
        """True if the points determine a line: two are measured, or one is, and bounds limit the
        slope from below and above."""
        measured = self.measured.params
        if len(measured) != 1:
            return len(measured) > 1
        turns = self.side * np.sign(self.params - measured[0])
        return bool((turns > 0).any() and (turns < 0).any())

    def scattered(self, variance: float) -> "SizedDepths":
        """The points with `variance`, of the scatter between sizes, added to their squared
        errors."""
        return replace(self, error=np.sqrt(self.error**2 + variance))

    def misses(self, log_depth: Array) -> Array:
        """Predicted minus measured ln depth, (sizes,); 0 for predictions on the right side of a
        bound."""
        deeper = log_depth - self.log_depth
        return np.where(self.side == 0, deeper, self.side * np.minimum(0.0, self.side * deeper))

    def unlikelihood(self, log_depth: Array) -> float:
        """The negative log-likelihood of predicted ln depths, (sizes,); infinite if one is NaN."""
        z = (log_depth - self.log_depth) / self.error
        each = np.where(self.side == 0, z**2 / 2, -log_ndtr(self.side * z))
        return float(np.inf if np.isnan(each).any() else each.sum())

    def pull(self, log_depth: Array) -> tuple[Array, Array]:
        """Derivative of the log-likelihood by each ln depth in units of its standard error, and the
        information of each point, 1 for a measured one; (sizes,) each."""
        z = (log_depth - self.log_depth) / self.error
        beyond = self.side * z
        # The normal density over the probability beyond the bound, without underflow.
        hazard = np.exp(-(beyond**2) / 2 - log_ndtr(beyond)) / np.sqrt(2 * np.pi)
        measured = self.side == 0
        information = np.clip(hazard * (beyond + hazard), 1e-12, 1.0)
        return np.where(measured, -z, self.side * hazard), np.where(measured, 1.0, information)


@dataclass(frozen=True, slots=True)
class LawFit:
    """Constants of a law, with their covariance and the scatter of budgets about it."""

    constants: Array
    covariance: Array
    scatter: float
    log_evidence: float = 0.0
    """Log-likelihood of the points with the constants integrated out, under a flat prior of ln
    depth at the fitted sizes; up to a constant that is the same for all laws of these points."""


def sized_depths(optima: Sequence[Located]) -> SizedDepths:
    """Returns the points of usable optima. A 95 % interval is 3.92 standard errors wide."""
    return SizedDepths(*np.array([_point(optimum) for optimum in optima]).T.copy())


def _point(optimum: Located) -> tuple[float, float, float, float]:
    low, high = optimum.curve_minimum_interval
    below, above = log(optimum.curve_minimum / low), log(high / optimum.curve_minimum)
    cut_below, cut_above = cut_sides(optimum)
    # A side that ends with the tested depths says less than the other of how far the depth is off.
    whole = [width for width, cut in ((below, cut_below), (above, cut_above)) if not cut]
    width = sum(whole) / len(whole) if whole else max(below, above)
    error = max(SMALLEST_ERROR, width / NORMAL_95)
    side = 0.0
    if optimum.kind is Kind.EDGE and optimum.share_without_minimum >= MOSTLY_BEYOND:
        at_first, at_last = _at_ends(optimum)
        side = 1.0 if at_last else -1.0 if at_first else 0.0
    return float(optimum.budget), log(optimum.curve_minimum), error, side


def cut_sides(optimum: Located) -> tuple[bool, bool]:
    """For the low and the high end of an optimum's interval, True if it is an end of the tested
    depths; False for the fewest layers that such a model can have."""
    at_first, at_last = _at_ends(optimum)
    return at_first and optimum.depths[0].depth > optimum.least_depth, at_last


def _at_ends(optimum: Located) -> tuple[bool, bool]:
    if not optimum.depths:
        return False, False
    low, high = optimum.curve_minimum_interval
    first, last = optimum.depths[0].depth, optimum.depths[-1].depth
    return low <= first * (1 + AT_END), high >= last * (1 - AT_END)


def fit_form(form: Form, points: SizedDepths, start: Array) -> LawFit | None:
    """The constants of a law, fitted from `start`, and the scatter about it: means over `SCATTERS`,
    weighted by their evidence. None if no fit converges."""
    fits: list[LawFit] = []
    for scatter in SCATTERS:
        if fit := _fit_with(scatter, form, points, fits[-1].constants if fits else start):
            fits.append(fit)
    if not fits:
        return None
    evidence = np.array([fit.log_evidence + log(SCATTERS[fit.scatter]) for fit in fits])
    shares = np.exp(evidence - logsumexp(evidence))
    each = np.array([fit.constants for fit in fits])
    constants = shares @ each
    between = (each - constants).T * shares @ (each - constants)
    within = np.einsum("s,skl->kl", shares, np.array([fit.covariance for fit in fits]))
    variance = shares @ np.array([fit.scatter for fit in fits]) ** 2
    return LawFit(constants, within + between, sqrt(variance), float(logsumexp(evidence)))


def _fit_with(scatter: float, form: Form, points: SizedDepths, start: Array) -> LawFit | None:
    """The most likely constants of a law when budgets have this `scatter` in ln depth; None if the
    fit does not converge, or the points do not determine all constants."""
    weighed = points.scattered(scatter**2)
    constants = most_likely(form, weighed, start)
    if constants is None:
        return None
    depth, slopes = form(constants, points.params)
    design = weighted_slopes(form, constants, weighed)
    information = design.T @ design
    (free, at_sizes), (sure, known) = map(np.linalg.slogdet, (slopes.T @ slopes, information))
    if not (free > 0 and sure > 0):
        return None
    likely = -weighed.unlikelihood(np.log(depth)) - np.log(weighed.measured.error).sum()
    covariance = np.asarray(np.linalg.pinv(information), dtype=np.float64)
    return LawFit(constants, covariance, scatter, float(likely + (at_sizes - known) / 2))


def weighted_slopes(form: Form, constants: Array, points: SizedDepths) -> Array:
    """Derivatives of ln depth by the constants, divided by each point's standard error and
    multiplied by the root of its information; (sizes, constants)."""
    depth, slopes = form(constants, points.params)
    _, information = points.pull(np.log(depth))
    return np.asarray(slopes / points.error[:, None] * np.sqrt(information)[:, None])


def most_likely(form: Form, points: SizedDepths, start: Array) -> Array | None:
    """The most likely constants, by Newton's method with a halved step where the fit gets worse;
    None if the method does not converge."""
    constants = np.array(start, dtype=np.float64)
    depth, slopes = form(constants, points.params)
    worst = points.unlikelihood(np.log(depth))
    for _ in range(MOST_STEPS):
        if not np.isfinite(worst):
            return None
        pull, information = points.pull(np.log(depth))
        design = slopes / points.error[:, None] * np.sqrt(information)[:, None]
        step = np.linalg.lstsq(design, pull / np.sqrt(information), rcond=None)[0]
        if np.abs(slopes @ step).max() < SETTLED:
            return constants
        share, limit = 1.0, worst * (1 + ROUNDING) + ROUNDING
        while share > SMALLEST_STEP:
            depth, slopes = form(constants + share * step, points.params)
            unlikely = points.unlikelihood(np.log(depth))
            if unlikely <= limit:
                break
            share /= 2
        constants, worst = constants + share * step, unlikely
    return None


def leave_one_out(
    fitted: Callable[[SizedDepths], tuple[Form, LawFit] | None], points: SizedDepths
) -> float | None:
    """Mean absolute error of ln depth when the points of each size are predicted from the others;
    None when a fit fails."""
    missed: list[float] = []
    for others, left in points.left_out():
        found = fitted(others)
        if found is None:
            return None
        form, fit = found
        missed += np.abs(left.misses(np.log(form(fit.constants, left.params)[0]))).tolist()
    return float(np.mean(missed))
