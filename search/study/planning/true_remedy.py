"""Remedies of verdicts, tried on the plan of their study, so that none is advised in vain."""

from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from fathom.models.shape import Shape
from fathom.search.analysis.answer import verdict as v
from fathom.search.analysis.answer.judging import FEWEST_SEEDS
from fathom.search.analysis.answer.verdict import (
    Advice,
    Lack,
    NoRemedy,
    Remedy,
    TheseDepths,
    Verdict,
)
from fathom.search.records import ENDED_BADLY, Outcome, TrialRecord
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import ConfirmConfig, Sampler
from fathom.search.study.planning.plan_change import (
    PlanChange,
    PlannedSizes,
    meetable_depths,
    plan_change,
    planned_sizes,
)

NEXT = 3
"""Most depths beyond the tested ones that a remedy asks for."""
NEAR_RATIO = 1.25
"""Factor by which the feed-forward ratios of shapes may differ from a given one."""


def with_true_remedy(
    verdict: Verdict, config: StudyConfig, records: Sequence[TrialRecord]
) -> Verdict:
    """The verdict on a budget of a study, with a remedy that improves the study's plan, or with the
    reason why none does; `records` are the budget's trials.

    Where a plan of every depth would have too many shapes, the analysis's own remedy is kept. A
    user's own model is not built: only remedies without counts of its shapes are tried.
    """
    if all(record.outcome in ENDED_BADLY for record in records):
        return replace(verdict, remedy=None)  # what they died of comes first
    match verdict.remedy:
        case None:
            return verdict
        case v.Seeds(number):
            return replace(verdict, remedy=more_seeds(config.confirm, number))
        case v.MoreTokens() as tokens:
            return replace(verdict, remedy=replace(tokens, key=config.length_key))
    if config.model.build:
        return replace(verdict, remedy=_uncounted(verdict, config.space.depths, records))
    spec = records[0].spec
    try:
        planned = planned_sizes(config, spec.budget, spec.shape)
        if planned is None:  # the budget is not of the study any more
            return verdict
        return replace(verdict, remedy=_TriedPlan(config, records, planned).remedy(verdict))
    except ConfigError:
        return verdict


def _uncounted(
    verdict: Verdict, depths: Sequence[int], records: Sequence[TrialRecord]
) -> Remedy | None:
    """The remedy for a user's own model, judged by the depths of its trials alone: more trainings
    than the study has, or depths outside its range."""
    match verdict.remedy:
        case v.Depths() if isinstance(verdict.cause, v.BestAtEnd):
            end, deeper = verdict.cause.end, verdict.cause.deeper
            beyond = [d for d in depths if (d > end if deeper else d < end)]
            if beyond:  # which the study has and did not train to the end
                nearest = beyond[:NEXT] if deeper else beyond[-NEXT:]
                return TheseDepths(tuple(nearest), _finished_depths(records))
        case Advice.MORE_DEPTHS | Advice.TRAIN_TO_THE_END:
            finished = _finished_depths(records)
            stopped = {r.spec.shape.depth for r in records if r.outcome is Outcome.STOPPED}
            if paused := sorted(stopped.difference(finished))[:NEXT]:
                return TheseDepths(tuple(paused), finished)
    return verdict.remedy


def _finished_depths(records: Sequence[TrialRecord]) -> tuple[int, ...]:
    finished = {r.spec.shape.depth for r in records if r.outcome is Outcome.FINISHED}
    return tuple(sorted(finished))


def more_seeds(confirm: ConfirmConfig, number: int) -> v.Seeds:
    """The remedy of `number` seeds, but at least of one more than the study has."""
    return v.Seeds(max(number, confirm.seeds + 1))


