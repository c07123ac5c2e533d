"""The best depth of a budget at equal operations, seconds or tokens, where its trials were equal in
another of them: read off their learning curves, without new training.

The amount is the largest that every finished shape has spent. A shape that spent more is read at
the tokens that the amount pays for. What it would have ended with there is its final loss and the
loss that its curve has higher, at the constant rate, at that share of the tokens before the
cool-down: a cool-down gains about as much after a training of 0.8 of the tokens as after a whole
one. With a rate that falls from the start no such curve exists, and nothing is read.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from math import hypot, log, sqrt
from statistics import fmean, median

import numpy as np

from fathom.models.shape import Shape
from fathom.search.analysis.optimum import Located, Optimum, find_optimum
from fathom.search.analysis.rung_value import LOOK_BACK
from fathom.search.records import SEVERAL, CurvePoint, TrialRecord

LEAST_SHARE = 1 / LOOK_BACK
"""Smallest share of its tokens at which a trial is read."""
LONGEST_COOLDOWN = 0.5
"""Share of a training from which on its cool-down is too long for what it gains to be the same
after a shorter one."""
FEWEST_EVALUATIONS = 3
"""Evaluations at the constant rate, about the tokens where a trial is read, that its slope takes.
"""
STRAIGHT = 0.5
"""Share of the tokens before the cool-down from which on a curve counts as straight in
1 / sqrt(tokens), unless a trial is read earlier."""
MISREAD = 0.25
"""Standard error of the loss by which a trial is moved, as a share of it. For models of 20k
parameters that trained on 300k, 420k and 600k tokens, each with its cool-down, it came out 31 % too
small from 420k to 300k, 9 % from 600k to 300k, and 6 % from 600k to 420k."""
UNEVEN = 0.25
"""Standard deviation of ln(seconds a token) among trials of a depth from which on times do not
compare."""


class Coin(StrEnum):
    """What all trials of a comparison spend alike."""

    TOKENS = "tokens"
    FLOPS = "FLOPs"
    SECONDS = "seconds"


class WhyNot(Enum):
    """Why nothing is read."""

    NO_CONSTANT_RATE = "no part of a training has a constant rate"
    OTHER_SCHEDULE = "the schedule is that of a training command"
    PRETRAINING = "a training has two parts"
    PATIENCE = "a trial counts with its lowest evaluation"
    AUTO_SIZING = "models shrink while they train"
    TOO_EARLY = "a depth would be read too early"
    FEW_EVALUATIONS = "a trial has too few evaluations"
    NOT_TIMED = "no device has timed every finished depth"
    UNEVEN_TIMES = "times of a depth differ too much"


@dataclass(frozen=True, slots=True)
class Schedule:
    """Shares of a training: the rate rises, then is constant, then falls."""

    warmup: float
    cooldown: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualSpend:
    """The answer of a budget at an equal amount of a coin."""

    coin: Coin
    amount: float
    optimum: Optimum
    shares: tuple[tuple[int, float], ...]
    """Finished depth -> smallest share of its tokens at which a trial of it is read."""
    device: str = ""
    """Where the seconds were measured; empty for another coin."""
    spread: float | None = None
    """Standard deviation of ln(seconds a token) among trials of a depth; None for another coin, and
    where no depth was timed twice."""

    @property
    def budget(self) -> int:
        """Parameters asked for."""
        return self.optimum.budget


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRead:
    """A budget for which trials do not say the best depth at equal amounts of a coin."""

    budget: int
    coin: Coin
    why: WhyNot
    depth: int | None = None
    """The depth that is in the way, if one is."""
    value: float | None = None
    """The share at which it would be read, or the spread of times."""


Answer = EqualSpend | NotRead
"""The answer of a budget at equal amounts of a coin, or why there is none."""


@dataclass(frozen=True, slots=True)
class _Price:
    """What a token costs in a coin, by shape; None where that is not known."""

    of: Callable[[Shape], float | None]
    device: str = ""
    spread: float | None = None
    trials: Mapping[int, int] | None = None
    """Depth -> number of trials that were timed."""

    def error(self, depth: int) -> float:
        """Standard error of ln(price)."""
        return self.spread / sqrt(self.trials[depth]) if self.trials and self.spread else 0.0


@dataclass(frozen=True, slots=True)
class _ReadTrial:
    """A finished trial, read at a share of its tokens."""

    record: TrialRecord
    change: float
    """Loss above that of the whole training, nats."""
    line_error: float
    """Standard error of `change` by the scatter of the evaluations."""
    steepness: float
    """Fall of the loss there with each unit of ln(tokens)."""


def equal_spends(
    records: Sequence[TrialRecord], known: Optimum, schedule: Schedule | WhyNot, *, seed: int
) -> tuple[Answer, ...]:
    """The answers of a budget at equal amounts of the coins that its trials did not share, `known`
    being its answer; `schedule` is how they trained, or why that is not known.

    Empty with fewer than three finished depths.
    """
    if not isinstance(known, Located):
        return ()
    others = (coin for coin in Coin if coin.value != known.horizon_unit)
    return tuple(_answer(records, schedule, coin, known.budget, seed) for coin in others)


class _Refusal(Exception):
    """Why an amount of a coin can't be read, with the depth and the value that are in the way."""

    def __init__(self, why: WhyNot, depth: int | None = None, value: float | None = None) -> None:
        super().__init__(why.value)
        self.why, self.depth, self.value = why, depth, value


