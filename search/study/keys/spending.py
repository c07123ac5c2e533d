"""The rules of what a training may spend: tokens, operations, or seconds."""

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


def check_train_seconds(
    *, batch_size: int | str, command: bool, pretrains: bool, processes: int
) -> None:
    """Checks the settings of a study whose trainings may spend a number of seconds.

    Raises:
        RuleError: for those whose steps are not measured before the search, or whose batch would
            depend on it; the message is one line.
    """
    if command:
        raise RuleError(
            "train_seconds",
            "can't be combined with `train.command`, whose steps Fathom does not measure; "
            "use `tokens` or `tokens_per_parameter`",
        )
    if pretrains:
        raise RuleError(
            "train_seconds",
            "can't be combined with `objective.pretraining`, whose tokens would be another share "
            "of each training; use `tokens`",
        )
    if processes > 1:
        raise RuleError(
            "train_seconds",
            "can't be combined with several GPUs a trial, whose steps are not measured before the "
            f"search, got `resources.gpus_per_trial: {processes}`; use 1, or `train_flops`",
        )
    if batch_size == "auto":
        raise RuleError(
            "train.batch_size",
            "must be a number with `train_seconds`, since `auto` follows from tokens, which are "
            "known only once a step of this batch is measured, got auto; for example 32",
        )
