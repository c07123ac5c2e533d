"""Forecasts of the loss at the horizon for trials that have not finished.

A loss before the horizon says little: the decrease still to come is several times the difference
between shapes, and deep models learn slowly at first. But that decrease is nearly the same for all
shapes of a budget, and its differences are linear in ln depth, with a slope called depth bias. The
slopes of all curves, and trials that trained further, show the depth bias.
"""

import statistics
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from fathom.search.analysis.losses.depth_estimates import Array, ShapeLoss, seed_noise
from fathom.search.analysis.losses.rung_value import LOOK_BACK, MEDIAN_OF, median
from fathom.search.records import ENDED_BADLY, Stage, TrialRecord

SHORTEST_LOOK_BACK = 1.5
"""Least factor between a rung's tokens and the tokens from which a curve's slope is measured."""
RECENT = 0.75
"""Evaluations before this share of some tokens don't count for the loss at these tokens."""
DEPTH_BIAS = (0.04, 0.06)
"""Prior mean and standard deviation of the depth bias: the change of the decrease still to come per
unit of ln(depth), as a share of that decrease. It was 0.15 among Gemstones models of 0.1B, and
-0.03 to 0.05 at three other sizes."""
SIZE_BIAS = (0.3, 0.15)
"""The same per unit of ln(size), for models that all spend an equal amount: the loss of larger
models, which see fewer tokens, falls later. 0.3 follows from a loss that falls with tokens^-0.3."""
SCATTER = 0.05
"""Standard deviation of the decrease still to come about that line, as a share of the decrease. It
was 0.03 to 0.07 among the same models, from a sixteenth to half of the horizon."""
SLOPE_SCATTER = (0.1, 3)
"""Prior of the error of extrapolating a single curve by its slope: standard deviation, as a share
of the decrease, and the prior's weight as a number of trials. It was 0.03 among the Gemstones
models, and 0.12 to 0.15 among models of 60k parameters."""


@dataclass(frozen=True, slots=True)
class RungForecast:
    """The forecast of a trial by its curve up to a rung."""

    loss: float
    """Forecast loss at the horizon, nats."""
    error: float
    """Standard error of the difference between `loss` and the lowest forecast, without the noise of
    seeds."""


