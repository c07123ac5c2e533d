"""The next trials of a budget in one list: the search runs them, and programs can read them."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from statistics import median

from fathom.models.shape import Shape
from fathom.models.spend import OTHER_COINS, Coin
from fathom.search.analysis.answer import verdict as v
from fathom.search.analysis.answer.optimum import Located, Optimum
from fathom.search.analysis.laws.compute_law import training_flops
from fathom.search.records import UNSCALED, TrialRecord, in_order_of_names
from fathom.search.scheduling.confirmation import ladder_confirmations, next_confirmations
from fathom.search.scheduling.size_confirmation import size_confirmations
from fathom.search.scheduling.telling import doubt_left, doubt_of
from fathom.search.scheduling.trained_depths import Choice, TrainedDepths, TrainingLimits

MANY = 10**6
"""A number of depths and seeds that is no limit in practice."""
WITHOUT_HELP = (
    *(v.NothingShallower, v.Confounded, v.FewRuns, v.UnknownSettings, v.RatioHidesDepth),
)
"""Causes of a verdict that no further trial can change, as long as the question stays the same."""

SCALED = "shows at which learning rate or weight decay a depth is best"
BEYOND = "shows whether the best depth lies beyond {}"
NEW = "shows the loss of a depth that was not trained to the end"
NOISE = "says how far seeds differ, without which depth can't be told from noise"
BOTH = "narrows what the best size and depth may be"
AGAIN = "narrows the interval"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCosts:
    """Tokens, FLOPs and seconds of one trial; an unknown cost is None."""

    tokens: int | None
    flops: float | None
    """FLOPs: exact for a study; for a table, six for each parameter and token."""
    seconds: float | None
    """Median seconds of finished trials of the nearest depth; without such trials, the seconds that
    every trial spends."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A trial to run next, with its expected gain and its costs."""

    training: Choice
    trained: TrainedDepths
    """The trained depths to which this trial would be added."""

    @property
    def brings(self) -> str:
        """Expected gain as a clause, such as `narrows the interval`."""
        depth, known = self.training.shape.depth, self.trained.losses
        if self._is_scaled:
            return SCALED
        if self.trained.frees_size:
            return BOTH
        if depth in known:
            return AGAIN if self.trained.estimates.repeats.degrees_of_freedom else NOISE
        if known and not min(known) < depth < max(known):
            return BEYOND.format(min(known) if depth < min(known) else max(known))
        return NEW

    @property
    def doubt_left(self) -> float | None:
        """Share of the doubt's variance that is expected to remain after this trial. None without a
        curve, for a depth outside its range, for another rate or decay, and if the size is in doubt
        as well."""
        (optimum, posterior), choice = self.trained.answer, self.training
        if posterior is None or choice.shape.depth not in posterior.depths or self._is_scaled:
            return None
        if self.trained.frees_size:
            return None
        assert isinstance(optimum, Located), "it has a posterior"
        return doubt_left(posterior, doubt_of(posterior, optimum), choice.shape.depth)

    def costs(self, optimum: Optimum) -> TrainingCosts:
        """The costs of this trial, if it spends as much as the trials behind the answer."""
        shape, spend = self.training.shape, optimum.spend
        tokens = _tokens(shape, optimum, self.trained.records)
        if type(shape) is not Shape or spend.coin is Coin.FLOPS:  # a table's knows its size alone
            flops = training_flops(replace(optimum, shape=None))
        else:
            flops = None if tokens is None else shape.train_flops_per_token * tokens
        return TrainingCosts(
            tokens=tokens if spend.coin else None,
            flops=flops,
            seconds=_seconds(shape, optimum, self.trained.records),
        )

    @property
    def _is_scaled(self) -> bool:
        return (self.training.rate_scale, self.training.decay_scale) != UNSCALED


def _tokens(shape: Shape, optimum: Optimum, records: Sequence[TrialRecord]) -> int | None:
    """Tokens of a trial of a shape; None if trials spend seconds and the shape was never timed."""
    spend = optimum.spend
    if spend.coin not in OTHER_COINS:
        return optimum.tokens
    if spend.coin.of_a_token:
        return round(spend.amount / spend.coin.of_a_token(shape))
    specs = (record.spec for record in records)
    return next((spec.horizon_tokens for spec in specs if spec.shape == shape), None)


def _seconds(shape: Shape, optimum: Optimum, records: Sequence[TrialRecord]) -> float | None:
    """Seconds of a trial of a shape, by the rule in `TrainingCosts.seconds`."""
    took = defaultdict(list)
    for record in records:
        if record.loss is not None:
            took[record.spec.shape.depth].append(record.train_seconds)
    near = min(took, key=lambda depth: abs(log(depth / shape.depth)), default=None)
    if near:
        seconds = median(took[near])
        return seconds if seconds > 0 else None  # a table's are not a number
    return optimum.spend.amount if optimum.spend.coin is Coin.SECONDS else None


def offers(
    records: Sequence[TrialRecord], limits: TrainingLimits, *,
    decided: Sequence[Choice] = (), noise: float | None = None,
) -> tuple[Offer, ...]:  # fmt: skip
    """The next trials of a budget, as long as they are worth their cost and within the limits;
    empty once none are. `records` are the trials of the budget so far.

    Trials `decided` earlier come first, and no others are offered before all of these have ended.
    `noise` between seeds, nats, is measured unless it is stated.
    """
    trained = TrainedDepths(in_order_of_names(records), limits, noise)
    left = tuple(choice for choice in decided if choice not in trained.spent)
    return tuple(Offer(choice, trained) for choice in left or _next(trained))


def _next(trained: TrainedDepths) -> tuple[Choice, ...]:
    """The next batch of trials, by the rule for the kind of budget."""
    if trained.frees_size:
        return size_confirmations(trained.records, trained.limits, trained.noise)
    return (ladder_confirmations if trained.limits.ladder else next_confirmations)(trained)


def may_gain(optimum: Optimum) -> bool:
    """True if more trials of the same question may settle an answer that is not settled yet."""
    verdict = optimum.verdict
    hopeless = isinstance(verdict.cause, WITHOUT_HELP) or isinstance(verdict.remedy, v.NoRemedy)
    return bool(optimum.depths) and not optimum.kind.settled and not hopeless


def asked_depths(optimum: Optimum) -> tuple[int, ...]:
    """The depths whose training a verdict asks for, the most useful first."""
    match optimum.verdict:
        case v.Verdict(remedy=v.TheseDepths(depths)):
            return depths
        case v.Verdict(cause=v.BestAtEnd(end, deeper=False)):
            return (end // 2,)
        case v.Verdict(cause=v.BestAtEnd(end) | v.TooFewDepths((*_, end))):
            return (2 * end,)
    return ()
