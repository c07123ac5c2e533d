"""The chart of depth against budget: the study's optima, its laws, and published ones."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from fathom.models.shape import Count
from fathom.search.analysis.answer.optimum import Located, Optimum
from fathom.search.analysis.laws.law import Law, predictions
from fathom.search.analysis.laws.published import (
    ASPECT_RATIO,
    COMPLETEP_WIDTHS,
    Levine2020,
    depth_at_width_per_layer,
)
from fathom.search.formatting import format_count
from fathom.search.report.charts import chart, colours
from fathom.search.report.words.text import question_across

MARGIN = 2.5
"""Factor by which the chart reaches beyond the study's budgets."""
LEAST_DEPTH = 0.9
"""Lowest depth of the scale: no model has less than one layer."""
WIDEST = 5
"""Factor in depth above which a band does not widen the scale."""
LEVINE, COMPLETEP = "Levine et al. 2020", "CompleteP within 1 %"
CONSTANT = f"width {ASPECT_RATIO} x depth"


def depth_against_budget(optima: Sequence[Optimum], laws: Sequence[Law]) -> chart.Chart | None:
    """Returns the chart of best depths, intervals and laws; None without a best depth."""
    known = [optimum for optimum in optima if optimum.lowest_depth is not None]
    if not any(isinstance(o, Located) for o in known) or not known[0].count.of_parameters:
        return None
    ends = (min(o.budget for o in known) / MARGIN, max(o.budget for o in known) * MARGIN)
    grid = chart.log_grid(*ends)
    marks = chart.visible(*_references(known, grid), *_laws(laws, grid), *_optima(known))
    return chart.Chart(
        key="depth-against-budget",
        title="Best depth against budget",
        question=question_across(known),
        caption=_caption(known, laws, {mark.name for mark in marks}),
        x=chart.params_axis(known[0].count.label, *ends),
        y=_depth_scale(marks),
        marks=marks,
        wide=True,
    )


def _caption(known: Sequence[Optimum], laws: Sequence[Law], drawn: Collection[str]) -> str:
    sentences = ["Points are the best depths with their 95 % intervals, in whole layers."]
    if not all(optimum.kind.settled for optimum in known):
        sentences.append(
            "Hollow ones are at the edge, short of data or unfinished; those without a bar have"
            " fewer than three depths that finished."
        )
    if laws:
        sentences.append(
            "Laws are fitted to the lowest points of the curves, before rounding. The band holds"
            " the best depth of a new budget, as far as the law holds; a law is dashed where it"
            " leaves the budgets it was fitted to."
        )
    narrow, wide = COMPLETEP_WIDTHS
    references = {
        LEVINE: "Levine et al. 2020 (dashed outside the sizes they fitted)",
        CONSTANT: f"nanochat's constant width of {ASPECT_RATIO} per layer",
        COMPLETEP: f"the {narrow} to {wide} per layer that CompleteP's authors report within 1 %"
        " of the best",
    }
    if shown := [text for name, text in references.items() if name in drawn]:
        listed = " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
        counted = "they are other models on other data, for comparison."
        if known[0].count is Count.TOTAL:
            counted = "they are drawn at the total that the study's best shapes have."
        sentences.append(
            f"For {listed}, parameters are counted without embeddings, as 12 depth d_model²;"
            f" {counted}"
        )
    return " ".join(sentences)


def _optima(known: Sequence[Optimum]) -> Iterator[chart.Points]:
    for settled in (True, False):
        optima = [o for o in known if o.kind.settled is settled]
        places = [_place(optimum) for optimum in optima]
        yield chart.Points(
            name="best depth" if settled else "best depth, not settled",
            x=tuple(optimum.budget for optimum in optima),
            y=tuple(depth for depth, _ in places),
            bars=tuple(interval for _, interval in places),
            hover=tuple(f"{format_count(o.budget)}: {o.kind.value}" for o in optima),
            hue=colours.INK if settled else colours.ORANGE,
            marker=chart.Marker.DIAMOND if settled else chart.Marker.HOLLOW,
        )


