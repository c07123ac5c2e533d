"""What comes next for an answer that is open although its search has ended, or that has none."""

from collections.abc import Sequence
from dataclasses import replace

from fathom.models.shape import Shape
from fathom.search.analysis import verdict as v
from fathom.search.analysis.optimum import Optimum
from fathom.search.records import TrialRecord
from fathom.search.scheduling.offers import study_limits
from fathom.search.scheduling.trained_depths import TrainingLimits
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.plan_change import EVERY_DEPTH, changed, planned_sizes

MANY = 10**6
"""Depths and seeds that limit no search."""
WITHOUT_HELP = (
    *(v.NothingShallower, v.Confounded, v.FewRuns, v.UnknownSettings, v.RatioHidesDepth),
)
"""Causes of a verdict that no training of the same question changes."""


def shapes_of_plan(config: StudyConfig, records: Sequence[TrialRecord]) -> tuple[Shape, ...]:
    """The shapes of a budget of a study; of a user's own model, which is not built for it, those
    that were tried."""
    spec = records[0].spec
    planned = planned_sizes(config, spec.budget, spec.shape)
    return planned.shapes if planned else tuple({record.spec.shape: None for record in records})


def wider_limits(
    config: StudyConfig, optimum: Optimum, records: Sequence[TrialRecord]
) -> TrainingLimits:
    """The limits of a study without one on depths and seeds, and with shapes to twice its deepest;
    where such a search would end, the depths that the verdict asks for."""
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


def may_gain(optimum: Optimum) -> bool:
    """True if a training of the same question may settle an answer that is open."""
    verdict, settled = optimum.verdict, (v.Kind.IDENTIFIED, v.Kind.PLATEAU)
    hopeless = isinstance(verdict.cause, WITHOUT_HELP) or isinstance(verdict.remedy, v.NoRemedy)
    return bool(optimum.depths) and optimum.kind not in settled and not hopeless


def asked_depths(optimum: Optimum) -> tuple[int, ...]:
    """The depths that a verdict asks for, the most useful first."""
    match optimum.verdict:
        case v.Verdict(remedy=v.TheseDepths(depths)):
            return depths
        case v.Verdict(cause=v.BestAtEnd(end, deeper=False)):
            return (end // 2,)
        case v.Verdict(cause=v.BestAtEnd(end) | v.TooFewDepths((*_, end))):
            return (2 * end,)
    return ()
