"""Can early stopping be trusted? Each rung is held against the end of the trials that reached it.

Deep models start slowly, so a rung may rank them lower than they deserve. Only trials that finished
can show it; those that are never stopped (`may_stop` false) show it best.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from search.records import Outcome, TrialRecord

Array = NDArray[np.float64]

FEWEST_TRIALS = 6
"""Below this many finished trials a rank correlation of 0.5 comes about by chance too often."""
WEAK_AGREEMENT = 0.4
"""Kendall's tau below which at least 3 pairs in 10 are in the wrong order at the rung."""
CHANCE = 1.96
"""Standard errors from which on a lean is not put down to chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RungAudit:
    """What one rung did, and how well its order foretold the end."""

    rung: int
    """Tokens."""
    finished: int
    """Finished trials, at the study's rate, with a value at this rung."""
    agreement: float | None
    """Kendall's tau-b between values at the rung and final losses; None with too few trials."""
    depth_lean: float | None
    """Rank correlation of depth with the places gained from here to the end.

    Above 0, deep trials catch up later: the rung judges them too harshly.
    """
    place_of_best: int | None
    """Place at this rung, from 1, of the trial that ends best."""
    stopped: int
    """Trials stopped here."""
    stopped_depths: tuple[int, ...]
    cut_depths: tuple[int, ...]
    """Depths that came here and of which no trial went on."""
    trusted: bool | None
    """None with too few trials to tell."""
    sentence: str


def audit_stopping(records: Sequence[TrialRecord]) -> tuple[RungAudit, ...]:
    """One audit a rung before the horizon, by tokens, for the records of one budget."""
    rungs = sorted({t for r in records for t in r.rungs if t < r.spec.horizon_tokens})
    return tuple(_audit(rung, records) for rung in rungs)


def kendall_tau(x: Array, y: Array) -> float | None:
    """Kendall's tau-b; None when one side is all ties."""
    upper = np.triu_indices(len(x), 1)
    in_x = np.sign(x[:, None] - x)[upper]
    in_y = np.sign(y[:, None] - y)[upper]
    norm = sqrt(float((in_x @ in_x) * (in_y @ in_y)))
    return float(in_x @ in_y) / norm if norm else None


def spearman_rho(x: Array, y: Array) -> float | None:
    """Spearman's rank correlation; None when one side is all ties."""
    ranks = np.stack([places(x), places(y)])
    centred = ranks - ranks.mean(axis=1, keepdims=True)
    norm = sqrt(float((centred[0] @ centred[0]) * (centred[1] @ centred[1])))
    return float(centred[0] @ centred[1]) / norm if norm else None


def places(values: Array) -> Array:
    """Place of each value, from 1 for the lowest; equal values share their mean place."""
    below = (values < values[:, None]).sum(axis=1)
    equal = (values == values[:, None]).sum(axis=1)
    place: Array = below + (equal + 1) / 2
    return place


def _audit(rung: int, records: Sequence[TrialRecord]) -> RungAudit:
    # A trial at another rate is slow or fast because of the rate, which no rung is to blame for.
    done = [r for r in records if r.loss is not None and rung in r.rungs and r.spec.rate_scale == 1]
    here = np.array([record.rungs[rung] for record in done])
    end = np.array([record.loss for record in done], dtype=np.float64)
    depths = np.array([log(record.spec.shape.depth) for record in done])
    enough = len(done) >= FEWEST_TRIALS
    agreement = kendall_tau(here, end) if enough else None
    lean = spearman_rho(depths, places(here) - places(end)) if enough else None
    place = int(places(here)[end.argmin()]) if done else None
    stopped = [record.spec.shape.depth for record in records if _stopped_at(rung, record)]
    cut = _cut_depths(rung, records)
    trusted, sentence = _judge(len(done), agreement, lean, cut)
    return RungAudit(
        rung=rung,
        finished=len(done),
        agreement=agreement,
        depth_lean=lean,
        place_of_best=place,
        stopped=len(stopped),
        stopped_depths=tuple(sorted(set(stopped))),
        cut_depths=cut,
        trusted=trusted,
        sentence=f"At {rung:,} tokens {sentence}.",
    )


def _stopped_at(rung: int, record: TrialRecord) -> bool:
    return record.outcome is Outcome.STOPPED and max(record.rungs, default=0) == rung


def _cut_depths(rung: int, records: Sequence[TrialRecord]) -> tuple[int, ...]:
    """Depths with a trial stopped at the rung and none that trained beyond it."""
    stopped = {record.spec.shape.depth for record in records if _stopped_at(rung, record)}
    beyond = {record.spec.shape.depth for record in records if record.tokens > rung}
    return tuple(sorted(stopped - beyond))


def _judge(
    finished: int, agreement: float | None, lean: float | None, cut: Sequence[int]
) -> tuple[bool | None, str]:
    """Whether the rung may be trusted, and the words for it."""
    after = f"; no trial of depth {', '.join(map(str, cut))} went on" if cut else ""
    if agreement is None:
        few = f"only {finished} trials can be compared with their end, too few to tell"
        return None, f"{few} whether stopping was fair{after}; raise `stopping.always_finish`"
    remedy = "; raise `stopping.first_rung`"
    if lean is not None and abs(lean) * sqrt(finished - 1) > CHANCE:
        slow = "deep" if lean > 0 else "shallow"
        words = f"{slow} trials stood worse than they ended (rank correlation {lean:+.2f})"
        return False, f"{words}, so stopping here can't be trusted{after}{remedy}"
    if agreement < WEAK_AGREEMENT:
        words = f"the order agreed little with the end (tau {agreement:.2f} over {finished} trials)"
        return False, f"{words}, so stopping here can't be trusted{after}{remedy}"
    words = f"the order agreed with the end (tau {agreement:.2f} over {finished} trials)"
    return True, f"{words} and did not lean on depth{after}"
