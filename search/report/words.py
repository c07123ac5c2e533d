"""What a report says in words: the answers, the laws, and what the data do not support."""

from collections.abc import Mapping, Sequence
from math import exp

from search.audit import RungAudit
from search.budget import format_count
from search.law import FEWEST_BUDGETS, LOGARITHMIC, Law, usable
from search.optimum import Optimum
from search.records import Outcome, TrialRecord
from search.verdict import Verdict

FACTOR_WORTH_A_WARNING = 1.25
"""A law that misses left-out budgets by more than this factor in depth is said to be poor."""


def answer(optimum: Optimum) -> str:
    """The answer of a budget in one line."""
    return f"{question(optimum)}: {finding(optimum)}, {optimum.verdict}"


def question(optimum: Optimum) -> str:
    """What was asked: size, horizon and counting rule belong to every optimum."""
    return (
        f"{format_count(optimum.budget)} parameters, {format_count(optimum.tokens)} tokens,"
        f" {count_words(optimum)} count"
    )


def finding(optimum: Optimum) -> str:
    """The depth with its interval and plateau, as far as they are known."""
    if optimum.optimal_depth is None:
        return "no depth yet"
    words = [f"depth {optimum.optimal_depth}{interval(optimum, ' [', ']')}"]
    if optimum.plateau:
        words.append(f"plateau {plateau(optimum)}")
    return ", ".join(words)


def count_words(optimum: Optimum) -> str:
    """The counting rule as people write it."""
    return optimum.count.replace("_", "-")


def interval(optimum: Optimum, before: str = "", after: str = "") -> str:
    """The 95 % interval, or nothing when there is none."""
    if optimum.interval is None:
        return ""
    low, high = optimum.interval
    return f"{before}{low}-{high}{after}"


def plateau(optimum: Optimum) -> str:
    """The plateau as ranges of the depths that were tested: `5-9`, or `2, 6-8`."""
    tested = sorted({own.depth for own in optimum.depths} | set(optimum.plateau))
    return ", ".join(
        f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0])
        for run in _runs(tested, set(optimum.plateau))
    )


def _runs(tested: Sequence[int], wanted: set[int]) -> list[list[int]]:
    runs: list[list[int]] = [[]]
    for depth in tested:
        if depth in wanted:
            runs[-1].append(depth)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def trials(optimum: Optimum) -> str:
    """Trials by outcome, those that occurred."""
    return ", ".join(
        f"{number} {outcome.replace('_', ' ')}"
        for outcome, number in optimum.trials.items()
        if number
    )


