"""The chart of learning curves, and the axes, names and texts that charts of trials share."""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import quantiles

from fathom.models.spend import Spend
from fathom.search.analysis.answer.optimum import Located, Optimum
from fathom.search.analysis.losses.depth_estimates import DepthEstimate
from fathom.search.formatting import format_count, rounded_count, spend_text
from fathom.search.records import Outcome, TrialRecord
from fathom.search.report.charts import chart, colours
from fathom.search.report.charts.chart import Axis, Labels
from fathom.search.report.charts.colours import Hue
from fathom.search.report.words.text import question

MOST_LEGEND_DEPTHS = 10
FIRST_SHOWN = 0.7
"""Share of the first rung's tokens at which learning curves begin."""
MOST_TRIALS = 400
"""About the most trials that a chart draws; of more, each depth has its best and an even sample of
the others."""
FEWEST_POINTS = 2
"""Fewest trials with which a chart is drawn."""
GAP = 0.045
"""Smallest distance between two names, as a share of the chart's height."""
LATE = 0.8
"""Share of a chart's width from which on a line's name stands at the right edge."""


def learning_curves(records: Sequence[TrialRecord], optimum: Optimum) -> chart.Chart | None:
    """Returns the chart of learning curves, coloured by depth; None without late losses."""
    start = _start(records, optimum)
    drawn, every = sample(records)
    curves = _curves(drawn, start)
    late = [
        loss for line in curves for spent, loss in zip(line.x, line.y, strict=True)
        if spent >= start
    ]  # fmt: skip
    if not late:
        return None
    y = loss_axis(late)
    x = chart.log_axis(
        f"training {optimum.spend.coin}",
        start,
        1.02 * optimum.spend.amount,
        quantity=optimum.spend.coin,
        form=chart.Form.COUNT,
        text=format_count,
    )
    return chart.Chart(
        key=f"learning-curves-{optimum.budget}",
        title="Learning curves by depth",
        question=question(optimum),
        caption=f"One line for {every or 'each trial'}. Deep models start slowly, so curves cross:"
        " a trial paused at a rung (dashed) resumes once it is among the best. The chart begins"
        " where trials are first compared; the number at the right edge is the depth of the best"
        " curve of its colour.",
        x=x,
        y=y,
        marks=chart.visible(
            *_rungs(records, y, optimum),
            *curves,
            *_ends(drawn, Outcome.STOPPED, chart.Marker.HOLLOW, chart.Marker.ABOVE, (x, y)),
            *_ends(drawn, Outcome.DIVERGED, chart.Marker.CROSS, chart.Marker.CROSS, (x, y)),
            _names(drawn, x, y, optimum.optimal_depth),
        ),
        budget=optimum.budget,
        legend_title=legend_title(records),
        wide=True,
    )


def _spent(record: TrialRecord, tokens: Sequence[int]) -> list[float]:
    """Amount that a trial has spent after each number of tokens, in the unit in which all trials of
    its budget spend the same."""
    spec, spend = record.spec, record.spec.spend
    if spend.coin.of_a_token is None:
        return [each / spec.horizon_tokens * spend.amount for each in tokens]
    of_a_token = spend.coin.of_a_token(spec.shape)
    return [each * of_a_token for each in tokens]


def _rung_places(records: Sequence[TrialRecord], optimum: Optimum) -> list[float]:
    """Amount that trials have spent at each rung, ascending."""
    shares = {rung / record.spec.shared_horizon for record in records for rung in record.rungs}
    return sorted(share * optimum.spend.amount for share in shares)


def _rungs(records: Sequence[TrialRecord], y: chart.Axis, optimum: Optimum) -> list[chart.Mark]:
    rungs = _rung_places(records, optimum)
    return [
        chart.Line(
            name="rung",
            x=(rung, rung),
            y=(y.low, y.high),
            hue=colours.MUTED,
            hover=f"rung at {spend_text(Spend(rung, optimum.spend.coin))}",
            has_values=False,
            dash=True,
            width=1,
            in_legend=rung == rungs[0],
        )
        for rung in rungs
    ]


def _curves(records: Sequence[TrialRecord], start: float) -> list[chart.Line]:
    """Returns one line for each trial from the last evaluation before `start`; the legend names
    each depth once."""
    lines, named = [], set(legend_depths(records))
    for record in sorted(records, key=lambda record: record.spec.shape.depth):
        points = [point for point in record.curve if point.tokens and math.isfinite(point.loss)]
        spent = _spent(record, [point.tokens for point in points])
        first = max(0, bisect_left(spent, start) - 1)
        depth = record.spec.shape.depth
        if not points:
            continue
        lines.append(
            chart.Line(
                name=str(depth),
                x=tuple(spent[first:]),
                y=tuple(point.loss for point in points[first:]),
                hue=colours.depth_hue(depth),
                hover=describe(record),
                width=1.4,
                in_legend=depth in named,
            )
        )
        named.discard(depth)
    return lines


