"""Asynchronous successive halving of one budget, by the loss forecast at each rung.

Every trial pauses at a rung. A trial among the best 1/eta of those that have reached the rung is
promoted as soon as that is known (`virtual_time.py` says when). Once no more trials can reach it,
trials whose forecasts are too close to the best one to tell apart are promoted as well. Waiting
costs no tokens, since a trial resumes from its checkpoint. Two things differ from the usual
halving, which is unfair to deep shapes:

- Deep models start slowly, so trials are ranked by the loss forecast for the horizon, with the
  depth bias of the budget's curves (`analysis/forecast.py`), not by their loss at the rung.
- The value at a rung is a median of evaluations, recorded once, exactly at the rung's tokens. A
  diverged trial has none, since a comparison with NaN is always false.

The scheduler, the audit and the replays of learning curves all use this module. How often it keeps
the best trial, and for how many tokens: `python -m benchmarks.answers.spent.stopping_tables`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from fathom.search.analysis.losses.forecast import RungForecast, forecast_ranking
from fathom.search.records import TrialRecord, TrialSpec
from fathom.search.study.keys.groups import StoppingConfig

Ranking = Callable[[Sequence[TrialRecord], int], Mapping[str, RungForecast]]
"""Function that returns the forecast of each trial that has reached a rung, by trial name."""

TOO_CLOSE = 0.5
"""A trial is promoted in any case if its forecast is at most this many standard errors behind the
best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HalvingRule:
    """The rule that pauses and promotes the exploring trials of one budget."""

    eta: float
    """One in `eta` trials is promoted at a rung."""
    first_rung: int = 0
    """Tokens of the first rung at which trials pause; all trials are promoted at earlier rungs."""
    ranking: Ranking = forecast_ranking
    too_close: float = TOO_CLOSE

    def pauses(self, trial: TrialSpec, rung: int) -> bool:
        """True if a trial pauses at a rung until it is promoted."""
        return trial.prunable and rung >= self.first_rung

    def ranked(self, came: Sequence[TrialRecord], rung: int) -> tuple[str, ...]:
        """Names of the trials that have reached a rung, the best forecast first; ties keep the
        given order."""
        forecast = self.ranking(came, rung)
        return tuple(sorted(forecast, key=lambda trial: forecast[trial].loss))

    def promoted(self, exploring: Sequence[TrialRecord], rung: int) -> tuple[str, ...]:
        """Names of the trials that may train beyond a rung which no further trials will reach, best
        first."""
        best, close = self.divided(exploring, rung)
        return best + close

    def divided(
        self, exploring: Sequence[TrialRecord], rung: int
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the promoted trials in two groups: the best 1 in `eta`, at least one; and those
        promoted only because their forecasts are too close to the best."""
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
    """The rule of a study; `first_rung` is the tokens to which an extension has moved the first
    rung."""
    ranking = partial(forecast_ranking, median_of=stopping.median_of)
    return HalvingRule(eta=stopping.eta, first_rung=first_rung, ranking=ranking)
