"""The best size, its tokens and its depth as powers of the amount that trainings spend.

For size and tokens over compute, Hoffmann et al. 2022 find exponents near 0.5. Each amount is
weighted by the interval of its best size and depth. If amounts scatter about the law more than
these intervals allow, the scatter widens the intervals of the exponents.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np

from fathom.models.spend import Coin
from fathom.search.analysis.answer.optimum import Located, Optimum
from fathom.search.analysis.losses.depth_estimates import Array, excess_variance

FEWEST_AMOUNTS = 3
"""Fewest amounts with a settled size and depth: a line fits any two."""
WHOLE = 2 * 1.96
"""Width of the central 95 % of a normal distribution, in standard deviations."""
SMALLEST = 0.05
"""Smallest standard error of a logarithm, since a whole depth, or an index of sizes, is rounded.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerOfAmount:
    """A quantity as a power of the amount: `middle (C / C0)^exponent`."""

    quantity: str
    """`size`, `tokens` or `depth`."""
    exponent: float
    interval: tuple[float, float]
    """95 % interval of `exponent`."""
    middle: float
    """The quantity at the middle amount."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountLaw:
    """The best size, its tokens and its depth as powers of the amount that trainings spend."""

    coin: Coin
    amounts: int
    """Number of amounts that the law is fitted to."""
    middle: float
    """The middle amount C0, at which the quantities are stated."""
    powers: tuple[PowerOfAmount, ...]


def fit_amount_law(optima: Sequence[Optimum]) -> AmountLaw | None:
    """The law through amounts whose best size and depth are settled; None with fewer than three
    such amounts."""
    known = [optimum for optimum in optima if _is_settled(optimum)]
    if len(known) < FEWEST_AMOUNTS:
        return None
    spent = np.log([optimum.spend.amount for optimum in known])
    sizes = [(o.best_size.size, o.best_size.interval) for o in known if o.best_size]
    errors = [_error(interval) for _, interval in sizes]
    logs = {
        "size": ([log(size or 1) for size, _ in sizes], errors),
        "tokens": ([log(optimum.tokens) for optimum in known], errors),
        "depth": (
            [log(o.optimal_depth or 1) for o in known], [_error(o.interval) for o in known]
        ),
    }  # fmt: skip
    powers = (
        _power(name, spent, np.array(values), np.array(off)) for name, (values, off) in logs.items()
    )
    return AmountLaw(
        coin=known[0].spend.coin, amounts=len(known), middle=exp(float(spent.mean())),
        powers=tuple(powers),
    )  # fmt: skip


def _is_settled(optimum: Optimum) -> bool:
    size = optimum.best_size
    located = isinstance(optimum, Located) and optimum.kind.settled
    return bool(located and size and size.size and size.verdict.kind.settled)


def _error(interval: tuple[int, int] | None) -> float:
    """Standard error of the ln of a value with this 95 % interval."""
    assert interval, "it is located"
    return max(SMALLEST, log(interval[1] / interval[0]) / WHOLE)


def _power(name: str, spent: Array, values: Array, errors: Array) -> PowerOfAmount:
    x = spent - spent.mean()

    def fitted(excess: float) -> tuple[float, float, float, Array]:
        """The line fitted with the variance `excess` added: level, slope, the slope's standard
        error, and the errors of all points."""
        whole = np.sqrt(errors**2 + excess)
        design = np.stack([np.ones_like(x), x], axis=1) / whole[:, None]
        covariance = np.linalg.inv(design.T @ design)
        level, slope = (covariance @ design.T @ (values / whole)).tolist()
        return level, slope, sqrt(covariance[1, 1]), whole

    def misses(excess: float) -> tuple[Array, Array]:
        level, slope, _, whole = fitted(excess)
        return (values - level - slope * x) / whole, whole

    level, slope, error, _ = fitted(excess_variance(misses, len(x) - 2))
    reach = WHOLE / 2 * error
    return PowerOfAmount(
        quantity=name, exponent=slope, interval=(slope - reach, slope + reach), middle=exp(level)
    )
