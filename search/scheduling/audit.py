"""The audit of early stopping: each rung is compared with the final losses of its trials.

Deep models start slowly, so a rung may rank them lower than they deserve. Only finished trials can
show whether it did. The audit trials, drawn at random and never paused (`prunable` false), show it
best: the final losses of those that the rule would have paused measure the cost of pruning.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from fathom.models.spend import Coin
from fathom.search.analysis.answer.verdict import PLATEAU_WIDTH

FEWEST_TRIALS = 6
"""Fewest finished trials for a rank correlation: with fewer, a correlation of 0.5 is too often due
to chance."""
FEWEST_PAIRS = 15
"""Fewest pairs of trials for a rank correlation: as many as six trials have."""
WEAK_CORRELATION = 0.4
"""Rank correlation below which at least 3 pairs in 10 are in the wrong order at the rung."""
SLOW = {"depth": ("deep", "shallow"), "size": ("large", "small")}
"""Depth or size -> words for the trials that a rung ranks too low if the bias is positive, and if
it is negative."""
CHANCE = 1.96
"""Standard errors up to which a depth bias, or a regret, is attributed to chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RungAudit:
    """The audit of one rung of one budget."""

    rung: int
    """The rung's place in tokens. If trials spend another `unit`, only the ratio of `rung` to
    `horizon` has a meaning."""
    horizon: int
    """Tokens of a trial that trains to the end; with another `unit`, the number to which `rung`
    relates."""
    finished: int
    """Number of finished trials at the study's learning rate that have a value at this rung."""
    rank_correlation: float | None
    """Kendall's tau between the forecasts at the rung and the final losses; None with few pairs.

    The correlation is over pairs whose final losses differ by more than seeds explain (soft ranks:
    Bohdal et al. 2023).
    """
    pairs: int
    """Number of pairs from which `rank_correlation` is computed."""
    depth_bias: float | None
    """Rank correlation of depth with the number of places that a trial gains from this rung to the
    end. Above 0, deep trials catch up later: the rung ranks them too low.
    """
    place_of_best: int | None
    """Place at this rung, from 1, of the trial that ends best."""
    audit_trials: int
    """Number of finished exploring trials that are never paused."""
    audit_trials_pruned: int
    """Number of the audit trials that the rule would have paused here."""
    regret: float | None
    """Nats by which the best pruned audit trial ended ahead of the best promoted exploring trial.

    0 if the pruned trial ended behind; None if there is nothing to compare.
    """
    noise: float
    """Standard deviation of the loss between seeds of one shape, nats."""
    stopped: int
    """Number of trials that paused here and were not resumed."""
    stopped_depths: tuple[int, ...]
    """Depths of the stopped trials."""
    cut_depths: tuple[int, ...]
    """Depths of which trials stopped at this rung, while none trained beyond it."""
    undecided: int = 0
    """Number of trials promoted only because their forecasts were too close to the best one."""
    unit: str = Coin.TOKENS.value
    """Unit of the amount that all trials have spent at the rung."""
    size_bias: float | None = None
    """Like `depth_bias`, for size instead of depth; None unless sizes are free."""
    later: int | None = None
    """The first rung above all those that can't be trusted, in the unit of `rung`; None if no rung
    is left."""

    @property
    def place(self) -> str:
        """Place of the rung as text: its tokens, or its share of another unit."""
        return rung_place(self.rung, self.horizon, self.unit)

    @property
    def is_biased(self) -> bool:
        """True if the depth bias, or the size bias, is more than chance."""
        return abs(self.bias[1]) * sqrt(max(0, self.finished - 1)) > CHANCE

    @property
    def bias(self) -> tuple[str, float]:
        """Name and value of the larger bias, by depth or by size; 0 where neither is known."""
        biases = (("depth", self.depth_bias or 0.0), ("size", self.size_bias or 0.0))
        return max(biases, key=lambda named: abs(named[1]))

    @property
    def is_costly(self) -> bool:
        """True if the regret is more than seeds and a plateau's width explain."""
        return self.regret is not None and self.regret > max(
            PLATEAU_WIDTH, chance_difference(self.noise)
        )

    @property
    def trusted(self) -> bool | None:
        """True if the rung's ranking can be trusted; None if the data can't tell."""
        if self.is_costly or self.is_biased:
            return False
        return None if self.rank_correlation is None else not self._is_weak

    @property
    def failed(self) -> bool:
        """True if trials stopped at a rung that can't be trusted."""
        return self.trusted is False and self.stopped > 0

    @property
    def sentence(self) -> str:
        """The audit in a sentence; if the rung failed, with the setting to change."""
        depths = ", ".join(map(str, self.cut_depths))
        cut = f"no trial of depth {depths} was promoted" if depths else ""
        parts = (self.wait, _ranking_text(self), _regret_text(self), cut, _advice(self))
        return f"At {self.place}: {'; '.join(filter(None, parts))}."

    @property
    def wait(self) -> str:
        """Text on why stopping waited at this rung; empty if it did not wait."""
        if not self.undecided:
            return ""
        trials = f"{self.undecided} trial{'s were' if self.undecided > 1 else ' was'}"
        return f"stopping waited: {trials} too close to the best to tell, and kept training"

    @property
    def why(self) -> str:
        """The reason why the rung can't be trusted."""
        return _ranking_text(self) if self.is_biased or self._is_weak else _regret_text(self)

    @property
    def remedy(self) -> str:
        """The setting with which a new study would stop no trials at this rung."""
        if self.later is None:
            return "`stopping.enabled: false`"
        return f"`stopping.first_rung: {self.later / self.horizon:.3g}`"

    @property
    def _is_weak(self) -> bool:
        return self.rank_correlation is not None and self.rank_correlation < WEAK_CORRELATION


