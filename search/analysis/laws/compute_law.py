"""The law of the lowest loss over the compute of a ladder of budgets: `L = E + A C^-g`.

A few budgets do not determine the floor E and the exponent g, but show well how fast the loss falls
around them. So there is no single best fit: floors, exponents and scatters on a grid are weighted
by how well they fit the losses, and draws from the grid convert a loss above the best to compute.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from fathom.models.spend import Coin
from fathom.search.analysis.answer.optimum import DepthCost, Optimum
from fathom.search.analysis.laws.law import usable
from fathom.search.analysis.laws.loss_law import LEAST_ERROR, interval_of, lowest_loss_error
from fathom.search.analysis.losses.depth_estimates import Array
from fathom.search.analysis.losses.scaled_shape import FLOPS_OF_A_PARAMETER

FEWEST_BUDGETS = 2
"""Fewest budgets: two show how fast the loss falls between them; the grid allows for the
curvature."""
EXPONENTS = np.geomspace(0.02, 1.0, 120)
"""Exponents g on the grid; published ones lie between 0.05 and 0.2."""
FLOOR_SHARES = np.linspace(0.0, 0.99, 120)
"""Floors E on the grid, as shares of the lowest loss."""
SCATTERS = np.array([0.0, 0.001, 0.002, 0.005, 0.01, 0.02])
"""Scatters on the grid: standard deviations of losses about the law beyond their errors, nats."""
DRAWS = 1000
WIDEST = 4.0
"""Largest factor between the ends of the slope's 95 % interval at which it counts as determined."""
BEYOND = 10.0
"""Factor below the ladder's least compute down to which the law is used."""
ALIKE = 1.1
"""Largest factor between the tokens of budgets at which they count as equal."""
HALF_WIDTH = 1.96
"""Standard deviations from the middle of a normal distribution to the ends of its central 95 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeMultiple:
    """Compute that a depth needs to reach the loss of the best depth, as a multiple: 1.06 is 6 %
    more."""

    middle: float
    interval: tuple[float, float]
    """95 % interval of `middle`."""


@dataclass(frozen=True, kw_only=True)
class ComputeLaw:
    """Law of the loss over compute, as draws of its constants."""

    least: float
    """Compute of the smallest budget, FLOPs."""
    middle: float
    """Compute at which `gains` are stated, FLOPs."""
    tokens_grow: bool
    """True if larger budgets of the ladder train on more tokens."""
    gains: Array
    """Loss above the floor at `middle`, nats; (draws,)."""
    exponents: Array
    """Exponents g; (draws,)."""

    def multiple(self, optimum: Optimum, cost: DepthCost) -> ComputeMultiple | None:
        """Cost of a depth as a multiple of its budget's compute; None where `multiple_at` is None,
        or the compute is not known."""
        compute = training_flops(optimum)
        return self.multiple_at(compute, cost) if compute else None

    def multiple_at(self, compute: float, cost: DepthCost) -> ComputeMultiple | None:
        """Cost of a depth as a multiple of `compute`, in FLOPs.

        The best depth would reach this depth's loss with `compute / multiple`. None where the
        ladder does not determine how fast the loss falls there, or the loss is far above that of
        the smallest budget.
        """
        above = self.gains * (compute / self.middle) ** -self.exponents
        low, high = interval_of(above * self.exponents)
        if high > WIDEST * low:
            return None
        multiples = np.maximum(0.0, 1 + _draws(cost, len(above)) / above) ** (1 / self.exponents)
        middle = float(np.median(multiples))
        if middle > BEYOND * compute / self.least:
            return None
        return ComputeMultiple(middle=middle, interval=interval_of(multiples))


def training_flops(optimum: Optimum) -> float | None:
    """FLOPs of a training of the best shape to the end: exact for a study, 6 per parameter and
    token for a table; None if not known."""
    if optimum.spend.coin is Coin.FLOPS:
        return optimum.spend.amount
    if optimum.shape:
        return optimum.shape.train_flops_per_token * optimum.tokens
    if optimum.count.of_parameters and optimum.spend.coin is Coin.TOKENS:
        return FLOPS_OF_A_PARAMETER * optimum.budget * optimum.tokens
    return None


def _draws(cost: DepthCost, number: int) -> Array:
    """Draws of a depth's loss above the best, from the interval of its cost; (number,)."""
    errors = np.random.default_rng(0).standard_normal(number) / HALF_WIDTH
    low, high = cost.interval
    return np.asarray(cost.nats + errors * np.where(errors > 0, high - cost.nats, cost.nats - low))


def fit_compute_law(optima: Sequence[Optimum]) -> ComputeLaw | None:
    """The law through the lowest losses of budgets at one horizon; None with fewer than two budgets
    that have a best depth and known compute."""
    known = [(o, training_flops(o), lowest_loss_error(o)) for o in usable(optima)]
    points = [(o, flops, error) for o, flops, error in known if flops and error < inf]
    if len({flops for _, flops, _ in points}) < FEWEST_BUDGETS:
        return None
    compute = np.array([flops for _, flops, _ in points])
    losses = np.array([optimum.expected_loss for optimum, _, _ in points])
    errors = np.array([max(LEAST_ERROR, error) for _, _, error in points])
    middle = float(np.exp(np.log(compute).mean()))
    tokens = [optimum.tokens for optimum, _, _ in points]
    gains, exponents = _weighed(np.log(compute / middle), losses, errors)
    return ComputeLaw(
        least=float(compute.min()),
        middle=middle,
        tokens_grow=max(tokens) > ALIKE * min(tokens),
        gains=gains,
        exponents=exponents,
    )


def _weighed(at: Array, losses: Array, errors: Array) -> tuple[Array, Array]:
    """Draws of the gain and of the exponent, each (draws,), from losses (n,) at ln compute `at`
    (n,)."""
    terms = np.exp(-EXPONENTS[:, None] * at)
    above = losses - FLOOR_SHARES[:, None] * losses.min()
    weights = 1 / (errors**2 + SCATTERS[:, None] ** 2)
    square = np.einsum("sn,gn->sg", weights, terms**2)[:, None]
    gain = np.einsum("sn,fn,gn->sfg", weights, above, terms) / square
    misses = np.einsum("sn,fn->sf", weights, above**2)[:, :, None] - gain**2 * square
    chances = (np.log(weights).sum(axis=1)[:, None, None] - misses - np.log(square)) / 2
    shares = np.exp(chances - chances.max()).ravel()
    generator = np.random.default_rng(0)
    cells = generator.choice(len(shares), DRAWS, p=shares / shares.sum())
    scatter, _, exponent = np.unravel_index(cells, chances.shape)
    spread = 1 / np.sqrt(square[scatter, 0, exponent])
    drawn = gain.ravel()[cells] + generator.standard_normal(DRAWS) * spread
    return np.maximum(drawn, LEAST_ERROR), EXPONENTS[exponent]
