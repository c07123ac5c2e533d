"""Worlds with a known answer: the loss of every shape by a formula, without training.

A curve over depth with one lowest point (or none), what ratio, size and rate do to it, noise
between seeds, deep models that start slowly so that learning curves cross, spikes and divergence.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import exp, log, sqrt

from numpy.random import Generator

from fathom.models.shape import Count, Shape
from fathom.search.records import CurvePoint, Outcome, Stage, TrialRecord, TrialSpec

Curve = Callable[[float], float]
"""Depth to loss above the best loss, nats per token."""

BEST_RATIO = 4.0
EVALUATIONS = 16


def symmetric(optimum: float, curvature: float = 0.05) -> Curve:
    """A curve that is a parabola in ln depth, lowest at `optimum`."""
    return lambda depth: curvature * log(depth / optimum) ** 2


def asymmetric(optimum: float, p: float = 2.0, q: float = 0.6, scale: float = 0.1) -> Curve:
    """Steeper on the shallow side when `p > q`: `a L^-p + b L^q + c`, lowest at `optimum`."""

    def excess(depth: float) -> float:
        x = depth / optimum
        lowest = 1 / p + 1 / q
        return scale * (exp(-p * log(x)) / p + exp(q * log(x)) / q - lowest) / (p + q)

    return excess


def flat(_: float) -> float:
    """A curve without any effect of depth."""
    return 0.0


def deeper_is_better(slope: float = 0.05) -> Curve:
    """A curve that falls with depth, without an optimum inside any range."""
    return lambda depth: -slope * log(depth)


def shallower_is_better(slope: float = 0.05) -> Curve:
    """A curve that rises with depth, so that depth 1 is best."""
    return lambda depth: slope * log(depth)


def two_humps(optimum: float, other: float, *, gap: float, curvature: float = 0.1) -> Curve:
    """Two valleys in ln depth: the best at `optimum`, another at `other` that ends `gap` higher."""
    best, second = symmetric(optimum, curvature), symmetric(other, curvature)
    return lambda depth: min(best(depth), second(depth) + gap)


def notched(curve: Curve, place: float, *, width: float, loss: float) -> Curve:
    """A curve with a notch at a depth, whose lowest point lies `loss` below that of the curve; half
    as deep at `width` across, in ln depth."""
    height = curve(place) + loss
    return lambda depth: curve(depth) - height * 16 ** -((log(depth / place) / width) ** 2)


def plateau_and_cliff(edge: float, *, slope: float, height: float) -> Curve:
    """A plateau that falls gently to `edge`, beyond which the loss leaps up within a tenth."""

    def excess(depth: float) -> float:
        x = log(depth / edge)
        return slope * abs(x) + height * min(max(0.0, x) / 0.1, 1.0)

    return excess


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Planted losses of one budget."""

    curve: Curve
    budget: int = 1_000_000
    count: Count = Count.TOTAL
    noise: float = 0.004
    """Standard deviation between seeds, nats."""
    tails: float = math.inf
    """Degrees of freedom of Student's t from which the noise is drawn, of the same deviation."""
    noise_growth: float = 0.0
    """Exponent by which the noise grows with depth; `noise` is that of 6 layers."""
    stalls: float = 0.0
    """Chance of a training to stall: it then ends 0.02 to 0.15 nats too high."""
    ratio_effect: float = 0.01
    """Effect of the ratio: nats for each squared unit of ln(ff_ratio / 4)."""
    params_slope: float = -0.2
    """Effect of size: nats for each unit of ln(parameters)."""
    rate_effect: float = 0.03
    """Effect of the rate: nats for each squared unit of ln(rate / best rate of the shape)."""
    best_rate: Callable[[int], float] = lambda depth: 1.0
    """Multiple of the study's rate that suits a depth best."""
    slow_start: float = 0.02
    """Longer lag of deep models, for each unit of ln depth: curves cross."""
    slow_from: float = 1.0
    """Depth beyond which the lag grows."""
    fall: float = 0.5
    """Exponent f of the learning curves: losses fall like tokens^-f."""
    horizon: int = 20_000_000
    spikes: float = 0.0
    """Chance of an evaluation before the end to come out 0.1 nats too high."""
    divergence: float = 0.0
    """Chance of a trial of the deepest quarter (in ln depth, to 64) to diverge."""
    shape_effect: Callable[[Shape], float] = lambda shape: 0.0
    """What a shape loses beside the effects of depth, ratio and size, nats."""
    decimals: int = 16
    """Decimals to which final losses are rounded, as people's tables are."""

    @property
    def floor(self) -> float:
        """Loss of the best shape of the budget."""
        return 1.6 - 0.2 * log(self.budget / 1_000_000)

    def shape(self, depth: int, ff_ratio: float = BEST_RATIO) -> Shape:
        """The shape of this depth and nearly this ratio that meets the budget."""
        per_layer = 4 + 2 * ff_ratio
        d_model = max(8, round(sqrt(self.budget / depth / per_layer) / 8) * 8)
        empty = self._with_d_ff(depth, d_model, 0).size(self.count) + depth * d_model
        d_ff = max(8, round((self.budget - empty) / (2 * depth * d_model)))
        return self._with_d_ff(depth, d_model, d_ff)

    def _with_d_ff(self, depth: int, d_model: int, d_ff: int) -> Shape:
        return Shape(
            depth=depth,
            d_model=d_model,
            d_ff=d_ff,
            n_heads=d_model // 8,
            head_dim=8,
            vocab_size=64,
            context=64,
        )

    def expected_loss(self, shape: Shape, rate_scale: float = 1.0) -> float:
        """Returns the loss at the horizon, before the noise of a seed, nats."""
        off_rate = log(rate_scale / self.best_rate(shape.depth))
        return (
            self.floor
            + self.curve(shape.depth)
            + self.ratio_effect * log(shape.ff_ratio / BEST_RATIO) ** 2
            + self.params_slope * log(shape.size(self.count) / self.budget)
            + self.rate_effect * off_rate**2
            + self.shape_effect(shape)
        )

    def lag(self, depth: int) -> float:
        """Returns the height of a curve above its end, in units of (tokens / horizon)^-fall - 1."""
        return 0.3 + self.slow_start * log(max(1.0, depth / self.slow_from))

    def seed_noise(self, depth: int, generator: Generator) -> float:
        """Draws what a seed adds to the loss of a depth, nats."""
        if math.isinf(self.tails):
            drawn = generator.normal()
        else:
            drawn = generator.standard_t(self.tails) * sqrt(1 - 2 / self.tails)
        stalled = self.stalls > 0 and generator.random() < self.stalls
        lost = generator.uniform(0.02, 0.15) if stalled else 0.0
        return float(self.noise * (depth / 6) ** self.noise_growth * drawn) + lost

    def diverges(self, depth: int, generator: Generator) -> bool:
        """Draws whether a trial of a depth diverges."""
        return depth > 64**0.75 and self.divergence > 0 and generator.random() < self.divergence

    def losses(
        self, shape: Shape, shares: list[float], generator: Generator, rate_scale: float = 1.0
    ) -> list[float]:
        """A trial's losses at these shares of the horizon; NaN from where it diverges."""
        final = self.expected_loss(shape, rate_scale) + self.seed_noise(shape.depth, generator)
        lag = self.lag(shape.depth)
        final = round(final, self.decimals)
        found = [final + lag * (share**-self.fall - 1) for share in shares]
        for index, share in enumerate(shares):
            if share < 1 and generator.random() < self.spikes:
                found[index] += 0.1
        if self.diverges(shape.depth, generator):
            return [*found[: len(found) // 2], *[math.nan] * (len(found) - len(found) // 2)]
        return found

    def spec(
        self, shape: Shape, *, seed: int, stage: Stage = Stage.EXPLORE, rate_scale: float = 1.0
    ) -> TrialSpec:
        """The specification of a trial of the world's budget."""
        size = f"d{shape.depth}-w{shape.d_model}-f{shape.d_ff}"
        return TrialSpec(
            trial=f"{self.budget}-{stage}-{size}-s{seed}-r{rate_scale:g}",
            study="simulated",
            stage=stage,
            budget=self.budget,
            count=self.count,
            horizon_tokens=self.horizon,
            shape=shape,
            seed=seed,
            learning_rate=4e-3,
            rate_scale=rate_scale,
            prunable=stage is Stage.EXPLORE,
        )

    @property
    def rung_tokens(self) -> tuple[int, int]:
        """Tokens of the two rungs, at a quarter and a half of the horizon."""
        return self.horizon // 4, self.horizon // 2

    def record(self, spec: TrialSpec, generator: Generator) -> TrialRecord:
        """The record of a trial that trained to the horizon or diverged."""
        depth = spec.shape.depth
        final = self.expected_loss(spec.shape, spec.rate_scale) + self.seed_noise(depth, generator)
        record = finished(spec, round(final, self.decimals), lag=self.lag(depth))
        if self.diverges(depth, generator):
            half = record.curve[: EVALUATIONS // 2]
            return replace(record, outcome=Outcome.DIVERGED, curve=half, rungs={})
        return record


def finished(spec: TrialSpec, final: float, *, lag: float = 0.3) -> TrialRecord:
    """A finished trial that ends at `final`; its curve starts `lag` and falls like tokens**-0.5."""
    tokens = [spec.horizon_tokens * i // EVALUATIONS for i in range(1, EVALUATIONS + 1)]
    losses = [final + lag * ((t / spec.horizon_tokens) ** -0.5 - 1) for t in tokens]
    # Twice the depth takes twice as long: the cost of depth that a report shows beside its loss.
    speed = 2e-7 * spec.shape.depth
    return TrialRecord(
        spec=spec,
        outcome=Outcome.FINISHED,
        reason="reached the horizon",
        curve=tuple(
            CurvePoint(
                step=t // 1000,
                tokens=t,
                loss=loss,
                train_loss=loss - 0.01,
                train_seconds=t * speed,
                time=1_700_000_000 + t * speed,
                metrics={"bits_per_byte": loss / log(2)},
            )
            for t, loss in zip(tokens, losses, strict=True)
        ),
        rungs={tokens[i]: losses[i] for i in (EVALUATIONS // 4 - 1, EVALUATIONS // 2 - 1)},
        started=1_700_000_000,
        ended=1_700_000_000 + spec.horizon_tokens * speed,
        setup_seconds=0.5,
        peak_memory_bytes=None,
    )
