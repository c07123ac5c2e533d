"""The answer of a table of a search that drew every setting at random, including depth."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import log, nan

import numpy as np

from fathom.models.shape import Count
from fathom.models.spend import Coin, Spend
from fathom.search.analysis.answer.located import optimum_of
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.answer.verdict import (
    Confounded,
    FlatRange,
    Kind,
    NoEffectShown,
    OneValue,
    Verdict,
)
from fathom.search.analysis.curve.curve_fit import points_of
from fathom.search.analysis.curve.posterior import Posterior
from fathom.search.analysis.losses.depth_estimates import DepthEstimate, DepthEstimates
from fathom.search.analysis.losses.noise import Repeats
from fathom.search.formatting import format_count, printable, ranges
from fathom.search.records import CurvePoint, Outcome, Stage, TrialRecord, TrialSpec
from fathom.search.tables.grouped.sizes import follow, sized_shape
from fathom.search.tables.grouped.trials import FINAL_NEAR
from fathom.search.tables.runs import Run
from fathom.search.tables.searches.axes import DEPTH, SIZE, Drawn
from fathom.search.tables.searches.importance import Importance, importances
from fathom.search.tables.searches.surface import Array
from fathom.search.tables.searches.tuning import Tuned, tune

SEED = 0
"""Seed of the draws."""
AT_END = 0.15
"""Distance from the largest size, on the axis from -1 to 1, within which the best size counts as
that end: loss still falls with size."""
FAILED = 0.5
"""Share of failed runs of a depth from which on a note names the depth."""
NAMED = 6
"""Largest number of settings whose importance a note lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAnswer:
    """Answer of a search's table at one size, or at the best size."""

    optimum: Optimum
    records: tuple[TrialRecord, ...]
    """The lowest run of each depth."""
    importances: tuple[Importance, ...]
    """The most important setting first."""
    notes: tuple[str, ...]


def answer_search(
    drawn: Drawn, *, count: Count, coin: Coin, label: str, width: float, size: int | None = None,
) -> SearchAnswer:  # fmt: skip
    """The best depth with all other settings at their best, at `size` parameters. If None, the size
    is the best one too or, if loss falls up to the largest size, the middle one."""
    tuned, how = _at_size(drawn, width, size)
    generator = np.random.default_rng(SEED)
    losses = tuned.losses(generator)
    best = int(losses.mean(axis=0).argmin())
    place = drawn.at(SIZE)
    at = tuned.size or _middle(drawn)
    if tuned.size is None and place is not None:
        at = float(drawn.axes[place].text(tuned.points[best, place]))
    records = tuple(_records(drawn, tuned, count, label, int(at)))
    estimates = _estimates(drawn, tuned, losses, records)
    optimum = optimum_of(records, estimates, _posterior(tuned, losses, estimates))
    if isinstance(flat := optimum.verdict.cause, FlatRange):
        unshown = Verdict(Kind.INSUFFICIENT, NoEffectShown(flat.depths))
        optimum = replace(optimum, verdict=unshown)
    if cause := _one_rule(drawn, width):
        optimum = replace(
            optimum, verdict=Verdict(Kind.INSUFFICIENT, cause, OneValue(cause.setting))
        )
    found = importances(tuned, best, generator)
    return SearchAnswer(
        optimum=replace(
            optimum,
            shape=None,
            best_ff_ratio=None,
            shared_spend=Spend(drawn.horizon, coin),
            params_slope=0.0,
            trials=dict.fromkeys(optimum.trials, 0)
            | {Outcome.FINISHED.value: len(drawn.runs), Outcome.DIVERGED.value: len(drawn.failed)},
        ),
        records=records,
        importances=found,
        notes=(*_notes(drawn, tuned, how), *importance_notes(found)),
    )


def _at_size(drawn: Drawn, width: float, size: int | None) -> tuple[Tuned, str]:
    """The depths at their best settings, and a phrase that says how their size was chosen."""
    if size is not None:
        return tune(drawn, size), f"at {format_count(size)} parameters"
    low, high = drawn.sizes.min(), drawn.sizes.max()
    middle = _middle(drawn)
    if high * (1 - width) <= low * (1 + width):
        return tune(drawn, middle), f"at {format_count(middle)} parameters"
    tuned, place = tune(drawn), drawn.at(SIZE)
    best = int(tuned.losses(np.random.default_rng(SEED)).mean(axis=0).argmin())
    if place is None or tuned.points[best, place] < tuned.sizes[best, 1] - AT_END:
        return tuned, "at the size that suits each depth"
    return tune(drawn, middle), (
        f"at {format_count(middle)} parameters, the middle size, since loss falls up to the "
        "largest one; --params names another"
    )


def _middle(drawn: Drawn) -> int:
    """The median size, rounded to three significant digits."""
    return int(float(f"{np.median(drawn.sizes):.3g}"))


def _one_rule(drawn: Drawn, width: float) -> Confounded | None:
    """The cause of a verdict that size follows from depth; None if size does not."""
    one_size = np.ptp(np.log(drawn.sizes)) <= log((1 + width) / (1 - width))
    if one_size or not follow(drawn.sizes, drawn.depths):
        return None
    of = {depth: drawn.sizes[drawn.depths == depth] for depth in drawn.tested.tolist()}
    return Confounded(
        SIZE, tuple((format_count(int(np.median(some))), (depth,)) for depth, some in of.items())
    )


