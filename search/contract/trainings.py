"""The next trainings to buy for a question, by the cause of its verdict and by what is in doubt."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log, sqrt
from statistics import median

from fathom.models.shape import Shape
from fathom.search.analysis import verdict as v
from fathom.search.analysis.optimum import Located, Optimum, find_with_posterior
from fathom.search.analysis.posterior import Posterior
from fathom.search.analysis.scaled_shape import FLOPS_OF_A_PARAMETER, scaled_shape
from fathom.search.analysis.token_law import TOKENS
from fathom.search.conclusion.findings import Findings
from fathom.search.contract.reply import Brings, NextTraining, Price, Sizes
from fathom.search.records import UNSCALED, Outcome, TrialRecord
from fathom.search.scheduling.telling import doubt_left, doubt_of, most_telling

TOGETHER = 3
"""Most trainings that are named at once: those after them depend on what these bring."""
WORTH = 0.01
"""Share by which a training must be expected to reduce the doubt, to be named before others."""
NOISE = "says how far seeds differ, without which depth can't be told from noise"
AGAIN = "narrows what the best depth may be"
NEW = "shows the loss of a depth that was not trained"
BEYOND = "shows whether the best depth lies beyond {}"
CURVE = "a curve needs three depths"


@dataclass(frozen=True)
class Buying:
    """What may be bought for one answer."""

    findings: Findings
    optimum: Optimum
    noise: float | None
    """Noise between seeds that was stated, nats."""

    def trainings(self) -> Iterator[NextTraining]:
        """Yields the next trainings, the most telling first."""
        seen = set[tuple[int, int]]()
        for depth, text in self._wanted():
            training = self._training(depth, text, seen)
            seen.add((depth, training.seed))
            yield training

    def _wanted(self) -> Iterator[tuple[int, str]]:
        """Yields depths to train, each with what it brings."""
        known, cause = self.optimum, self.optimum.verdict.cause
        if not known.depths or known.kind.settled:
            return
        if isinstance(known.verdict.remedy, v.NoRemedy):  # no shape of the study meets its budget
            return
        match cause:
            case v.TooFewDepths():
                yield from ((depth, CURVE) for depth in self._for_a_curve())
            case v.NoiseUnknown():
                yield from ((depth, NOISE) for depth in self._lowest(TOGETHER))
            case v.BestAtEnd(end, deeper):
                beyond = 2 * end if deeper else max(known.least_depth, end // 2)
                yield beyond, BEYOND.format(end)
            case v.NoneFinishedBeyond(end, _):
                yield from ((depth, BEYOND.format(end)) for depth in self._paused_beyond(end))
            case v.BetweenTested():
                yield from ((depth, NEW) for depth in (known.expected_depth,) if depth)
            case v.BelowMeasured(depth):
                yield depth, NEW
            case v.MayCostMore() | v.NoiseHidesDepth() | v.SearchUnfinished():
                yield from self._telling()

    def _for_a_curve(self) -> list[int]:
        """Depths beside one or two trained ones that make three."""
        tried = [estimate.depth for estimate in self.optimum.depths]
        shallow, deep = tried[0], tried[-1]
        between = round(sqrt(shallow * deep))
        least = self.optimum.least_depth
        options = [between, 2 * deep, max(least, shallow // 2), 4 * deep]
        new = [depth for depth in dict.fromkeys(options) if depth not in tried]
        return new[: TOGETHER - len(tried)]

    def _lowest(self, number: int) -> list[int]:
        """The trained depths with the lowest losses."""
        ranked = sorted(self.optimum.depths, key=lambda estimate: estimate.loss)
        return [estimate.depth for estimate in ranked[:number]]

    def _paused_beyond(self, end: int) -> list[int]:
        """The depth nearest to an end of the finished ones that was paused beyond it."""
        tried = [estimate.depth for estimate in self.optimum.depths]
        paused = {r.spec.shape.depth for r in self._records if r.outcome is Outcome.STOPPED}
        beyond = paused - set(range(tried[0], tried[-1] + 1))
        return sorted(beyond, key=lambda depth: abs(log(depth / end)))[:1]

    def _telling(self) -> list[tuple[int, str]]:
        """The depths that tell most about the answer; else those that were trained least of the
        interval."""
        known, posterior = self.optimum, self._posterior
        if posterior is None or not isinstance(known, Located):
            return [(depth, CURVE) for depth in self._for_a_curve()]
        low, high = known.interval
        trained = {estimate.depth: estimate.trials for estimate in known.depths}
        inside = [int(d) for d in posterior.depths if low <= d <= high]
        candidates = sorted({*inside, *trained})
        doubt = doubt_of(posterior, known)
        depths = most_telling(posterior, doubt, candidates, TOGETHER, WORTH)
        depths = depths or sorted(inside, key=lambda depth: trained.get(depth, 0))[:1]
        return [(depth, AGAIN if depth in trained else NEW) for depth in depths]

    @cached_property
    def _records(self) -> list[TrialRecord]:
        return self.findings.records_of(self.optimum.budget)

    @cached_property
    def _posterior(self) -> Posterior | None:
        return find_with_posterior(self._records, seed=self.findings.seed, noise=self.noise)[1]

    def _training(self, depth: int, text: str, seen: set[tuple[int, int]]) -> NextTraining:
        known = self.optimum
        near = min(known.depths, key=lambda estimate: abs(log(estimate.depth / depth)))
        shape = self._shape(near.shape, depth)
        timed = known.horizon_unit != ""
        return NextTraining(
            shape=Sizes.model_validate(shape),
            seed=self._seed(depth, seen),
            tokens=self._tokens(shape) if timed else None,
            price=Price(flops=self._flops(shape), seconds=self._seconds(near.depth)),
            brings=Brings(text=text, doubt_left=self._left(depth)),
        )

    def _shape(self, near: Shape, depth: int) -> Shape | Sizes:
        """The shape of a depth: that which was trained, one with its options, or for a table the
        width that 12 depth d_model² parameters ask for."""
        known = self.optimum
        if known.shape is None:  # of a table
            width = near.d_model if depth == near.depth else _scaled_width(near, depth)
            return Sizes(depth=depth, d_model=width)
        if depth == near.depth:
            return near
        if near.own_counts or not known.count.of_parameters:
            return Sizes(depth=depth, d_model=_scaled_width(near, depth))
        return scaled_shape(near, known.budget, depth, known.count)

    def _tokens(self, shape: Shape | Sizes) -> int | None:
        """What a training of a shape takes; None where that depends on sizes which are unknown."""
        flops = self.optimum.flops_to_spend
        if self.optimum.seconds_to_spend is not None:
            return self._trained_tokens(shape)
        if flops is None:
            return self.optimum.tokens
        return round(flops / shape.train_flops_per_token) if isinstance(shape, Shape) else None

    def _trained_tokens(self, shape: Shape | Sizes) -> int | None:
        """Tokens of the trials of a shape; None where none trained."""
        specs = (record.spec for record in self._records)
        return next((spec.horizon_tokens for spec in specs if spec.shape == shape), None)

    def _flops(self, shape: Shape | Sizes) -> float | None:
        known = self.optimum
        if known.flops_to_spend is not None:
            return known.flops_to_spend
        if isinstance(shape, Shape):
            tokens = self._tokens(shape)
            return None if tokens is None else shape.train_flops_per_token * tokens
        if known.count.of_parameters and known.horizon_unit == TOKENS:
            return FLOPS_OF_A_PARAMETER * known.budget * known.tokens
        return None

    def _seconds(self, depth: int) -> float | None:
        """Seconds that finished trainings of a depth took, in the median; else those that all
        trainings spend."""
        took = [
            record.curve[-1].train_seconds
            for record in self._records
            if record.spec.shape.depth == depth and record.loss is not None and record.curve
        ]
        spent = self.optimum.seconds_to_spend
        return (median(took) or None) if took else spent

    def _seed(self, depth: int, seen: set[tuple[int, int]]) -> int:
        """The first seed above those with which a depth was trained."""
        specs = [record.spec for record in self._records if record.spec.shape.depth == depth]
        trained = [spec.seed for spec in specs if spec.scale == UNSCALED]
        asked = [seed for other, seed in seen if other == depth]
        return max([-1, *trained, *asked]) + 1

    def _left(self, depth: int) -> float | None:
        known, posterior = self.optimum, self._posterior
        if posterior is None or not isinstance(known, Located):
            return None
        if depth not in posterior.depths:
            return None
        return doubt_left(posterior, doubt_of(posterior, known), depth)


def next_trainings(
    findings: Findings, optimum: Optimum, noise: float | None
) -> Sequence[NextTraining]:
    """The next trainings to buy for an answer; none where it is settled or none helps."""
    return tuple(Buying(findings, optimum, noise).trainings())


def _scaled_width(near: Shape, depth: int) -> int:
    return max(1, round(near.d_model * sqrt(near.depth / depth)))
