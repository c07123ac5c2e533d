"""The chart of exact match, accuracy, BLEU or chrF against depth for one budget."""

from collections.abc import Sequence
from statistics import fmean

from fathom.search.analysis.optimum import Optimum
from fathom.search.analysis.papers.depth_metrics import DepthMetric
from fathom.search.report.charts import chart, colours
from fathom.search.report.text import metric_name, metric_title, question

HUES = (colours.ACCENT, colours.ORANGE, colours.GREEN, colours.PINK, colours.INK, colours.MUTED)


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
            for mark in _marks(metric, HUES[index % len(HUES)])
        ),
        budget=optimum.budget,
        legend_title=of,
        wide=True,
    )


def _marks(metric: DepthMetric, hue: colours.Hue) -> list[chart.Mark]:
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
