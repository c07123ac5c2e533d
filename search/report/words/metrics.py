"""Metrics by depth, such as exact match and BLEU, as text and as tables of the page."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from fathom.search.analysis.losses.depth_metrics import DepthMetric
from fathom.search.formatting import format_count
from fathom.search.report.words.text import metric_name, metric_title

Interval = tuple[float, float | None]


def metric_text(metric: DepthMetric) -> str:
    """Returns the means of a metric by depth, or that nothing was learned."""
    how = "by" if metric.is_score else "on"
    title = f"{format_count(metric.budget)}: {metric_name(metric.kind)} {how} {metric.split}"
    if metric.nothing_learned:
        return f"{title}: 0 at every depth, nothing learned"
    (first, mean), *others = ((d, fmean(values)) for d, values in metric.values.items())
    form = _metric_form(metric)
    means = [f"{form.format(mean)} at depth {first}"]
    means += [f"{form.format(mean)} at {depth}" for depth, mean in others]
    return f"{title}: {', '.join(means)}"


def metrics_by_kind(metrics: Sequence[DepthMetric], budget: int) -> dict[str, list[DepthMetric]]:
    """Returns the metrics at a budget by kind, such as `exact_match`, one for each split."""
    kinds: dict[str, list[DepthMetric]] = {}
    for metric in metrics:
        if metric.budget == budget:
            kinds.setdefault(metric.kind, []).append(metric)
    return kinds


def metrics_values(metrics: Sequence[DepthMetric], budget: int) -> list[dict[str, Any]]:
    """Template values for a budget's tables of metric by depth, one table for each kind."""
    return [
        {
            "title": f"{metric_title(kind)} by depth",
            "rows": [_metric_row(depth, of_kind) for depth in of_kind[0].values],
            "unlearned": [
                f"{metric_title(kind)} on {metric.split} is 0 at every depth: nothing learned, so"
                " it can't compare them; raise `tokens` or `budgets`."
                for metric in of_kind
                if metric.nothing_learned
            ],
        }
        for kind, of_kind in metrics_by_kind(metrics, budget).items()
    ]


def _metric_row(depth: int, metrics: Sequence[DepthMetric]) -> dict[str, str]:
    cells = {metric.split: metric.values[depth] for metric in metrics}
    form = _metric_form(metrics[0])
    return {
        "depth": str(depth),
        "trials": str(len(metrics[0].values[depth])),
        **{
            split: span(fmean(values), (min(values), max(values)), form)
            if len(values) > 1
            else form.format(fmean(values))
            for split, values in cells.items()
        },
    }


def _metric_form(metric: DepthMetric) -> str:
    return "{:.1f}" if metric.is_score else "{:.3f}"


def span(value: float, interval: Interval, form: str) -> str:
    """Returns a value with its interval, which is open above if `high` is None."""
    low, high = interval
    end = "any more" if high is None else form.format(high)
    return f"{form.format(value)} [{form.format(low)} to {end}]"
