"""Successive halving for one budget, asynchronous and fair to depth. No Ray: the tuner asks it.

It differs from the usual ASHA where that is unfair or wrong for shapes:

- Deep models start slowly, so the loss at a rung alone misjudges them. A trial counts as beaten by
  another only where it is behind now and would still be behind at the horizon (`foresee`).
- A loss is recorded once, exactly at the rung's tokens, as the median of the last few evaluations.
- The best trial of each band of depth always goes on: a curve of loss against depth needs finished
  trials to both sides of its lowest point.
- Some trials are never stopped, so that the rule can be audited; a diverged trial is never
  recorded, since a comparison with NaN is always false.

`python -m benchmarks.stopping TABLE.csv` holds it against the usual ASHA on real learning curves.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from search.budget import LOOK_BACK
from search.config import StoppingConfig

SHORTEST_LOOK_BACK = 1.5
"""A curve that begins less than this factor before the rung foretells nothing."""
RECENT = 0.75
"""Evaluations before this share of the tokens do not measure the loss there."""

Curve = Sequence[tuple[float, float]]
"""Tokens and loss of each evaluation, in order."""


@dataclass(frozen=True, slots=True)
class RungEntry:
    """One trial at one rung, as two losses: believing least and most of the gain foreseen."""

    trial: str
    band: int
    wary: float
    hopeful: float

    def beats(self, other: "RungEntry") -> bool:
        """Ahead however much of the gain is believed."""
        return self.wary < other.wary and self.hopeful < other.hopeful


@dataclass(slots=True)
class FairHalving:
    """The rungs of one budget."""

    config: StoppingConfig
    depths: tuple[int, int]
    """Fewest and most layers among the budget's shapes."""
    rungs: dict[int, list[RungEntry]] = field(default_factory=dict)
    """Tokens -> the trials that came there."""

    def band(self, depth: int) -> int:
        """Which of the equal bands of log depth a depth is in, from 0."""
        low, high = self.depths
        if low == high:
            return 0
        share = math.log(depth / low) / math.log(high / low)
        return min(int(share * self.config.bands), self.config.bands - 1)

    def entry(self, trial: str, depth: int, value: float, foreseen: float | None) -> RungEntry:
        """A trial as it is compared; where no loss is foreseen, the present one stands for it."""
        gain = value - foreseen if foreseen is not None else 0.0
        wary, hopeful = (value - believed * gain for believed in self.config.foresight)
        return RungEntry(trial, self.band(depth), wary, hopeful)

    def judge(
        self, trial: str, depth: int, tokens: int, value: float, foreseen: float | None = None
    ) -> bool:
        """Record a trial at a rung; True when it goes on.

        A trial that comes by again after a restart is not recorded twice. It goes on when fewer
        than one in `eta` of those here beat it, or when none of its band does.
        """
        assert math.isfinite(value), "a diverged trial ends itself before it comes to a rung"
        entry = self.entry(trial, depth, value, foreseen)
        entries = self.rungs.setdefault(tokens, [])
        if all(known.trial != trial for known in entries):
            entries.append(entry)
        better = [other for other in entries if other.beats(entry)]
        best_of_band = all(other.band != entry.band for other in better)
        return best_of_band or len(better) < len(entries) / self.config.eta


def foresee(curve: Curve, *, tokens: int, horizon: int, median_of: int) -> float | None:
    """The loss at the horizon, should it go on falling as it did since a quarter of the tokens.

    A straight line in 1 / sqrt(tokens) through the losses there and at the rung: two medians, and
    nothing fitted that few and noisy evaluations could upset. Crude as a forecast, but what it
    gets wrong it gets wrong alike for all trials, and it serves only to compare them. None when
    the curve is too short.
    """
    past = [point for point in curve if point[0] <= tokens]
    if not past:
        return None
    now, loss = _level(past, tokens, median_of)
    before, higher = _level(past, max(tokens / LOOK_BACK, past[0][0]), median_of)
    if now < SHORTEST_LOOK_BACK * before:
        return None
    start, here, end = (1 / math.sqrt(at) for at in (before, now, horizon))
    return loss - max(0.0, higher - loss) * (here - end) / (start - here)


def _level(past: Curve, tokens: float, median_of: int) -> tuple[float, float]:
    """Tokens and loss, medians of the last few evaluations up to there: no spike moves them."""
    past = [point for point in past if point[0] <= tokens]
    recent = [point for point in past if point[0] >= RECENT * past[-1][0]][-median_of:]
    return statistics.median(at for at, _ in recent), statistics.median(loss for _, loss in recent)
