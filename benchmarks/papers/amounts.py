"""Losses of depths by the number of training pairs, as Van Biljon et al. 2020 compare them.

The claim has two parts, and each is a difference with its interval, not the place of a minimum: a
deep model is no better than a moderate one, and what deep models lose by their depth shrinks as the
pairs grow.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.papers.shapes import Noise, interval_text
from fathom.objectives.rows.translation.keys import TranslationConfig
from fathom.search.records import Outcome, TrialRecord
from fathom.search.study.keys.config import StudyConfig

MODERATE = 6
"""Layers of both stacks together that the paper found best: 3 each."""

Losses = Mapping[int, Sequence[float]]
"""Depth -> nats of each seed."""


def amount_tables(config: StudyConfig, records: Sequence[TrialRecord]) -> Iterator[str]:
    """The loss and the BLEU of each depth, and each other depth against `MODERATE` layers."""
    finished = [record for record in records if record.outcome is Outcome.FINISHED]
    losses = _losses(finished)
    noise = Noise.of(list(losses.values()))
    bleu = defaultdict(list)
    for record in finished:
        bleu[record.spec.shape.depth].append(record.curve[-1].metrics.get("bleu/beam", 0.0))
    yield f"{_pairs(config):,} pairs"
    yield ""
    yield f"| layers | loss [95 %] | each | BLEU | loss above that of {MODERATE} layers |"
    yield "|---|---|---|---|---|"
    for depth, values in sorted(losses.items()):
        text = interval_text(statistics.fmean(values), noise.half_width(len(values)))
        each = ", ".join(f"{loss:.3f}" for loss in values)
        other = _excess(losses, noise, depth, MODERATE) if depth != MODERATE else None
        above = interval_text(*other) if other else "-"
        yield f"| {depth} | {text} | {each} | {statistics.fmean(bleu[depth]):.1f} | {above} |"
    yield f"\nNoise: {noise.deviation:.3f}, degrees of freedom: {noise.degrees_of_freedom}."


def growth_lines(studies: Sequence[tuple[StudyConfig, Sequence[TrialRecord]]]) -> Iterator[str]:
    """Lines on whether depth pays more with more pairs."""
    by_pairs = {
        _pairs(config): _losses([r for r in records if r.outcome is Outcome.FINISHED])
        for config, records in sorted(studies, key=lambda study: _pairs(study[0]))
    }
    if len(by_pairs) < 2:
        return
    noise = Noise.of([values for losses in by_pairs.values() for values in losses.values()])
    yield "\n| pairs | layers | loss of the deepest above the shallowest | than with fewer pairs |"
    yield "|---|---|---|---|"
    before: tuple[float, float] | None = None
    for pairs, losses in by_pairs.items():
        low, high = min(losses), max(losses)
        found = _excess(losses, noise, high, low)
        verdict = "-" if before is None else _smaller(found, before)
        yield f"| {pairs:,} | {high} and {low} | {interval_text(*found)} | {verdict} |"
        before = found


def _smaller(now: tuple[float, float], before: tuple[float, float]) -> str:
    difference = now[0] - before[0]
    half = (now[1] ** 2 + before[1] ** 2) ** 0.5
    verdict = "not told apart" if abs(difference) <= half else "less" if difference < 0 else "more"
    return f"{interval_text(difference, half)} {verdict}"


def _pairs(config: StudyConfig) -> int:
    assert isinstance(config.objective, TranslationConfig)
    return config.objective.train_pairs or 0


def _losses(finished: Sequence[TrialRecord]) -> Losses:
    losses: defaultdict[int, list[float]] = defaultdict(list)
    for record in sorted(finished, key=lambda record: record.spec.seed):
        assert record.loss is not None, "it has finished"
        losses[record.spec.shape.depth].append(record.loss)
    return losses


def _excess(losses: Losses, noise: Noise, depth: int, other: int) -> tuple[float, float]:
    """The loss of a depth above that of another, and half its 95 % interval; NaN if not tried."""
    if other not in losses:
        return float("nan"), float("nan")
    here, others = losses[depth], losses[other]
    difference = statistics.fmean(here) - statistics.fmean(others)
    return difference, noise.half_width(len(here), len(others))
