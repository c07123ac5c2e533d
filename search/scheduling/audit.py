"""Can early stopping be trusted? Each rung is held against the end of the trials that reached it.

Deep models start slowly, so a rung may rank them lower than they deserve. Only trials that finished
can show it. The exempt ones, drawn at random and never stopped (`prunable` false), show it best:
the rule is asked about them again, and those that it would have stopped tell what it cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np

from fathom.search.analysis.depth_estimates import seed_noise
from fathom.search.analysis.verdict import PLATEAU_WIDTH
from fathom.search.records import Outcome, Stage, TrialRecord
from fathom.search.scheduling.halving import HalvingRule
from fathom.search.scheduling.rank_correlation import order_kept, places, spearman_rho

FEWEST_TRIALS = 6
"""Below this many finished trials a rank correlation of 0.5 comes about by chance too often."""
FEWEST_PAIRS = 15
"""As many as six trials make."""
WEAK_AGREEMENT = 0.4
"""Agreement below which at least 3 pairs in 10 are in the wrong order at the rung."""
CHANCE = 1.96
"""Standard errors up to which a lean, or a regret, is put down to chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RungAudit:
    """What one rung did, and how well its order foretold the end."""

    rung: int
    """Tokens."""
    horizon: int
    """Tokens of a trial that runs to the end."""
    finished: int
    """Finished trials, at the study's rate, with a value at this rung."""
    agreement: float | None
    """Kendall's tau between the order at the rung and the final one; None with too few pairs.

    Over the pairs that end further apart than seeds explain (Bohdal et al. 2023 call such ranks
    soft). The order is that by which the rule judges: what the rung foretells of each.
    """
    pairs: int
    """How many pairs these are."""
    depth_bias: float | None
    """Rank correlation of depth with the places gained from here to the end.

    Above 0, deep trials catch up later: the rung judges them too harshly.
    """
    place_of_best: int | None
    """Place at this rung, from 1, of the trial that ends best."""
    exempt: int
    """Finished trials that are never stopped."""
    spared: int
    """Those of them that the rule would have stopped here."""
    regret: float | None
    """Nats by which the best spared trial ended ahead of the best explored one that went on.

    0 when it ended behind; None when there is nothing to compare.
    """
    noise: float
    """Standard deviation between seeds of a shape, nats."""
    stopped: int
    """Trials stopped here."""
    stopped_depths: tuple[int, ...]
    cut_depths: tuple[int, ...]
    """Depths that came here and of which no trial went on."""
    later: int | None = None
    """The first rung after all that can't be trusted, tokens; None when no rung is left."""

    @property
    def leans(self) -> bool:
        """The lean on depth is more than chance."""
        lean = self.depth_bias
        return lean is not None and abs(lean) * sqrt(self.finished - 1) > CHANCE

    @property
    def regrets(self) -> bool:
        """A stopped trial would have won, by more than seeds and a plateau explain."""
        return self.regret is not None and self.regret > max(PLATEAU_WIDTH, _apart(self.noise))

    @property
    def trusted(self) -> bool | None:
        """None when that can't be told."""
        if self.regrets or self.leans:
            return False
        return None if self.agreement is None else self.agreement >= WEAK_AGREEMENT

    @property
    def failed(self) -> bool:
        """It stopped trials and should not have."""
        return self.trusted is False and self.stopped > 0

    @property
    def sentence(self) -> str:
        """The rung in plain words, with the setting to change where it failed."""
        depths = ", ".join(map(str, self.cut_depths))
        cut = f"no trial of depth {depths} went on" if depths else ""
        words = (_order_words(self), _regret_words(self), cut, _so(self))
        return f"At {self.rung:,} tokens {'; '.join(filter(None, words))}."

    @property
    def why(self) -> str:
        """What speaks against the rung, in plain words."""
        weak = self.agreement is not None and self.agreement < WEAK_AGREEMENT
        return _order_words(self) if self.leans or weak else _regret_words(self)

    @property
    def remedy(self) -> str:
        """The setting under which a new study would not stop trials at a rung like this."""
        if self.later is None:
            return "`stopping.enabled: false`"
        return f"`stopping.first_rung: {self.later / self.horizon:.3g}`"


def audit_stopping(records: Sequence[TrialRecord], rule: HalvingRule) -> tuple[RungAudit, ...]:
    """One audit a rung before the horizon, by tokens, for the records of one budget."""
    rungs = sorted({t for r in records for t in r.rungs if t < r.spec.horizon_tokens})
    audits = [_audit(rung, records, rule) for rung in rungs]
    doubtful = max((audit.rung for audit in audits if audit.trusted is False), default=0)
    later = min((rung for rung in rungs if rung > doubtful), default=None)
    return tuple(replace(audit, later=later) for audit in audits)


def later_first_rung(audits: Sequence[RungAudit]) -> int | None:
    """Tokens at which the first rung should be: the horizon when no rung may stop anything.

    None when no rung failed.
    """
    failed = [audit for audit in audits if audit.failed]
    return (failed[-1].later or failed[-1].horizon) if failed else None