def sentence(text: str) -> str:
    """The same words with a capital and a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""


def counted(number: int, noun: str) -> str:
    """`1 trial`, `2 trials`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def summary_table(optima: Sequence[Optimum]) -> str:
    """The answers as a Markdown table."""
    heads = ["budget", "tokens", "count", "depth", "95 % interval", "plateau", "verdict"]
    heads += ["d_model", "ff_ratio", "loss (nats)"]
    rows = [heads, ["---"] * len(heads), *(_summary_row(optimum) for optimum in optima)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def width_words(optimum: Optimum) -> str:
    """`d_model` of the best shape, with its depth where that is not the best depth itself."""
    shape = optimum.shape
    if shape is None:
        return ""
    elsewhere = shape.depth != optimum.optimal_depth
    return f"{shape.d_model:,}{f' (at depth {shape.depth})' if elsewhere else ''}"


def _summary_row(optimum: Optimum) -> list[str]:
    shape = optimum.shape
    return [
        format_count(optimum.budget),
        format_count(optimum.tokens),
        count_words(optimum),
        str(optimum.optimal_depth or "-"),
        interval(optimum) or "-",
        plateau(optimum) or "-",
        str(optimum.verdict),
        width_words(optimum) or "-",
        f"{shape.ff_ratio:.2f}" if shape else "-",
        f"{optimum.loss:.4f}" if optimum.loss is not None else "-",
    ]


def law_words(law: Law) -> str:
    """A fitted law as a formula, and how well it foretells a budget that it has not seen."""
    low, high = (format_count(params) for params in law.params_range)
    if law.name == LOGARITHMIC:
        formula = (
            f"ln d_model = {law.a:.4g} + {law.b:.4g} x depth, at 12 x depth x d_model² parameters"
        )
    else:
        formula = f"ln depth = {law.a:.4g} + {law.b:.4g} x ln parameters"
    if law.leave_one_out_error is None:
        tested = "With three budgets nothing is left to test it on"
    else:
        tested = (
            "Predicting each budget from the others, it misses the depth by a factor of"
            f" {exp(law.leave_one_out_error):.2f} on average"
        )
    return f"The {law.name} law, fitted from {low} to {high}: {formula}. {tested}."


def unsupported(
    records: Sequence[TrialRecord],
    optima: Sequence[Optimum],
    laws: Sequence[Law],
    audits: Mapping[int, Sequence[RungAudit]],
) -> list[str]:
    """What a reader might conclude and the data do not show; each completes "do not show ..."."""
    sentences: list[str] = []
    for optimum in optima:
        own = [record for record in records if record.spec.budget == optimum.budget]
        label = f"{format_count(optimum.budget)}: "
        limits = (
            _verdict_limit(optimum),
            _unseen_depths(optimum, own),
            _single_runs(optimum),
            _unaudited(own, audits.get(optimum.budget, ())),
        )
        sentences += [label + limit for limit in limits if limit]
    return [*sentences, *_law_limits(optima, laws)]


def _verdict_limit(optimum: Optimum) -> str:
    if optimum.optimal_depth is None:
        return "any best depth; nothing trained to the end."
    others = [depth for depth in optimum.plateau if depth != optimum.optimal_depth]
    match optimum.verdict:
        case Verdict.IDENTIFIED if not others:
            return ""
        case Verdict.IDENTIFIED | Verdict.PLATEAU:
            return (
                f"that depth {optimum.optimal_depth} is better than"
                f" {_listed(others) or 'its neighbours'}; they cannot be told apart."
            )
        case Verdict.EDGE:
            return "that the best depth lies inside the range that was tried."
        case Verdict.INSUFFICIENT:
            return (
                f"that depth {optimum.optimal_depth} is the best; it is the best so far, no more."
            )


def _unseen_depths(optimum: Optimum, records: Sequence[TrialRecord]) -> str:
    """Depths tried and never finished: early loss says little of the end."""
    finished = {own.depth for own in optimum.depths}
    unseen = sorted({record.spec.shape.depth for record in records} - finished)
    if not unseen:
        return ""
    return f"any loss at the horizon for depth {_listed(unseen)}; none of their trials finished."


def _single_runs(optimum: Optimum) -> str:
    single = [own.depth for own in optimum.depths if own.trials == 1]
    if not single:
        return ""
    return f"how far depth {_listed(single)} varies between seeds; one trial each finished."


def _unaudited(records: Sequence[TrialRecord], audits: Sequence[RungAudit]) -> str:
    stopped = any(record.outcome is Outcome.STOPPED for record in records)
    if not stopped or any(audit.agreement is not None for audit in audits):
        return ""
    return "that stopping early was fair; too few trials finished to compare a rung with the end."


def _law_limits(optima: Sequence[Optimum], laws: Sequence[Law]) -> list[str]:
    if not laws:
        fit = len(usable(optima))
        if fit >= FEWEST_BUDGETS:
            return ["Law: any line from size to depth; neither law fits the best depths."]
        return [
            f"Law: any line from size to depth; it needs {FEWEST_BUDGETS} budgets with an"
            f" identified depth or a plateau, and there {'is' if fit == 1 else 'are'} {fit}."
        ]
    low, high = (format_count(params) for params in laws[0].params_range)
    sentences = [f"Law: the depth below {low} or above {high} parameters; that is extrapolation."]
    error = laws[0].leave_one_out_error
    if error is None:
        sentences.append("Law: that it holds; three budgets fit it and none is left to test it.")
    elif exp(error) > FACTOR_WORTH_A_WARNING:
        sentences.append(f"Law: depths to better than a factor of {exp(error):.2f}.")
    return sentences


def _listed(depths: Sequence[int]) -> str:
    """`3`, `3 and 4`, `3, 4 and 6`."""
    words = [str(depth) for depth in depths]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
