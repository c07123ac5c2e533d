"""Losses of shapes of one size, beside the order in which a paper found them (VatsaDev 2024).

Two seeds tell little of the noise between seeds, all shapes together more: it is pooled over them.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

from scipy.stats import t as student

from fathom.search.records import Outcome, TrialRecord
from fathom.search.study.keys.config import StudyConfig

PUBLISHED_ORDER = (4, 16, 64, 256, 1)
"""Depths from the lowest loss to the highest: 0.953, 1.103, 1.245, 1.467 and 1.673 nats."""

Losses = Mapping[tuple[int, float], Sequence[float]]
"""Depth and multiple of the rate -> nats of each seed."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise between the seeds of a shape at one rate."""

    deviation: float
    """Standard deviation, nats."""
    degrees_of_freedom: int

    @classmethod
    def of(cls, groups: Sequence[Sequence[float]]) -> "Noise":
        """Noise pooled over groups of seeds; without degrees of freedom if none is repeated."""
        freedom = sum(len(group) - 1 for group in groups)
        squares = sum((x - statistics.fmean(group)) ** 2 for group in groups for x in group)
        return cls(sqrt(squares / freedom) if freedom else 0.0, freedom)

    def half_width(self, *counts: int) -> float:
        """Returns half the 95 % interval of a mean over seeds, or of the difference of two."""
        if not self.degrees_of_freedom:
            return float("inf")
        error = self.deviation * sqrt(sum(1 / count for count in counts))
        return float(student.ppf(0.975, self.degrees_of_freedom)) * error


def shape_tables(config: StudyConfig, records: Sequence[TrialRecord]) -> Iterator[str]:
    """The loss of each shape at each rate, and each pair of the published order compared."""
    finished = [record for record in records if record.outcome is Outcome.FINISHED]
    losses = _losses(finished)
    noise = Noise.of(list(losses.values()))
    widths = {record.spec.shape.depth: record.spec.shape.d_model for record in finished}
    yield "| layers | d_model | rate | loss [95 %] | each |"
    yield "|---|---|---|---|---|"
    for (depth, scale), values in sorted(losses.items()):
        text = interval_text(statistics.fmean(values), noise.half_width(len(values)))
        each = ", ".join(f"{loss:.3f}" for loss in values)
        rate = config.train.learning_rate * scale
        yield f"| {depth} | {widths[depth]} | {rate:g} | {text} | {each} |"
    yield f"\nNoise: {noise.deviation:.3f}, degrees of freedom: {noise.degrees_of_freedom}.\n"
    yield "| published | at one rate | as claimed | each at its best rate | as claimed |"
    yield "|---|---|---|---|---|"
    for better, worse in combinations((depth for depth in PUBLISHED_ORDER if depth in widths), 2):
        difference = _compared(losses, noise, (better, 1.0), (worse, 1.0))
        best = _compared(losses, noise, _best(losses, better), _best(losses, worse))
        yield f"| {better} before {worse} | {difference} | {best} |"


def _losses(finished: Sequence[TrialRecord]) -> Losses:
    losses: defaultdict[tuple[int, float], list[float]] = defaultdict(list)
    for record in sorted(finished, key=lambda record: record.spec.seed):
        assert record.loss is not None, "it has finished"
        losses[record.spec.shape.depth, record.spec.rate_scale].append(record.loss)
    return losses


def _best(losses: Losses, depth: int) -> tuple[int, float] | None:
    """The tried rate with the lowest mean loss of a depth."""
    tried = [key for key in losses if key[0] == depth]
    return min(tried, key=lambda key: statistics.fmean(losses[key])) if len(tried) > 1 else None


def _compared(
    losses: Losses,
    noise: Noise,
    better: tuple[int, float] | None,
    worse: tuple[int, float] | None,
) -> str:
    """Two cells: the second depth's loss minus the first's, and the verdict on the claim."""
    if better is None or worse is None or not {better, worse} <= losses.keys():
        return "not tried | "
    low, high = losses[better], losses[worse]
    difference = statistics.fmean(high) - statistics.fmean(low)
    half = noise.half_width(len(low), len(high))
    verdict = "yes" if difference > half else "no" if difference < -half else "not told apart"
    return f"{interval_text(difference, half)} | {verdict}"


def interval_text(value: float, half: float) -> str:
    """A value in nats with its 95 % interval, as text."""
    return f"{value:.3f} [{value - half:.3f}, {value + half:.3f}]"
