"""Studies with a known answer: records as a search would leave them, without training anything.

`simulated_study()` gives three budgets with the whole cast: explored, stopped, diverged, confirmed
in a bracket of learning rates. Its parts are open, so that a test can plant any truth.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np
from numpy.random import Generator

from models.shape import Count, Shape
from search.records import CurvePoint, Outcome, Stage, TrialRecord, TrialSpec

Curve = Callable[[float], float]
"""Depth to loss above the best loss, nats per token."""

BEST_RATIO = 4.0
EVALUATIONS = 16


def symmetric(optimum: float, curvature: float = 0.05) -> Curve:
    """A parabola in ln depth."""
    return lambda depth: curvature * log(depth / optimum) ** 2


def asymmetric(optimum: float, p: float = 2.0, q: float = 0.6, scale: float = 0.1) -> Curve:
    """Steeper on the shallow side when `p > q`: `a L^-p + b L^q + c`, lowest at `optimum`."""

    def excess(depth: float) -> float:
        x = depth / optimum
        lowest = 1 / p + 1 / q
        return scale * (exp(-p * log(x)) / p + exp(q * log(x)) / q - lowest) / (p + q)

    return excess


def flat(_: float) -> float:
    """Depth does not matter."""
    return 0.0


def deeper_is_better(slope: float = 0.05) -> Curve:
    """No optimum inside any range."""
    return lambda depth: -slope * log(depth)


def shallower_is_better(slope: float = 0.05) -> Curve:
    """Depth 1 wins."""
    return lambda depth: slope * log(depth)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What is true of one budget."""

    curve: Curve
    budget: int = 1_000_000
    count: Count = Count.TOTAL
    noise: float = 0.004
    """Standard deviation between seeds, nats."""
    ratio_effect: float = 0.01
    """Nats for each squared unit of ln(ff_ratio / 4)."""
    params_slope: float = -0.2
    """Nats for each unit of ln(parameters)."""
    rate_effect: float = 0.03
    """Nats for each squared unit of ln rate away from the shape's best rate."""
    best_rate: Callable[[int], float] = lambda depth: 1.0
    """Multiple of the study's rate that suits a depth best."""
    slow_start: float = 0.02
    """How much longer deep models lag behind, for each unit of ln depth: curves cross."""
    horizon: int = 20_000_000

    @property
    def floor(self) -> float:
        """Loss of the best shape of the budget."""
        return 1.6 - 0.2 * log(self.budget / 1_000_000)

    def shape(self, depth: int, ff_ratio: float = BEST_RATIO) -> Shape:
        """The shape of this depth and nearly this ratio that meets the budget."""
        per_layer = 4 + 2 * ff_ratio
        d_model = max(8, round(sqrt(self.budget / depth / per_layer) / 8) * 8)
        empty = self._with_d_ff(depth, d_model, 0).params(self.count) + depth * d_model
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
        """At the horizon, before the noise of a seed."""
        off_rate = log(rate_scale / self.best_rate(shape.depth))
        return (
            self.floor
            + self.curve(shape.depth)
            + self.ratio_effect * log(shape.ff_ratio / BEST_RATIO) ** 2
            + self.params_slope * log(shape.params(self.count) / self.budget)
            + self.rate_effect * off_rate**2
        )

    def spec(
        self, shape: Shape, *, seed: int, stage: Stage = Stage.EXPLORE, rate_scale: float = 1.0
    ) -> TrialSpec:
        """A trial of this budget."""
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
            may_stop=stage is Stage.EXPLORE,
        )

    @property
    def rung_tokens(self) -> tuple[int, int]:
        """Where trials are judged."""
        return self.horizon // 4, self.horizon // 2

    def record(self, spec: TrialSpec, generator: Generator) -> TrialRecord:
        """The trial, run to its end."""
        final = self.expected_loss(spec.shape, spec.rate_scale) + self.noise * generator.normal()
        return finished(spec, final, lag=0.3 + self.slow_start * log(spec.shape.depth))


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


def cut(record: TrialRecord, rung: int, outcome: Outcome = Outcome.STOPPED) -> TrialRecord:
    """The trial as it would be had it ended at the rung."""
    curve = tuple(point for point in record.curve if point.tokens <= rung)
    reached = {tokens: loss for tokens, loss in record.rungs.items() if tokens <= rung}
    return TrialRecord(
        spec=record.spec,
        outcome=outcome,
        reason=f"{outcome} at {rung} tokens",
        curve=curve,
        rungs=reached if outcome is Outcome.STOPPED else {},
        started=record.started,
        ended=curve[-1].time,
        setup_seconds=record.setup_seconds,
        peak_memory_bytes=record.peak_memory_bytes,
    )


def explore(
    world: World, depths: Sequence[int], generator: Generator, *, trials: int = 24
) -> list[TrialRecord]:
    """Random shapes; the worse half is stopped at each rung; the last two diverge and run out."""
    ratios = np.exp(generator.uniform(log(1.5), log(8), trials))
    shapes = [world.shape(depths[i % len(depths)], ratio) for i, ratio in enumerate(ratios)]
    runs = [world.record(world.spec(s, seed=i), generator) for i, s in enumerate(shapes)]
    lost = [
        cut(runs.pop(), world.rung_tokens[0], outcome)
        for outcome in (Outcome.DIVERGED, Outcome.OUT_OF_MEMORY)
    ]
    stopped = []
    for rung in world.rung_tokens:
        runs.sort(key=lambda run: run.rungs[rung])
        keep = (len(runs) + 1) // 2
        stopped += [cut(run, rung) for run in runs[keep:]]
        runs = runs[:keep]
    return runs + stopped + lost


def confirm(
    world: World,
    depths: Sequence[int],
    generator: Generator,
    *,
    seeds: int = 3,
    rates: Sequence[float] = (0.5, 1.0, 2.0),
) -> list[TrialRecord]:
    """Every depth at the best ratio with fresh seeds; all rates on the first seed only."""
    return [
        world.record(
            world.spec(world.shape(d), seed=1000 + s, stage=Stage.CONFIRM, rate_scale=rate),
            generator,
        )
        for d in depths
        for s in range(seeds)
        for rate in (rates if s == 0 else (1.0,))
    ]


def planted_depth(budget: int) -> float:
    """The best depth of a simulated study: 3 at 300k, 4.5 at 1M, 7 at 3M parameters."""
    return 4.5 * exp(0.37 * log(budget / 1_000_000))


def simulated_study(
    *, budgets: Sequence[int] = (300_000, 1_000_000, 3_000_000), seed: int = 0, noise: float = 0.003
) -> list[TrialRecord]:
    """A whole study whose best depths are `planted_depth`, with every outcome but `failed`."""
    generator = np.random.default_rng(seed)
    records = []
    for budget in budgets:
        best = planted_depth(budget)
        world = World(curve=asymmetric(best), budget=budget, noise=noise, horizon=20 * budget)
        leaders = sorted({max(1, round(best * factor)) for factor in (0.5, 0.75, 1, 1.4, 2)})
        records += explore(world, (1, 2, 3, 4, 6, 8, 12, 16), generator)
        records += confirm(world, leaders, generator)
    return records
