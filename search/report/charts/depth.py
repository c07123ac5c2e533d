"""Charts against depth for one budget: the loss, with its fit and interval, and the metrics."""

import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.losses.depth_metrics import DepthMetric
from fathom.search.records import Outcome, TrialRecord
from fathom.search.report.charts import chart, colours
from fathom.search.report.charts.trials import (
    FEWEST_POINTS,
    best_point,
    drawn_error,
    inside_and_above,
    interval_band,
    last_loss,
    loss_axis,
    trial_points,
)
from fathom.search.report.words.text import metric_name, metric_title, question
from fathom.search.words import both_ends

WITHOUT_LOSS = (Outcome.DIVERGED, Outcome.OUT_OF_MEMORY, Outcome.FAILED)
"""Outcomes whose losses, if any, do not fit the scale."""
NEXT_POINT, WIDEST_ROW = 0.05, 0.16
"""Distance of points side by side, and greatest width of the points of a depth; in ln depth."""
HUES = (colours.ACCENT, colours.ORANGE, colours.GREEN, colours.PINK, colours.INK, colours.MUTED)


def loss_against_depth(records: Sequence[TrialRecord], optimum: Optimum) -> chart.Chart | None:
    """Returns the chart of trials, fitted curves and best depth; None without two losses."""
    finished = _with_outcome(records, Outcome.FINISHED)
    stopped = _with_outcome(records, Outcome.STOPPED)
    losses = [last_loss(record) for record in finished or stopped]
    losses = [loss for loss in losses if math.isfinite(loss)]
    if len(losses) < FEWEST_POINTS:
        return None
    x = chart.depth_axis([record.spec.shape.depth for record in records])
    bars = [estimate.loss - estimate.standard_error for estimate in optimum.depths]
    y = loss_axis(losses, floor=min(bars, default=math.inf))
    best = f"best depth, {optimum.optimal_depth}"
    return chart.Chart(
        key=f"loss-against-depth-{optimum.budget}",
        title="Loss against depth",
        question=question(optimum),
        caption=_caption(bool(finished), of_any_size=optimum.best_size is not None),
        x=x,
        y=y,
        marks=chart.visible(
            *_conclusion(optimum, x, y),
            *_inside_and_above("stopped", stopped, chart.Marker.HOLLOW, y),
            *_without_loss(records, y),
            *_inside_and_above("finished", finished, chart.Marker.DOT, y),
            _means(optimum, y),
            *best_point(best, f"{best}: {optimum.kind.value}", optimum),
        ),
        budget=optimum.budget,
        wide=True,
    )


def _caption(some_finished: bool, *, of_any_size: bool) -> str:
    if not some_finished:
        return (
            "No trial of this budget trained to the end: every point is a trial that was stopped,"
            " at its last evaluation. Losses after different numbers of tokens do not compare."
        )
    if of_any_size:
        return (
            "Every point is one trial of any size at its last evaluation; hollow ones were "
            "stopped early. A mean is the loss of a depth at its best size, read off the fitted "
            "surface of loss over size and depth, so points of other sizes lie above it. Its bar "
            "is one standard error."
        )
    return (
        "Every point is one trial at its last evaluation. Hollow ones were stopped early, so their"
        " loss is of fewer tokens and not part of the fit. A"
        " mean is a depth's loss at the budget's exact size, one feed-forward ratio and its best"
        " learning rate, over all finished trials of its confirmed shapes, or of all its shapes if"
        " none was confirmed; its bar is one standard error. The solid"
        " curve, a z^-p + b z^q + c with z proportional to depth, decides; the thin parabola in ln"
        " depth is a second opinion; both are drawn at whole depths. The higher a depth lies above"
        " the best, the less weight it has, so the curves need not pass near it."
    )


def _conclusion(optimum: Optimum, x: chart.Axis, y: chart.Axis) -> list[chart.Mark]:
    ends = both_ends(optimum.interval) if optimum.interval else ""
    return [*interval_band(f"95 % interval, {ends}", optimum, x, y), *_curves(optimum)]


def _curves(optimum: Optimum) -> list[chart.Mark]:
    """Returns the curves of both families over the fitted depths."""
    curves = optimum.curves
    if curves is None:
        return []
    grid = chart.depth_grid(optimum.depths[0].depth, optimum.depths[-1].depth)
    families = (
        ("parabola", curves.parabola, colours.MUTED, 1.2),
        ("fit", curves.power, colours.ACCENT, 2.5),
    )
    return [
        chart.Line(
            name=name,
            x=grid,
            y=tuple(curve(depth) for depth in grid),
            hue=hue,
            hover=name,
            width=width,
            dash=curve is curves.parabola,
        )
        for name, curve, hue, width in families
    ]


