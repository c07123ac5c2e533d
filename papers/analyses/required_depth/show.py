"""The depths that a task requires as lines, as a section of the page and as tables."""

from collections.abc import Sequence
from typing import Any

from fathom.papers.analyses.required_depth.find import DifficultyDepth, RequiredDepth
from fathom.search.analysis.losses.depth_metrics import DepthMetric
from fathom.search.conclusion.published import PaperSection, PartKind, Row
from fathom.search.formatting import format_count
from fathom.search.report.pages.data import columns
from fathom.search.report.words.metrics import span
from fathom.search.report.words.text import counted, sentence

NOTE = (
    "In brackets: the smallest depth at which one trial passes, and the smallest at which every"
    " trial does. Of the difficulties that the shallowest depth masters, the slope uses the"
    " hardest alone."
)


def lines(found: Sequence[RequiredDepth], _metrics: Sequence[DepthMetric]) -> list[str]:
    """A line for each metric."""
    return [f"{format_count(required.budget)}: {needs_text(required)}" for required in found]


def tables(found: Sequence[RequiredDepth]) -> dict[str, list[Row]]:
    """Rows of each difficulty of each metric."""
    rows = [
        {
            **columns(required, "budget metric"),
            "difficulty": need.difficulty,
            "limit": required.rule.limit,
            **columns(need, "depth soonest_depth=soonest surest_depth=surest"),
            **columns(required, "tested_depths=depths trials"),
            "gained_in": "log2(difficulty)" if required.rule.doubling else "difficulty",
            **columns(
                required, "gained_each_layer=gained gained_each_layer_interval=gained_interval"
            ),
        }
        for required in found
        for need in required.needs
    ]
    return {"required_depth": rows}


def needs_text(required: RequiredDepth) -> str:
    """Returns the limit of the metric and the difficulty gained by one more layer."""
    limit = f"at {'most' if required.rule.at_most else 'least'} {required.rule.limit:g}"
    trials = counted(required.trials, "trial")
    text = f"{required.metric} {limit} in the mean of {trials} or more of a depth"
    if required.gained is None or required.gained_interval is None:
        return f"{text}; no slope, as too few difficulties require different depths"
    unit = "doublings of the difficulty" if required.rule.doubling else "steps of difficulty"
    gained = span(required.gained, required.gained_interval, "{:.2f}")
    return f"{text}; one more layer gains {gained} {unit}"


def need_text(need: DifficultyDepth) -> str:
    """Returns the required depth, and the depths between which only some trials pass."""
    if need.depth is None:
        return f"none tried (a trial passes at {need.soonest})" if need.soonest else "none tried"
    if need.soonest == need.surest:
        return str(need.depth)
    return f"{need.depth} [{need.soonest} to {need.surest or 'deeper than tried'}]"


def section(found: Sequence[RequiredDepth]) -> PaperSection:
    """The section of a report: a table of difficulties for each metric."""
    parts: list[tuple[PartKind, Any]] = []
    for required in found:
        said = sentence(f"{format_count(required.budget)}: {needs_text(required)}")
        rows = [
            {"difficulty": str(need.difficulty), "depth needed": need_text(need)}
            for need in required.needs
        ]
        tried = f"Depths tried: {', '.join(map(str, required.depths))}. {NOTE}"
        parts += [(PartKind.TEXT, said), (PartKind.ROWS, rows), (PartKind.NOTE, tried)]
    return PaperSection("needed", "Depth needed", tuple(parts))
