"""The law of the lowest loss over parameters and tokens: `E + A N^-alpha + B D^-beta`.

It is fitted to the lowest losses of several budgets at several horizons (Hoffmann et al. 2022,
approach 3), by least squares. Draws of the constants come from a parametric bootstrap, with errors
of single losses and errors common to a budget, since the correlation of errors is not known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log, sqrt

import numpy as np
from scipy.optimize import least_squares

from fathom.models.spend import Coin
from fathom.search.analysis.answer.optimum import Located, Optimum
from fathom.search.analysis.laws.law import usable
from fathom.search.analysis.laws.token_law import tells_apart
from fathom.search.analysis.losses.depth_estimates import Array, excess_variance

CONSTANTS = 5
FEWEST_LOSSES = 7
"""Fewest losses for a law: its five constants fit any five exactly, and only more can disagree."""
FEWEST_LEVELS = 3
"""Fewest sizes, and fewest numbers of tokens, to tell a power from a floor."""
EXPONENTS = (0.03, 1.5)
"""Smallest and largest exponent of a fit; published ones lie between 0.05 and 0.8."""
STARTS = ((0.2, 0.2), (0.2, 0.5), (0.5, 0.2), (0.5, 0.5))
"""Exponents from which fits start; the fit with the least misfit counts."""
DRAWS = 300
WIDEST = 4.0
"""Largest factor between the ends of an exponent's 95 % interval at which it counts as determined.
"""
LEAST_ERROR = 1e-4
"""Smallest standard error of a lowest loss, nats."""
NO_FIT = 50.0
"""Largest logarithm of a term of the law, which prevents overflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LowestLoss:
    """The loss at the best depth of a budget after some tokens."""

    params: int
    tokens: int
    loss: float
    error: float
    """Standard error, nats."""
    curvature: float | None
    """Cost in nats of a depth one unit of ln depth away from the best; None where the curve has no
    lowest point."""


@dataclass(frozen=True, kw_only=True)
class LossLaw:
    """A fitted law of the lowest loss, with draws of its constants."""

    losses: tuple[LowestLoss, ...]
    scatter: float
    """Standard deviation of lowest losses about the law beyond their errors, nats."""
    constants: Array
    """ln E; ln of the two other terms at the middle of the ladder; alpha; beta. (5,)"""
    draws: Array
    """Draws of the constants; (draws, 5)."""

    @property
    def middle(self) -> tuple[float, float]:
        """ln parameters and ln tokens at the middle of the ladder."""
        return _middle(self.losses)

    @cached_property
    def alpha_interval(self) -> tuple[float, float]:
        """95 % interval of the exponent of parameters."""
        return interval_of(self.draws[:, 3])

    @cached_property
    def beta_interval(self) -> tuple[float, float]:
        """95 % interval of the exponent of tokens."""
        return interval_of(self.draws[:, 4])

    def loss(self, constants: Array, params: Array, tokens: Array) -> Array:
        """Losses, nats, (k, n), for rows of constants (k, 5) at sizes and tokens (n,) each."""
        at = np.stack([np.log(params), np.log(tokens)], axis=-1) - np.array(self.middle)
        return _losses(constants, at)


def lowest_losses(optima: Sequence[Optimum]) -> tuple[LowestLoss, ...]:
    """The lowest loss of each optimum that laws are fitted to."""
    counted = [o for o in usable(optima) if o.count.of_parameters and o.spend.coin is Coin.TOKENS]
    return tuple(_lowest(optimum) for optimum in counted)


def _lowest(optimum: Located) -> LowestLoss:
    return LowestLoss(
        params=optimum.budget,
        tokens=optimum.tokens,
        loss=optimum.expected_loss,
        error=max(LEAST_ERROR, lowest_loss_error(optimum)),
        curvature=optimum.curvature,
    )


def lowest_loss_error(optimum: Located) -> float:
    """Standard error of the lowest loss, nats: that of the measured depth nearest to the best
    depth."""
    beside = min(optimum.depths, key=lambda known: abs(log(known.depth / optimum.expected_depth)))
    return beside.standard_error


def why_no_loss_law(losses: Sequence[LowestLoss]) -> str:
    """The reason why no law can be fitted to these losses, as the end of a sentence; empty if one
    can."""
    sizes = len({known.params for known in losses})
    horizons = len({known.tokens for known in losses})
    if len(losses) < FEWEST_LOSSES or sizes < FEWEST_LEVELS or horizons < FEWEST_LEVELS:
        return (
            f"a law of loss needs {FEWEST_LEVELS} sizes and {FEWEST_LEVELS} horizons, and "
            f"{FEWEST_LOSSES} losses among them, got {len(losses)} of {sizes} sizes"
        )
    if not tells_apart(np.array([[known.params, known.tokens] for known in losses], dtype=float)):
        return "the horizons have about equally many tokens per parameter at every size"
    return ""


