"""Successive halving for one budget, asynchronous, by what a rung foretells. No Ray: it is asked.

At a rung one in `eta` of the trials that came there goes on, and the others pause. When more come,
or when no more will, those of them that now belong to the best are taken up again: nothing is lost
by pausing early. It differs from the usual ASHA where that is unfair or wrong for shapes:

- Deep models start slowly, so trials are ranked by the loss that they would have at the horizon,
  given how what is still to come leans on depth (`analysis/forecast.py`), not by that at the rung.
- A loss is recorded once, exactly at the rung's tokens, as a median of evaluations.
- Some trials never pause, so that the rule can be audited; a diverged trial is never recorded,
  since a comparison with NaN is always false.

`python -m benchmarks.answers.stopping TABLE.csv` compares it with the usual ASHA on real learning
curves.
"""

import math
from collections.abc import Sequence

from fathom.search.analysis.forecast import forecast_ranking
from fathom.search.records import TrialRecord


def promoted(
    records: Sequence[TrialRecord], rung: int, *, eta: float, complete: bool
) -> tuple[str, ...]:
    """Trials that may train beyond a rung, best first; `complete` when no more will come there.

    As long as more may come, a place is given only for every `eta` trials: the first to come is
    not the best of all. In the end the last place is rounded up, so that one always goes on.
    """
    losses = forecast_ranking(records, rung)
    share = len(losses) / eta
    places = math.ceil(share) if complete else math.floor(share)
    return tuple(sorted(losses, key=lambda trial: losses[trial])[:places])
