"""What auto-sizing leaves, and its loss and BLEU, by strength, as Murray et al. 2019 compare them.

Each strength is a study of its own with the same shapes and seeds, so that a training with a
penalty has one without to be compared with.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.papers.depth_gains import trials_of
from benchmarks.papers.shapes import Noise, interval_text
from fathom.search.records import TrialRecord
from fathom.search.study.keys.config import StudyConfig

BLEU = "bleu/beam"
LEFT = "parameters_left"
"""Metric of a training with a penalty; one without keeps all parameters."""

Trainings = Mapping[tuple[int, int], TrialRecord]
"""Depth and seed -> the training that finished."""


def strength_tables(config: StudyConfig, records: Sequence[TrialRecord]) -> Iterator[str]:
    """What one strength leaves of each depth, with the loss and the BLEU of each seed."""
    yield f"strength {_strength(config):g}"
    yield ""
    yield "| layers | parameters | left | layers left | loss, each | BLEU, each |"
    yield "|---|---|---|---|---|---|"
    for depth, by_seed in trials_of(records).items():
        trained = list(by_seed.values())
        cells = (
            str(depth),
            f"{trained[0].spec.shape.params_total:,}",
            f"{statistics.fmean(map(_share_left, trained)):.0%}",
            f"{statistics.fmean(_metric(record, 'layers_left', depth) for record in trained):.3g}",
            ", ".join(f"{record.curve[-1].loss:.3f}" for record in trained),
            ", ".join(f"{_bleu(record):.1f}" for record in trained),
        )
        yield f"| {' | '.join(cells)} |"


def strength_lines(studies: Sequence[tuple[StudyConfig, Sequence[TrialRecord]]]) -> Iterator[str]:
    """Each strength against none, over all pairs of trainings of one depth and one seed."""
    by_strength = {_strength(config): _trainings(records) for config, records in studies}
    without = by_strength.pop(0.0, {})
    if not (without and by_strength):
        return
    yield (
        "\n| strength | pairs | parameters left | loss more than without [95 %] | as claimed | "
        "BLEU more than without [95 %] |"
    )
    yield "|---|---|---|---|---|---|"
    for strength, by_key in sorted(by_strength.items()):
        pairs = [(by_key[key], without[key]) for key in sorted(by_key.keys() & without.keys())]
        losses = [record.curve[-1].loss - other.curve[-1].loss for record, other in pairs]
        gains = [_bleu(record) - _bleu(other) for record, other in pairs]
        left = statistics.fmean(_share_left(record) for record, _ in pairs)
        loss, half = statistics.fmean(losses), _half(losses)
        cells = (
            f"{strength:g}",
            str(len(pairs)),
            f"{left:.0%}",
            interval_text(loss, half),
            _judged(left, loss, half),
            interval_text(statistics.fmean(gains), _half(gains)),
        )
        yield f"| {' | '.join(cells)} |"


def _judged(left: float, loss: float, half: float) -> str:
    """If there are fewer parameters and the loss is no higher, which an interval can't show."""
    if left == 1:
        return "nothing is deleted"
    return "no" if loss > half else "yes, it is lower" if loss < -half else "not settled"


def _half(values: Sequence[float]) -> float:
    return Noise.of([values]).half_width(len(values))


def _trainings(records: Sequence[TrialRecord]) -> Trainings:
    return {
        (depth, seed): record
        for depth, by_seed in trials_of(records).items()
        for seed, record in by_seed.items()
    }


def _share_left(record: TrialRecord) -> float:
    whole = record.spec.shape.params_total
    return _metric(record, LEFT, whole) / whole


def _bleu(record: TrialRecord) -> float:
    return _metric(record, BLEU, 0.0)


def _metric(record: TrialRecord, name: str, default: float) -> float:
    return record.curve[-1].metrics.get(name, default)


def _strength(config: StudyConfig) -> float:
    return config.train.auto_sizing.strength