def fit_loss_law(losses: Sequence[LowestLoss], *, seed: int = 0) -> LossLaw | None:
    """The law through the lowest losses; None if `why_no_loss_law` has a reason."""
    if why_no_loss_law(losses):
        return None
    at, measured, errors = _columns(losses)

    def misses(variance: float) -> tuple[Array, Array] | None:
        weights = np.sqrt(errors**2 + variance)
        found = _best_fit(at, measured, weights)
        return ((_losses(found, at) - measured) / weights, weights)

    variance = excess_variance(misses, len(losses) - CONSTANTS)
    weights = np.sqrt(errors**2 + variance)
    constants = _best_fit(at, measured, weights)
    generator = np.random.default_rng(seed)
    _, budget = np.unique(at[:, 0], return_inverse=True)
    said = _losses(constants, at)
    draws = [
        _fit(at, said + weights * (own + once[budget]), weights, constants)[0]
        for own, once in zip(
            generator.standard_normal((DRAWS, len(at))),
            generator.standard_normal((DRAWS, budget.max() + 1)),
            strict=True,
        )
    ]
    return LossLaw(
        losses=tuple(losses), scatter=sqrt(variance), constants=constants, draws=np.array(draws)
    )


def is_determined(interval: tuple[float, float]) -> bool:
    """True if an exponent is known to a factor of `WIDEST`, and not limited by the bounds of the
    fit."""
    low, high = interval
    return EXPONENTS[0] * 1.01 < low and high < EXPONENTS[1] * 0.99 and high / low <= WIDEST


def interval_of(values: Array) -> tuple[float, float]:
    """Both ends of the central 95 % of the draws."""
    low, high = np.quantile(values, [0.025, 0.975]).tolist()
    return low, high


def _middle(losses: Sequence[LowestLoss]) -> tuple[float, float]:
    params, tokens = np.log([[known.params, known.tokens] for known in losses]).mean(axis=0)
    return float(params), float(tokens)


def _columns(losses: Sequence[LowestLoss]) -> tuple[Array, Array, Array]:
    """ln size and ln tokens minus the middle, (n, 2), the losses, (n,), and their errors, (n,)."""
    at = np.log([[known.params, known.tokens] for known in losses]) - np.array(_middle(losses))
    measured = np.array([[known.loss, known.error] for known in losses]).T
    return at, measured[0], measured[1]


def _losses(constants: Array, at: Array) -> Array:
    """Losses (..., n) for constants (..., 5) at ln size and ln tokens minus the middle, (n, 2)."""
    floor, size, data, alpha, beta = np.moveaxis(constants[..., None], -2, 0)
    terms = (floor, size - alpha * at[:, 0], data - beta * at[:, 1])
    return np.asarray(sum(np.exp(np.minimum(term, NO_FIT)) for term in terms))


def _best_fit(at: Array, measured: Array, errors: Array) -> Array:
    """The likeliest constants from several starts."""
    spread = max(float(np.ptp(measured)), 1e-3)
    floor = log(max(float(measured.min()) - spread, 0.1 * abs(float(measured.min()))))
    starts = [np.array([floor, log(spread), log(spread), *pair]) for pair in STARTS]
    fits = [_fit(at, measured, errors, start) for start in starts]
    return min(fits, key=lambda fit: fit[1])[0]


def _fit(at: Array, measured: Array, errors: Array, start: Array) -> tuple[Array, float]:
    """Constants by least squares from `start`, and half of the sum of squared residuals."""
    low, high = np.array([[-20.0, -20.0, -20.0], [3.0, 3.0, 3.0]])
    bounds = (np.append(low, [EXPONENTS[0]] * 2), np.append(high, [EXPONENTS[1]] * 2))

    def misses(constants: Array) -> Array:
        return np.asarray((_losses(constants, at) - measured) / errors)

    def slopes(constants: Array) -> Array:
        return np.asarray(_slopes(constants, at) / errors[:, None])

    found = least_squares(
        misses,
        np.clip(start, bounds[0] + 1e-6, bounds[1] - 1e-6),
        jac=slopes,
        bounds=bounds,
        x_scale=(1.0, 1.0, 1.0, 0.3, 0.3),
        max_nfev=200,
    )
    return np.asarray(found.x, dtype=np.float64), float(found.cost)


def _slopes(constants: Array, at: Array) -> Array:
    """Derivatives of the losses by the constants; (n, 5)."""
    floor, size, data, alpha, beta = constants
    of_size, of_data = np.exp(size - alpha * at[:, 0]), np.exp(data - beta * at[:, 1])
    whole = np.full(len(at), np.exp(floor))
    return np.stack([whole, of_size, of_data, -at[:, 0] * of_size, -at[:, 1] * of_data], axis=1)
