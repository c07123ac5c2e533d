"""The conclusions that the data of a study do not support, as sentences."""

from collections.abc import Sequence
from math import exp

from fathom.search.analysis.depth_estimates import KNOWN_NOISE, seed_noise
from fathom.search.analysis.law import FEWEST_BUDGETS, Law, usable
from fathom.search.analysis.optimum import Optimum
from fathom.search.analysis.verdict import PLATEAU_WIDTH, Verdict
from fathom.search.conclusion import Conclusion
from fathom.search.formatting import format_count, ranges
from fathom.search.records import Outcome, TrialRecord
from fathom.search.report.text import counted
from fathom.search.scheduling.audit import RungAudit

FACTOR_WORTH_A_WARNING = 1.25
"""Factor in depth from which on two families disagree, or a law misses a left-out budget."""


def unsupported(conclusion: Conclusion) -> list[str]:
    """Returns sentences; each completes "these data do not show ..."."""
    sentences: list[str] = []
    for optimum in conclusion.optima:
        own = conclusion.records_of(optimum.budget)
        label = f"{format_count(optimum.budget)}: "
        limits = (
            _verdict_limit(optimum),
            _end_of_the_interval(optimum),
            _families(optimum),
            _untested_best(optimum),
            _unseen_depths(optimum, own),
            _noise(own),
            _unaudited(own, conclusion.audits_of(optimum.budget)),
        )
        sentences += [label + limit for limit in limits if limit]
    return [*sentences, *_law_limits(conclusion.optima, conclusion.laws)]


def _verdict_limit(optimum: Optimum) -> str:
    if optimum.optimal_depth is None:
        return "any best depth; nothing trained to the end."
    others = [depth for depth in optimum.plateau if depth != optimum.optimal_depth]
    match optimum.verdict:
        case Verdict.IDENTIFIED if not others:
            return ""
        case Verdict.IDENTIFIED | Verdict.PLATEAU:
            return (
                f"that depth {optimum.optimal_depth} is better by {PLATEAU_WIDTH} nats than depths"
                f" {ranges(others)}; they can't be told apart."
            )
        case Verdict.EDGE:
            return "that the best depth lies inside the range that was tried."
        case Verdict.INSUFFICIENT:
            return (
                f"that depth {optimum.optimal_depth} is the best; it is the best so far, no more."
            )


def _end_of_the_interval(optimum: Optimum) -> str:
    """Returns a sentence if the interval ends at an end of the tested depths, which cuts it off."""
    if optimum.interval is None or optimum.verdict is Verdict.EDGE:
        return ""
    tested = [own.depth for own in optimum.depths]
    low, high = optimum.interval
    ends = [end for end in (tested[0], tested[-1]) if end in (low, high) and end > 1]
    if not ends:
        return ""
    return (
        f"that the best depth lies within {low} to {high}; the interval ends at"
        f" {' and at '.join(map(str, ends))} because no depth beyond was trained to the end."
    )


def _families(optimum: Optimum) -> str:
    if optimum.family_disagreement is None or optimum.family_disagreement < FACTOR_WORTH_A_WARNING:
        return ""
    return (
        "a best depth that does not depend on the family of curves; the two put it a factor"
        f" of {optimum.family_disagreement:.2f} apart."
    )


def _untested_best(optimum: Optimum) -> str:
    best = optimum.optimal_depth
    if best is None or best in {own.depth for own in optimum.depths}:
        return ""
    return f"the loss of depth {best} itself; none was trained to the end, the curve gives it."


def _unseen_depths(optimum: Optimum, records: Sequence[TrialRecord]) -> str:
    """Returns a sentence on the depths that were tried but never trained to the end."""
    finished = {own.depth for own in optimum.depths}
    unseen = sorted({record.spec.shape.depth for record in records} - finished)
    if not unseen:
        return ""
    depths = f"depth{'' if len(unseen) == 1 else 's'} {ranges(unseen)}"
    return f"any loss at the horizon for {depths}; none of their trials finished."


def _noise(records: Sequence[TrialRecord]) -> str:
    finished = [record for record in records if record.outcome is Outcome.FINISHED]
    noise, known = seed_noise(finished)
    if not finished or known >= KNOWN_NOISE:
        return ""
    measured = f"only {counted(known, 'repeated trial')}" if known else "no repeated trial"
    return f"how far seeds differ; {measured} measured it, and {noise:.4f} nats are assumed."


def _unaudited(records: Sequence[TrialRecord], audits: Sequence[RungAudit]) -> str:
    stopped = any(record.outcome is Outcome.STOPPED for record in records)
    if not stopped or any(audit.rank_correlation is not None for audit in audits):
        return ""
    return (
        "that stopping early was fair; too few trials end far enough apart to compare a rung with."
    )


def _law_limits(optima: Sequence[Optimum], laws: Sequence[Law]) -> list[str]:
    if not laws:
        fit = len(usable(optima))
        if fit >= FEWEST_BUDGETS:
            return ["Law: any line from size to depth; neither law fits the best depths."]
        return [
            f"Law: any line from size to depth; it needs {FEWEST_BUDGETS} budgets with an"
            f" identified depth or a plateau, and there {'is' if fit == 1 else 'are'} {fit}."
        ]
    law = laws[0]
    low, high = (format_count(params) for params in law.params_range)
    sentences = [f"Law: the depth below {low} or above {high} parameters; that is extrapolation."]
    if law.degrees_of_freedom < KNOWN_NOISE:
        sentences.append(
            f"Law: how far best depths scatter about it; {law.degrees_of_freedom + 2} budgets say"
            f" little of that, and its intervals hold as far as the law does."
        )
    error = law.leave_one_out_error
    if error is None:
        sentences.append("Law: that it holds; it can't be fitted without one of its budgets.")
    elif exp(error) > FACTOR_WORTH_A_WARNING:
        sentences.append(f"Law: depths to better than a factor of {exp(error):.2f}.")
    return sentences
