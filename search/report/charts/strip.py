"""The small charts above all others: for each budget the loss against depth, as it was found."""

import math
from collections.abc import Sequence
from statistics import median

from fathom.search.analysis.optimum import Located, Optimum
from fathom.search.report.charts import chart, colours
from fathom.search.report.charts.trials import best_point, drawn_error, interval_band
from fathom.search.report.depth_standing import DepthStanding
from fathom.search.report.text import finding, question

ROOM = 0.17
"""Room of a text, as a share of the width of a chart."""


def strip_chart(standings: Sequence[DepthStanding], optimum: Optimum) -> chart.Chart | None:
    """Returns the chart of the depths' means, the curve and the interval; None without a mean."""
    if not optimum.depths or optimum.loss is None:
        return None
    x = chart.depth_axis([standing.depth for standing in standings])
    y, depth = _scale(optimum), optimum.optimal_depth
    return chart.Chart(
        key=f"answer-{optimum.budget}",
        title=finding(optimum),
        question=question(optimum),
        caption="",
        x=x,
        y=y,
        marks=chart.visible(
            *interval_band("95 % interval", optimum, x, y),
            *_curve(optimum),
            *_means(standings, y),
            *best_point("best depth", f"depth {depth}: the best, {optimum.kind.value}", optimum),
            _gaps(standings, x, y),
        ),
        budget=optimum.budget,
    )


def _scale(optimum: Optimum) -> chart.Axis:
    """Returns an axis on which the good depths lie apart; far worse ones lie above it."""
    losses = [estimate.loss - drawn_error(estimate) for estimate in optimum.depths]
    low = min([*losses, *([optimum.loss] if isinstance(optimum, Located) else [])])
    heights = [estimate.loss + drawn_error(estimate) - low for estimate in optimum.depths]
    room = max(3 * median(heights), 0.01)
    high = low + min(room, max(heights))
    pad = 0.2 * (high - low)
    ticks = chart.linear_ticks(low - pad, high + 2 * pad)
    return chart.Axis(
        label="loss (nats)",
        low=low - pad,
        high=high + 2 * pad,
        ticks=ticks if len(ticks) < 5 else ticks[::2],
        quantity="loss",
        form=chart.Form.FIXED,
    )


def _edge(y: chart.Axis) -> float:
    """Returns the height of points above the scale, which leaves room for a text above them."""
    return y.high - 0.14 * (y.high - y.low)


def _curve(optimum: Optimum) -> list[chart.Mark]:
    if optimum.curves is None:
        return []
    grid = chart.depth_grid(optimum.depths[0].depth, optimum.depths[-1].depth)
    heights = tuple(optimum.curves.power(depth) for depth in grid)
    return [chart.Line(name="fit", x=grid, y=heights, hue=colours.ACCENT, hover="fit")]


def _means(standings: Sequence[DepthStanding], y: chart.Axis) -> list[chart.Mark]:
    unknown = [standing for standing in standings if standing.loss is None]
    inside = [standing for standing in standings if (standing.loss or math.nan) <= _edge(y)]
    above = [standing for standing in standings if (standing.loss or math.nan) > _edge(y)]
    return [
        chart.Points(
            name="mean loss of a depth",
            x=tuple(standing.depth for standing in inside),
            y=tuple(standing.loss or math.nan for standing in inside),
            bars=tuple(
                ((standing.loss or 0) - standing.error, (standing.loss or 0) + standing.error)
                for standing in inside
            ),
            hover=tuple(standing.text for standing in inside),
            hue=colours.INK,
            marker=chart.Marker.DOT,
        ),
        _at_the_edge("off the scale", above, chart.Marker.ABOVE, colours.INK, y),
        _at_the_edge("stopped", unknown, chart.Marker.HOLLOW_ABOVE, colours.MUTED, y),
    ]


def _at_the_edge(
    name: str,
    standings: Sequence[DepthStanding],
    marker: chart.Marker,
    hue: colours.Hue,
    y: chart.Axis,
) -> chart.Points:
    return chart.Points(
        name=name,
        x=tuple(standing.depth for standing in standings),
        y=(_edge(y),) * len(standings),
        hover=tuple(standing.text for standing in standings),
        values=tuple((standing.depth, standing.loss) for standing in standings),
        hue=hue,
        marker=marker,
    )


def _gaps(standings: Sequence[DepthStanding], x: chart.Axis, y: chart.Axis) -> chart.Labels:
    """Returns how far measured depths outside the interval lie above the best.

    Of depths whose texts would touch, those nearest to the interval have theirs.
    """
    inside = [standing.depth for standing in standings if not standing.ruled_out]
    out = [known for known in standings if known.ruled_out and known.gap and known.gap > 0]
    out.sort(key=lambda standing: min((abs(standing.depth - depth) for depth in inside), default=0))
    named: list[DepthStanding] = []
    for standing in out:
        if all(abs(x.place(standing.depth) - x.place(other.depth)) > ROOM for other in named):
            named.append(standing)
    return chart.Labels(
        x=tuple(standing.depth for standing in named),
        y=tuple(min((standing.loss or math.inf) + standing.error, _edge(y)) for standing in named),
        texts=tuple(f"+{standing.gap:.3f}" for standing in named),
        hues=(colours.INK,) * len(named),
        above=True,
    )
