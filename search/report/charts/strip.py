"""The small charts above all others: for each budget the loss against depth, as it was found."""

from collections.abc import Iterator, Sequence
from math import inf
from statistics import median

from fathom.models.unit import Unit
from fathom.search.analysis.answer.definitions import DepthStanding, Standing, loss_of
from fathom.search.analysis.answer.optimum import Located, Optimum
from fathom.search.report.charts import chart, colours
from fathom.search.report.charts.trials import best_point, drawn_error, interval_band
from fathom.search.report.words.depth_standing import hover_text
from fathom.search.report.words.other_depths import price_text
from fathom.search.report.words.text import advice, size_text

Losses = Sequence[tuple[DepthStanding, float | None]]
ROOM, HALF = 0.42, 0.16
"""Least distance between the middles of two texts, and from these to the sides, as shares of the
width."""


def strip_chart(standings: Sequence[DepthStanding], optimum: Optimum) -> chart.Chart | None:
    """Returns the chart of the depths' means, the curve and the interval; None without a mean."""
    if not optimum.depths or optimum.loss is None:
        return None
    x = chart.depth_axis([standing.depth for standing in standings])
    y, depth = _scale(optimum), optimum.optimal_depth
    return chart.Chart(
        key=f"answer-{optimum.budget}",
        title=advice(optimum),
        question=size_text(optimum),
        caption="",
        x=x,
        y=y,
        marks=chart.visible(
            *interval_band("95 % interval", optimum, x, y),
            *_curve(optimum),
            *_means(standings, optimum, y),
            *best_point("best depth", f"depth {depth}: the best, {optimum.kind.value}", optimum),
            _prices(standings, x, y, optimum.unit),
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
    """Returns the expected loss of each whole depth of the tested range as a line; none with fewer
    than the three depths that a curve needs."""
    if optimum.curves is None:
        return []
    grid = chart.depth_grid(optimum.depths[0].depth, optimum.depths[-1].depth)
    known = [(depth, loss) for depth in grid if (loss := loss_of(optimum, depth)) is not None]
    name, (x, y) = "expected loss", zip(*known, strict=True)
    return [chart.Line(name=name, x=x, y=y, hue=colours.ACCENT, hover=name)]


def _means(
    standings: Sequence[DepthStanding], optimum: Optimum, y: chart.Axis
) -> Iterator[chart.Mark]:
    """Yields the mean of each finished depth and the expected loss of the others; a loss that is
    unknown or off the scale is drawn at the upper edge."""
    edge = _edge(y)
    finished: Losses = [(known, known.estimate.loss) for known in standings if known.estimate]
    others: Losses = [(known, known.loss) for known in standings if not known.estimate]
    for name, losses, marker in (
        ("mean loss of a depth", finished, chart.Marker.DOT),
        ("off the scale", finished, chart.Marker.ABOVE),
        ("expected loss, stopped", others, chart.Marker.HOLLOW),
        ("stopped, off the scale", others, chart.Marker.ABOVE),
    ):
        above = marker is chart.Marker.ABOVE
        shown = [(known, loss) for known, loss in losses if ((loss or inf) > edge) is above]
        yield chart.Points(
            name=name,
            x=tuple(known.depth for known, _ in shown),
            y=tuple(min(loss or inf, edge) for _, loss in shown),
            bars=tuple(
                (e.loss - drawn_error(e), e.loss + drawn_error(e))
                for known, _ in shown
                if (e := known.estimate) and not above
            ),
            values=tuple((known.depth, loss) for known, loss in shown),
            hover=tuple(hover_text(known, optimum) for known, _ in shown),
            hue=colours.INK,
            hues=tuple(colours.depth_hue(known.depth) for known, _ in shown),
            marker=marker,
        )


def _prices(
    standings: Sequence[DepthStanding], x: chart.Axis, y: chart.Axis, unit: Unit
) -> chart.Labels:
    """Returns the costs of the ruled-out depths as labels.

    If labels would touch, only that of the depth nearest to those not ruled out is kept.
    """

    def middle(depth: int) -> float:
        return min(max(x.place(depth), HALF), 1 - HALF)

    inside = [known.depth for known in standings if known.standing is not Standing.RULED_OUT]
    out = [known for known in standings if known.standing is Standing.RULED_OUT]
    out.sort(key=lambda known: min((abs(known.depth - depth) for depth in inside), default=0))
    named: list[DepthStanding] = []
    for known in out:
        if all(abs(middle(known.depth) - middle(other.depth)) > ROOM for other in named):
            named.append(known)
    return chart.Labels(
        x=tuple(x.low * (x.high / x.low) ** middle(known.depth) for known in named),
        y=(_edge(y),) * len(named),  # above the curve
        texts=tuple(price_text(known.cost, unit) if known.cost else "" for known in named),
        hues=(colours.INK,) * len(named),
        above=True,
    )