def _answer(
    records: Sequence[TrialRecord], schedule: Schedule | WhyNot, coin: Coin, budget: int, seed: int
) -> Answer:
    try:
        if isinstance(schedule, WhyNot):
            raise _Refusal(schedule)
        if schedule.cooldown > LONGEST_COOLDOWN:
            raise _Refusal(WhyNot.NO_CONSTANT_RATE)
        return _at_equal(records, schedule, coin, seed)
    except _Refusal as refusal:
        return NotRead(
            budget=budget, coin=coin, why=refusal.why, depth=refusal.depth, value=refusal.value
        )


def _at_equal(
    records: Sequence[TrialRecord], schedule: Schedule, coin: Coin, seed: int
) -> EqualSpend:
    """The answer at the largest amount that every finished shape has spent.

    Raises:
        _Refusal: if it can't be read.
    """
    price = _price(records, coin)
    costs = _costs(records, price)
    amount = min(cost * record.tokens for record, cost in costs)
    shares = _shares(costs, amount)
    readings = [_read(record, amount / cost, schedule) for record, cost in costs]
    moved = _moved(records, readings, coin, amount, price, schedule)
    return EqualSpend(
        coin=coin,
        amount=amount,
        optimum=find_optimum(moved, seed=seed, errors=_errors(readings, price)),
        shares=shares,
        device=price.device,
        spread=price.spread,
    )


def _costs(records: Sequence[TrialRecord], price: _Price) -> list[tuple[TrialRecord, float]]:
    """The finished trials with what a token of each costs."""
    if price.spread is not None and price.spread > UNEVEN:
        raise _Refusal(WhyNot.UNEVEN_TIMES, value=price.spread)
    found = []
    for record in records:
        cost = price.of(record.spec.shape)
        if record.loss is not None and cost is None:
            raise _Refusal(WhyNot.NOT_TIMED, record.spec.shape.depth)
        if record.loss is not None and cost is not None:
            found.append((record, cost))
    return found


def _shares(
    costs: Sequence[tuple[TrialRecord, float]], amount: float
) -> tuple[tuple[int, float], ...]:
    """Depth -> the smallest share of its tokens at which a trial is read."""
    shares: dict[int, float] = {}
    for record, cost in costs:
        depth = record.spec.shape.depth
        shares[depth] = min(shares.get(depth, 1.0), amount / (cost * record.tokens))
    earliest = min(shares, key=lambda depth: shares[depth])
    if shares[earliest] < LEAST_SHARE:
        raise _Refusal(WhyNot.TOO_EARLY, earliest, shares[earliest])
    return tuple(sorted(shares.items()))


def _price(records: Sequence[TrialRecord], coin: Coin) -> _Price:
    if coin is Coin.TOKENS:
        return _Price(lambda _: 1.0)
    if coin is Coin.FLOPS:
        return _Price(lambda shape: shape.train_flops_per_token)
    return _timed(records)


def _timed(records: Sequence[TrialRecord]) -> _Price:
    """Seconds a token by depth, the median of its trials, on the device that timed most depths."""
    devices: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        seconds = seconds_of_a_token(record)
        if seconds is not None and record.device and SEVERAL not in record.device:
            devices[record.device][record.spec.shape.depth].append(seconds)
    if not devices:
        return _Price(lambda _: None)
    device = max(devices, key=lambda name: (len(devices[name]), name))
    times = devices[device]
    middle = {depth: median(found) for depth, found in times.items()}
    off = [log(each / middle[depth]) ** 2 for depth, found in times.items() for each in found]
    spare = len(off) - len(times)
    return _Price(
        lambda shape: middle.get(shape.depth),
        device=device,
        spread=sqrt(sum(off) / spare) if spare else None,
        trials={depth: len(found) for depth, found in times.items()},
    )