def _place(optimum: Optimum) -> tuple[float, tuple[float, float]]:
    """Returns the best depth with its interval; without one the lowest depth so far."""
    depth = float(optimum.optimal_depth or optimum.lowest_depth or 0)
    low, high = optimum.interval or (depth, depth)
    return depth, (low, high)


def _laws(laws: Sequence[Law], grid: Sequence[float]) -> list[chart.Mark]:
    marks: list[chart.Mark] = []
    for law, hue in zip(laws, (colours.ACCENT, colours.MUTED), strict=False):
        said = list(predictions(law, grid))
        banded = [(p.params, *p.interval) for p in said if p.interval is not None]
        if law is laws[0] and banded:
            x, low, high = zip(*banded, strict=True)
            name = f"95 % of the {law.name} law"
            marks.append(chart.Band(name=name, x=x, low=low, high=high, hue=hue))
        points = [(p.params, p.depth, p.extrapolated) for p in said]
        marks += _dashed_outside(f"{law.name} law", points, hue)
    return marks


def _references(known: Sequence[Optimum], grid: Sequence[float]) -> list[chart.Mark]:
    """Returns published curves, converted from non-embedding parameters to the study's count."""
    shapes = [(o.budget, o.shape.params_non_embedding) for o in known if o.shape is not None]
    if not shapes:
        return []
    budgets, counts = np.array(shapes, dtype=float).T
    shares = np.exp(np.interp(np.log(grid), np.log(budgets), np.log(counts / budgets)))
    sizes = [params * float(share) for params, share in zip(grid, shares, strict=True)]
    at = dict(zip(sizes, grid, strict=True))
    levine = predictions(Levine2020(), sizes)
    curve = [(at[found.params], found.depth, found.extrapolated) for found in levine]
    deep, constant, shallow = (
        tuple(depth_at_width_per_layer(size, width) for size in sizes)
        for width in (COMPLETEP_WIDTHS[0], ASPECT_RATIO, COMPLETEP_WIDTHS[1])
    )
    return [
        chart.Band(name=COMPLETEP, x=tuple(grid), low=shallow, high=deep, hue=colours.MUTED),
        *_dashed_outside(LEVINE, curve, colours.PINK),
        chart.Line(
            name=CONSTANT, x=tuple(grid), y=constant, hue=colours.GREEN, hover=CONSTANT, width=1.5
        ),
    ]


def _dashed_outside(
    name: str, points: Sequence[tuple[float, float, bool]], hue: colours.Hue
) -> list[chart.Mark]:
    """Returns a curve in parts, dashed where it is extrapolated."""
    runs: list[tuple[Sequence[tuple[float, float, bool]], bool]] = []
    start = 0
    for end in range(1, len(points) + 1):
        if end == len(points) or points[end][2] != points[start][2]:
            # One point of overlap, so that the runs meet.
            runs.append((points[max(0, start - 1) : end], points[start][2]))
            start = end
    # A solid run first, if there is one: it stands for the curve in the legend.
    runs.sort(key=lambda run: run[1])
    return [
        chart.Line(
            name=name,
            x=tuple(x for x, _, _ in run),
            y=tuple(y for _, y, _ in run),
            hue=hue,
            hover=name,
            dash=dash,
            in_legend=run is runs[0][0],
        )
        for run, dash in runs
    ]


def _depth_scale(marks: Sequence[chart.Mark]) -> chart.Axis:
    values: list[float] = []
    for mark in marks:
        if isinstance(mark, chart.Points):
            values += [*mark.y, *(end for bar in mark.bars for end in bar)]
        elif isinstance(mark, chart.Line):
            values += mark.y
        elif isinstance(mark, chart.Band):
            ends = zip(mark.low, mark.high, strict=True)
            values += (end for low, high in ends if high < WIDEST * low for end in (low, high))
    low, high = max(LEAST_DEPTH, min(values) / 1.2), max(values) * 1.2
    ticks = chart.spread_ticks(range(1, math.ceil(high) + 1), low, high)
    return replace(
        chart.log_axis("depth (layers)", low, high, quantity="depth"),
        ticks=tuple((tick, str(tick)) for tick in ticks),
    )
