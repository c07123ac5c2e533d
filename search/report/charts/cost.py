"""The charts of final loss against step time and against training compute."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.records import Outcome, TrialRecord
from fathom.search.report.charts import chart, colours
from fathom.search.report.charts.trials import (
    FEWEST_POINTS,
    inside_and_above,
    last_loss,
    legend_depths,
    legend_title,
    loss_axis,
    sample,
    trial_points,
)
from fathom.search.report.words.text import question

SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def loss_against_step_time(records: Sequence[TrialRecord], optimum: Optimum) -> chart.Chart | None:
    """Returns the chart of final loss against the time of a training step, if a trial finished."""
    devices = Counter(record.device for record in records if record.loss is not None)
    device = devices.most_common(1)[0][0] if devices else ""
    only = f" Only trials of one device, {device}, are shown." if len(devices) > 1 else ""
    return _loss_against_cost(
        [record for record in records if record.device == device],
        optimum,
        key="loss-against-step-time",
        title="Loss against step time",
        caption="Equal parameters are not equal time. Times hold for the machine that ran the"
        f" trials, at its load then.{only}",
        label="time of a training step (ms)",
        quantity="step time in ms",
        cost=lambda record: 1000 * (record.step_seconds or math.nan),
    )


def loss_against_flops(records: Sequence[TrialRecord], optimum: Optimum) -> chart.Chart | None:
    """Returns the chart of final loss against the training FLOPs of a trial, if one finished."""
    costs = [record.train_flops for record in records if record.outcome is Outcome.FINISHED]
    power = 3 * int(math.log10(max(costs, default=1)) // 3)
    unit = f"10{str(power).translate(SUPERSCRIPTS)} FLOPs"
    return _loss_against_cost(
        records,
        optimum,
        key="loss-against-flops",
        title="Loss against training compute",
        caption="Floating-point operations of the whole training, attention included, forward and"
        " backward.",
        label=f"compute of the training ({unit})",
        quantity=unit,
        cost=lambda record: record.train_flops / 10**power,
    )


def _loss_against_cost(
    records: Sequence[TrialRecord],
    optimum: Optimum,
    *,
    key: str,
    title: str,
    caption: str,
    label: str,
    quantity: str,
    cost: Callable[[TrialRecord], float],
) -> chart.Chart | None:
    finished = [r for r in records if r.loss is not None and math.isfinite(r.loss)]
    costs = {r.spec.trial: spent for r in finished if (spent := cost(r)) > 0}
    shown = [record for record in finished if record.spec.trial in costs]
    if len(shown) < FEWEST_POINTS:
        return None
    drawn, of_all = sample(shown)
    shares = f": {of_all}" if of_all else ""
    ends = (min(costs.values()) / 1.08, max(costs.values()) * 1.08)
    y = loss_axis([last_loss(record) for record in shown])
    return chart.Chart(
        key=f"{key}-{optimum.budget}",
        title=title,
        question=question(optimum),
        caption=f"Finished trials only{shares}, each with the luck of its seed. {caption} The"
        " dashed line, the Pareto front, joins the trials that no cheaper trial beats.",
        x=chart.log_axis(label, *ends, quantity=quantity),
        y=y,
        marks=chart.visible(_front(shown, costs), *_by_depth(drawn, costs, y)),
        budget=optimum.budget,
        legend_title=legend_title(shown),
    )


def _by_depth(
    records: Sequence[TrialRecord], costs: Mapping[str, float], y: chart.Axis
) -> Iterator[chart.Points]:
    named = legend_depths(records)
    for depth in sorted({record.spec.shape.depth for record in records}):
        of_these = [record for record in records if record.spec.shape.depth == depth]
        inside, above = inside_and_above(of_these, y)
        for part, marker, first in (
            (inside, chart.Marker.DOT, True),
            (above, chart.Marker.ABOVE, not inside),
        ):
            yield trial_points(
                str(depth),
                part,
                [costs[record.spec.trial] for record in part],
                [min(last_loss(record), y.edge) for record in part],
                marker,
                in_legend=depth in named and first,
            )


def _front(records: Sequence[TrialRecord], costs: Mapping[str, float]) -> chart.Line:
    front: list[TrialRecord] = []
    for record in sorted(records, key=lambda r: (costs[r.spec.trial], last_loss(r))):
        if not front or last_loss(record) < last_loss(front[-1]):
            front.append(record)
    return chart.Line(
        name="best for its cost",
        x=tuple(costs[record.spec.trial] for record in front),
        y=tuple(last_loss(record) for record in front),
        hue=colours.MUTED,
        hover="best for its cost",
        dash=True,
        width=1.5,
    )
