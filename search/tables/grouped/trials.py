"""Turns runs near one size into trials of a budget at a horizon, as a search would have them.

Each becomes a confirmation trial: trained to the end, and not selected for a low loss.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot, log, nan

import numpy as np

from fathom.models.shape import Count, Shape
from fathom.search.records import CurvePoint, Outcome, Stage, TrialRecord, TrialSpec
from fathom.search.tables.grouped.choosing import EndedRun, choose, noise_of, shape_means
from fathom.search.tables.grouped.sizes import SHORT, shape_scatter, size_slope, sized_shape
from fathom.search.tables.runs import NO_TIME, Run

NEAR = 0.05
"""Largest distance of an evaluation from a horizon, as a share of the horizon's tokens."""
FINAL_NEAR = 0.25
"""`NEAR` for runs with only a final loss, since their tokens may depend on their size."""
AROUND = 2
"""Evaluations on either side of a horizon; the median of all is the loss there, against spikes."""
ENOUGH_DEPTHS = 3
"""Fewest depths to which a curve can be fitted."""
MOST_DEPTHS = 0.75
"""Share of the depths that must reach a horizon, if the question names no horizon."""
MOST_POINTS = 200
"""About how many evaluations of a curve a trial keeps; losses at horizons are read from all."""
SURE = 0.1
"""Largest standard error, nats per unit of ln parameters, at which the gain from size is taken from
the whole table; otherwise it is taken from a budget's own trials and the usual gain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBudget:
    """The runs near one size, as trials of a budget at a horizon."""

    records: tuple[TrialRecord, ...]
    slope: float | None
    """Nats per unit of ln parameters by which losses were corrected to one size; None if the
    estimate of the depths is to do that."""
    errors: Mapping[Shape, float]
    """Shape -> standard error of its loss, nats, besides the noise between seeds: from the choice
    of the best of several values of settings, and from `shape_scatter`.
    """


def loss_at(run: Run, tokens: float) -> float | None:
    """The loss of a run at a horizon; None without an evaluation near the horizon, or one on each
    side to interpolate between."""
    at = run.tokens
    if not len(at) or (run.diverged and at[-1] < tokens):
        return None
    if len(at) == 1:
        return float(run.losses[0]) if abs(at[0] / tokens - 1) <= FINAL_NEAR else None
    middle = int(np.abs(at - tokens).argmin())
    if abs(at[middle] / tokens - 1) <= NEAR:
        # As many before as after, or a falling curve would be read too early.
        around = np.arange(middle - min(AROUND, middle), min(len(at), middle + AROUND + 1))
        return float(np.median(run.losses[around[np.abs(at[around] / tokens - 1) <= NEAR]]))
    if at[0] < tokens < at[-1]:
        return float(np.interp(np.log(tokens), np.log(at), run.losses))
    return None


def full_horizon(runs: Sequence[Run]) -> float:
    """The largest number of tokens that most depths reach, and at least half as many runs as reach
    any other number; with fewer than three depths, all depths must reach it.

    It is at least half of the longest run's tokens. If only final losses are known, at least half
    of the runs must also end near it; without such a horizon, it is the one near which most runs
    end.
    """
    whole = [run for run in runs if len(run.tokens)]
    ends = {float(run.tokens[-1]) for run in whole if not run.diverged}
    ends = ends or {float(run.tokens[-1]) for run in whole}
    late = sorted(end for end in ends if end >= SHORT * max(ends))
    final = all(len(run.tokens) == 1 for run in whole)
    tried = sorted(ends) if final else late
    near = {e: [run for run in whole if loss_at(run, e) is not None] for e in tried}
    depths = {end: len({run.depth for run in near[end]}) for end in tried}
    every = len({run.depth for run in whole})
    enough = max(min(ENOUGH_DEPTHS, every), MOST_DEPTHS * every)
    trained = {
        end: len({run.training for run in near[end]}) for end in tried if depths[end] >= enough
    }
    half = final * len({run.training for run in whole}) / 2
    most = min(half, max(trained.values(), default=half))
    many = max((len(near[end]) for end in trained), default=0) / 2
    reached = [
        end for end, number in trained.items() if number >= most and len(near[end]) >= many
    ] or [end for end in late if end in trained]
    return max(reached or late, key=lambda end: (not reached and depths[end], end), default=NO_TIME)


def table_budget(
    runs: Sequence[Run], near: Sequence[Run], *, params: int, count: Count, tokens: float,
    table: str, rates: bool = False, noise: float | None = None,
) -> TableBudget:  # fmt: skip
    """The runs `near` a size as trials of a budget: losses are corrected to exactly this size, and
    each shape has its best setting and, if `rates`, its best learning rate."""
    everywhere = _ended(runs, tokens)
    usual_noise = noise_of(everywhere) if noise is None else noise
    best = choose(everywhere, rates=True, noise=usual_noise)
    there = [ended.run for ended in best if ended.loss is not None]
    slope, error = size_slope(there, near, tokens, count)
    sure = error <= SURE
    shapes, losses, seeds = shape_means(best)
    scatter = shape_scatter(
        shapes, losses, [usual_noise**2 / number for number in seeds], params, count
    )
    chosen = choose(_ended(near, tokens), rates=rates, noise=usual_noise)
    usual = {} if rates else _reference_rates([ended.run for ended in chosen])
    records: list[TrialRecord] = []
    errors: dict[Shape, float] = {}
    for number, ended in enumerate(_without_copies(chosen)):
        run = ended.run
        size = run.params(count)
        shape = sized_shape(run, params if sure else size, count)
        scale = run.learning_rate / usual[run.shape] if usual and run.learning_rate else 1.0
        spec = TrialSpec(
            trial=f"run-{number:03d}",
            study=table,
            stage=Stage.CONFIRM,
            budget=params,
            count=count,
            horizon_tokens=round(tokens),
            shape=shape,
            seed=run.seed,
            learning_rate=run.learning_rate or 0.0,
            rate_scale=scale,
            prunable=False,
        )
        shift = slope * log(size / params) if sure else 0.0
        records.append(_record(spec, ended, tokens, shift - ended.price))
        errors[shape] = hypot(ended.price, scatter)
    return TableBudget(records=tuple(records), slope=slope if sure else None, errors=errors)


def _ended(runs: Sequence[Run], tokens: float) -> list[EndedRun]:
    return [EndedRun(run, loss_at(run, tokens)) for run in runs]


def _without_copies(ended: Sequence[EndedRun]) -> list[EndedRun]:
    """The runs in order of depth and seed, without seeds whose loss is identical to another seed's.

    Such losses were copied, or rounded too much, and do not show the noise between seeds.
    """
    kept: dict[object, EndedRun] = {}
    for trained in sorted(ended, key=lambda trained: (trained.run.depth, trained.run.seed)):
        run, loss = trained.run, trained.loss
        key = (run.shape, run.learning_rate, run.seed if loss is None else loss, loss is None)
        kept.setdefault(key, trained)
    return list(kept.values())


def _reference_rates(runs: Sequence[Run]) -> dict[object, float]:
    """Shape -> the learning rate that most of its runs have; the middle one of several such
    rates."""
    rates: dict[object, list[float]] = defaultdict(list)
    for run in runs:
        if run.learning_rate:
            rates[run.shape].append(run.learning_rate)
    found = {}
    for shape, of_shape in rates.items():
        times = Counter(of_shape)
        most = sorted(rate for rate in times if times[rate] == max(times.values()))
        found[shape] = most[len(most) // 2]
    return found


def _record(spec: TrialSpec, ended: EndedRun, tokens: float, shift: float) -> TrialRecord:
    """The trial of a run, finished if the run has a loss at the horizon; `shift` is subtracted from
    all losses."""
    run, loss = ended.run, ended.loss
    before = run.tokens < tokens * (1 if loss is None else 1 - 1e-9)
    rows = np.flatnonzero(before)
    rows = rows[:: max(1, len(rows) // MOST_POINTS)]
    curve = list(zip(run.tokens[rows].tolist(), run.losses[rows].tolist(), strict=True))
    if loss is None:
        outcome = Outcome.DIVERGED if run.diverged else Outcome.STOPPED
        reason = "its loss is no number" if run.diverged else "it has no loss near the horizon"
    else:
        outcome, reason = Outcome.FINISHED, ""
        curve.append((tokens, loss))
    seconds = run.seconds_per_step or nan
    points = tuple(
        CurvePoint(
            step=step, tokens=round(at), loss=value - shift, train_loss=nan,
            train_seconds=step * seconds, time=0.0,
        )
        for step, (at, value) in enumerate(curve, 1)
    )  # fmt: skip
    return TrialRecord(
        spec=spec, outcome=outcome, reason=reason, curve=points, rungs={}, started=0.0, ended=None,
        setup_seconds=0.0, peak_memory_bytes=None,
    )  # fmt: skip
