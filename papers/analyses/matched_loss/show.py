"""Depths compared at equal loss as lines, as a section of the page and as tables."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from fathom.papers.analyses.matched_loss.find import LOSS, Estimate, MatchedComparison
from fathom.search.analysis.losses.depth_metrics import DepthMetric
from fathom.search.conclusion.published import PaperSection, PartKind, Row
from fathom.search.formatting import format_count
from fathom.search.report.pages.data import columns
from fathom.search.report.words.metrics import span

MATCHED = "budget metric yardstick shallow_depth=shallow deep_depth=deep"
LEVEL = (
    "level shallow=shallow.mean shallow_interval=shallow.interval deep=deep.mean"
    " deep_interval=deep.interval difference=difference.mean"
    " difference_interval=difference.interval"
)
NOTE = (
    "The level is the furthest that every trial of both depths reached. Values are interpolated "
    "between a trial's evaluations around it, with 95 % intervals over trials. "
    "More levels are in tables/matched.csv. One of the two depths is compared in the middle of "
    "its training, before its learning rate has come down."
)


def lines(found: Sequence[MatchedComparison], metrics: Sequence[DepthMetric]) -> list[str]:
    """A line for each metric except those that no depth has learned."""
    unlearned = {(metric.budget, metric.name) for metric in metrics if metric.nothing_learned}
    said = []
    for title, pairs in matched_groups(found):
        if (pairs[0].budget, pairs[0].metric) not in unlearned:
            compared = (f"{pair.shallow} to {pair.deep} {verdict(pair)}" for pair in pairs)
            said.append(f"{title}, depth {', '.join(compared)}")
    return said


def section(found: Sequence[MatchedComparison]) -> PaperSection:
    """The section of a report: a table of pairs of depths for each metric."""
    parts: list[tuple[PartKind, Any]] = []
    for title, pairs in matched_groups(found):
        rows = [_matched_row(pair) for pair in pairs]
        parts += [(PartKind.HEADING, title), (PartKind.ROWS, rows)]
    return PaperSection("matched", "Depth at equal loss", (*parts, (PartKind.NOTE, NOTE)))


def tables(found: Sequence[MatchedComparison]) -> dict[str, list[Row]]:
    """Rows of each level of each comparison."""
    rows = [
        {
            **columns(comparison, MATCHED),
            "shallow_trials": comparison.trials[0],
            "deep_trials": comparison.trials[1],
            **columns(level, LEVEL),
        }
        for comparison in found
        for level in comparison.levels
    ]
    return {"matched": rows}


def matched_groups(
    matched: Sequence[MatchedComparison],
) -> Iterator[tuple[str, list[MatchedComparison]]]:
    """Yields the compared pairs of depths of each metric, after a title."""
    for _, group in groupby(matched, key=attrgetter("budget", "metric", "yardstick")):
        pairs = list(group)
        first = pairs[0]
        equal = "validation loss" if first.yardstick == LOSS else first.yardstick
        yield f"{format_count(first.budget)}: {first.metric} at equal {equal}", pairs


def verdict(comparison: MatchedComparison) -> str:
    """Returns the verdict on the deeper model at the furthest common level."""
    if not comparison.levels:
        return "not comparable (curves do not overlap)"
    if comparison.levels[0].shallow.mean == comparison.levels[0].deep.mean == 0:
        return "nothing learned (0 for both)"
    found = comparison.levels[0].difference
    if found.interval is None:
        return f"{found.mean:+.3f} (one trial each, so no error is known)"
    low, high = found.interval
    word = "better" if low > 0 else "worse" if high < 0 else "not told apart"
    return f"{word} ({span(found.mean, found.interval, '{:+.3f}')})"


def _matched_row(comparison: MatchedComparison) -> dict[str, str]:
    best = comparison.levels[0] if comparison.levels else None
    return {
        "depths": f"{comparison.shallow}, {comparison.deep}",
        "level": f"{best.level:.4f}" if best else "",
        "shallower": _estimate(best.shallow) if best else "",
        "deeper": _estimate(best.deep) if best else "",
        "the deeper one is": verdict(comparison),
    }


def _estimate(found: Estimate) -> str:
    if found.interval is None:
        return f"{found.mean:.3f}"
    return span(found.mean, found.interval, "{:.3f}")
