"""Successive halving of one budget, by the loss forecast at each rung.

Every trial pauses at a rung until no more will reach it: then one in `eta` of them is promoted, and
so is each whose forecast is too close to the best one to tell them apart. Waiting
costs no tokens, since a trial resumes from its checkpoint. Two things differ from the usual
halving, which is unfair to deep shapes:

- Deep models start slowly, so trials are ranked by the loss forecast for the horizon, with the
  depth bias of the budget's curves (`analysis/forecast.py`), not by their loss at the rung.
- The value at a rung is a median of evaluations, recorded once, exactly at the rung's tokens. A
  diverged trial has none, since a comparison with NaN is always false.

The scheduler, the audit and the replays of learning curves all ask this module:
`python -m benchmarks.answers.stopping_tables` says what it keeps, and for how many tokens.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from fathom.search.analysis.forecast import RungForecast, forecast_ranking
from fathom.search.records import Outcome, TrialRecord
from fathom.search.study.keys.groups import StoppingConfig

Ranking = Callable[[Sequence[TrialRecord], int], Mapping[str, RungForecast]]
"""Returns the forecast of each trial that reached a rung, by trial name."""

TOO_CLOSE = 0.5
"""Standard errors behind the best forecast within which a trial is promoted in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HalvingRule:
    """The rule that promotes, pauses and resumes the exploring trials of one budget."""

    eta: float
    """One in `eta` trials is promoted at a rung."""
    first_rung: int = 0
    """Tokens of the first rung at which trials pause; at earlier rungs all are promoted."""
    ranking: Ranking = forecast_ranking
    too_close: float = TOO_CLOSE

    def promoted(self, exploring: Sequence[TrialRecord], rung: int) -> tuple[str, ...]:
        """Names of the trials that may train beyond a rung, best first."""
        best, close = self._divided(exploring, rung)
        return best + close

    def undecided(self, exploring: Sequence[TrialRecord], rung: int) -> tuple[str, ...]:
        """Names of the trials that may train beyond a rung only because their forecasts are too
        close to the best one."""
        return self._divided(exploring, rung)[1]

    def pauses(self, trial: TrialRecord, rung: int) -> bool:
        """True if a trial that has just reached a rung pauses there until the others have come."""
        return trial.spec.prunable and rung >= self.first_rung

    def resumed(self, exploring: Sequence[TrialRecord]) -> tuple[str, ...]:
        """Names of the paused trials to resume once no exploring trial trains any more: the
        promoted ones of the earliest rung that has any."""
        at = {r.spec.trial: max(r.rungs) for r in exploring if r.outcome is Outcome.STOPPED}
        for rung in sorted(set(at.values())):
            promoted = self.promoted(exploring, rung)
            names = tuple(trial for trial in promoted if at.get(trial) == rung)
            if names:
                return names
        return ()

    def _divided(
        self, exploring: Sequence[TrialRecord], rung: int
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The promoted trials: the best one in `eta`, at least one, and those too close to call."""
        came = [record for record in exploring if rung in record.rungs]
        if rung < self.first_rung:
            return tuple(record.spec.trial for record in came), ()
        found = self.ranking(came, rung)
        ranked = sorted(found, key=lambda trial: found[trial].loss)
        places = max(1, int(len(ranked) / self.eta))
        close = [
            trial
            for trial in ranked[places:]
            if found[trial].loss - found[ranked[0]].loss <= self.too_close * found[trial].error
        ]
        return tuple(ranked[:places]), tuple(close)


def halving_rule(stopping: StoppingConfig, first_rung: int = 0) -> HalvingRule:
    """The rule of a study; `first_rung` is in tokens where an extension has moved it."""
    ranking = partial(forecast_ranking, median_of=stopping.median_of)
    return HalvingRule(eta=stopping.eta, first_rung=first_rung, ranking=ranking)
