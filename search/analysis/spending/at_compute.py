"""Size, tokens and depth together for an amount of compute, by a law of loss and a law of depth.

Of all sizes that the compute can train, it is the one with the lowest predicted loss; its depth is
the best by the law over parameters and tokens. The caller gives the FLOPs per token of a shape. The
cost of a wrong choice is a multiple of compute: the compute spent, divided by the compute that
reaches the same loss if spent well.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, isfinite, log, sqrt

import numpy as np

from fathom.search.analysis.laws.law import nats_away, usual_curvature
from fathom.search.analysis.laws.loss_law import LossLaw, interval_of, is_determined
from fathom.search.analysis.laws.published import published_sizes
from fathom.search.analysis.laws.token_law import TokenLaw, depth_of_both
from fathom.search.analysis.losses.depth_estimates import Array

FlopsPerToken = Callable[[float, float], float]
"""Function of parameters and depth that returns the FLOPs to train on a token."""
RATIOS = (0.05, 100_000.0)
"""Fewest and most tokens per parameter of the sizes that are compared."""
SIZES = 400
"""Number of sizes that are compared."""
MOST_BEYOND = 1000.0
"""Largest compute with an answer, as a multiple of the compute of the ladder's largest training."""
USELESS = 10.0
"""Largest factor between the ends of the best size's interval at which an answer is given."""
SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RuledSize:
    """Size and tokens for the compute by a published rule, and the cost of this choice."""

    name: str
    params: float
    tokens: float
    multiple: float
    """Compute divided by the compute that reaches the same loss at the law's best size: the median
    over draws of the law."""
    multiple_interval: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeAnswer:
    """Size, tokens and depth for an amount of FLOPs, with 95 % intervals."""

    flops: float
    params: float
    params_interval: tuple[float, float]
    tokens: float
    tokens_interval: tuple[float, float]
    depth: float | None
    """Best depth; None, like its interval, where the ladder has no law of depth over parameters and
    tokens."""
    depth_interval: tuple[float, float] | None
    loss: float
    loss_interval: tuple[float, float]
    alpha_interval: tuple[float, float]
    beta_interval: tuple[float, float]
    times_beyond: float
    """`flops` divided by the FLOPs of the ladder's largest training."""
    multiple: float
    """Multiple of compute that the size costs at most in 95 % of the draws of the law."""
    depth_multiple: float | None
    """Multiple of compute that the worse end of the depth's interval costs compared with `depth`;
    None where no curve shows the cost of depths."""
    rules: tuple[RuledSize, ...]
    """Size and tokens by published rules."""
    why_not: str
    """Reason why the answer is not reliable, as the end of a sentence; empty where it is
    reliable."""


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Sizes that the compute can train, with their tokens and depths; (sizes,) each."""

    params: Array
    tokens: Array
    depths: Array


def answer_at(
    losses: LossLaw, depths: TokenLaw | None, flops: float, per_token: FlopsPerToken
) -> ComputeAnswer:
    """The best size, tokens and depth for some FLOPs; the depth is None without a law of depths.

    Raises:
        ValueError: unless `flops` is a positive number.
    """
    if not (isfinite(flops) and flops > 0):
        raise ValueError(f"`flops` must be a positive number, got {flops}; for example 1e21")
    sizes = _sizes(depths, flops, per_token)
    of_draws = losses.loss(losses.draws, sizes.params, sizes.tokens)
    of_law = losses.loss(losses.constants[None], sizes.params, sizes.tokens)[0]
    best, lowest = int(of_law.argmin()), of_draws.argmin(axis=1)
    reached = interval_of(sizes.params[lowest])
    by_depth = interval_of(_depth_draws(depths, sizes, lowest)) if depths else None
    depth = float(sizes.depths[best])
    spent = [per_token(known.params, depth) * known.tokens for known in losses.losses]
    return ComputeAnswer(
        flops=flops,
        params=float(sizes.params[best]),
        params_interval=reached,
        tokens=float(sizes.tokens[best]),
        tokens_interval=interval_of(sizes.tokens[lowest]),
        depth=depth if depths else None,
        depth_interval=by_depth and (max(1.0, by_depth[0]), max(1.0, by_depth[1])),
        loss=float(of_law[best]),
        loss_interval=interval_of(of_draws.min(axis=1)),
        alpha_interval=losses.alpha_interval,
        beta_interval=losses.beta_interval,
        times_beyond=flops / max(spent),
        multiple=float(np.quantile(_multiples(losses, of_draws, of_draws[:, best]), 0.95)),
        depth_multiple=by_depth and _depth_multiple(losses, of_law, depth, by_depth),
        rules=tuple(_rules(losses, sizes, flops, of_draws)),
        why_not=_beyond(flops, spent) or _why_not(losses, sizes, lowest),
    )


def _sizes(depths: TokenLaw | None, flops: float, per_token: FlopsPerToken) -> _Sizes:
    """The sizes to compare, evenly spaced in ln, with their tokens and depths; without a law of
    depths, all have one layer."""
    largest, smallest = (sqrt(flops / 6 / ratio) for ratio in RATIOS)
    params = np.geomspace(smallest, largest, SIZES)
    tokens = flops / (6 * params)
    line = np.array([depths.a, depths.b, depths.c] if depths else [0.0, 0.0, 0.0])
    for _ in range(3):  # the depth follows from the tokens, which follow from the depth
        best, _ = depth_of_both(line, np.stack([params, tokens], axis=1))
        best = np.maximum(1.0, best)
        costs = [per_token(size, depth) for size, depth in zip(params, best, strict=True)]
        tokens = flops / np.array(costs)
    return _Sizes(params, tokens, best)


def _depth_draws(depths: TokenLaw, sizes: _Sizes, lowest: Array) -> Array:
    """Draws of the best depth at the best size of each draw, (draws,), from the law of depth."""
    generator = np.random.default_rng(SEED)
    number = len(lowest)
    lines = generator.multivariate_normal(
        [depths.a, depths.b, depths.c], np.array(depths.covariance), size=number
    )
    at = np.log(np.stack([sizes.params[lowest], sizes.tokens[lowest]], axis=1))
    scatter = depths.scatter * generator.standard_normal(number)
    log_depth = lines[:, 0] + np.sum(lines[:, 1:] * at, axis=1) + scatter
    return np.asarray(np.exp(np.clip(log_depth, -700, 700)))


def _multiples(losses: LossLaw, of_draws: Array, chosen: Array) -> Array:
    """Multiples of compute that losses (draws,) cost compared with the lowest loss of each draw.

    At the best size the loss above the floor falls as `C^-g` with g = alpha beta / (alpha + beta),
    since FLOPs are proportional to parameters times tokens.
    """
    floor = np.exp(losses.draws[:, 0])
    alpha, beta = losses.draws[:, 3], losses.draws[:, 4]
    best = of_draws.min(axis=1)
    return np.asarray(((chosen - floor) / (best - floor)) ** ((alpha + beta) / (alpha * beta)))


def _depth_multiple(
    losses: LossLaw, of_law: Array, depth: float, ends: tuple[float, float]
) -> float | None:
    """The multiple of compute that the worse end of an interval of depths costs, by the usual
    curvature; None where the curvature is not known."""
    curvature = usual_curvature(known.curvature for known in losses.losses)
    if curvature is None:
        return None
    floor, _, _, alpha, beta = losses.constants
    best = float(of_law.min()) - exp(floor)
    lost = max(nats_away(end, depth, curvature) for end in ends)
    return float((1 + lost / best) ** ((alpha + beta) / (alpha * beta)))


def _rules(losses: LossLaw, sizes: _Sizes, flops: float, of_draws: Array) -> list[RuledSize]:
    """Returns the size and tokens that each published rule chooses, with their cost."""
    found, log_params, log_tokens = [], np.log(sizes.params), np.log(sizes.tokens)
    for name, params in published_sizes(flops).items():
        tokens = float(np.exp(np.interp(log(params), log_params, log_tokens)))
        of_rule = losses.loss(losses.draws, np.array([params]), np.array([tokens]))[:, 0]
        multiples = _multiples(losses, of_draws, of_rule)
        found.append(
            RuledSize(
                name=name,
                params=params,
                tokens=tokens,
                multiple=float(np.median(multiples)),
                multiple_interval=interval_of(multiples),
            )
        )
    return found


def _beyond(flops: float, spent: Sequence[float]) -> str:
    """Reason why the compute is too far from the compute of the ladder's trainings; empty if
    not."""
    if flops < min(spent):
        return (
            f"it is less than the {min(spent):.3g} FLOPs of the ladder's smallest training; "
            "search a model this small directly: `fathom ask --params`"
        )
    if flops > MOST_BEYOND * max(spent):
        return (
            f"it is {flops / max(spent):,.0f} times the compute of the ladder's largest training, "
            f"and beyond {MOST_BEYOND:,.0f} times no law is known to hold; train a larger size"
        )
    return ""


def _why_not(losses: LossLaw, sizes: _Sizes, lowest: Array) -> str:
    for name, interval in (("size", losses.alpha_interval), ("tokens", losses.beta_interval)):
        if not is_determined(interval):
            low, high = interval
            return (
                f"the losses leave open how fast the loss falls with {name}: the exponent lies "
                f"between {low:.2f} and {high:.2f}; train more sizes, farther apart, or at more "
                "horizons"
            )
    low, high = interval_of(sizes.params[lowest])
    at_ends = np.isin(lowest, [0, len(sizes.params) - 1]).mean() > 0.025
    if at_ends or high / low > USELESS:
        return (
            f"the best size lies anywhere between {low:.3g} and {high:.3g} parameters; train more "
            "sizes, farther apart, or more seeds"
        )
    return ""