class _TriedPlan:
    """The plan of a budget, on which remedies are tried."""

    def __init__(
        self, config: StudyConfig, records: Sequence[TrialRecord], planned: PlannedSizes
    ) -> None:
        self._config, self._records, self._planned = config, records, planned
        self._budget, self._like = records[0].spec.budget, records[0].spec.shape
        self._finished = _finished_depths(records)

    @cached_property
    def _meetable(self) -> tuple[int, ...]:
        """Every depth that has a shape of the budget, whatever `space.depth` allows."""
        return meetable_depths(self._config, self._budget, self._like) or ()

    def remedy(self, verdict: Verdict) -> Remedy | None:
        """A remedy for a verdict that improves the plan, or the reason why none does."""
        match verdict.remedy:
            case v.Depths() if isinstance(verdict.cause, v.BestAtEnd):
                return self._beyond(verdict.cause.end, deeper=verdict.cause.deeper)
            case TheseDepths(depths):
                return self._these(depths, verdict.cause)
            case Advice.MORE_DEPTHS:
                return self._more_depths()
            case Advice.TRAIN_TO_THE_END if isinstance(verdict.cause, v.NoneFinishedBeyond):
                return self._to_the_end(verdict.cause.end)
            case Advice.MORE_SHAPES:
                return self._more_shapes()
        return verdict.remedy

    def _change(self, changes: Mapping[str, object]) -> PlanChange | None:
        return plan_change(self._config, self._budget, self._like, changes)

    def _beyond(self, end: int, *, deeper: bool) -> Remedy:
        """The remedy of depths beyond the tested ones: untried depths of the study, or a wider
        range."""

        def beyond(depths: Sequence[int]) -> list[int]:
            side = [d for d in depths if d > end] if deeper else [d for d in depths if d < end]
            return side if deeper else side[::-1]

        if (untried := beyond(self._planned.depths)) and (these := self._ladder(untried[:NEXT])):
            return these
        wanted = beyond(self._meetable)
        # As far as a search goes beyond an end: `STEP` of `scheduling/trained_depths.py`.
        wanted = wanted[: max(NEXT, sum(end / 2 <= depth <= 2 * end for depth in wanted))]
        nothing = NoRemedy(Lack.NO_DEEPER if deeper else Lack.NO_SHALLOWER, self._budget)
        if not wanted:
            return nothing
        low, high = self._config.space.depth[0], self._config.space.depth[-1]
        narrow = (max(1, end // 2), wanted[-1]) if deeper else (wanted[-1], 2 * end)
        wide = (min(low, wanted[-1]), max(high, wanted[-1]))
        for limits in (narrow, wide):
            change = self._change({"space.depth": list(limits)})
            if change and beyond(change.new_depths):
                return v.Depths(*limits)
        return self._ladder(wanted) or nothing

    def _ladder(self, depths: Sequence[int]) -> TheseDepths | None:
        """The remedy to train `depths` as well as those that finished; None if the plan of a study
        with all of them has no shape of one."""
        every = sorted({*depths, *self._finished})
        change = self._change({"sampler": Sampler.LADDER.value, "space.depth": every})
        if change is None or change.after is None or not {*depths} <= {*change.after.depths}:
            return None
        return TheseDepths(tuple(sorted(depths)), self._finished)

    def _these(self, depths: Sequence[int], cause: v.Cause) -> Remedy:
        """The remedy to train those of the depths that have a shape; if none has, other depths
        between the same tested ones."""
        possible = set(self._meetable) - set(self._finished)
        if isinstance(cause, v.BetweenTested) and not possible.intersection(depths):
            between = [d for d in sorted(possible) if cause.below < d < cause.above]
            middle = bisect(between, depths[0])
            chosen = between[max(0, middle - 1) : middle + 1]
        else:
            chosen = [depth for depth in depths if depth in possible]
        if chosen and (these := self._ladder(chosen)):
            return these
        if isinstance(cause, v.MayCostMore):
            return more_seeds(self._config.confirm, FEWEST_SEEDS)
        return NoRemedy(Lack.NO_SUCH_DEPTH, self._budget, tuple(depths))

    def _more_depths(self) -> Remedy:
        """The remedy by which more depths finish: train the paused ones, or confirm more, or train
        depths of the plan that were not tried."""
        ended = {
            record.spec.shape.depth: record.outcome
            for record in self._records
            if record.spec.shape.depth not in self._finished
        }
        paused = sorted(d for d, outcome in ended.items() if outcome is Outcome.STOPPED)
        if paused and (these := self._ladder(paused[:NEXT])):
            return these
        confirmed = self._config.confirm.depths
        if confirmed < len(self._planned.depths):
            return v.Keys((("confirm.depths", min(len(self._planned.depths), confirmed + NEXT)),))
        if any(outcome in ENDED_BADLY for outcome in ended.values()):
            return Advice.LOWER_LEARNING_RATE
        untried = [d for d in self._planned.depths if d not in self._finished]
        return self._ladder(untried[:NEXT]) or Advice.MORE_DEPTHS

    def _to_the_end(self, end: int) -> Remedy:
        """The nearest depths beyond an end whose trials were paused."""
        paused = {
            record.spec.shape.depth for record in self._records if record.outcome is Outcome.STOPPED
        } - set(self._finished)
        deeper = end >= self._finished[-1]
        beyond = sorted((d for d in paused if (d > end) is deeper), key=lambda d: abs(d - end))
        return self._ladder(beyond[:NEXT]) or Advice.TRAIN_TO_THE_END

    def _more_shapes(self) -> Remedy:
        """More exploring trials where shapes are left, else shapes of about one ratio."""
        if self._config.sampler is not Sampler.LADDER:
            trials = 2 * self._config.trials
            change = self._change({"trials": trials})
            if change and change.adds:
                return v.Keys((("trials", trials),))
        ratio = self._best.ff_ratio
        ratios = [round(ratio / NEAR_RATIO, 2), round(ratio * NEAR_RATIO, 2)]
        change = self._change({"space.ff_ratio": ratios})
        if change and change.after:
            return v.Keys((("space.ff_ratio", ratios),))
        return NoRemedy(Lack.ALL_PLANNED, self._budget, self._planned.depths)

    @property
    def _best(self) -> Shape:
        """The shape with the lowest final loss."""
        ended = [record for record in self._records if record.outcome is Outcome.FINISHED]
        return min(ended, key=lambda record: record.curve[-1].loss).spec.shape
