"""Shows the crossings, the sizes at which one depth overtakes another: lines of text, a section of
the report, and tables."""

from collections.abc import Sequence
from typing import Any

from fathom.papers.analyses.crossings.find import Crossing, CrossingKind, CrossingLaw, Crossings
from fathom.search.analysis.laws.published import LEVINE_A, LEVINE_B
from fathom.search.analysis.losses.depth_metrics import DepthMetric
from fathom.search.conclusion.published import PaperSection, PartKind, Row
from fathom.search.formatting import rounded_count
from fathom.search.report.pages.data import columns
from fathom.search.report.words.metrics import span
from fathom.search.report.words.text import counted, optional, sentence

CROSSING = (
    "shallow_depth=shallow deep_depth=deep neighbours finding=kind budgets params"
    " params_interval=interval d_model"
)
CROSSING_LAW = "crossings supported a b a_interval b_interval reason"
NOTE = (
    "Losses of two depths are compared at the budgets that both have, by a line through two"
    " budgets and a parabola through more. A crossing is named where one depth is ahead by more"
    " than two standard errors at a smaller size and the other at a larger one; its interval is"
    " kept inside these sizes. d_model is that of layers with d_ff = 4 d_model which hold all"
    " parameters, at the depth midway between the two by ratio. Levine et al. 2020:"
    f" a = {LEVINE_A}, b = {LEVINE_B}."
)
NOT_CROSSED = "where they can be told apart; they do not cross within the sizes tried"


def lines(found: Crossings, _metrics: Sequence[DepthMetric]) -> list[str]:
    """A line for each crossing of neighbouring depths, and one for the law."""
    named = [pair for pair in found.pairs if pair.neighbours and pair.params]
    crossed = [f"crossing: {crossing_text(pair)}" for pair in named]
    return [*crossed, f"crossings: {crossing_law_text(found.law)}"]


def tables(found: Crossings) -> dict[str, list[Row]]:
    """Rows of each pair of depths, and of the law."""
    return {
        "crossings": [columns(pair, CROSSING) for pair in found.pairs],
        "crossing_law": [columns(found.law, CROSSING_LAW)],
    }


def crossing_text(pair: Crossing, *, with_size: bool = True) -> str:
    """Returns the comparison of two depths over sizes, without a full stop."""
    deep, shallow = f"depth {pair.deep}", f"depth {pair.shallow}"
    match pair.kind:
        case CrossingKind.CROSSED if pair.params and pair.interval:
            low, high = map(rounded_count, pair.interval)
            size = f" at {rounded_count(pair.params)} parameters [{low} to {high}]"
            return f"{deep} begins to beat {shallow}{size if with_size else ''}"
        case CrossingKind.REVERSED:
            return f"{deep} is ahead of {shallow} at a small size, and behind it at a larger one"
        case CrossingKind.SHALLOWER:
            return f"{shallow} is ahead of {deep} {NOT_CROSSED}"
        case CrossingKind.DEEPER:
            return f"{deep} is ahead of {shallow} {NOT_CROSSED}"
    return f"{deep} and {shallow} are not told apart at any size"


def crossing_law_text(law: CrossingLaw) -> str:
    """Returns the law with its intervals, or the reason that there is none."""
    if law.a is None or law.b is None or law.a_interval is None or law.b_interval is None:
        return f"no law of width against depth; {law.reason}"
    a, b = span(law.a, law.a_interval, "{:.3f}"), span(law.b, law.b_interval, "{:.4f}")
    through = f"through {counted(law.crossings, 'crossing')} of neighbouring depths"
    if law.supported:
        return f"{through} goes ln d_model = a + b x depth, a = {a}, b = {b}; {law.reason}"
    return f"the data do not support a law {through}; {law.reason} (a = {a}, b = {b})"


def section(found: Crossings) -> PaperSection:
    """The section of a report: the law, and the table of the pairs."""
    neighbours = [_pair_row(pair) for pair in found.pairs if pair.neighbours]
    others = [_pair_row(pair) for pair in found.pairs if not pair.neighbours]
    parts: list[tuple[PartKind, Any]] = [(PartKind.TEXT, sentence(crossing_law_text(found.law)))]
    if any(pair.params for pair in found.pairs):
        parts.append((PartKind.ROWS, neighbours))
        if others:
            parts.append((PartKind.FOLDED, ("Other pairs of depths", others)))
    else:
        parts.append((PartKind.TEXT, "No two depths change places within the sizes tried."))
        parts.append((PartKind.FOLDED, ("Every pair of depths", neighbours + others)))
    parts.append((PartKind.NOTE, NOTE))
    return PaperSection("crossings", "Where deeper begins to win", tuple(parts))


def _pair_row(pair: Crossing) -> dict[str, str]:
    low, high = pair.interval or (None, None)
    curve = "a line" if len(pair.budgets) == 2 else "a parabola"
    return {
        "depths": f"{pair.shallow}, {pair.deep}",
        "finding": crossing_text(pair, with_size=False),
        "parameters": rounded_count(pair.params) if pair.params else "",
        "95 % interval": f"{rounded_count(low)} to {rounded_count(high)}" if low and high else "",
        "d_model": optional(pair.d_model, ".0f"),
        "compared by": f"{curve} through {counted(len(pair.budgets), 'budget')}",
    }
