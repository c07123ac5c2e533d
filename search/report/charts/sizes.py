"""The chart of the loss of each depth against size, with the crossings between depths."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fathom.search.analysis.optimum import Optimum
from fathom.search.analysis.papers.crossings import Crossings
from fathom.search.formatting import format_count
from fathom.search.report.charts import chart, colours
from fathom.search.report.charts.trials import LineEnd, drawn_error, end_labels, loss_axis
from fathom.search.report.papers import crossing_text
from fathom.search.report.text import question_across

Courses = dict[int, list[tuple[int, float, float]]]
"""Depth -> (budget, loss above the best depth, standard error), by budget."""

MARGIN = 1.2
"""Factor by which the chart reaches beyond the study's budgets."""


def loss_against_size(optima: Sequence[Optimum], crossings: Crossings | None) -> chart.Chart | None:
    """Returns the chart of each depth's loss above the best; None without crossings."""
    if crossings is None or not optima[0].count.of_parameters:
        return None
    known = [optimum for optimum in optima if optimum.depths]
    known.sort(key=lambda optimum: optimum.budget)
    courses = _courses(known)
    heights = [height for course in courses.values() for _, height, _ in course]
    ends = known[0].budget / MARGIN, known[-1].budget * MARGIN
    x = chart.params_axis(known[0].count.label, *ends)
    label, quantity = "loss above the lowest mean (nats)", "loss above the lowest mean"
    y = replace(loss_axis(heights), label=label, quantity=quantity)
    return chart.Chart(
        key="loss-against-size",
        title="Depths against one another",
        question=question_across(known),
        caption=(
            "How far the mean loss of each depth lies above that of the budget's lowest depth, with"
            " one standard error. Where lines cross, a deeper model begins to win; a star is such a"
            " crossing that the data support. Depths of one budget alone, and what lies above the"
            " scale, are not drawn."
        ),
        x=x,
        y=y,
        marks=chart.visible(
            *_depths(courses), _names(courses, x, y), _crossings(crossings, courses)
        ),
        legend_title="depth",
        wide=True,
    )


def _courses(known: Sequence[Optimum]) -> Courses:
    courses: Courses = {}
    for optimum in known:
        best = min(estimate.loss for estimate in optimum.depths)
        for estimate in optimum.depths:
            place = (optimum.budget, estimate.loss - best, drawn_error(estimate))
            courses.setdefault(estimate.depth, []).append(place)
    return {depth: courses[depth] for depth in sorted(courses) if len(courses[depth]) > 1}


def _depths(courses: Courses) -> list[chart.Mark]:
    marks: list[chart.Mark] = []
    for depth, course in courses.items():
        hue = colours.depth_hue(depth, list(courses))
        budgets, heights, errors = zip(*course, strict=True)
        marks += [
            chart.Line(name=str(depth), x=budgets, y=heights, hue=hue, hover=f"depth {depth}"),
            chart.Points(
                name=str(depth),
                x=budgets,
                y=heights,
                bars=tuple((y - e, y + e) for y, e in zip(heights, errors, strict=True)),
                hover=tuple(f"depth {depth} at {format_count(budget)}" for budget in budgets),
                hue=hue,
                marker=chart.Marker.DOT,
                in_legend=False,
            ),
        ]
    return marks


def _names(courses: Courses, x: chart.Axis, y: chart.Axis) -> chart.Labels:
    ends = {}
    for depth, course in courses.items():
        inside = [(budget, height) for budget, height, _ in course if height <= y.high]
        if inside:
            ends[str(depth)] = LineEnd(*inside[-1], colours.depth_hue(depth, list(courses)))
    return end_labels(ends, x, y)


def _crossings(crossings: Crossings, courses: Courses) -> chart.Points:
    """Returns the crossings as points on the line of their shallower depth."""
    named = [pair for pair in crossings.pairs if pair.neighbours and pair.params]
    heights = []
    for pair in named:
        budgets, course, _ = zip(*courses[pair.shallow], strict=True)
        heights.append(float(np.interp(np.log(pair.params or 0), np.log(budgets), course)))
    return chart.Points(
        name="crossing",
        x=tuple(pair.params for pair in named if pair.params),
        y=tuple(heights),
        hover=tuple(crossing_text(pair) for pair in named),
        hue=colours.ACCENT,
        marker=chart.Marker.STAR,
    )
