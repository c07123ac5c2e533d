"""The top of the page: the answer in a sentence, a small chart of each budget, and what is next."""

import json
from typing import Any

from fathom.models.shape import RARE, Shape
from fathom.search.analysis.answer.definitions import depth_standings
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.conclusion.findings import Findings, shape_row
from fathom.search.formatting import format_count
from fathom.search.record_json import to_values
from fathom.search.report.charts.chart import Chart
from fathom.search.report.charts.page_figures import FigureData, page_figure
from fathom.search.report.charts.strip import strip_chart
from fathom.search.report.charts.units import in_unit
from fathom.search.report.words import text


def hero(conclusion: Findings, data: FigureData) -> dict[str, Any]:
    """Returns the values of the top: the sentence, and a card for each budget."""
    cards = [_card(conclusion, optimum, data) for optimum in conclusion.optima]
    return {"summary": text.summary(conclusion.optima), "cards": cards}


def strip_charts(conclusion: Findings) -> list[Chart | None]:
    """Returns the small chart of each budget; None for one without a final loss."""
    return [_strip(conclusion, optimum) for optimum in conclusion.optima]


def _strip(conclusion: Findings, optimum: Optimum) -> Chart | None:
    standings = depth_standings(conclusion.records_of(optimum.budget), optimum)
    return in_unit(strip_chart(standings, optimum), optimum.unit)


def _card(conclusion: Findings, optimum: Optimum, data: FigureData) -> dict[str, Any]:
    chart = _strip(conclusion, optimum)
    return {
        "anchor": f"budget-{optimum.budget}",
        "question": text.size_text(optimum),
        "advice": text.advice(optimum),
        "verdict": optimum.kind.value,
        "reason": "" if optimum.kind.settled else text.sentence(conclusion.reason(optimum)),
        "figure": page_figure(chart, data) if chart else None,
    }


def next_commands(conclusion: Conclusion) -> dict[str, Any] | None:
    """Returns the next commands for the largest settled budget; None where none is settled."""
    chosen = text.to_train(conclusion)
    if chosen is None:
        return None
    train, export = text.next_steps(conclusion, "best.yaml")
    return {
        "budget": f"{format_count(chosen.budget)} {chosen.count.unit}",
        "shape": text.shape_text(chosen.shape) if chosen.shape else "",
        "train": train,
        "export": f"{export} --format hf",
        "yaml": shape_yaml(chosen.shape),
        "latency": "fathom latency .\nfathom report ." if _has_latency(conclusion) else "",
        "extend": "fathom run config.yaml --runs .. --extend",
    }


def shape_yaml(shape: Shape | None) -> str:
    """Returns the sizes of a shape, with the options that few have, as lines of YAML."""
    rare = to_values(shape) if shape else {}
    options = {name: json.dumps(rare[name]) for name in RARE if name in rare}
    return "\n".join(
        f"{name}: {value:.6g}" if isinstance(value, float) else f"{name}: {value}"
        for name, value in (shape_row(shape) | options).items()
    )


def _has_latency(conclusion: Conclusion) -> bool:
    """True if `fathom latency` can time the study's shapes."""
    config = conclusion.config
    return not (config.not_decoded or config.count.frees_size)
