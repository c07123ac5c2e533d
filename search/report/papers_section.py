"""The page's sections on crossings, on required depth and on matched comparisons, as values."""

from collections.abc import Sequence
from typing import Any

from fathom.search.analysis.papers.crossings import Crossing, Crossings
from fathom.search.analysis.papers.findings import PaperFindings
from fathom.search.analysis.papers.matched_loss import Estimate, MatchedComparison
from fathom.search.analysis.papers.required_depth import RequiredDepth
from fathom.search.analysis.published import LEVINE_A, LEVINE_B
from fathom.search.formatting import format_count, rounded_count
from fathom.search.report.papers_text import (
    crossing_law_text,
    crossing_text,
    matched_summaries,
    need_text,
    needs_text,
    verdict,
    yardstick_name,
)
from fathom.search.report.text import counted, optional, sentence

HEADINGS = {
    "crossings": "Where deeper begins to win",
    "needed": "Depth needed",
    "matched": "Depth at equal loss",
}


def papers_values(papers: PaperFindings) -> dict[str, Any]:
    """Returns the values of these sections for the page; `papers_sections` has those to show."""
    values = {
        "crossings": _crossings(papers.crossings) if papers.crossings else None,
        "needed": [_needed(own) for own in papers.required_depths],
        "matched": _matched(papers.matched),
    }
    shown = {anchor: heading for anchor, heading in HEADINGS.items() if values[anchor]}
    return {**values, "papers_sections": shown, "levine": {"a": LEVINE_A, "b": LEVINE_B}}


def _crossings(found: Crossings) -> dict[str, Any]:
    return {
        "law": sentence(crossing_law_text(found.law)),
        "neighbours": [_pair_row(pair) for pair in found.pairs if pair.neighbours],
        "others": [_pair_row(pair) for pair in found.pairs if not pair.neighbours],
    }


def _pair_row(pair: Crossing) -> dict[str, str]:
    low, high = pair.interval or (None, None)
    curve = "a line" if len(pair.budgets) == 2 else "a parabola"
    words = crossing_text(pair)
    return {
        "depths": f"{pair.shallow}, {pair.deep}",
        "finding": words.partition(" at ")[0] if pair.params else words,
        "parameters": rounded_count(pair.params) if pair.params else "",
        "95 % interval": f"{rounded_count(low)} to {rounded_count(high)}" if low and high else "",
        "d_model": optional(pair.d_model, ".0f"),
        "compared by": f"{curve} through {counted(len(pair.budgets), 'budget')}",
    }


def _needed(own: RequiredDepth) -> dict[str, Any]:
    return {
        "summary": sentence(f"{format_count(own.budget)}: {needs_text(own)}"),
        "rows": [
            {"difficulty": str(need.difficulty), "depth needed": need_text(need)}
            for need in own.needs
        ],
        "depths": ", ".join(map(str, own.depths)),
    }


def _matched(matched: Sequence[MatchedComparison]) -> list[dict[str, Any]]:
    groups = [own for own, _ in matched_summaries(matched)]
    return [
        {
            "title": f"{format_count(own[0].budget)}: {own[0].metric} at equal "
            f"{yardstick_name(own[0])}",
            "rows": [_matched_row(pair) for pair in own],
        }
        for own in groups
    ]


def _matched_row(own: MatchedComparison) -> dict[str, str]:
    best = own.levels[0] if own.levels else None
    return {
        "depths": f"{own.shallow}, {own.deep}",
        "level": f"{best.level:.4f}" if best else "",
        "shallower": _estimate(best.shallow) if best else "",
        "deeper": _estimate(best.deep) if best else "",
        "the deeper one is": verdict(own),
    }


def _estimate(found: Estimate) -> str:
    if found.interval is None:
        return f"{found.mean:.3f}"
    low, high = found.interval
    return f"{found.mean:.3f} [{low:.3f} to {high:.3f}]"
