"""The sections on crossings, on depth needed and on matched comparisons; none without anything."""

from collections.abc import Sequence
from html import escape

from fathom.search.analysis.papers.crossings import Crossing, Crossings
from fathom.search.analysis.papers.depth_needed import DepthNeeded
from fathom.search.analysis.papers.findings import PaperFindings
from fathom.search.analysis.papers.matched_loss import Estimate, Matched
from fathom.search.analysis.published import LEVINE_A, LEVINE_B
from fathom.search.formatting import format_count, rounded_count
from fathom.search.report.markup import MISSING, html_table, prose
from fathom.search.report.papers_text import (
    crossing_law_words,
    crossing_words,
    matched_summaries,
    need_words,
    needs_words,
    verdict,
    yardstick_words,
)
from fathom.search.report.text import counted

HEADINGS = {
    "crossings": "Where deeper begins to win",
    "needed": "Depth needed",
    "matched": "Depth at equal loss",
}


def papers_section(papers: PaperFindings) -> str:
    """HTML of all sections that have something to say."""
    return "".join(
        f'<section id="{anchor}"><h2>{HEADINGS[anchor]}</h2>{html}</section>'
        for anchor, html in _sections(papers).items()
    )


def papers_links(papers: PaperFindings) -> list[tuple[str, str]]:
    """Anchor and heading of each."""
    return [(anchor, HEADINGS[anchor]) for anchor in _sections(papers)]


def _sections(papers: PaperFindings) -> dict[str, str]:
    sections = {}
    if papers.crossings:
        sections["crossings"] = _crossings(papers.crossings)
    if papers.needs:
        sections["needed"] = "".join(map(_needed, papers.needs))
    if papers.matched:
        sections["matched"] = _matched(papers.matched)
    return sections


def _crossings(found: Crossings) -> str:
    beside = [pair for pair in found.pairs if pair.neighbours]
    others = [pair for pair in found.pairs if not pair.neighbours]
    more = ""
    if others:
        more = f"<details><summary>Other pairs of depths</summary>{_pairs(others)}</details>"
    return (
        f"<p>{prose(crossing_law_words(found.law))}</p>{_pairs(beside)}{more}"
        '<p class="note">Losses of two depths are compared at the budgets that both have, by a line'
        " through two budgets and a parabola through more. A crossing is named where one depth is"
        " ahead by more than two standard errors at a smaller size and the other at a larger one;"
        " its interval is kept inside these sizes. d_model is that of layers with d_ff = 4 d_model"
        " which hold all parameters, at the depth midway between the two by ratio."
        f" Levine et al. 2020: a = {LEVINE_A}, b = {LEVINE_B}.</p>"
    )


def _pairs(pairs: Sequence[Crossing]) -> str:
    heads = ["depths", "finding", "parameters", "95 % interval", "d_model", "compared by"]
    return html_table(heads, [_pair_row(pair) for pair in pairs])


def _pair_row(pair: Crossing) -> list[str]:
    low, high = pair.interval or (None, None)
    curve = "a line" if len(pair.budgets) == 2 else "a parabola"
    return [
        f"<b>{pair.shallow}, {pair.deep}</b>",
        escape(crossing_words(pair).partition(" at ")[0] if pair.params else crossing_words(pair)),
        rounded_count(pair.params) if pair.params else MISSING,
        f"{rounded_count(low)} to {rounded_count(high)}" if low and high else MISSING,
        f"{pair.d_model:.0f}" if pair.d_model else MISSING,
        f"{curve} through {counted(len(pair.budgets), 'budget')}",
    ]


def _needed(own: DepthNeeded) -> str:
    heads = ["difficulty", "depth needed"]
    rows = [[f"<b>{need.difficulty}</b>", escape(need_words(need))] for need in own.needs]
    tried = ", ".join(map(str, own.depths))
    return (
        f"<p>{prose(f'{format_count(own.budget)}: {needs_words(own)}')}</p>"
        f"{html_table(heads, rows)}"
        f'<p class="note">Depths tried: {tried}. In brackets, from the first depth at which a trial'
        " passes to the first at which every trial does. Of the difficulties that the shallowest"
        " depth masters only the hardest counts for the slope.</p>"
    )


def _matched(matched: Sequence[Matched]) -> str:
    heads = ["depths", "level", "shallower", "deeper", "the deeper one is"]
    parts = []
    for own, _ in matched_summaries(matched):
        first = own[0]
        title = f"{format_count(first.budget)}: {first.metric} at equal {yardstick_words(first)}"
        parts.append(f"<h3>{escape(title)}</h3>{html_table(heads, list(map(_matched_row, own)))}")
    return "".join(parts) + (
        '<p class="note">The level is the furthest that every trial of both depths reached; values'
        " are read off each trial's evaluations between those before and after it, with 95 %"
        " intervals over trials. More levels are in tables/matched.csv. One of the two is compared"
        " in the midst of its training, before its rate has come down.</p>"
    )


def _matched_row(own: Matched) -> list[str]:
    depths = f"<b>{own.shallow}, {own.deep}</b>"
    if not own.levels:
        return [depths, MISSING, MISSING, MISSING, escape(verdict(own))]
    best = own.levels[0]
    return [
        depths,
        f"{best.level:.4f}",
        _estimate(best.shallow),
        _estimate(best.deep),
        escape(verdict(own)),
    ]


def _estimate(found: Estimate) -> str:
    if found.interval is None:
        return f"{found.mean:.3f}"
    low, high = found.interval
    return f"{found.mean:.3f} [{low:.3f} to {high:.3f}]"
