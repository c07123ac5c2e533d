"""The chart of best depth against training tokens, at the budgets of a study with horizons."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fathom.search.analysis.answer.optimum import Located, Optimum
from fathom.search.analysis.laws.law import predictions
from fathom.search.analysis.laws.token_law import TokenLaw
from fathom.search.formatting import format_count, rounded_count
from fathom.search.report.charts import chart, colours

HUES = (colours.ACCENT, colours.ORANGE, colours.GREEN, colours.PINK, colours.MUTED)
"""Colours of the budgets, the smallest first; they repeat if there are more budgets."""
MARGIN = 1.6
"""Factor by which the chart reaches beyond the horizons."""


def depth_against_tokens(optima: Sequence[Optimum], law: TokenLaw | None) -> chart.Chart | None:
    """Returns the chart of best depths with their intervals; None without a best depth."""
    located = [optimum for optimum in optima if isinstance(optimum, Located)]
    if not located:
        return None
    budgets = sorted({optimum.budget for optimum in located})
    hues = {budget: HUES[at % len(HUES)] for at, budget in enumerate(budgets)}
    tokens = [optimum.tokens for optimum in located]
    ends = min(tokens) / MARGIN, max(tokens) * MARGIN
    lines = _lines(law, hues, chart.log_grid(*ends)) if law else ()
    marks = chart.visible(*_points(located, hues), *lines)
    return chart.Chart(
        key="depth-against-tokens",
        title="Best depth against training tokens",
        question=f"{located[0].count.unit_in_full}, {len(budgets)} budgets",
        caption="Points are the best depths with their 95 % intervals, in whole layers. Dashed "
        "lines are the law over parameters and tokens."
        if law
        else "Points are the best depths with their 95 % intervals, in whole layers.",
        x=chart.log_axis(
            "training tokens", *ends, quantity="tokens", form=chart.Form.COUNT, text=rounded_count
        ),
        y=_depths(located),
        marks=marks,
        wide=True,
    )


def _points(located: Sequence[Located], hues: Mapping[int, colours.Hue]) -> Iterator[chart.Points]:
    for budget, hue in hues.items():
        found = [optimum for optimum in located if optimum.budget == budget]
        yield chart.Points(
            name=format_count(budget),
            x=tuple(float(optimum.tokens) for optimum in found),
            y=tuple(float(optimum.optimal_depth or 0) for optimum in found),
            bars=tuple(optimum.interval for optimum in found),
            hover=tuple(f"{format_count(budget)}: {o.kind.value}" for o in found),
            hue=hue,
            marker=chart.Marker.STAR,
        )


def _lines(
    law: TokenLaw, hues: Mapping[int, colours.Hue], grid: Sequence[float]
) -> Iterator[chart.Line]:
    for budget, hue in hues.items():
        places = [(at, said.depth) for at in grid for said in predictions(law, [budget], at)]
        yield chart.Line(
            name=f"law at {format_count(budget)}",
            x=tuple(tokens for tokens, _ in places),
            y=tuple(depth for _, depth in places),
            hue=hue,
            hover=f"law at {format_count(budget)}",
            dash=True,
            width=1.5,
        )


def _depths(located: Sequence[Located]) -> chart.Axis:
    ends = [end for optimum in located for end in optimum.interval]
    low, high = max(0.9, min(ends) / 1.2), max(ends) * 1.2
    ticks = chart.spread_ticks(range(1, math.ceil(high) + 1), low, high)
    return replace(
        chart.log_axis("depth (layers)", low, high, quantity="depth"),
        ticks=tuple((tick, str(tick)) for tick in ticks),
    )
