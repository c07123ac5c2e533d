"""The conclusions that the data of a study do not support, as sentences."""

from collections.abc import Iterator
from math import exp

from fathom.search.analysis.answer.definitions import not_ruled_out
from fathom.search.analysis.answer.judging import open_ends
from fathom.search.analysis.answer.optimum import Located, Optimum
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.analysis.laws.law import FEWEST_BUDGETS, usable
from fathom.search.analysis.laws.null_laws import as_good
from fathom.search.analysis.losses.depth_estimates import KNOWN_NOISE, seed_noise
from fathom.search.conclusion.findings import Findings
from fathom.search.formatting import budget_text, format_count, ranges
from fathom.search.records import Outcome
from fathom.search.report.words.text import (
    counted,
    decay_text,
    estimate_text,
    null_law_text,
    seconds_text,
    stalled_text,
    too_low_text,
    untrained_text,
)
from fathom.search.words import both_ends, plateau_width

FACTOR_WORTH_A_WARNING = 1.25
"""Factor in depth above which two families disagree, or above which a law misses a left-out
budget."""

OF_THE_TRAININGS = {
    "Weight decay": (decay_text, "that depths rank alike at another one"),
    "Stalls": (stalled_text, "how often a training on these data stalls"),
    "Too low": (too_low_text, "why a loss is so low"),
    "Seconds": (seconds_text, "the best depth at equal seconds on another device or load"),
}
"""Limits that come from the trials of all budgets: name -> function for its text, and the
conclusion that it leaves open."""


def unsupported(conclusion: Findings) -> list[str]:
    """Returns sentences; each completes "these data do not show ..."."""
    sentences = [
        f"{budget_text(optimum.budget, optimum.count)}: {limit}"
        for optimum in conclusion.optima
        for limit in (*_answer_limits(optimum), *_trial_limits(optimum, conclusion))
    ]
    sentences += [
        f"{name}: {limit}; {found}."
        for name, (say, limit) in OF_THE_TRAININGS.items()
        if (found := say(conclusion))
    ]
    return [*sentences, *_law_limits(conclusion)]


def _answer_limits(optimum: Optimum) -> Iterator[str]:
    """Yields sentences on the limits of a budget's best depth, its interval and its curve."""
    if verdict_limit := _verdict_limit(optimum):
        yield verdict_limit
    tested = [estimate.depth for estimate in optimum.depths]
    if isinstance(optimum, Located) and optimum.kind is not Kind.EDGE:
        ends = open_ends(optimum.interval, tested, optimum.least_depth)
        if ends:
            yield (
                f"that the best depth lies within {both_ends(optimum.interval)}; the interval ends"
                f" at {' and at '.join(map(str, ends))} because no depth beyond was trained to the"
                " end."
            )
    factor = optimum.family_disagreement or 1.0
    if factor >= FACTOR_WORTH_A_WARNING:
        apart = f"the two put it a factor of {factor:.2f} apart"
        yield f"a best depth that does not depend on the family of curves; {apart}."
    if untrained := untrained_text(optimum):
        yield f"the loss of the best depth itself, which the curve gives; {untrained}."


def _verdict_limit(optimum: Optimum) -> str:
    if optimum.optimal_depth is None:
        return "any best depth; nothing trained to the end."
    others = [depth for depth in not_ruled_out(optimum) if depth != optimum.optimal_depth]
    match optimum.kind:
        case Kind.IDENTIFIED if not others:
            return ""
        case Kind.IDENTIFIED | Kind.PLATEAU:
            width = plateau_width(optimum.unit)
            return (
                f"that depth {optimum.optimal_depth} is better by {width} than depth"
                f"{'' if len(others) == 1 else 's'} {ranges(others)}; they can't be told apart."
            )
        case Kind.EDGE:
            return "that the best depth lies inside the range that was tried."
        case Kind.UNFINISHED:
            return "any best depth; its search has not ended."
        case _:
            return f"that depth {optimum.optimal_depth} is the best; {estimate_text(optimum)}."


def _trial_limits(optimum: Optimum, conclusion: Findings) -> Iterator[str]:
    """Yields sentences on conclusions for which a budget has too few trials."""
    records = conclusion.records_of(optimum.budget)
    tried = {record.spec.shape.depth for record in records}
    if unseen := sorted(tried - {estimate.depth for estimate in optimum.depths}):
        depths = f"depth{'' if len(unseen) == 1 else 's'} {ranges(unseen)}"
        yield f"the final loss of {depths}; none of their trials finished."
    finished = [record for record in records if record.outcome is Outcome.FINISHED]
    repeats = seed_noise(finished, conclusion.stalls[optimum.budget])
    known = repeats.degrees_of_freedom
    if finished and known < KNOWN_NOISE and not conclusion.searched:
        measured = f"only {counted(known, 'repeated trial')}" if known else "no repeated trial"
        source = "assumed" if optimum.noise == repeats.likely_noise else "stated"
        unit = optimum.unit
        noise_text = f"{unit.difference(optimum.noise):.4f} {unit} are {source}"
        yield f"how far seeds differ; {measured} measured it, and {noise_text}."
    stopped = any(record.outcome is Outcome.STOPPED and record.rungs for record in records)
    audits = conclusion.audits_of(optimum.budget)
    if stopped and all(audit.rank_correlation is None for audit in audits):
        lack = "too few trials end with losses that differ by more than noise"
        yield f"that stopping early was fair; {lack}, so no rung can be checked."


def _law_limits(conclusion: Findings) -> Iterator[str]:
    if not conclusion.laws:
        fit = len(usable(conclusion.optima))
        yield "Law: any line from size to depth; " + (
            "neither law fits the best depths, or too many of them are edges to determine a line."
            if fit >= FEWEST_BUDGETS
            else f"it needs {FEWEST_BUDGETS} budgets with an identified depth, a plateau or an"
            f" edge, and there {'is' if fit == 1 else 'are'} {fit}."
        )
        return
    law = conclusion.laws[0]
    low, high = (format_count(params) for params in law.params_range)
    yield f"Law: the depth below {low} or above {high} parameters; that is extrapolation."
    if law.degrees_of_freedom < KNOWN_NOISE:
        yield (
            f"Law: how far best depths scatter about it; {law.budgets} budgets say"
            " little of that, and its intervals are right only if the law is."
        )
    error = law.leave_one_out_error
    if error is None:
        yield "Law: that it holds; it can't be fitted without one of its budgets."
    elif exp(error) > FACTOR_WORTH_A_WARNING:
        yield f"Law: depths to better than a factor of {exp(error):.2f}."
    if law.bounds:
        yield (
            f"Law: the best depth of {law.bounds} of its {law.budgets} budgets; the tested depths"
            " end before it, and say only on which side it lies."
        )
    for null in as_good(law, conclusion.null_laws):
        better = f"that the {law.name} law predicts better than {null_law_text(null)}"
        yield f"Law: {better}, a law with one constant."
