"""Audits the rungs of a budget: compares early stopping with the losses of its finished trials."""

from collections.abc import Sequence
from dataclasses import replace
from math import log

import numpy as np
from scipy.stats import rankdata, spearmanr

from fathom.search.analysis.losses.depth_estimates import Array, seed_noise
from fathom.search.analysis.losses.stalls import Stalls
from fathom.search.records import UNSCALED, Outcome, Stage, TrialRecord
from fathom.search.scheduling.audit import (
    FEWEST_PAIRS,
    FEWEST_TRIALS,
    RungAudit,
    chance_difference,
)
from fathom.search.scheduling.halving import HalvingRule


def audit_stopping(
    records: Sequence[TrialRecord], rule: HalvingRule, stalls: Stalls | None = None
) -> tuple[RungAudit, ...]:
    """The audits of the rungs before the horizon, ascending in tokens, from the records of one
    budget; `stalls` are its trials that stalled, if already known."""
    rungs = sorted({t for r in records for t in r.rungs if t < r.spec.shared_horizon})
    noise = seed_noise(records, stalls).likely_noise if rungs else 0.0
    # A trial at another rate is slow or fast because of the rate, which no rung is to blame for.
    finished = [r for r in records if r.loss is not None and r.spec.scale == UNSCALED]
    audits = [_audit(rung, records, finished, rule, noise) for rung in rungs]
    doubtful = max((audit.rung for audit in audits if audit.trusted is False), default=0)
    later = min((rung for rung in rungs if rung > doubtful), default=None)
    return tuple(replace(audit, later=later) for audit in audits)


def _audit(
    rung: int,
    records: Sequence[TrialRecord],
    finished: Sequence[TrialRecord],
    rule: HalvingRule,
    noise: float,
) -> RungAudit:
    done = [record for record in finished if rung in record.rungs]
    forecast = rule.ranking(done, rung)
    here = np.array([forecast[record.spec.trial].loss for record in done], dtype=np.float64)
    end = np.array([record.loss for record in done], dtype=np.float64)
    depths = np.array([log(record.spec.shape.depth) for record in done])
    sizes = np.array([log(record.spec.shape.params_total) for record in done])
    enough, free = len(done) >= FEWEST_TRIALS, records[0].spec.count.frees_size
    tau, pairs = _kendall_tau(here, end, apart=chance_difference(noise))
    explored = [record for record in done if record.spec.stage is Stage.EXPLORE]
    never_paused = [record for record in explored if not record.spec.prunable]
    exploring = [record for record in records if record.spec.stage is Stage.EXPLORE]
    best, undecided = rule.divided(exploring, rung)
    promoted = {*best, *undecided}
    pruned = [record for record in never_paused if record.spec.trial not in promoted]
    kept = {record.spec.trial for record in explored} - {record.spec.trial for record in pruned}
    stopped = [
        record.spec.shape.depth
        for record in records
        if record.outcome is Outcome.STOPPED and max(record.rungs, default=0) == rung
    ]
    beyond = {record.spec.shape.depth for record in records if record.shared_tokens > rung}
    return RungAudit(
        rung=rung,
        horizon=records[0].spec.shared_horizon,
        unit=records[0].spec.spend.coin.value,
        finished=len(done),
        rank_correlation=tau if enough and pairs >= FEWEST_PAIRS else None,
        pairs=pairs,
        depth_bias=_spearman_rho(depths, rankdata(here) - rankdata(end)) if enough else None,
        size_bias=_spearman_rho(sizes, rankdata(here) - rankdata(end)) if enough and free else None,
        place_of_best=int(rankdata(here)[end.argmin()]) if done else None,
        audit_trials=len(never_paused),
        audit_trials_pruned=len(pruned),
        regret=_regret(pruned, [record for record in explored if record.spec.trial in kept]),
        noise=noise,
        stopped=len(stopped),
        stopped_depths=tuple(sorted(set(stopped))),
        cut_depths=tuple(sorted(set(stopped) - beyond)),
        undecided=len(undecided),
    )


def _kendall_tau(x: Array, y: Array, *, apart: float) -> tuple[float | None, int]:
    """Kendall's tau over the pairs whose `y` differ by more than `apart`, and the number of these
    pairs; scipy's function takes every pair."""
    order = np.argsort(y)
    x, y = x[order], y[order]
    above = np.searchsorted(y, y + apart, side="right")  # for each, the first of those that differ
    pairs = int((len(y) - above).sum())
    agreed = sum(  # not at once, since thousands of trials have millions of pairs
        int(np.count_nonzero(x[first:] > here)) - int(np.count_nonzero(x[first:] < here))
        for here, first in zip(x, above, strict=True)
    )
    return (agreed / pairs if pairs else None), pairs


def _spearman_rho(x: Array, y: Array) -> float:
    """Spearman's rank correlation; 0 if all values of `x` or of `y` are equal, for example no
    gains."""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return float(spearmanr(x, y).statistic) + 0.0  # so that there is no -0.0


def _regret(pruned: Sequence[TrialRecord], kept: Sequence[TrialRecord]) -> float | None:
    ends, kept_ends = ([r.loss for r in group if r.loss is not None] for group in (pruned, kept))
    return max(0.0, min(kept_ends) - min(ends)) if ends and kept_ends else None
