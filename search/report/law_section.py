"""What the fitted laws say, in words and as a table of sizes."""

from collections.abc import Sequence
from contextlib import suppress
from html import escape

from fathom.search.analysis.law import Law, Prediction
from fathom.search.analysis.optimum import Optimum
from fathom.search.formatting import format_count
from fathom.search.report.markup import MISSING, html_table
from fathom.search.report.text import interval, law_words

BEYOND = (3, 10)
"""Multiples of the largest budget fitted for which the laws are asked too."""


def law_part(laws: Sequence[Law], optima: Sequence[Optimum]) -> str:
    """HTML: every law as a sentence, then what each says of the budgets and beyond."""
    if not laws:
        return "<p>No law was fitted.</p>"
    first, *others = (escape(law_words(law)) for law in laws)
    said = f"<p>{first}</p>" + "".join(f'<p class="second">{law}</p>' for law in others)
    heads = ["parameters", "measured depth"]
    heads += [f"{law.name} law, 95 % interval" for law in laws]
    measured = {own.budget: own for own in optima}
    largest = laws[0].params_range[1]
    sizes = sorted({*measured, *(multiple * largest for multiple in BEYOND)})
    rows = [[_size(size), _measured(measured.get(size)), *_said(laws, size)] for size in sizes]
    return f"{said}{html_table(heads, rows)}"


def _size(size: int) -> str:
    return f"<b>{format_count(size)}</b>"


def _measured(optimum: Optimum | None) -> str:
    if optimum is None or optimum.optimal_depth is None:
        return MISSING
    found = f"{optimum.optimal_depth}{interval(optimum, ' [', ']')}"
    return f'{found} <span class="verdict {optimum.verdict}">{optimum.verdict}</span>'


def _said(laws: Sequence[Law], size: int) -> list[str]:
    found: list[Prediction | None] = []
    for law in laws:
        prediction = None
        # A law has no depth for sizes too small for one layer.
        with suppress(ValueError):
            prediction = law.predict(size)
        found.append(prediction)
    return [_prediction(prediction) if prediction else MISSING for prediction in found]


def _prediction(prediction: Prediction) -> str:
    low, high = prediction.interval or (prediction.depth, prediction.depth)
    beyond = ", extrapolated" if prediction.extrapolated else ""
    return f"{prediction.depth:.1f} [{low:.1f} to {high:.1f}]{beyond}"
