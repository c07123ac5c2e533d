"""The chart of each depth's loss against the time that a served model takes for a token."""

from collections.abc import Sequence

from fathom.search.analysis.losses.depth_estimates import DepthEstimate
from fathom.search.report.charts import chart, colours
from fathom.search.report.charts.trials import FEWEST_POINTS, drawn_error, loss_axis
from fathom.search.report.words.latency import BudgetLatency
from fathom.search.report.words.text import question
from fathom.search.serving.values import ShapeTimes

Timed = tuple[ShapeTimes, DepthEstimate]
"""The times of a depth's shape, and the estimate of the depth's loss."""
NAMES = {"measured": True, "estimated": False}
"""Name of a series -> True if the times of its depths were measured."""


def loss_against_token_time(each: BudgetLatency) -> chart.Chart | None:
    """Returns the chart of a budget's depths; None with fewer than two of them."""
    optimum, latency = each.losses.optimum, each.latency
    known = list(zip(latency.times, optimum.depths, strict=True))
    if len(known) < FEWEST_POINTS:
        return None
    seconds = [1000 * times.token.seconds for times, _ in known]
    y = loss_axis([estimate.loss for _, estimate in known])
    return chart.Chart(
        key=f"loss-against-token-time-{optimum.budget}",
        title="Loss against the time of a token",
        question=question(optimum),
        caption="A point is a depth: its mean loss with one standard error, and the time of a "
        f"further token. {latency.device}. The dashed line, the Pareto front, joins the depths "
        "that no faster depth beats.",
        x=chart.log_axis(
            "time of a token (ms)", min(seconds) / 1.1, max(seconds) * 1.1, quantity="ms a token"
        ),
        y=y,
        marks=chart.visible(
            _front(known, y),
            *(_points(name, known, y, measured=measured) for name, measured in NAMES.items()),
            _labels(known, y),
        ),
        budget=optimum.budget,
    )


def _points(name: str, known: Sequence[Timed], y: chart.Axis, *, measured: bool) -> chart.Points:
    """Points of depths, with measured times or with estimated ones; at the edge if off the
    scale."""
    shown = [(times, loss) for times, loss in known if times.measured is measured]
    return chart.Points(
        name=name,
        x=tuple(1000 * times.token.seconds for times, _ in shown),
        y=tuple(min(loss.loss, y.edge) for _, loss in shown),
        values=tuple((1000 * times.token.seconds, loss.loss) for times, loss in shown),
        bars=tuple(
            (loss.loss - drawn_error(loss), loss.loss + drawn_error(loss))
            if loss.loss <= y.edge
            else (y.edge, y.edge)
            for _, loss in shown
        ),
        hover=tuple(f"depth {times.shape.depth}: {name}" for times, _ in shown),
        hue=colours.INK,
        hues=tuple(colours.depth_hue(times.shape.depth) for times, _ in shown),
        marker=chart.Marker.DOT if measured else chart.Marker.HOLLOW,
    )


def _labels(known: Sequence[Timed], y: chart.Axis) -> chart.Labels:
    """Labels above the points: the number of layers of each."""
    return chart.Labels(
        x=tuple(1000 * times.token.seconds for times, _ in known),
        y=tuple(min(loss.loss, y.edge) for _, loss in known),
        texts=tuple(str(times.shape.depth) for times, _ in known),
        hues=(colours.INK,) * len(known),
        above=True,
    )


def _front(known: Sequence[Timed], y: chart.Axis) -> chart.Line:
    front: list[tuple[float, float]] = []
    for times, loss in sorted(known, key=lambda pair: pair[0].token.seconds):
        if loss.loss <= y.edge and (not front or loss.loss < front[-1][1]):
            front.append((1000 * times.token.seconds, loss.loss))
    return chart.Line(
        name="best for its time",
        x=tuple(x for x, _ in front),
        y=tuple(height for _, height in front),
        hue=colours.MUTED,
        hover="best for its time",
        dash=True,
        width=1.5,
    )
