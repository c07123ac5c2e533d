"""Asynchronous successive halving of one budget, by the loss forecast at each rung.

At a rung one in `eta` of the trials that reached it is promoted; the others pause. A paused trial
is resumed once it is among the promoted, because more trials have come or no more will: pausing
early loses nothing. Two things differ from the usual ASHA, which is unfair to deep shapes:

- Deep models start slowly, so trials are ranked by the loss forecast for the horizon, with the
  depth bias of the budget's curves (`analysis/forecast.py`), not by their loss at the rung.
- The value at a rung is a median of evaluations, recorded once, exactly at the rung's tokens. A
  diverged trial has none, since a comparison with NaN is always false.

The scheduler, the audit and the replays of learning curves all ask this module:
`python -m benchmarks.answers.stopping TABLE.csv` compares it with the usual ASHA.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from fathom.search.analysis.forecast import forecast_ranking
from fathom.search.records import Outcome, TrialRecord
from fathom.search.study.groups import StoppingConfig

Ranking = Callable[[Sequence[TrialRecord], int], Mapping[str, float]]
"""Returns the forecast loss of each trial that reached a rung, by trial name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HalvingRule:
    """The rule that promotes, pauses and resumes the exploring trials of one budget."""

    eta: float
    """One in `eta` trials is promoted at a rung."""
    first_rung: int = 0
    """Tokens of the first rung at which trials pause; at earlier rungs all are promoted."""
    ranking: Ranking = forecast_ranking

    def promoted(
        self, exploring: Sequence[TrialRecord], rung: int, *, complete: bool
    ) -> tuple[str, ...]:
        """Names of the trials that may train beyond a rung, best first.

        As long as more trials may reach the rung (not `complete`), one is promoted for every `eta`:
        the first to come is not the best of all. In the end the number of promoted trials is
        rounded up, so that there is at least one.
        """
        came = [record for record in exploring if rung in record.rungs]
        if rung < self.first_rung:
            return tuple(record.spec.trial for record in came)
        losses = self.ranking(came, rung)
        share = len(losses) / self.eta
        places = math.ceil(share) if complete else math.floor(share)
        return tuple(sorted(losses, key=lambda trial: losses[trial])[:places])

    def pauses(self, trial: TrialRecord, exploring: Sequence[TrialRecord], rung: int) -> bool:
        """True if a trial that has just reached a rung pauses there."""
        if not trial.spec.prunable:
            return False
        return trial.spec.trial not in self.promoted(exploring, rung, complete=False)

    def resumed(self, exploring: Sequence[TrialRecord], *, complete: bool) -> tuple[str, ...]:
        """Names of the paused trials that are promoted by now from one rung, best first.

        The rung is the furthest at which there are any; the earliest when no more trials will come
        (`complete`), since a trial resumed at an early rung may reach the later ones.
        """
        at = {r.spec.trial: max(r.rungs) for r in exploring if r.outcome is Outcome.STOPPED}
        for rung in sorted(set(at.values()), reverse=not complete):
            promoted = self.promoted(exploring, rung, complete=complete)
            names = tuple(trial for trial in promoted if at.get(trial) == rung)
            if names:
                return names
        return ()


def halving_rule(stopping: StoppingConfig, first_rung: int = 0) -> HalvingRule:
    """The rule of a study; `first_rung` is in tokens where an extension has moved it."""
    ranking = partial(forecast_ranking, median_of=stopping.median_of)
    return HalvingRule(eta=stopping.eta, first_rung=first_rung, ranking=ranking)
