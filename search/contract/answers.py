"""Parts of a `--json` answer that are the same for a study and a table."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from enum import Enum

from fathom.models.shape import Count
from fathom.models.unit import NATS, Unit
from fathom.search.analysis.answer import verdict as v
from fathom.search.analysis.answer.definitions import not_ruled_out
from fathom.search.analysis.answer.optimum import BestSize, Optimum
from fathom.search.analysis.losses.depth_estimates import DepthEstimate
from fathom.search.analysis.spending.measured_seconds import measured_seconds
from fathom.search.conclusion.findings import Findings
from fathom.search.contract.questions import asked_horizon
from fathom.search.contract.reply import (
    AskedQuestion,
    Background,
    BestDepth,
    DepthEvidence,
    DepthProbability,
    Evidence,
    SizeCost,
    Sizes,
    StatedAnswer,
    StatedCost,
    StatedSeconds,
    StatedSize,
    StatedUnit,
    StatedVerdict,
    Statement,
    TrialCounts,
)
from fathom.search.contract.trainings import next_trainings
from fathom.search.records import Outcome
from fathom.search.report.words.caveats import unsupported
from fathom.search.report.words.sizes import size_reason
from fathom.search.words import cause_text

NONE: Mapping[str, str] = {}


def answer_of(
    optimum: Optimum, findings: Findings, question: AskedQuestion, *, command: str | None,
    noise: float | None = None,
) -> StatedAnswer:  # fmt: skip
    """The answer of a budget; `noise` between seeds, in the answer's unit, is None if not
    stated."""
    unit = optimum.unit
    return StatedAnswer(
        question=question,
        answer=finding_of(optimum) if optimum.optimal_depth else None,
        verdict=verdict_of(
            optimum.verdict, findings.reason(optimum), findings.remedy(optimum), unit
        ),
        unit=unit_of(unit),
        costs=tuple(_costs(optimum, findings)),
        next=next_trainings(findings, optimum, noise),
        command=command,
        evidence=_evidence(optimum, findings),
    )


def unit_of(unit: Unit) -> StatedUnit:
    """The unit of an answer."""
    return StatedUnit(
        name=unit.name,
        nats=unit.nats,
        maximised=unit.zero is not None,
        plateau=unit.difference(v.PLATEAU_WIDTH),
    )


def _costs(optimum: Optimum, findings: Findings) -> Iterator[StatedCost]:
    """Yields the cost of each other depth, ascending; nothing with fewer than three depths."""
    for cost in optimum.costs:
        multiple = findings.compute_multiple(optimum, cost)
        yield StatedCost(
            depth=cost.depth,
            nats=cost.nats,
            nats_interval=cost.interval,
            cost=optimum.unit.difference(cost.nats),
            cost_interval=optimum.unit.interval(cost.interval),
            compute=multiple.middle if multiple else None,
            compute_interval=multiple.interval if multiple else None,
        )


def finding_of(optimum: Optimum) -> BestDepth:
    """The best depth of a budget that has one."""
    assert optimum.optimal_depth is not None, "only a budget with a depth has a finding"
    possible = not_ruled_out(optimum)
    return BestDepth(
        depth=optimum.optimal_depth,
        interval=optimum.interval,
        probabilities=tuple(
            DepthProbability(depth=depth, probability=share)
            for depth, share in optimum.probabilities
        ),
        not_ruled_out=possible,
        shallowest_depth=min(possible, default=None),
        lowest_depth=optimum.lowest_depth,
        loss=None if optimum.loss is None else optimum.unit.value(optimum.loss),
        chance_of_cost=optimum.chance_of_cost,
        shape=Sizes.model_validate(optimum.shape) if optimum.shape else None,
    )


def verdict_of(verdict: v.Verdict, reason: str, remedy: str, unit: Unit = NATS) -> StatedVerdict:
    """A verdict for `--json`, with the given sentences on its reason and remedy."""
    cause = Statement(name=type(verdict.cause).__name__, text=cause_text(verdict.cause, unit),
                      values=asdict(verdict.cause))  # fmt: skip
    return StatedVerdict(
        kind=verdict.kind,
        reason=reason,
        cause=cause,
        remedy=_remedy(verdict.remedy, remedy),
    )


def _remedy(remedy: v.Remedy | None, text: str) -> Statement | None:
    if remedy is None or not text:
        return None
    if isinstance(remedy, Enum | v.Larger):
        return Statement(name=remedy.name.lower(), text=text, values={})
    values = asdict(remedy)
    if isinstance(remedy, v.Keys):
        values = {"changes": dict(remedy.changes)}
    if isinstance(remedy, v.NoRemedy):
        values["why"] = remedy.why.name.lower()
    return Statement(name=type(remedy).__name__, text=text, values=values)


def _evidence(optimum: Optimum, findings: Findings) -> Evidence:
    counts, measured = optimum.trials, measured_seconds(findings.records_of(optimum.budget))
    return Evidence(
        trials=TrialCounts(
            finished=counts[Outcome.FINISHED],
            stopped=counts[Outcome.STOPPED],
            diverged=counts[Outcome.DIVERGED],
            # Four outcomes are promised; running out of memory is one way to fail.
            failed=counts[Outcome.FAILED] + counts[Outcome.OUT_OF_MEMORY],
        ),
        depths=tuple(map(DepthEvidence.model_validate, _in_unit(optimum))),
        noise=optimum.unit.difference(optimum.noise),
        params_slope=optimum.unit.difference(optimum.params_slope),
        best_ff_ratio=optimum.best_ff_ratio,
        curve_minimum=optimum.curve_minimum,
        curve_minimum_interval=optimum.curve_minimum_interval,
        family_disagreement=optimum.family_disagreement,
        share_without_minimum=optimum.share_without_minimum,
        power=optimum.curves.power if optimum.curves else None,
        parabola=optimum.curves.parabola if optimum.curves else None,
        rungs=findings.audits_of(optimum.budget),
        seconds=StatedSeconds.model_validate(measured) if measured else None,
    )  # fmt: skip


def _in_unit(optimum: Optimum) -> Iterator[DepthEstimate]:
    """Yields the estimates of the depths in the unit of their answer."""
    unit = optimum.unit
    for known in optimum.depths:
        error = unit.difference(known.standard_error)
        yield replace(known, loss=unit.value(known.loss), standard_error=error)


def size_of(
    found: BestSize, source: str, count: Count, *, held: Mapping[str, str] = NONE
) -> StatedSize:
    """The best size, for `--json`, when models of any size spend an equal amount."""
    return StatedSize(
        source=source,
        held=dict(held),
        count=count.value,
        horizon=asked_horizon(found.spend),
        unit=unit_of(found.unit),
        size=found.size,
        interval=found.interval,
        plateau=found.plateau,
        loss=None if found.loss is None else found.unit.value(found.loss),
        kind=found.verdict.kind,
        reason=size_reason(found),
        costs=tuple(
            SizeCost(
                size=cost.depth,
                cost=found.unit.difference(cost.nats),
                cost_interval=found.unit.interval(cost.interval),
            )
            for cost in found.costs
        ),
        noise=found.unit.difference(found.noise),
    )


def background_of(
    findings: Findings, source: str, *, horizon: str | None = None, held: Mapping[str, str] = NONE
) -> Background:
    """Background that the answers of these findings share."""
    return Background(
        source=source,
        horizon=horizon,
        held=dict(held),
        law=next(iter(findings.laws), None),
        null_laws=findings.null_laws,
        amount_law=findings.amount_law,
        unsupported=tuple(unsupported(findings)),
        papers={**findings.papers, "depth_metrics": findings.depth_metrics},
    )