def _audit(rung: int, records: Sequence[TrialRecord], rule: HalvingRule) -> RungAudit:
    # A trial at another rate is slow or fast because of the rate, which no rung is to blame for.
    done = [r for r in records if r.loss is not None and rung in r.rungs and r.spec.rate_scale == 1]
    foretold = rule.ranking(done, rung)
    here = np.array([foretold[record.spec.trial] for record in done], dtype=np.float64)
    end = np.array([record.loss for record in done], dtype=np.float64)
    depths = np.array([log(record.spec.shape.depth) for record in done])
    enough = len(done) >= FEWEST_TRIALS
    noise = seed_noise([r for r in records if r.outcome is Outcome.FINISHED])[0]
    agreement, pairs = order_kept(here, end, apart=_apart(noise))
    explored = [record for record in done if record.spec.stage is Stage.EXPLORE]
    exempt = [record for record in explored if not record.spec.prunable]
    came = [r for r in records if r.spec.stage is Stage.EXPLORE]
    chosen = rule.promoted(came, rung, complete=True)
    spared = [record for record in exempt if record.spec.trial not in chosen]
    stopped = [record.spec.shape.depth for record in records if _stopped_at(rung, record)]
    return RungAudit(
        rung=rung,
        horizon=records[0].spec.horizon_tokens,
        finished=len(done),
        agreement=agreement if enough and pairs >= FEWEST_PAIRS else None,
        pairs=pairs,
        # No correlation, where no trial gained a place, is no lean.
        depth_bias=(spearman_rho(depths, places(here) - places(end)) or 0.0) if enough else None,
        place_of_best=int(places(here)[end.argmin()]) if done else None,
        exempt=len(exempt),
        spared=len(spared),
        regret=_regret(spared, [record for record in explored if record not in spared]),
        noise=noise,
        stopped=len(stopped),
        stopped_depths=tuple(sorted(set(stopped))),
        cut_depths=_cut_depths(rung, records),
    )


def _apart(noise: float) -> float:
    """Nats by which two single losses may differ by chance."""
    return CHANCE * sqrt(2) * noise


def _regret(spared: Sequence[TrialRecord], kept: Sequence[TrialRecord]) -> float | None:
    ends, kept_ends = ([r.loss for r in group if r.loss is not None] for group in (spared, kept))
    return max(0.0, min(kept_ends) - min(ends)) if ends and kept_ends else None


def _stopped_at(rung: int, record: TrialRecord) -> bool:
    return record.outcome is Outcome.STOPPED and max(record.rungs, default=0) == rung


def _cut_depths(rung: int, records: Sequence[TrialRecord]) -> tuple[int, ...]:
    """Depths with a trial stopped at the rung and none that trained beyond it."""
    stopped = {record.spec.shape.depth for record in records if _stopped_at(rung, record)}
    beyond = {record.spec.shape.depth for record in records if record.tokens > rung}
    return tuple(sorted(stopped - beyond))


def _order_words(audit: RungAudit) -> str:
    if audit.leans and audit.depth_bias is not None:
        slow = "deep" if audit.depth_bias > 0 else "shallow"
        return (
            f"{slow} trials stood worse than they ended (rank correlation {audit.depth_bias:+.2f})"
        )
    if audit.finished < FEWEST_TRIALS:
        few = {0: "no trial that finished", 1: "1 trial that finished"}
        number = few.get(audit.finished, f"{audit.finished} trials that finished")
        return f"{number} can be compared with the end, too few to tell whether stopping is fair"
    if audit.agreement is None:
        return (
            f"only {audit.pairs} pairs of trials end further apart than seeds explain, too few to "
            "tell whether stopping is fair"
        )
    rounded = round(audit.agreement, 2) + 0.0  # so that there is no -0.00
    tau = f"(tau {rounded:.2f} over {audit.pairs} pairs of trials)"
    if audit.agreement < WEAK_AGREEMENT:
        return f"the order agreed little with the end {tau}"
    return f"the order agreed with the end {tau} and did not lean on depth"


def _regret_words(audit: RungAudit) -> str:
    if not audit.exempt:
        return "no trial that is never stopped came here to show what stopping costs"
    trials = "trial that is" if audit.exempt == 1 else "trials that are"
    number = audit.spared or "none"
    would = f"of {audit.exempt} {trials} never stopped, the rule would have stopped {number}"
    if not audit.spared:
        return would
    if audit.regret is None:
        return f"{would}, and no other trial finished to compare with"
    if not audit.regret:
        return f"{would}, and none of these ended ahead of the best that went on"
    return (
        f"{would}, of which the best ended {audit.regret:.4f} nats ahead of the best that went on "
        f"(noise between seeds {audit.noise:.4f})"
    )


def _so(audit: RungAudit) -> str:
    """What follows for the reader."""
    if audit.trusted is not False:
        few = audit.finished < FEWEST_TRIALS and audit.stopped
        return "raise `stopping.always_finish`" if few else ""
    if not audit.stopped:
        return "no trial was stopped here"
    remedy = f"set {audit.remedy}, or go on with `fathom run --extend`"
    return f"stopping here can't be trusted; {remedy}"
