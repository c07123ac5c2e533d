"""Crossings, depth needed and matched comparisons as rows of CSV files."""

from typing import Any

from fathom.search.analysis.papers.crossing_law import CrossingLaw
from fathom.search.analysis.papers.crossings import Crossing
from fathom.search.analysis.papers.depth_needed import DepthNeeded, Need
from fathom.search.analysis.papers.findings import PaperFindings
from fathom.search.analysis.papers.matched_loss import Estimate, LossLevel, Matched

Row = dict[str, Any]


def papers_tables(papers: PaperFindings) -> dict[str, list[Row]]:
    """Name of a file to its rows."""
    crossings = papers.crossings
    return {
        "crossings": [_crossing(pair) for pair in crossings.pairs] if crossings else [],
        "crossing_law": [_crossing_law(crossings.law)] if crossings else [],
        "depth_needed": [_need(own, need) for own in papers.needs for need in own.needs],
        "matched": [_matched(own, level) for own in papers.matched for level in own.levels],
    }


def _ends(name: str, interval: tuple[float, float | None] | None) -> Row:
    low, high = interval or (None, None)
    return {f"{name}_low": low, f"{name}_high": high}


def _crossing(pair: Crossing) -> Row:
    return {
        "shallow_depth": pair.shallow,
        "deep_depth": pair.deep,
        "neighbours": pair.neighbours,
        "finding": pair.kind,
        "budgets": " ".join(map(str, pair.budgets)),
        "params": pair.params,
        **_ends("params", pair.interval),
        "d_model": pair.d_model,
    }


def _crossing_law(law: CrossingLaw) -> Row:
    return {
        "crossings": law.crossings,
        "supported": law.supported,
        "a": law.a,
        **_ends("a", law.a_interval),
        "b": law.b,
        **_ends("b", law.b_interval),
        "reason": law.reason,
    }


def _need(own: DepthNeeded, need: Need) -> Row:
    return {
        "budget": own.budget,
        "metric": own.metric,
        "difficulty": need.difficulty,
        "limit": own.rule.limit,
        "depth": need.depth,
        "soonest_depth": need.soonest,
        "surest_depth": need.surest,
        "tested_depths": " ".join(map(str, own.depths)),
        "trials": own.trials,
        "gained_in": "log2(difficulty)" if own.rule.doubling else "difficulty",
        "gained_each_layer": own.gained,
        **_ends("gained_each_layer", own.gained_interval),
    }


def _matched(own: Matched, level: LossLevel) -> Row:
    return {
        "budget": own.budget,
        "metric": own.metric,
        "yardstick": own.yardstick,
        "shallow_depth": own.shallow,
        "deep_depth": own.deep,
        "shallow_trials": own.trials[0],
        "deep_trials": own.trials[1],
        "level": level.level,
        **_estimate("shallow", level.shallow),
        **_estimate("deep", level.deep),
        **_estimate("difference", level.difference),
    }


def _estimate(name: str, found: Estimate) -> Row:
    return {name: found.mean, **_ends(name, found.interval)}
