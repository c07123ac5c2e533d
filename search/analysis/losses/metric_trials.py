"""Chooses the trials whose metrics represent a depth in the paper analyses."""

from collections import defaultdict
from collections.abc import Sequence

from fathom.models.shape import Shape
from fathom.search.records import Stage, TrialRecord


def metric_trials(records: Sequence[TrialRecord]) -> dict[int, list[TrialRecord]]:
    """Returns depth, ascending -> its finished trials: for each shape and seed, the trial with the
    lowest loss over learning rates.

    If a depth has confirmation trials, only these count, as in `depth_estimates.py`: exploration
    trials were selected for low losses.
    """
    finished = [record for record in records if record.loss is not None]
    confirmed = {r.spec.shape.depth for r in finished if r.spec.stage is Stage.CONFIRM}
    best: dict[int, dict[tuple[Shape, int], TrialRecord]] = defaultdict(dict)
    for record in sorted(finished, key=lambda record: record.spec.shape.depth):
        spec = record.spec
        if spec.stage is Stage.CONFIRM or spec.shape.depth not in confirmed:
            known = best[spec.shape.depth].setdefault((spec.shape, spec.seed), record)
            if record.curve[-1].loss < known.curve[-1].loss:
                best[spec.shape.depth][spec.shape, spec.seed] = record
    return {depth: list(trials.values()) for depth, trials in best.items()}
