"""The map of the loss over size and depth, for a budget that leaves the size free."""

from collections.abc import Sequence
from math import inf

from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.records import Outcome, TrialRecord
from fathom.search.report.charts import chart, colours
from fathom.search.report.words.text import question

HEIGHTS = (
    ("within 0.005 nats of the lowest", 0.005, colours.ACCENT),
    ("within 0.02 nats", 0.02, colours.GREEN),
    ("within 0.1 nats", 0.1, colours.ORANGE),
    ("higher", inf, colours.MUTED),
)
"""Kinds of finished trials: name, most nats above the lowest loss, colour."""

MAY_BE = "may be the best (95 %)"
"""Name of the pairs of size and depth that contain the best pair with a probability of 95 %."""


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
            "Every point is a trial; all finished trials have spent the same. A colour says how far"
            " a loss lies above the lowest; hollow points were stopped early. Bars are the 95 %"
            " intervals of the best size and the best depth; the star is the answer."
        ),
        x=chart.depth_axis(sorted({record.spec.shape.depth for record in records})),
        y=chart.params_axis("total", min(sizes) / 1.25, max(sizes) * 1.25),
        marks=chart.visible(
            _cells(MAY_BE, "may be the best of both", optimum.best_size.region, chart.Marker.BAR),
            _points("stopped", stopped, colours.MUTED, chart.Marker.HOLLOW),
            *_finished(records),
            _cells("the answer", "the answer", _answer(optimum), chart.Marker.STAR),
        ),
        budget=optimum.budget,
        wide=True,
    )


def _finished(records: Sequence[TrialRecord]) -> list[chart.Points]:
    """Points of the finished trials, grouped by how far their losses are above the lowest."""
    losses = {r.spec.trial: r.loss for r in records if r.loss is not None}
    lowest, least, found = min(losses.values(), default=0.0), -1.0, []
    for name, most, hue in HEIGHTS:
        here = [
            record
            for record in records
            if least < losses.get(record.spec.trial, inf) - lowest <= most
            and record.spec.trial in losses
        ]
        found.append(_points(name, here, hue, chart.Marker.DOT))
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


def _answer(optimum: Optimum) -> list[tuple[int, int]]:
    """The best size and depth; none where either has no answer."""
    depth, best = optimum.optimal_depth, optimum.best_size
    return [(best.size, depth)] if depth and best and best.size else []


def _cells(
    name: str, hover: str, cells: Sequence[tuple[int, int]], marker: chart.Marker
) -> chart.Points:
    """Points at pairs of size and depth, all with the text `hover`."""
    return chart.Points(
        name=name,
        x=tuple(float(depth) for _, depth in cells),
        y=tuple(float(size) for size, _ in cells),
        hover=(hover,) * len(cells),
        hue=colours.ACCENT,
        marker=marker,
    )
