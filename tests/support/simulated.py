"""Studies with a known answer: records as a search would leave them, without training anything.

`simulated_study()` gives three budgets with the whole cast: explored, stopped, diverged, confirmed
in a bracket of learning rates.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log

import numpy as np
from numpy.random import Generator

from benchmarks.worlds.planted import World, asymmetric
from fathom.search.records import Outcome, Stage, TrialRecord


def cut(record: TrialRecord, rung: int, outcome: Outcome = Outcome.STOPPED) -> TrialRecord:
    """The trial as if it had stopped at the rung."""
    curve = tuple(point for point in record.curve if point.tokens <= rung)
    reached = {tokens: loss for tokens, loss in record.rungs.items() if tokens <= rung}
    return replace(
        record, outcome=outcome, reason=f"{outcome} at {rung} tokens", curve=curve,
        rungs=reached if outcome is Outcome.STOPPED else {}, ended=curve[-1].time,
    )  # fmt: skip


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
    world: World, depths: Sequence[int], generator: Generator, *, seeds: int = 3,
    rates: Sequence[float] = (0.5, 1.0, 2.0),
) -> list[TrialRecord]:  # fmt: skip
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
    *, budgets: Sequence[int] = (300_000, 1_000_000, 3_000_000), seed: int = 0,
    noise: float = 0.003, trials: int = 24,
) -> list[TrialRecord]:  # fmt: skip
    """A whole study whose best depths are `planted_depth`, with every outcome but `failed`.

    Each budget has `trials` explored, and some 20 confirming ones.
    """
    generator = np.random.default_rng(seed)
    records = []
    for budget in budgets:
        best = planted_depth(budget)
        world = World(curve=asymmetric(best), budget=budget, noise=noise, horizon=20 * budget)
        leaders = sorted({max(1, round(best * factor)) for factor in (0.5, 0.75, 1, 1.4, 2)})
        records += explore(world, (1, 2, 3, 4, 6, 8, 12, 16), generator, trials=trials)
        records += confirm(world, leaders, generator)
    return records
