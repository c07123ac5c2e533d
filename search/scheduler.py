"""Successive halving for one budget, asynchronous and fair to depth. No Ray: the tuner asks it.

It differs from the usual ASHA where that is unfair or wrong for shapes (FIELD.md of the design:
section C): a loss is recorded once, exactly at the rung's tokens, as the median of the last few
evaluations; the best trial of each band of depth always goes on, so that one rung can't wipe out
all deep or all shallow models; some trials are never stopped, so that the rule can be audited; a
diverged trial is never recorded, since a comparison with NaN is always false.
"""

import math
from dataclasses import dataclass, field

from search.config import StoppingConfig


@dataclass(frozen=True, slots=True)
class RungEntry:
    """One trial at one rung."""

    trial: str
    band: int
    value: float


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

    def judge(self, trial: str, depth: int, tokens: int, value: float) -> bool:
        """Record a trial at a rung; True when it goes on.

        A trial that comes by again after a restart is not recorded twice. It goes on when fewer
        than one in `eta` of those here are better, or when it is the best of its band.
        """
        assert math.isfinite(value), "a diverged trial ends itself before it comes to a rung"
        entries = self.rungs.setdefault(tokens, [])
        if all(entry.trial != trial for entry in entries):
            entries.append(RungEntry(trial, self.band(depth), value))
        better = [entry for entry in entries if entry.value < value]
        best_of_band = all(entry.band != self.band(depth) for entry in better)
        return best_of_band or len(better) < len(entries) / self.config.eta