def seconds_of_a_token(record: TrialRecord) -> float | None:
    """Median seconds of training a token, between evaluations; None where they are not known."""
    pairs = zip(record.curve, record.curve[1:], strict=False)
    found = [
        (later.train_seconds - earlier.train_seconds) / (later.tokens - earlier.tokens)
        for earlier, later in pairs
        if later.tokens > earlier.tokens and later.train_seconds > earlier.train_seconds
    ]
    return median(found) if found else None


def _read(record: TrialRecord, tokens: float, schedule: Schedule) -> _ReadTrial:
    """The loss that a finished trial would have ended with after fewer tokens.

    Raises:
        _Refusal: where its curve does not say it.
    """
    share, whole, depth = tokens / record.tokens, record.tokens, record.spec.shape.depth
    if share >= 1:
        return _ReadTrial(record, 0.0, 0.0, 0.0)
    start, end = schedule.warmup * whole, (1 - schedule.cooldown) * whole
    if share * end <= start:
        raise _Refusal(WhyNot.NO_CONSTANT_RATE, depth)
    half_a_step = record.curve[-1].tokens / record.curve[-1].step / 2
    constant = [p for p in record.curve if start <= p.tokens <= end + half_a_step]
    before = [p.tokens for p in constant if p.tokens <= share * end]
    if not before:
        raise _Refusal(WhyNot.FEW_EVALUATIONS, depth)
    straight = [p for p in constant if p.tokens >= min(before[-1], STRAIGHT * end)]
    if len(straight) < FEWEST_EVALUATIONS:
        raise _Refusal(WhyNot.FEW_EVALUATIONS, depth)
    slope, error = _slope(straight)
    way = 1 / sqrt(share * end) - 1 / sqrt(end)
    return _ReadTrial(record, slope * way, error * way, slope / (2 * sqrt(share * end)))


def _slope(points: Sequence[CurvePoint]) -> tuple[float, float]:
    """Slope of the loss over 1 / sqrt(tokens) by least squares, and its standard error."""
    x = np.array([1 / sqrt(point.tokens) for point in points])
    y = np.array([point.loss for point in points])
    x, y = x - x.mean(), y - y.mean()
    spread = float(x @ x)
    slope = float(x @ y) / spread
    left = float(((y - slope * x) ** 2).sum()) / (len(points) - 2)
    return slope, sqrt(left / spread)


def _errors(readings: Sequence[_ReadTrial], price: _Price) -> dict[Shape, float]:
    """Standard error of the loss of each shape, nats, besides the noise between seeds."""
    shapes: dict[Shape, list[_ReadTrial]] = defaultdict(list)
    for reading in readings:
        shapes[reading.record.spec.shape].append(reading)
    return {
        shape: hypot(
            MISREAD * fmean(reading.change for reading in found),
            sqrt(fmean(reading.line_error**2 for reading in found) / len(found)),
            fmean(reading.steepness for reading in found) * price.error(shape.depth),
        )
        for shape, found in shapes.items()
    }


def _moved(
    records: Sequence[TrialRecord], readings: Sequence[_ReadTrial], coin: Coin, amount: float,
    price: _Price, schedule: Schedule,
) -> list[TrialRecord]:  # fmt: skip
    """The trials as if each had been planned to spend the amount: those that finished with the
    losses that were read, the others as far as they came."""
    read = {reading.record.spec.trial: reading for reading in readings}
    shared = max(record.spec.horizon_tokens for record in records)
    moved = []
    for record in records:
        cost = price.of(record.spec.shape)
        if cost is None:
            continue
        tokens = max(1, round(amount / cost))
        spec = replace(
            record.spec,
            horizon_tokens=tokens,
            flops_to_spend=amount if coin is Coin.FLOPS else None,
            seconds_to_spend=None,
            shared_tokens=None if coin is Coin.TOKENS else shared,
        )
        curve = tuple(p for p in record.curve if p.tokens < (1 - schedule.cooldown) * tokens)
        if reading := read.get(record.spec.trial):
            last = record.curve[-1]
            curve += (replace(last, tokens=tokens, loss=last.loss + reading.change),)
        moved.append(replace(record, spec=spec, curve=curve, rungs={}))
    return moved