def _lowest(drawn: Drawn, depth: int) -> Run:
    of_depth = [run for run in drawn.runs if run.depth == depth]
    return min(of_depth, key=lambda run: float(run.losses[-1]))


def _records(
    drawn: Drawn, tuned: Tuned, count: Count, label: str, size: int
) -> Iterator[TrialRecord]:
    """Yields the run with the lowest loss of each depth, as a trial of a budget."""
    for depth in drawn.tested[np.isin(drawn.tested, tuned.depths)].tolist():
        run = _lowest(drawn, depth)
        spec = TrialSpec(
            trial=f"depth-{depth}",
            study=label,
            stage=Stage.CONFIRM,
            budget=size,
            count=count,
            horizon_tokens=round(drawn.horizon),
            shape=sized_shape(run, size if tuned.size else run.params(count), count),
            seed=run.seed,
            learning_rate=run.learning_rate or 0.0,
            rate_scale=1.0,
            prunable=False,
        )
        point = CurvePoint(
            step=1, tokens=round(drawn.horizon), loss=float(run.losses[-1]), train_loss=nan,
            train_seconds=nan, time=0.0,
        )  # fmt: skip
        yield TrialRecord(
            spec=spec, outcome=Outcome.FINISHED, reason="", curve=(point,), rungs={}, started=0.0,
            ended=None, setup_seconds=0.0, peak_memory_bytes=None,
        )  # fmt: skip


def _estimates(
    drawn: Drawn, tuned: Tuned, losses: Array, records: Sequence[TrialRecord]
) -> DepthEstimates:
    """The loss of each depth that was tried, at its best settings; the part of losses that settings
    don't explain counts as noise."""
    depths = [record.spec.shape.depth for record in records]
    at = np.searchsorted(tuned.depths, depths)
    covariance = np.atleast_2d(np.cov(losses[:, at], rowvar=False))
    runs = Counter(drawn.depths.tolist())
    repeats = Repeats(tuned.surface.noise, max(1, int(tuned.surface.freedom)))
    return DepthEstimates(
        noise=tuned.surface.noise,
        repeats=repeats,
        depths=tuple(
            DepthEstimate(
                depth=record.spec.shape.depth,
                loss=float(losses[:, place].mean()),
                standard_error=float(losses[:, place].std()),
                trials=runs[record.spec.shape.depth],
                shape=record.spec.shape,
            )
            for record, place in zip(records, at.tolist(), strict=True)
        ),
        covariance=covariance,
        by_seeds=np.zeros_like(covariance),
    )


def _posterior(tuned: Tuned, losses: Array, estimates: DepthEstimates) -> Posterior:
    return Posterior(
        depths=tuned.depths,
        losses=losses,
        lowest=tuned.depths[losses.argmin(axis=1)].astype(np.float64),
        noise=tuned.surface.noise,
        points=points_of(estimates),
        repeats=estimates.repeats,
    )


def _notes(drawn: Drawn, tuned: Tuned, how: str) -> Iterator[str]:
    """Yields notes on how the table was read, and on depths whose runs failed."""
    names = [printable(axis.name) for axis in drawn.axes if axis.name not in (DEPTH, SIZE)]
    yield (
        f"its settings were drawn, so a model of the loss over depth and {len(names)} settings "
        f"({', '.join(names)}) compares depths {how}, with the other settings at the best for "
        f"each; it leaves {tuned.surface.noise:.4f} nats unexplained, which is no noise of seeds"
    )
    stopped = sum(run.tokens[-1] < (1 - FINAL_NEAR) * drawn.horizon for run in drawn.runs)
    if stopped:
        yield (
            f"{stopped} of {len(drawn.runs)} runs ended before {format_count(drawn.horizon)} "
            "tokens, and count by their last loss, corrected for the missing tokens"
        )
    averaged = int(tuned.depths[tuned.averaged.argmin()])
    yield f"averaged over the settings that were drawn, depth {averaged} is lowest"
    failed = Counter(run.depth for run in drawn.failed)
    runs = Counter(int(depth) for depth in drawn.depths)
    often = [depth for depth, n in failed.items() if n >= FAILED * (n + runs[depth])]
    if often:
        yield (
            f"{len(drawn.failed)} runs failed, in large part at depth {ranges(sorted(often))}: "
            "only those that did not fail are compared"
        )


def importance_notes(found: Sequence[Importance]) -> Iterator[str]:
    """Yields notes on how much depth matters compared with other settings, and on the settings on
    which the best depth depends."""
    place = next(i for i, importance in enumerate(found, 1) if importance.setting == DEPTH)
    shown = [*found[:NAMED], *(found[place - 1 : place] if place > NAMED else ())]
    listed = ", ".join(f"{printable(it.setting)} {it.nats:.4f}" for it in shown)
    yield (
        f"depth is number {place} of {len(found)} settings by what their tried values cost on "
        f"average, in nats: {listed}"
    )
    depends = [
        f"{printable(i.setting)} ("
        + ", ".join(f"{depth} at {printable(value)}" for value, depth in i.best_depths)
        + ")"
        for i in found
        if i.best_depths
    ]
    yield (
        f"the best depth depends on {' and on '.join(depends)}" if depends
        else "the best depth depends on no other setting, as far as these runs show"
    )  # fmt: skip
