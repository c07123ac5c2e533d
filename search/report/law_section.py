"""The table of depths that the fitted laws predict, inside and beyond the study's budgets."""

from collections.abc import Sequence
from contextlib import suppress

from fathom.search.analysis.law import Law
from fathom.search.analysis.optimum import Optimum
from fathom.search.formatting import format_count
from fathom.search.report.text import interval

BEYOND = (3, 10)
"""Multiples of the largest fitted budget at which the laws predict too."""


def prediction_rows(laws: Sequence[Law], optima: Sequence[Optimum]) -> list[dict[str, str]]:
    """Returns one row a size, heading -> text: the measured depth beside each law's prediction."""
    if not laws:
        return []
    measured = {own.budget: own for own in optima}
    largest = laws[0].params_range[1]
    sizes = sorted({*measured, *(multiple * largest for multiple in BEYOND)})
    return [_row(size, measured.get(size), laws) for size in sizes]


def _row(size: int, optimum: Optimum | None, laws: Sequence[Law]) -> dict[str, str]:
    known = optimum if optimum and optimum.optimal_depth is not None else None
    return {
        "parameters": format_count(size),
        "measured depth": f"{known.optimal_depth}{interval(known, ' [', ']')}" if known else "",
        "verdict": known.verdict if known else "",
        **{f"{law.name} law, 95 % interval": _prediction(law, size) for law in laws},
    }


def _prediction(law: Law, size: int) -> str:
    # A law has no depth for sizes too small for one layer.
    with suppress(ValueError):
        found = law.predict(size)
        low, high = found.interval or (found.depth, found.depth)
        beyond = ", extrapolated" if found.extrapolated else ""
        return f"{found.depth:.1f} [{low:.1f} to {high:.1f}]{beyond}"
    return ""
