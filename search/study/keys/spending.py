"""The rules of what a training may spend: tokens, or operations."""

from collections.abc import Mapping

from fathom.models.shape import Count
from fathom.objectives.keys import RuleError


def check_one_amount(amounts: Mapping[str, float | None]) -> None:
    """Checks that at most one of several keys says how long a training is; None is unsaid.

    Raises:
        RuleError: for two of them; the message is one line.
    """
    said = [(key, value) for key, value in amounts.items() if value is not None]
    if len(said) > 1:
        (key, value), (other, its) = said[:2]
        got = " and ".join(f"{amount:.15g}" for amount in (value, its))
        text = f"and `{other}` contradict each other, got {got}; keep one"
        raise RuleError(key, text)


def check_train_flops(count: Count, *, command: bool, pretrains: bool) -> None:
    """Checks the settings of a study whose trainings may spend an amount of operations.

    Raises:
        RuleError: for those whose operations are not known; the message is one line.
    """
    if command:
        raise RuleError(
            "train_flops",
            "can't be combined with `train.command`, whose operations are not known; "
            "use `tokens` or `tokens_per_parameter`",
        )
    if count in (Count.HEADS, Count.WIDTH):
        raise RuleError(
            "train_flops",
            f"can't be combined with `count: {count}`, whose budgets don't say how many operations "
            "a token takes; use `tokens`",
        )
    if pretrains:
        raise RuleError(
            "train_flops",
            "can't be combined with `objective.pretraining`, whose tokens would be another share "
            "of each training; use `tokens`",
        )
