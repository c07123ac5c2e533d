"""The limits that a study sets for the trials of a budget."""

from fathom.models.shape import Shape
from fathom.search.scheduling.trained_depths import TrainingLimits
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import Sampler


def study_limits(config: StudyConfig, shapes: tuple[Shape, ...]) -> TrainingLimits:
    """The limits of a study for a budget that has these shapes."""
    ladder = config.sampler is Sampler.LADDER
    return TrainingLimits(config.confirm, shapes, plain_rates=config.plain_rates, ladder=ladder)
