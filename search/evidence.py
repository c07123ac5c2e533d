"""What the finished trials of one budget say about each depth, before any curve is drawn.

A depth is judged by its best shape. Every estimate below is a weighted sum of losses, so its
standard error follows from the weights and the noise between seeds.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from models.shape import Shape
from search.records import Outcome, Stage, TrialRecord

PARAMS_SLOPE = -0.2
"""Nats for each unit of ln(parameters). Prior: the Gemstones models give -0.36 at 0.1B to -0.14 at
2B. Within a tolerance of 0.5 % the choice moves a loss by less than 0.001."""
NOISE_FLOOR = 0.004
"""Nats between seeds, at least, while fewer than `KNOWN_NOISE` degrees of freedom measure them."""
KNOWN_NOISE = 3
SMALLEST_NOISE = 1e-6
"""Keeps weights finite when replicates agree to the last bit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthEvidence:
    """One depth at the horizon, by its best shape."""

    depth: int
    loss: float
    """Nats per token, corrected for the parameter mismatch."""
    standard_error: float
    trials: int
    shape: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All depths with a finished trial, ascending, and the noise between seeds."""

    depths: tuple[DepthEvidence, ...]
    noise: float
    """Standard deviation between seeds, nats."""
    degrees_of_freedom: int
    """Behind the noise; 0 when no trial was repeated."""


@dataclass(frozen=True, slots=True)
class _ShapeLoss:
    shape: Shape
    loss: float
    variance: float
    trials: int


def gather(records: Sequence[TrialRecord]) -> Evidence:
    """The evidence of one budget's records.

    A depth with confirming trials is judged by those alone: its exploring trials were picked for
    having come out low.
    """
    finished = [record for record in records if record.outcome is Outcome.FINISHED]
    noise, degrees_of_freedom = seed_noise(finished)
    confirmed = {r.spec.shape.depth for r in finished if r.spec.stage is Stage.CONFIRM}
    shapes: dict[int, dict[Shape, list[TrialRecord]]] = defaultdict(lambda: defaultdict(list))
    for record in finished:
        spec = record.spec
        if spec.stage is Stage.CONFIRM or spec.shape.depth not in confirmed:
            shapes[spec.shape.depth][spec.shape].append(record)
    losses = {
        depth: [_shape_loss(shape, trials, noise) for shape, trials in by_shape.items()]
        for depth, by_shape in sorted(shapes.items())
    }
    between = _variance_between_shapes(losses.values())
    depths = tuple(_best_shape(depth, known, between) for depth, known in losses.items())
    return Evidence(depths=depths, noise=noise, degrees_of_freedom=degrees_of_freedom)


def corrected_loss(record: TrialRecord) -> float:
    """Loss of a finished trial as if its shape had exactly the budget's parameters."""
    assert record.loss is not None, "only finished trials have a loss at the horizon"
    spec = record.spec
    return record.loss - PARAMS_SLOPE * log(spec.shape.params(spec.count) / spec.budget)


def seed_noise(finished: Sequence[TrialRecord]) -> tuple[float, int]:
    """Pooled standard deviation between seeds of a shape at a rate; its degrees of freedom."""
    repeats: dict[tuple[Stage, Shape, float], list[float]] = defaultdict(list)
    for record in finished:
        spec = record.spec
        repeats[spec.stage, spec.shape, spec.rate_scale].append(corrected_loss(record))
    degrees_of_freedom = sum(len(losses) - 1 for losses in repeats.values())
    squares = sum(float(np.var(losses)) * len(losses) for losses in repeats.values())
    measured = sqrt(squares / degrees_of_freedom) if degrees_of_freedom else 0.0
    floor = SMALLEST_NOISE if degrees_of_freedom >= KNOWN_NOISE else NOISE_FLOOR
    return max(measured, floor), degrees_of_freedom


