"""What the stopping rule says of a trial's record: while it runs, after a restart, in the audit."""

from search.records import TrialRecord
from search.scheduler import FairHalving, foresee


def keeps(rule: FairHalving, record: TrialRecord, rung: int) -> bool:
    """Record the trial at a rung that it has reached, in tokens; True when it may train on."""
    spec = record.spec
    foreseen = foresee(
        [(point.tokens, point.loss) for point in record.curve],
        tokens=rung,
        horizon=spec.horizon_tokens,
        median_of=rule.config.median_of,
    )
    return rule.judge(spec.trial, spec.shape.depth, rung, record.rungs[rung], foreseen)
