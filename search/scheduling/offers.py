"""The one list of what comes next for a budget: the search trains it, and programs are told it."""

from collections.abc import Sequence
from dataclasses import dataclass

from fathom.models.shape import Shape
from fathom.search.analysis.optimum import Located
from fathom.search.records import UNSCALED, TrialRecord, in_order_of_names
from fathom.search.scheduling.confirmation import ladder_confirmations, next_confirmations
from fathom.search.scheduling.telling import doubt_left, doubt_of
from fathom.search.scheduling.trained_depths import Choice, TrainedDepths, TrainingLimits
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import Sampler

SCALED = "shows at which learning rate or weight decay a depth is best"
BEYOND = "shows whether the best depth lies beyond {}"
NEW = "shows the loss of a depth that was not trained to the end"
NOISE = "says how far seeds differ, without which depth can't be told from noise"
AGAIN = "narrows what the best depth may be"


@dataclass(frozen=True, slots=True)
class Offer:
    """A training that comes next, and what it is expected to bring."""

    training: Choice
    trained: TrainedDepths
    """The trainings to which it is added."""

    @property
    def brings(self) -> str:
        """What it is expected to bring, as a sentence without a full stop."""
        depth, known = self.training.shape.depth, self.trained.losses
        if self._is_scaled:
            return SCALED
        if depth in known:
            return AGAIN if self.trained.estimates.repeats.degrees_of_freedom else NOISE
        if known and not min(known) < depth < max(known):
            return BEYOND.format(min(known) if depth < min(known) else max(known))
        return NEW

    @property
    def doubt_left(self) -> float | None:
        """Share of the variance of what is in doubt that is expected to be left after it; None
        without a curve, beyond its depths, and at another rate or decay."""
        (optimum, posterior), choice = self.trained.answer, self.training
        if posterior is None or choice.shape.depth not in posterior.depths or self._is_scaled:
            return None
        assert isinstance(optimum, Located), "it has a posterior"
        return doubt_left(posterior, doubt_of(posterior, optimum), choice.shape.depth)

    @property
    def _is_scaled(self) -> bool:
        return (self.training.rate_scale, self.training.decay_scale) != UNSCALED


def offers(
    records: Sequence[TrialRecord], limits: TrainingLimits, *,
    decided: Sequence[Choice] = (), noise: float | None = None,
) -> tuple[Offer, ...]:  # fmt: skip
    """The next trainings of a budget, whose trials so far are `records`, that are worth it within
    the limits; empty once none is.

    What was `decided` before comes first: nothing follows it before all of it has ended. `noise`
    between seeds, nats, is measured unless it is stated.
    """
    trained = TrainedDepths(in_order_of_names(records), limits, noise)
    left = tuple(choice for choice in decided if choice not in trained.spent)
    follow = ladder_confirmations if limits.ladder else next_confirmations
    return tuple(Offer(choice, trained) for choice in left or follow(trained))


def study_limits(config: StudyConfig, shapes: tuple[Shape, ...]) -> TrainingLimits:
    """The limits of a study for a budget that has these shapes."""
    ladder = config.sampler is Sampler.LADDER
    return TrainingLimits(config.confirm, shapes, plain_rates=config.plain_rates, ladder=ladder)