def _shape_loss(shape: Shape, trials: Sequence[TrialRecord], noise: float) -> _ShapeLoss:
    """Mean over seeds, each at the shape's best rate.

    A seed that ran at several rates measures what the best of them gains over rate 1; the seeds
    that ran at rate 1 only are granted the same gain.
    """
    by_seed: dict[int, dict[float, float]] = defaultdict(dict)
    for trial in trials:
        by_seed[trial.spec.seed][trial.spec.rate_scale] = corrected_loss(trial)
    brackets = {seed: best_rate_weights(losses) for seed, losses in by_seed.items()}
    measured = [seed for seed, losses in by_seed.items() if len(losses) > 1 and 1.0 in losses]
    granted = [seed for seed, losses in by_seed.items() if set(losses) == {1.0}]
    weights: dict[tuple[int, float], float] = defaultdict(float)
    for seed, bracket in brackets.items():
        for rate, weight in bracket.items():
            weights[seed, rate] += weight / len(by_seed)
    for seed in measured:
        share = len(granted) / len(measured) / len(by_seed)
        for rate, weight in brackets[seed].items():
            weights[seed, rate] += share * (weight - (rate == 1.0))
    loss = sum(weight * by_seed[seed][rate] for (seed, rate), weight in weights.items())
    squares = sum(weight**2 for weight in weights.values())
    return _ShapeLoss(shape, loss, noise**2 * squares, len(trials))


def best_rate_weights(losses: Mapping[float, float]) -> dict[float, float]:
    """Rate -> weight; the weighted losses add up to the loss at the best rate of the bracket.

    With three rates or more that is the lowest point of a parabola in ln rate, not beyond the
    bracket; with fewer, the lowest rate. At a lowest point the weights may be held fixed: moving
    along a curve that is level there changes nothing.
    """
    lowest = min(losses, key=lambda rate: losses[rate])
    if len(losses) < 3:
        return {rate: float(rate == lowest) for rate in losses}
    rates = sorted(losses)
    x = np.log(rates)
    solve = np.linalg.pinv(np.vander(x, 3))
    c2, c1, _ = solve @ [losses[rate] for rate in rates]
    best = np.clip(-c1 / (2 * c2), x[0], x[-1]) if c2 > 0 else log(lowest)
    row = np.array([best**2, best, 1.0]) @ solve
    return dict(zip(rates, row.tolist(), strict=True))


def _variance_between_shapes(depths: Iterable[Sequence[_ShapeLoss]]) -> float:
    """How much shapes of one depth differ beyond the noise, pooled over depths; at least 0."""
    repeated = [known for known in depths if len(known) > 1]
    degrees_of_freedom = sum(len(known) - 1 for known in repeated)
    if not degrees_of_freedom:
        return 0.0
    squares = sum(float(np.var([s.loss for s in known])) * len(known) for known in repeated)
    noise = float(np.mean([s.variance for known in repeated for s in known]))
    return max(0.0, squares / degrees_of_freedom - noise)


def _best_shape(depth: int, known: Sequence[_ShapeLoss], between: float) -> DepthEvidence:
    """The best shape of a depth, cured of the winner's curse.

    The lowest of several noisy losses is too low. Each is drawn towards the depth's mean by the
    share of its variance that is noise (the posterior mean under a normal prior): when shapes don't
    differ they are averaged, when they differ clearly the best one stands as measured.
    """
    losses = np.array([s.loss for s in known])
    variances = np.array([s.variance for s in known])
    precision = 1 / (between + variances)
    mean = float(precision @ losses / precision.sum())
    kept = between * precision
    drawn = mean + kept * (losses - mean)
    best = int(drawn.argmin())
    variance = kept[best] * variances[best] + (1 - kept[best]) ** 2 / precision.sum()
    return DepthEvidence(
        depth=depth,
        loss=float(drawn[best]),
        standard_error=sqrt(variance),
        trials=sum(s.trials for s in known),
        shape=known[best].shape,
    )
