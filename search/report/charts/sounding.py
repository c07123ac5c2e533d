"""The chart of the sounding: sizes across, depth downward, a plumb line for each budget."""

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
"""Factor by which the chart reaches beyond its smallest and its largest size."""
BELOW = 1.3
"""Factor by which it reaches below its deepest mark."""
MOST_BELOW = 4.0
"""Factor by which it reaches below the deepest trial, if the law's interval reaches further."""
TOP = 0.8
"""Depth at the surface: no model has less than one layer."""
SHORT = 0.97
"""Factor by which an interval is drawn longer at each end: one of a single depth is seen, too."""
STEPS = 48
"""Parts of the law's line."""


def sounding_chart(
    found: Findings, law: WeighedLaws | None, largest: float, key: str
) -> chart.Chart:
    """Returns the chart of the budgets that have a best depth, with the laws up to a size."""
    known = [optimum for optimum in found.optima if optimum.optimal_depth is not None]
    trials = [record for record in found.records if record.spec.budget in _budgets(known)]
    low, high = min(_budgets(known)) / BESIDE, max(largest, max(_budgets(known))) * BESIDE
    line = _line(law, low, high) if law else []
    deepest = _deepest(known, trials, line)
    marks = chart.visible(
        *_law(law, line, deepest), *_plumb_lines(known), *_trials(trials), *_best(known)
    )
    depths = range(1, math.floor(deepest) + 1)
    return chart.Chart(
        key=key,
        title="How deep at which size",
        question=question_across(known),
        caption="",
        x=chart.params_axis(found.count.label, low, high),
        y=chart.Axis(
            label="depth (layers), downward",
            # The ends stand the other way round: the deepest lies at the bottom.
            low=deepest,
            high=TOP,
            log=True,
            ticks=tuple((d, str(d)) for d in chart.spread_ticks(depths, TOP, deepest)),
            quantity="depth",
        ),
        marks=marks,
        wide=True,
    )


def _line(law: WeighedLaws, low: float, high: float) -> list[Prediction]:
    """Values of the law between two sizes; the ends of those it was fitted to are among them."""
    ends = [float(end) for end in law.params_range]
    return list(predictions(law, sorted({*chart.log_grid(low, high, STEPS), *ends})))


def _budgets(known: Sequence[Optimum]) -> set[int]:
    return {optimum.budget for optimum in known}


def _deepest(
    known: Sequence[Optimum], trials: Sequence[TrialRecord], line: Sequence[Prediction]
) -> float:
    """The depth at the bottom: below every trial and the law, and as much of its interval as
    leaves room for them."""
    tried = max(
        *(float(optimum.optimal_depth or 1) for optimum in known),
        *(float(record.spec.shape.depth) for record in trials),
    )
    said = [found.depth for found in line] + [f.interval[1] for f in line if f.interval]
    return BELOW * max(tried, min(max(said, default=1.0), MOST_BELOW * tried))


def _law(
    law: WeighedLaws | None, line: Sequence[Prediction], deepest: float
) -> Iterator[chart.Band | chart.Line]:
    """Yields the interval and the line of the law, cut at the bottom; the line is dashed outside
    the sizes that the law was fitted to."""
    if law is None:
        return
    ends = [found.interval or (found.depth, found.depth) for found in line]
    yield chart.Band(
        name="95 % interval of the best depth", x=tuple(found.params for found in line),
        hue=colours.ACCENT,
        low=tuple(max(TOP, low) for low, _ in ends),
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


def _plumb_lines(known: Sequence[Optimum]) -> Iterator[chart.Line]:
    for optimum in known:
        assert optimum.optimal_depth is not None, "it has a best depth"
        yield chart.Line(
            name="plumb line of a budget", x=(optimum.budget, optimum.budget),
            y=(TOP, optimum.optimal_depth), hue=colours.INK, width=1.2,
            hover=f"{format_count(optimum.budget)}: {optimum.kind.value}",
            has_values=False, in_legend=False,
        )  # fmt: skip


def _trials(trials: Sequence[TrialRecord]) -> Iterator[chart.Points]:
    """Yields marks for the depths that finished, and for those that ended early, by budget."""
    for finished in (True, False):
        ended = Counter(
            (record.spec.budget, record.spec.shape.depth)
            for record in trials
            if (record.outcome is Outcome.FINISHED) is finished
        )
        yield chart.Points(
            name="finished trials" if finished else "trials that ended early",
            x=tuple(float(budget) for budget, _ in ended),
            y=tuple(float(depth) for _, depth in ended),
            hover=tuple(counted(number, "trial") for number in ended.values()),
            hue=colours.MUTED,
            marker=chart.Marker.BAR if finished else chart.Marker.PLUS,
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
    yield chart.Points(
        name="best depth",
        x=tuple(float(optimum.budget) for optimum in known),
        y=tuple(float(optimum.optimal_depth or 1) for optimum in known),
        hover=tuple(f"{format_count(o.budget)}: {o.kind.value}" for o in known),
        hue=colours.ACCENT,
        marker=chart.Marker.STAR,
    )