def forecastable(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """The trials whose final loss is known or can be forecast.

    A confirmation trial counts only once it has finished: too few others have trained as far to
    show the decrease still to come, least of all in the cool-down of the learning rate.
    """
    return [r for r in records if r.spec.stage is Stage.EXPLORE or r.loss is not None]


def forecasts(
    records: Sequence[TrialRecord], others: Sequence[TrialRecord] = ()
) -> list[ShapeLoss]:
    """The final loss of each trial, known or forecast, with its variance, sorted by depth.

    Finished trials among `others` inform the forecasts, but are not part of the result.
    """
    found = forecasts_by_trial(records, others).values()
    return sorted(found, key=lambda forecast: forecast.shape.depth)


def forecasts_by_trial(
    records: Sequence[TrialRecord], others: Sequence[TrialRecord] = ()
) -> dict[str, ShapeLoss]:
    """Name of each trial with a curve -> its final loss, measured or forecast, with its variance.

    Trials that trained furthest are forecast first, as their forecasts inform those of the other
    trials.
    """
    noise = seed_noise(records).likely_noise
    trials = [_Trial(r) for r in records if r.curve and r.outcome not in ENDED_BADLY]
    ends = [(_Trial(other), other.loss) for other in others if other.loss is not None]
    found = {}
    for tokens in sorted({trial.tokens for trial in trials}, reverse=True):
        line = _Line(tokens, trials, ends)
        for trial in (each for each in trials if each.tokens == tokens):
            loss, error = trial.end(line)
            ends.append((trial, loss))
            name = trial.record.spec.trial
            found[name] = trial.shape_loss(loss, sqrt(noise**2 + error**2))
    return found


def forecast_ranking(
    records: Sequence[TrialRecord], rung: int, median_of: int = MEDIAN_OF
) -> dict[str, RungForecast]:
    """The forecast of each trial that reached a rung, by trial name.

    Only the curves up to the rung are used, so that all trials are compared with equal information.
    """
    trials = [_Trial(r, until=rung, median_of=median_of) for r in records if rung in r.rungs]
    if not trials:
        return {}
    line = _Line(rung, trials, [])
    places = {trial.x for trial in trials}  # far fewer than trials
    coming = {x: line.still_to_come(x)[0] for x in places}
    losses = [trial.loss_at(trial.tokens) - coming[trial.x] for trial in trials]
    best = trials[losses.index(min(losses))]
    errors = {x: line.difference_error(x, best.x) for x in places}
    return {
        trial.record.spec.trial: RungForecast(loss, errors[trial.x])
        for trial, loss in zip(trials, losses, strict=True)
    }


def extrapolated_loss(
    times: Sequence[float],
    losses: Sequence[float],
    *,
    tokens: float,
    horizon: float,
    median_of: int = MEDIAN_OF,
) -> float | None:
    """The loss at the horizon, extrapolated from a curve's losses at `tokens` and at a quarter of
    `tokens`.

    The extrapolation is linear in 1 / sqrt(tokens). Both losses are medians, for robustness to few
    and noisy evaluations. None when the curve is too short.
    """
    if not times or times[0] > tokens:
        return None
    now, loss = _level(times, losses, tokens, median_of)
    before, higher = _level(times, losses, max(tokens / LOOK_BACK, times[0]), median_of)
    if now < SHORTEST_LOOK_BACK * before:
        return None
    start, here, end = (1 / sqrt(at) for at in (before, now, horizon))
    return loss - max(0.0, higher - loss) * (here - end) / (start - here)


X = tuple[float, ...]
"""ln depth, and also ln size where the budget leaves the size free."""


class _Trial:
    """Learning curve of one trial, with the forecast of its final loss."""

    def __init__(
        self, record: TrialRecord, until: int | None = None, median_of: int = MEDIAN_OF
    ) -> None:
        self._median_of = median_of
        shape, curve, self.record = record.spec.shape, record.curve, record
        free = (log(shape.params_total),) if record.spec.count.frees_size else ()
        self.x: X = (log(shape.depth), *free)
        times = record.shared_times
        end = len(times) if until is None else bisect_right(times, until)
        self.times = times[:end]
        self.losses = [point.loss for point in curve[:end]]
        self.tokens = self.times[-1]

    def loss_at(self, tokens: float) -> float:
        """Returns the loss at the rung of `tokens` or, without such a rung, the median of the last
        evaluations up to `tokens`."""
        rung = self.record.rungs.get(int(tokens))
        return _level(self.times, self.losses, tokens, self._median_of)[1] if rung is None else rung

    def gain_at(self, tokens: float) -> float | None:
        """Returns the decrease of the loss from `tokens` to the horizon, nats, extrapolated from
        the trial's own curve up to `tokens`; None when the curve is too short."""
        horizon = self.record.spec.shared_horizon
        end = extrapolated_loss(
            self.times, self.losses, tokens=tokens, horizon=horizon, median_of=self._median_of
        )
        return None if end is None else self.loss_at(tokens) - end

    def end(self, line: "_Line") -> tuple[float, float]:
        """The trial's loss at the horizon, measured or forecast, and its standard error without the
        noise of the seed."""
        loss = self.record.loss
        return (loss, 0.0) if loss is not None else self.expected(line)

    def expected(self, line: "_Line") -> tuple[float, float]:
        """Forecast of the final loss, and its standard error without the noise of the seed."""
        coming, error = line.still_to_come(self.x)
        return self.loss_at(self.tokens) - coming, error

    def shape_loss(self, loss: float, error: float) -> ShapeLoss:
        """The final loss as an estimate for the shape. All trials count as one stage here, since
        the question is which depth is best, not how certain that is."""
        spec = self.record.spec
        return ShapeLoss(Stage.EXPLORE, spec.shape, self.record.ln_size, loss, error**2, 1)


class _Line:
    """Fitted decrease of the loss from some tokens to the horizon: a straight line in ln depth, and
    in ln size where the size is free.

    The fit is by least squares with a prior on each slope. Extrapolations of single curves have a
    separate level, since all are wrong by about the same amount: they only show the slopes.
    """

    def __init__(
        self, tokens: float, trials: Sequence[_Trial], ends: Sequence[tuple[_Trial, float]]
    ) -> None:
        came = [trial for trial in trials if trial.tokens >= tokens]
        gains = [(t.x, gain) for t in came if (gain := t.gain_at(tokens)) is not None]
        # Where trainings spend the same, the first evaluations of shapes are some steps apart.
        drops = [(t.x, t.loss_at(tokens) - end) for t, end in ends if t.times[0] <= tokens]
        known = drops or gains
        # With nothing to go by, the rest of the way may be as long as the way so far.
        rest = statistics.fmean(y for _, y in known) if known else came[0].losses[-1]
        self.scale = max(1e-9, rest)
        self._level = 0 if drops else 1
        biases = (DEPTH_BIAS, SIZE_BIAS)[: len(came[0].x)]
        slopes = np.eye(len(biases)).tolist()
        rows = [(0.0, 0.0, *slope, *bias) for slope, bias in zip(slopes, biases, strict=True)]
        rows += [(1.0, 0.0, *x, y / self.scale, SCATTER) for x, y in drops]
        scatter = _scatter([(x, y / self.scale) for x, y in gains])
        rows += [(0.0, 1.0, *x, y / self.scale, scatter) for x, y in gains]
        table: Array = np.array(rows)
        design = table[:, :-2] / table[:, -1:]
        self._covariance = np.linalg.pinv(design.T @ design)
        self._found = self._covariance @ design.T @ (table[:, -2] / table[:, -1])

    def still_to_come(self, x: X) -> tuple[float, float]:
        """Returns the decrease still to come at `x`, and its standard error, in nats."""
        at = np.array([float(self._level == 0), float(self._level == 1), *x])
        variance = float(at @ self._covariance @ at) + SCATTER**2
        return self.scale * float(at @ self._found), self.scale * sqrt(variance)

    def difference_error(self, x: X, other: X) -> float:
        """Standard error of the difference between the decreases still to come at `x` and at
        `other`."""
        apart = np.array(x) - np.array(other)
        slopes = float(np.einsum("i,j,ij", apart, apart, self._covariance[2:, 2:]))
        return self.scale * sqrt(slopes + 2 * SCATTER**2)


def _scatter(points: Sequence[tuple[X, float]]) -> float:
    """Standard deviation of values about a straight line, with the prior `SLOPE_SCATTER`."""
    believed, worth = SLOPE_SCATTER
    fitted = 1 + len(points[0][0]) if points else 2
    squares, spare = worth * believed**2, worth + max(0, len(points) - fitted)
    if len(points) > fitted:
        y = np.array([value for _, value in points])
        design = np.array([(1.0, *x) for x, _ in points])
        squares += float(((y - design @ (np.linalg.pinv(design) @ y)) ** 2).sum())
    return sqrt(squares / spare)


def _level(
    times: Sequence[float], losses: Sequence[float], tokens: float, median_of: int
) -> tuple[float, float]:
    """Medians of the tokens and of the losses of the last few evaluations up to `tokens`."""
    end = bisect_right(times, tokens)
    first = max(0, end - median_of)
    while times[first] < RECENT * times[end - 1]:
        first += 1
    return median(times[first:end]), median(losses[first:end])
