"""The chart of the best depth at each size, with the laws of depth."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from fathom.search.analysis.answer.optimum import Located, Optimum
from fathom.search.analysis.laws.law import Prediction, predictions
from fathom.search.analysis.laws.weighed_laws import WeighedLaws, law_words
from fathom.search.conclusion.findings import Findings
from fathom.search.formatting import format_count
from fathom.search.records import Outcome, TrialRecord
from fathom.search.report.charts import chart, colours
from fathom.search.report.words.text import counted, question_across

BESIDE = 1.6
"""Factor by which the chart extends below its smallest size and above its largest."""
ABOVE = 1.3
"""Ratio of the top of the chart's scale of depths to its deepest mark."""
MOST_ABOVE = 4.0
"""Greatest multiple of the deepest trial's depth up to which the scale follows the law and its
interval."""
LEAST = 0.8
"""Depth at the bottom of the chart, slightly below one layer, the least that a model has."""
SHORT = 0.97
"""Factor by which an interval is extended at each end, so that one of a single depth is visible."""
STEPS = 48
"""Number of segments in the law's line."""


def sounding_chart(
    found: Findings, law: WeighedLaws | None, largest: float, key: str
) -> chart.Chart:
    """Returns the chart of the budgets that have a best depth, with the laws up to a size."""
    known = [optimum for optimum in found.optima if optimum.optimal_depth is not None]
    trials = [record for record in found.records if record.spec.budget in _budgets(known)]
    low, high = min(_budgets(known)) / BESIDE, max(largest, max(_budgets(known))) * BESIDE
    line = _line(law, low, high) if law else []
    deepest = _deepest(known, trials, line)
    marks = chart.visible(*_law(law, line, deepest), *_trials(trials), *_best(known))
    depths = range(1, math.floor(deepest) + 1)
    return chart.Chart(
        key=key,
        title="Best depth against budget",
        question=question_across(known),
        caption="",
        x=chart.params_axis(found.count.label, low, high),
        y=chart.Axis(
            label="depth (layers)",
            low=LEAST,
            high=deepest,
            log=True,
            ticks=tuple((d, str(d)) for d in chart.spread_ticks(depths, LEAST, deepest)),
            quantity="depth",
        ),
        marks=marks,
        wide=True,
    )


def _line(law: WeighedLaws, low: float, high: float) -> list[Prediction]:
    """Values of the law between two sizes; the smallest and largest fitted sizes are among them."""
    ends = [float(end) for end in law.params_range]
    return list(predictions(law, sorted({*chart.log_grid(low, high, STEPS), *ends})))


def _budgets(known: Sequence[Optimum]) -> set[int]:
    return {optimum.budget for optimum in known}


def _deepest(
    known: Sequence[Optimum], trials: Sequence[TrialRecord], line: Sequence[Prediction]
) -> float:
    """The depth at the top of the chart: above every trial, and above the law and its interval up
    to `MOST_ABOVE` times the deepest trial."""
    tried = max(
        *(float(optimum.optimal_depth or 1) for optimum in known),
        *(float(record.spec.shape.depth) for record in trials),
    )
    said = [found.depth for found in line] + [f.interval[1] for f in line if f.interval]
    return ABOVE * max(tried, min(max(said, default=1.0), MOST_ABOVE * tried))


def _law(
    law: WeighedLaws | None, line: Sequence[Prediction], deepest: float
) -> Iterator[chart.Band | chart.Line]:
    """Yields the interval and the line of the law, cut at the top; the line is dashed outside
    the sizes that the law was fitted to."""
    if law is None:
        return
    ends = [found.interval or (found.depth, found.depth) for found in line]
    yield chart.Band(
        name="95 % interval of the best depth", x=tuple(found.params for found in line),
        hue=colours.ACCENT,
        low=tuple(max(LEAST, low) for low, _ in ends),
        high=tuple(min(deepest, high) for _, high in ends),
    )  # fmt: skip
    first, last = law.params_range
    fitted, beyond = law_words(law.name), "the same, beyond what was measured"
    for name, part in (
        (fitted, [found for found in line if first <= found.params <= last]),
        (beyond, [found for found in line if found.params >= last]),
        (beyond, [found for found in line if found.params <= first]),
    ):
        yield chart.Line(
            name=name, x=tuple(found.params for found in part),
            y=tuple(min(deepest, found.depth) for found in part),
            hue=colours.ACCENT, hover=name, dash=name is beyond,
            in_legend=bool(part) and part[0].params >= first,
        )  # fmt: skip


def _trials(trials: Sequence[TrialRecord]) -> Iterator[chart.Points]:
    """Yields the finished trials, then those that ended early, with one point for each budget and
    depth."""
    for finished in (True, False):
        ended = Counter(
            (record.spec.budget, record.spec.shape.depth)
            for record in trials
            if (record.outcome is Outcome.FINISHED) is finished
        )
        yield chart.Points(
            name="finished" if finished else "ended early",
            x=tuple(float(budget) for budget, _ in ended),
            y=tuple(float(depth) for _, depth in ended),
            hover=tuple(counted(number, "trial") for number in ended.values()),
            hue=colours.INK,
            hues=tuple(colours.depth_hue(depth) for _, depth in ended),
            marker=chart.Marker.DOT if finished else chart.Marker.HOLLOW,
        )


def _best(known: Sequence[Optimum]) -> Iterator[chart.Points | chart.Line]:
    located = [optimum for optimum in known if isinstance(optimum, Located)]
    for optimum in located:
        low, high = optimum.interval
        yield chart.Line(
            name="95 % interval, measured",
            x=(optimum.budget, optimum.budget),
            y=(low * SHORT, high / SHORT),
            hue=colours.ACCENT,
            width=4,
            has_values=False,
            hover=f"{format_count(optimum.budget)}: 95 % interval {low} to {high}",
            in_legend=optimum is located[0],
        )
    for settled in (True, False):
        shown = [optimum for optimum in known if optimum.kind.settled is settled]
        yield chart.Points(
            name="best depth" if settled else "best depth, not settled",
            x=tuple(float(optimum.budget) for optimum in shown),
            y=tuple(float(optimum.optimal_depth or 1) for optimum in shown),
            hover=tuple(f"{format_count(o.budget)}: {o.kind.value}" for o in shown),
            hue=colours.ACCENT if settled else colours.ORANGE,
            marker=chart.Marker.STAR,
        )