def _ends(
    records: Sequence[TrialRecord],
    outcome: Outcome,
    inside: chart.Marker,
    above: chart.Marker,
    axes: tuple[chart.Axis, chart.Axis],
) -> list[chart.Mark]:
    """Returns the last points of the trials with an outcome, inside the scale and on its upper
    edge, with one marker for each of the two."""
    x, y = axes
    ended = [record for record in records if record.outcome is outcome and record.tokens]
    marks: list[chart.Mark] = []
    for part, marker in zip(inside_and_above(ended, y), (inside, above), strict=True):
        spent = [_spent(record, [record.tokens])[0] for record in part]
        places = [max(x.low, amount) for amount in spent]
        losses = [min(last_loss(record), y.edge) for record in part]
        name = outcome.value if marker is inside else f"{outcome.value}, off the scale"
        marks.append(trial_points(name, part, places, losses, marker, values=spent))
    return marks


def _start(records: Sequence[TrialRecord], optimum: Optimum) -> float:
    """Returns the amount spent from which curves are shown: somewhat before the first rung."""
    first = min(_rung_places(records, optimum), default=optimum.spend.amount / 8)
    return min(FIRST_SHOWN * first, optimum.spend.amount / 4)


def _names(
    records: Sequence[TrialRecord], x: chart.Axis, y: chart.Axis, best: int | None
) -> chart.Labels:
    """Returns labels: each depth beside the end of its curve that reaches furthest, or of these the
    best; the answer's depth has a star."""
    ends: dict[str, LineEnd] = {}
    for depth in legend_depths(records):
        of_these = [r for r in records if r.spec.shape.depth == depth and last_loss(r) < math.inf]
        if of_these:
            furthest = min(of_these, key=lambda record: (-record.shared_tokens, last_loss(record)))
            ends[f"{depth}★" if depth == best else str(depth)] = LineEnd(
                max(x.low, *_spent(furthest, [furthest.tokens])),
                last_loss(furthest),
                colours.depth_hue(depth),
            )
    return end_labels(ends, x, y)


def sample(records: Sequence[TrialRecord]) -> tuple[list[TrialRecord], str]:
    """The trials that a chart draws, in their order, and how many they are of all, in words; empty
    if they are all. Of each depth it draws every nth, from the one that trained furthest with the
    lowest loss on."""
    step = math.ceil(len(records) / MOST_TRIALS)
    by_rank = sorted(
        records,
        key=lambda record: (record.spec.shape.depth, -record.shared_tokens, last_loss(record)),
    )
    chosen = {
        record.spec.trial
        for _, of_depth in groupby(by_rank, key=lambda record: record.spec.shape.depth)
        for record in list(of_depth)[::step]
    }
    drawn = [record for record in records if record.spec.trial in chosen]
    of_all = f"{len(drawn)} of {len(records):,} trials, among them the best of each depth"
    return drawn, of_all if len(drawn) < len(records) else ""


def trial_points(
    name: str,
    records: Sequence[TrialRecord],
    x: Sequence[float],
    y: Sequence[float],
    marker: chart.Marker,
    *,
    values: Sequence[float] | None = None,
    in_legend: bool = True,
) -> chart.Points:
    """Returns one point for each trial in the colour of its depth, with a hover text.

    `values` are the trials' true values on the x axis if the points are not drawn at them; the
    losses shown are those of the records.
    """
    losses = [last_loss(record) for record in records]
    hues = tuple(colours.depth_hue(record.spec.shape.depth) for record in records)
    return chart.Points(
        name=name,
        x=tuple(x),
        y=tuple(y),
        hover=tuple(map(describe, records)),
        values=tuple(
            (value, loss if math.isfinite(loss) else None)
            for value, loss in zip(x if values is None else values, losses, strict=True)
        ),
        hue=hues[0] if len(set(hues)) == 1 else colours.INK,
        hues=hues,
        marker=marker,
        in_legend=in_legend,
    )


def interval_band(name: str, optimum: Optimum, x: chart.Axis, y: chart.Axis) -> list[chart.Mark]:
    """Returns the band of the best depth's 95 % interval, if it is known."""
    if not isinstance(optimum, Located):
        return []
    # Half a layer on each side: the interval is in whole depths.
    ends = (max(x.low, optimum.interval[0] - 0.5), min(x.high, optimum.interval[1] + 0.5))
    return [chart.Band(name=name, x=ends, low=(y.low,) * 2, high=(y.high,) * 2, hue=colours.ACCENT)]


