"""What the stopping rule says of a trial's record: while it runs, after a restart, in the audit."""

from search.records import TrialRecord
from search.scheduler import FairHalving, foresee


def keeps(rule: FairHalving, record: TrialRecord, rung: int) -> bool:
    """Record the trial at a rung that it has reached, in tokens; True when it may train on."""
    spec, foreseen = record.spec, _foreseen(rule, record, rung)
    return rule.judge(spec.trial, spec.shape.depth, rung, record.rungs[rung], foreseen)


def views(rule: FairHalving, record: TrialRecord, rung: int) -> tuple[float, float]:
    """The two losses by which the rule compares the trial there."""
    spec, foreseen = record.spec, _foreseen(rule, record, rung)
    entry = rule.entry(spec.trial, spec.shape.depth, record.rungs[rung], foreseen)
    return entry.wary, entry.hopeful


def _foreseen(rule: FairHalving, record: TrialRecord, rung: int) -> float | None:
    return foresee(
        [(point.tokens, point.loss) for point in record.curve],
        tokens=rung,
        horizon=record.spec.horizon_tokens,
        median_of=rule.config.median_of,
    )
