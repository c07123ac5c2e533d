"""The crossings, required depths and matched comparisons as text and as sections of the page."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from statistics import fmean
from typing import Any

from fathom.search.analysis.laws.published import LEVINE_A, LEVINE_B
from fathom.search.analysis.papers.crossings import Crossing, CrossingKind, CrossingLaw, Crossings
from fathom.search.analysis.papers.depth_metrics import DepthMetric
from fathom.search.analysis.papers.findings import PaperFindings
from fathom.search.analysis.papers.matched_loss import LOSS, Estimate, MatchedComparison
from fathom.search.analysis.papers.required_depth import DifficultyDepth, RequiredDepth
from fathom.search.formatting import format_count, rounded_count
from fathom.search.report.words.text import counted, metric_name, metric_title, optional, sentence

Interval = tuple[float, float | None]

HEADINGS = {
    "crossings": "Where deeper begins to win",
    "needed": "Depth needed",
    "matched": "Depth at equal loss",
}
NOT_CROSSED = "where they can be told apart; not crossed within the sizes tried"


def papers_lines(papers: PaperFindings) -> list[str]:
    """Returns a line for each finding."""
    lines = []
    if papers.crossings:
        named = [pair for pair in papers.crossings.pairs if pair.neighbours and pair.params]
        lines += [f"crossing: {crossing_text(pair)}" for pair in named]
        lines.append(f"crossings: {crossing_law_text(papers.crossings.law)}")
    lines += [f"{format_count(r.budget)}: {needs_text(r)}" for r in papers.required_depths]
    lines += [metric_text(metric) for metric in papers.depth_metrics]
    unlearned = {(m.budget, m.name) for m in papers.depth_metrics if m.nothing_learned}
    for title, pairs in matched_groups(papers.matched):
        if (pairs[0].budget, pairs[0].metric) in unlearned:
            continue
        compared = (f"{pair.shallow} to {pair.deep} {verdict(pair)}" for pair in pairs)
        lines.append(f"{title}, depth {', '.join(compared)}")
    return lines


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


def needs_text(required: RequiredDepth) -> str:
    """Returns the limit of the metric and the difficulty gained by one more layer."""
    limit = f"at {'most' if required.rule.at_most else 'least'} {required.rule.limit:g}"
    trials = counted(required.trials, "trial")
    text = f"{required.metric} {limit} in the mean of {trials} or more of a depth"
    if required.gained is None or required.gained_interval is None:
        return f"{text}; no slope, as too few difficulties require different depths"
    unit = "doublings of the difficulty" if required.rule.doubling else "steps of difficulty"
    gained = span(required.gained, required.gained_interval, "{:.2f}")
    return f"{text}; a layer more gains {gained} {unit}"


def need_text(need: DifficultyDepth) -> str:
    """Returns the required depth, and the depths between which only some trials pass."""
    if need.depth is None:
        return f"none tried (a trial passes at {need.soonest})" if need.soonest else "none tried"
    if need.soonest == need.surest:
        return str(need.depth)
    return f"{need.depth} [{need.soonest} to {need.surest or 'deeper than tried'}]"


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


def metric_text(metric: DepthMetric) -> str:
    """Returns the means of a metric by depth, or that nothing was learned."""
    how = "by" if metric.is_score else "on"
    title = f"{format_count(metric.budget)}: {metric_name(metric.kind)} {how} {metric.split}"
    if metric.nothing_learned:
        return f"{title}: 0 at every depth, nothing learned"
    (first, mean), *others = ((d, fmean(values)) for d, values in metric.values.items())
    form = _metric_form(metric)
    means = [f"{form.format(mean)} at depth {first}"]
    means += [f"{form.format(mean)} at {depth}" for depth, mean in others]
    return f"{title}: {', '.join(means)}"


def metrics_by_kind(papers: PaperFindings, budget: int) -> dict[str, list[DepthMetric]]:
    """Returns kind, such as `exact_match` -> its metrics at a budget, one for each split."""
    kinds: dict[str, list[DepthMetric]] = {}
    for metric in papers.depth_metrics:
        if metric.budget == budget:
            kinds.setdefault(metric.kind, []).append(metric)
    return kinds


def metrics_values(papers: PaperFindings, budget: int) -> list[dict[str, Any]]:
    """Template values for a budget's tables of metric by depth, one table for each kind."""
    return [
        {
            "title": f"{metric_title(kind)} by depth",
            "rows": [_metric_row(depth, metrics) for depth in metrics[0].values],
            "unlearned": [
                f"{metric_title(kind)} on {metric.split} is 0 at every depth: nothing learned, so"
                " it can't compare them; raise `tokens` or `budgets`."
                for metric in metrics
                if metric.nothing_learned
            ],
        }
        for kind, metrics in metrics_by_kind(papers, budget).items()
    ]


def _metric_row(depth: int, metrics: Sequence[DepthMetric]) -> dict[str, str]:
    cells = {metric.split: metric.values[depth] for metric in metrics}
    form = _metric_form(metrics[0])
    return {
        "depth": str(depth),
        "trials": str(len(metrics[0].values[depth])),
        **{
            split: span(fmean(values), (min(values), max(values)), form)
            if len(values) > 1
            else form.format(fmean(values))
            for split, values in cells.items()
        },
    }


def _metric_form(metric: DepthMetric) -> str:
    return "{:.1f}" if metric.is_score else "{:.3f}"


def span(value: float, interval: Interval, form: str) -> str:
    """Returns a value with its interval, which is open above if `high` is None."""
    low, high = interval
    end = "any more" if high is None else form.format(high)
    return f"{form.format(value)} [{form.format(low)} to {end}]"


def papers_values(papers: PaperFindings) -> dict[str, Any]:
    """Returns the values of the paper sections for the page; `papers_sections` are the sections to
    show."""
    values = {
        "crossings": _crossings(papers.crossings) if papers.crossings else None,
        "needed": [_needed(required) for required in papers.required_depths],
        "matched": [
            {"title": title, "rows": [_matched_row(pair) for pair in pairs]}
            for title, pairs in matched_groups(papers.matched)
        ],
    }
    shown = {anchor: heading for anchor, heading in HEADINGS.items() if values[anchor]}
    return {**values, "papers_sections": shown, "levine": {"a": LEVINE_A, "b": LEVINE_B}}


def _crossings(found: Crossings) -> dict[str, Any]:
    return {
        "crossed": any(pair.params for pair in found.pairs),
        "law": sentence(crossing_law_text(found.law)),
        "neighbours": [_pair_row(pair) for pair in found.pairs if pair.neighbours],
        "others": [_pair_row(pair) for pair in found.pairs if not pair.neighbours],
    }


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


def _needed(required: RequiredDepth) -> dict[str, Any]:
    return {
        "summary": sentence(f"{format_count(required.budget)}: {needs_text(required)}"),
        "rows": [
            {"difficulty": str(need.difficulty), "depth needed": need_text(need)}
            for need in required.needs
        ],
        "depths": ", ".join(map(str, required.depths)),
    }


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