def best_point(name: str, hover: str, optimum: Optimum) -> list[chart.Mark]:
    """Returns the best depth at its loss, if it is known."""
    depth, loss, marker = optimum.optimal_depth, optimum.loss, chart.Marker.STAR
    if depth is None or loss is None:
        return []
    x, y, hue = (depth,), (loss,), colours.ACCENT
    return [chart.Points(name=name, x=x, y=y, hover=(hover,), hue=hue, marker=marker)]


def inside_and_above(
    records: Sequence[TrialRecord], y: chart.Axis
) -> tuple[list[TrialRecord], list[TrialRecord]]:
    """Returns the trials whose last loss lies inside the scale, and those above it."""
    above = [record for record in records if last_loss(record) > y.edge]
    return [record for record in records if last_loss(record) <= y.edge], above


def last_loss(record: TrialRecord) -> float:
    """Returns the loss at the last evaluation, for any outcome; infinite without one."""
    loss = record.curve[-1].loss if record.curve else math.inf
    return loss if math.isfinite(loss) else math.inf


def describe(record: TrialRecord) -> str:
    """Returns one line on a trial, for hover texts."""
    spec, shape = record.spec, record.spec.shape
    return (
        f"{spec.trial}: depth {shape.depth}, d_model {shape.d_model}, d_ff {shape.d_ff},"
        f" {shape.n_heads} heads, seed {spec.seed}, rate {spec.learning_rate:g},"
        f" {record.outcome or 'running'} at {rounded_count(record.tokens)} tokens"
    )


def legend_depths(records: Sequence[TrialRecord]) -> tuple[int, ...]:
    """Returns the depths that a legend names: all, or as many as can be read."""
    tested = sorted({record.spec.shape.depth for record in records})
    if len(tested) <= MOST_LEGEND_DEPTHS:
        return tuple(tested)
    return chart.spread_ticks(tested, tested[0], tested[-1])


def legend_title(records: Sequence[TrialRecord]) -> str:
    """Returns the title of the legend, which says if some depths are not named."""
    tested = {record.spec.shape.depth for record in records}
    return "depth" if len(legend_depths(records)) == len(tested) else "depth (some)"


def loss_axis(losses: Sequence[float], *, floor: float = math.inf) -> chart.Axis:
    """Returns an axis that separates the good losses; much worse ones lie above it.

    It reaches down to `floor`, if that is lower than the losses.
    """
    low = min(*losses, floor)
    quarter = quantiles(losses, n=4)[2] if len(losses) > 1 else low
    room = max(2.5 * (quarter - low), 0.004)
    high = min(max(losses), low + room)
    pad = 0.08 * max(high - low, 0.004)
    return chart.Axis(
        label="held-out loss (nats)",
        low=low - pad,
        high=high + 1.5 * pad,
        ticks=chart.linear_ticks(low - pad, high + 1.5 * pad),
        quantity="loss",
        form=chart.Form.FIXED,
    )


def drawn_error(estimate: DepthEstimate) -> float:
    """Returns half the length of the error bar of a depth, nats; 0 for an unknown error."""
    return estimate.standard_error if math.isfinite(estimate.standard_error) else 0.0


@dataclass(frozen=True, slots=True)
class LineEnd:
    """The end of a line, for the line's name."""

    x: float
    y: float
    hue: Hue


def end_labels(ends: Mapping[str, LineEnd], x: Axis, y: Axis) -> Labels:
    """Returns the names at the right, each as near to its line's end as the other names allow.

    A line that ends before the edge has its name where it ends.
    """
    edge = max((end.x for end in ends.values()), default=x.high)
    shown = []
    for late in (False, True):
        of_these = [
            (name, end)
            for name, end in sorted(ends.items(), key=lambda pair: pair[1].y)
            if (x.place(end.x) >= LATE) is late and (late or y.low < end.y < y.high)
        ]
        heights = apart([y.place(end.y) for _, end in of_these], GAP)
        shown += [
            (name, edge if late else end.x, _value(y, height), end.hue)
            for (name, end), height in zip(of_these, heights, strict=True)
        ]
    texts, x_places, y_places, hues = zip(*shown, strict=True) if shown else [()] * 4
    return Labels(x=x_places, y=y_places, texts=texts, hues=hues)


def apart(places: Sequence[float], gap: float) -> list[float]:
    """Returns ascending places from 0 to 1, moved as little as needed to be a gap apart."""
    moved: list[float] = []
    for place in places:
        moved.append(max(min(1.0, max(0.0, place)), moved[-1] + gap if moved else 0.0))
    ceiling = 1.0
    for index in reversed(range(len(moved))):
        moved[index] = min(moved[index], ceiling)
        ceiling = moved[index] - gap
    return moved


def _value(axis: Axis, place: float) -> float:
    if axis.log:
        return axis.low * float((axis.high / axis.low) ** place)
    return axis.low + place * (axis.high - axis.low)
