"""Chooses the trials whose metrics represent a depth in the paper analyses."""

from collections.abc import Sequence
from itertools import groupby

from fathom.models.shape import Shape
from fathom.search.records import Outcome, Stage, TrialRecord


def metric_trials(records: Sequence[TrialRecord]) -> dict[int, list[TrialRecord]]:
    """Returns depth, ascending -> its finished trials: one for each shape and seed, at the rate of
    lowest loss.

    Only confirmation trials count where there are any, as in `depth_estimates.py`: exploration
    trials were selected for having come out low.
    """
    finished = [record for record in records if record.outcome is Outcome.FINISHED]
    ordered = sorted(finished, key=_depth)
    return {depth: _best_rates(_fresh(list(own))) for depth, own in groupby(ordered, key=_depth)}


def _depth(record: TrialRecord) -> int:
    return record.spec.shape.depth


def _fresh(records: list[TrialRecord]) -> list[TrialRecord]:
    confirming = [record for record in records if record.spec.stage is Stage.CONFIRM]
    return confirming or records


def _best_rates(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    best: dict[tuple[Shape, int], TrialRecord] = {}
    for record in records:
        key = record.spec.shape, record.spec.seed
        best[key] = min((best.get(key, record), record), key=_loss)
    return list(best.values())


def _loss(record: TrialRecord) -> float:
    assert record.loss is not None, "only finished trials have a loss at the horizon"
    return record.loss
