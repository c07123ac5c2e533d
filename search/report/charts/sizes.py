"""The map of the loss over size and depth, for a budget that leaves the size free."""

from collections.abc import Sequence
from math import inf

from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.records import Outcome, TrialRecord
from fathom.search.report.charts import chart, colours
from fathom.search.report.words.text import question

HEIGHTS = (
    ("within 0.005 nats of the lowest", 0.005, colours.ACCENT, chart.Marker.DOT),
    ("within 0.02 nats", 0.02, colours.GREEN, chart.Marker.DOT),
    ("within 0.1 nats", 0.1, colours.ORANGE, chart.Marker.DOT),
    ("higher", inf, colours.MUTED, chart.Marker.DOT),
)
"""Kinds of finished trials by their height above the lowest loss: name, nats, colour, marker."""


def loss_over_sizes(records: Sequence[TrialRecord], optimum: Optimum) -> chart.Chart | None:
    """Returns the map of trials with the sizes and depths that may be the best together; None for a
    budget that fixes the size, or without an answer."""
    if optimum.best_size is None or optimum.loss is None:
        return None
    sizes = [record.spec.shape.params_total for record in records]
    stopped = [record for record in records if record.outcome is Outcome.STOPPED]
    return chart.Chart(
        key=f"loss-over-sizes-{optimum.budget}",
        title="Loss over size and depth",
        question=question(optimum),
        caption=(
            "Every point is a trial, and all that finished have spent the same. Colours say how far"
            " its loss is above the lowest; hollow points were stopped early. Bars are sizes and"
            " depths that hold the best of both with a probability of 95 %; the star is the answer."
        ),
        x=chart.depth_axis(sorted({record.spec.shape.depth for record in records})),
        y=chart.params_axis("total", min(sizes) / 1.25, max(sizes) * 1.25),
        marks=chart.visible(
            _region(optimum.best_size.region),
            _points("stopped", stopped, colours.MUTED, chart.Marker.HOLLOW),
            *_finished(records),
            _answer(optimum),
        ),
        budget=optimum.budget,
        wide=True,
    )


def _finished(records: Sequence[TrialRecord]) -> list[chart.Points]:
    """Points of the finished trials by their height above the lowest loss."""
    losses = {r.spec.trial: r.loss for r in records if r.loss is not None}
    lowest, least, found = min(losses.values(), default=0.0), -1.0, []
    for name, most, hue, marker in HEIGHTS:
        here = [
            record
            for record in records
            if least < losses.get(record.spec.trial, inf) - lowest <= most
            and record.spec.trial in losses
        ]
        found.append(_points(name, here, hue, marker))
        least = most
    return found


def _points(
    name: str, records: Sequence[TrialRecord], hue: colours.Hue, marker: chart.Marker
) -> chart.Points:
    return chart.Points(
        name=name,
        x=tuple(float(record.spec.shape.depth) for record in records),
        y=tuple(float(record.spec.shape.params_total) for record in records),
        hover=tuple(
            f"{record.spec.trial}: loss {record.curve[-1].loss:.4f}" if record.curve
            else record.spec.trial
            for record in records
        ),
        hue=hue,
        marker=marker,
    )  # fmt: skip


def _answer(optimum: Optimum) -> chart.Points:
    """The best depth and size, none where either has no answer."""
    depth, best = optimum.optimal_depth, optimum.best_size
    at = [(float(depth), float(best.size))] if depth and best and best.size else []
    return chart.Points(
        name="the answer",
        x=tuple(x for x, _ in at),
        y=tuple(y for _, y in at),
        hover=("the answer",) * len(at),
        hue=colours.ACCENT,
        marker=chart.Marker.STAR,
    )


def _region(region: Sequence[tuple[int, int]]) -> chart.Points:
    return chart.Points(
        name="may be the best (95 %)",
        x=tuple(float(depth) for _, depth in region),
        y=tuple(float(size) for size, _ in region),
        hover=("may be the best of both",) * len(region),
        hue=colours.ACCENT,
        marker=chart.Marker.BAR,
    )
