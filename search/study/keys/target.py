"""The rules of a study's `target`, the size at which it asks for the best depth."""

from collections.abc import Sequence

from fathom.models.shape import Count
from fathom.objectives.keys import RuleError
from fathom.search.formatting import format_count
from fathom.search.study.keys.groups import Sampler

FEWEST_BUDGETS = 3
"""Fewest budgets of a law of depth."""
FURTHEST = 1000
"""Factor beyond the largest budget from which on no law of depth is a headline."""


def check_target(
    params: int, budgets: Sequence[int], count: Count, *, sampler: Sampler, several: bool
) -> None:
    """Checks a study's target; `several` says that the study has several horizons.

    Raises:
        RuleError: if the study can't ask for the best depth at so many `params`.
    """
    if not count.of_parameters:
        raise RuleError(
            "target", f"needs budgets of parameters, got `count: {count}`; drop one of them"
        )
    if len(budgets) < FEWEST_BUDGETS:
        raise RuleError(
            "target",
            f"needs {FEWEST_BUDGETS} budgets or more for a law of depth, got {len(budgets)}; add "
            "smaller ones, which cost least",
        )
    if not budgets[-1] <= params <= FURTHEST * budgets[-1]:
        raise RuleError(
            "target.params",
            f"must be from the largest budget, {format_count(budgets[-1])}, to {FURTHEST} times as "
            f"much, got {format_count(params)}; choose another target, or other budgets",
        )
    if sampler is Sampler.LADDER:
        raise RuleError(
            "target", f"does not go with `sampler: {sampler}`, which trains every depth; drop one"
        )
    if several:
        raise RuleError("target", "does not go with `horizons`; drop one")