def rung_place(rung: int, horizon: int, unit: str) -> str:
    """Place of a rung as text: its tokens, or its share of another unit that trials spend.

    >>> rung_place(2000, 16000, "tokens"), rung_place(2000, 16000, "FLOPs")
    ('2,000 tokens', '12.5% of the FLOPs')
    """
    share = f"{100 * rung / horizon:.3g}% of the {unit}"
    return f"{rung:,} tokens" if unit == Coin.TOKENS else share


def later_first_rung(audits: Sequence[RungAudit]) -> int | None:
    """Tokens of the first rung that an extension should keep; None if no rung failed.

    The result is the horizon if no rung may stop trials any more.
    """
    failed = [audit for audit in audits if audit.failed]
    return (failed[-1].later or failed[-1].horizon) if failed else None


def chance_difference(noise: float) -> float:
    """Returns the largest difference of two losses that seeds alone explain, nats."""
    return CHANCE * sqrt(2) * noise


def _ranking_text(audit: RungAudit) -> str:
    if audit.is_biased:
        name, bias = audit.bias
        slow = SLOW[name][bias < 0]
        return f"{slow} trials were ranked too low ({name} bias {bias:+.2f})"
    if audit.finished < FEWEST_TRIALS:
        number = f"{audit.finished or 'no'} trial{'s' * (audit.finished > 1)}"
        return f"{number} finished, too few to compare the ranking with the final loss"
    if audit.rank_correlation is None:
        return (
            f"pairs of trials that differ by more than seed noise in the end: {audit.pairs}, too"
            " few to compare the ranking with the final loss"
        )
    rounded = round(audit.rank_correlation, 2) + 0.0  # so that there is no -0.00
    over = f"({audit.pairs} pairs of trials)"
    weak = ", which is low" if audit.rank_correlation < WEAK_CORRELATION else _bias_text(audit)
    return f"rank correlation with the final loss {rounded:.2f} {over}{weak}"


def _bias_text(audit: RungAudit) -> str:
    """Returns the depth bias of a rung without significant bias, as the end of a sentence."""
    if audit.depth_bias is None:
        return ""
    if not round(audit.depth_bias, 2):
        return ", no depth bias"
    return f", depth bias {audit.depth_bias:+.2f}, which is within chance"


def _regret_text(audit: RungAudit) -> str:
    if not audit.audit_trials:
        return "no audit trial reached the rung, so the regret of pruning is unknown"
    of = f"{audit.audit_trials} audit trial{'s' * (audit.audit_trials > 1)}"
    pruned = f"the rule would have pruned {audit.audit_trials_pruned or 'none'} of {of}"
    if not audit.audit_trials_pruned:
        return pruned
    if audit.regret is None:
        return f"{pruned}, and no other trial finished to compare with"
    if not audit.regret:
        return f"{pruned}, at no regret: none ended ahead of the best promoted trial"
    return (
        f"{pruned}, at a regret of {audit.regret:.4f} nats against the best promoted trial "
        f"(noise between seeds {audit.noise:.4f})"
    )


def _advice(audit: RungAudit) -> str:
    if audit.trusted is not False:
        if audit.finished >= FEWEST_TRIALS or not audit.stopped:
            return ""
        # Where all that stopped would not be enough either, more of them finishing is no remedy.
        enough = audit.finished + audit.stopped >= FEWEST_TRIALS
        return f"raise `{'stopping.always_finish' if enough else 'trials'}`"
    if not audit.stopped:
        return "no trial was stopped here"
    remedy = f"set {audit.remedy}, or continue with `fathom run --extend`"
    return f"stopping here can't be trusted; {remedy}"
