"""The answer of `fathom ask` at a size that was searched itself: no law, nothing extrapolated."""

from typing import Any

from fathom.search.analysis.law import is_settled
from fathom.search.analysis.optimum import Located
from fathom.search.commands.ask.question import Question
from fathom.search.conclusion import Conclusion
from fathom.search.formatting import format_count, rounded_count
from fathom.search.record_json import to_values
from fathom.search.report.text import plateau, sentence, shape_elsewhere, shape_text
from fathom.search.words import both_ends, study_reason


def searched(question: Question, conclusion: Conclusion) -> Located | None:
    """The optimum of the asked size; None if it is no budget, or its search leaves it open."""
    optima = (o for o in conclusion.optima if is_settled(o) and o.budget == question.params)
    return next(optima, None)


def searched_lines(found: Located) -> list[str]:
    """Lines of the answer for people."""
    assert found.shape, "a settled optimum has one"
    size = f"{format_count(found.budget)} {found.count.unit_in_full}"
    return [
        f"Depth {found.optimal_depth} for {size} after {rounded_count(found.tokens)} tokens, "
        f"95 % interval {both_ends(found.interval)}, by a search of this size: nothing is "
        "extrapolated.",
        f"Within the noise, depths {plateau(found)} are as good."
        if len(found.plateau) > 1
        else f"{sentence(study_reason(found.verdict))}",
        *([sentence(elsewhere)] if (elsewhere := shape_elsewhere(found)) else []),
        f"Shape: {shape_text(found.shape)}: {found.shape.size(found.count):,} parameters.",
    ]


def searched_json(question: Question, found: Located) -> dict[str, Any]:
    """The answer as JSON, with the keys of an answer by a law; `law` is null."""
    return {
        "params": question.params,
        "tokens": question.tokens,
        "count": question.count.value,
        "law": None,
        "depth": found.optimal_depth,
        "interval": list(found.interval),
        "extrapolated": False,
        "times_beyond": 1.0,
        "params_range": [question.params, question.params],
        "other_law_depth": None,
        "shape": to_values(found.shape),
    }
