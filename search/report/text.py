"""What a report says in words: the answers and the laws."""

from collections.abc import Sequence
from math import exp

from fathom.search.analysis.law import Law
from fathom.search.analysis.law_fit import LOGARITHMIC
from fathom.search.analysis.optimum import Optimum
from fathom.search.analysis.verdict import Verdict
from fathom.search.formatting import format_count, ranges

MOST_HORIZONS = 4
"""Budgets' tokens that are listed one by one."""


def answer(optimum: Optimum) -> str:
    """The answer of a budget in one line."""
    return f"{question(optimum)}: {finding(optimum)}, {optimum.verdict}"


def question(optimum: Optimum) -> str:
    """What was asked: size, horizon and counting rule belong to every optimum."""
    return (
        f"{format_count(optimum.budget)} {optimum.count.unit},"
        f" {format_count(optimum.tokens)} tokens, {optimum.count.words} count"
    )


def question_across(optima: Sequence[Optimum]) -> str:
    """What several budgets have in common, and their horizons."""
    tokens = list(dict.fromkeys(format_count(optimum.tokens) for optimum in optima))
    if len(tokens) > MOST_HORIZONS:  # else wider than the figure
        tokens = [f"{tokens[0]} to {tokens[-1]}"]
    return f"{optima[0].count.words} count, {', '.join(tokens)} tokens"


def finding(optimum: Optimum) -> str:
    """The depth with its interval and plateau, as far as they are known."""
    if optimum.optimal_depth is None:
        return "no depth yet"
    words = [f"depth {optimum.optimal_depth}{interval(optimum, ' [', ']')}"]
    if optimum.plateau:
        words.append(f"plateau {plateau(optimum)}")
    return ", ".join(words)


def interval(optimum: Optimum, before: str = "", after: str = "") -> str:
    """The 95 % interval, if any; open at an end beyond which the best depth may lie."""
    if optimum.interval is None:
        return ""
    low, high = optimum.interval
    words = f"{low}-{high}"
    if optimum.verdict is Verdict.EDGE and high == optimum.depths[-1].depth:
        words = f"{low} or deeper"
    elif optimum.verdict is Verdict.EDGE and low == optimum.depths[0].depth > 1:
        words = f"{high} or shallower"
    return f"{before}{words}{after}"


def plateau(optimum: Optimum) -> str:
    """The plateau, for example `5-9`."""
    return ranges(optimum.plateau)


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
        optimum.count.words,
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
        tested = "Without one of its budgets it can't be fitted"
    else:
        tested = (
            "Predicting each budget from the others, it misses the depth by a factor of"
            f" {exp(law.leave_one_out_error):.2f} on average"
        )
    spread = "Best depths miss it by no more than their own errors"
    if law.scatter:
        factor = exp(law.scatter)
        spread = (
            f"Beyond their own errors, best depths scatter about it by a factor of {factor:.2f}"
        )
    budgets = f"{law.degrees_of_freedom + 2} budgets from {low} to {high}"
    return f"The {law.name} law, fitted to {budgets}: {formula}. {tested}. {spread}."