def _means(optimum: Optimum, y: chart.Axis) -> chart.Points:
    shown = [depth for depth in optimum.depths if y.low <= depth.loss <= y.high]
    return chart.Points(
        name="mean of a depth",
        x=tuple(depth.depth for depth in shown),
        y=tuple(depth.loss for depth in shown),
        bars=tuple((d.loss - drawn_error(d), d.loss + drawn_error(d)) for d in shown),
        hover=tuple(f"mean of depth {d.depth}, {d.trials} finished" for d in shown),
        hue=colours.INK,
        marker=chart.Marker.BAR,
    )


def _inside_and_above(
    name: str, records: Sequence[TrialRecord], marker: chart.Marker, y: chart.Axis
) -> list[chart.Mark]:
    inside, above = inside_and_above(records, y)
    return [
        _trials(name, inside, marker),
        _trials(f"{name}, off the scale", above, chart.Marker.ABOVE, edge=y.edge),
    ]


def _without_loss(records: Sequence[TrialRecord], y: chart.Axis) -> list[chart.Mark]:
    return [
        _trials(
            outcome.replace("_", " "), _with_outcome(records, outcome), chart.Marker.CROSS,
            edge=y.edge,
        )
        for outcome in WITHOUT_LOSS
    ]  # fmt: skip


def _trials(
    name: str, records: Sequence[TrialRecord], marker: chart.Marker, *, edge: float | None = None
) -> chart.Points:
    """Returns one point for each trial, at its last loss; with `edge`, side by side at that
    height."""
    depths = [record.spec.shape.depth for record in records]
    aside = [0.0] * len(depths) if edge is None else _aside(depths)
    x = [depth * math.exp(place) for depth, place in zip(depths, aside, strict=True)]
    y = [last_loss(record) if edge is None else edge for record in records]
    return trial_points(name, records, x, y, marker, values=depths)


def _aside(depths: Sequence[int]) -> list[float]:
    """Returns the distance of each point from the middle of the points of its depth, in ln
    depth."""
    points, before, aside = Counter(depths), Counter[int](), []
    for depth in depths:
        beside = points[depth] - 1
        aside.append((before[depth] - beside / 2) * min(NEXT_POINT, WIDEST_ROW / max(1, beside)))
        before[depth] += 1
    return aside


def _with_outcome(records: Sequence[TrialRecord], outcome: Outcome) -> list[TrialRecord]:
    return [record for record in records if record.outcome is outcome]


def metric_against_depth(metrics: Sequence[DepthMetric], optimum: Optimum) -> chart.Chart | None:
    """Returns the chart of one kind of metric on each split; None where nothing was learned."""
    if all(metric.nothing_learned for metric in metrics):
        return None
    first = metrics[0]
    name, title = metric_name(first.kind), metric_title(first.kind)
    of = "way of decoding" if first.is_score else "split"
    highest = max(value for metric in metrics for each in metric.values.values() for value in each)
    high = min(100.0 if first.is_score else 1.0, 1.25 * highest)
    return chart.Chart(
        key=f"{first.kind.replace('_', '-')}-against-depth-{optimum.budget}",
        title=f"{title} against depth",
        question=question(optimum),
        caption=f"{title} of each {of} at the end of training. A point is a trial, a line joins the"
        " means of the depths. Trials are those of the answer: confirming ones where a depth has"
        " any, each at its best learning rate.",
        x=chart.depth_axis([depth for metric in metrics for depth in metric.values]),
        y=chart.Axis(
            label=f"{name} (0 to 100)" if first.is_score else f"{name} (share of the rows)",
            low=-0.03 * high,
            high=1.04 * high,
            ticks=chart.linear_ticks(0, high),
            quantity=name,
            form=chart.Form.PLAIN if first.is_score else chart.Form.FIXED,
        ),
        marks=tuple(
            mark
            for index, metric in enumerate(metrics)
            for mark in _metric_marks(metric, HUES[index % len(HUES)])
        ),
        budget=optimum.budget,
        legend_title=of,
        wide=True,
    )


def _metric_marks(metric: DepthMetric, hue: colours.Hue) -> list[chart.Mark]:
    points = [(depth, value) for depth, each in metric.values.items() for value in each]
    x, y = zip(*points, strict=True)
    return [
        chart.Line(
            name=metric.split,
            x=tuple(metric.values),
            y=tuple(map(fmean, metric.values.values())),
            hue=hue,
            hover=f"mean, {metric.split}",
        ),
        chart.Points(
            name=metric.split,
            x=x,
            y=y,
            hover=tuple(f"a trial, {metric.split}" for _ in points),
            hue=hue,
            marker=chart.Marker.DOT,
            in_legend=False,
        ),
    ]
