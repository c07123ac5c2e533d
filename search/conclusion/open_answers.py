"""Limits of the next trainings for an open answer whose search has ended, and the shapes to
train."""

from collections.abc import Sequence
from dataclasses import replace

from fathom.models.shape import Shape
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.records import TrialRecord
from fathom.search.scheduling.offers import MANY, asked_depths
from fathom.search.scheduling.study_limits import study_limits
from fathom.search.scheduling.trained_depths import TrainingLimits
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.study_file import changed
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.plan_change import EVERY_DEPTH, planned_sizes


def shapes_of_plan(config: StudyConfig, records: Sequence[TrialRecord]) -> tuple[Shape, ...]:
    """The shapes of a study's budget; for a user's own model, which is not built to list them, the
    shapes that were tried."""
    spec = records[0].spec
    planned = planned_sizes(config, spec.budget, spec.shape)
    return planned.shapes if planned else tuple({record.spec.shape: None for record in records})


def wider_limits(
    config: StudyConfig, optimum: Optimum, records: Sequence[TrialRecord]
) -> TrainingLimits:
    """The study's limits without those on depths and seeds, and with shapes up to twice its
    deepest. If a search with these limits would end too, `asked` are the depths that the verdict
    asks for."""
    tried = [record.spec.shape for record in records]
    deepest = max([*config.space.depths, *(shape.depth for shape in tried)])
    depths = (tried[0].least_depth, min(2 * deepest, EVERY_DEPTH[1]))
    try:
        shapes = shapes_of_plan(changed(config, {"space.depth": depths}), records)
    except ConfigError:  # more shapes than are planned
        shapes = shapes_of_plan(config, records)
    confirm = config.confirm.model_copy(update={"depths": MANY, "seeds": MANY})
    limits = replace(study_limits(config, shapes), confirm=confirm, ladder=False)
    return replace(limits, asked=asked_depths(optimum))
