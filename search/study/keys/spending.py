"""The rules of what a training may spend."""

from collections.abc import Mapping

from fathom.models.shape import Count
from fathom.models.spend import OTHER_COINS, Coin
from fathom.objectives.keys import RuleError

AMOUNTS = ("tokens", "tokens_per_parameter", *(coin.key for coin in OTHER_COINS))
"""Keys that set the length of a training; a study has at most one of them."""


def check_one_amount(amounts: Mapping[str, float | None]) -> None:
    """Checks that at most one of several keys says how long a training is; None stands for a key
    that is not set.

    Raises:
        RuleError: for two of them; the message is one line.
    """
    said = [(key, value) for key, value in amounts.items() if value is not None]
    if len(said) > 1:
        (key, value), (other, its) = said[:2]
        got = " and ".join(f"{amount:.15g}" for amount in (value, its))
        text = f"and `{other}` contradict each other, got {got}; keep one"
        raise RuleError(key, text)


def check_coin(
    coin: Coin, *, count: Count, batch_size: int | str, command: bool, pretrains: bool,
    processes: int,
) -> None:  # fmt: skip
    """Checks the settings of a study whose trainings spend FLOPs or seconds.

    Raises:
        RuleError: if the settings leave the cost of a step unknown, or the batch would depend on
            it; the message is one line.
    """
    if coin not in OTHER_COINS:
        return
    unknown = "steps Fathom does not measure" if coin.timed else "operations are not known"
    others = {
        f"`train.command`, whose {unknown}; use `tokens` or `tokens_per_parameter`": command,
        f"`count: {count}`, whose budgets don't say how many operations a token takes; "
        "use `tokens`": coin.of_a_parameter and count in (Count.HEADS, Count.WIDTH),
        "`objective.pretraining`, whose tokens would be another share of each training; "
        "use `tokens`": pretrains,
        "several GPUs a trial, whose steps are not measured before the search, got "
        f"`resources.gpus_per_trial: {processes}`; use 1, or `train_flops`": (
            coin.timed and processes > 1
        ),
    }
    for other, is_set in others.items():
        if is_set:
            raise RuleError(coin.key, f"can't be combined with {other}")
    if not coin.of_a_parameter and batch_size == "auto":
        raise RuleError(
            "train.batch_size",
            f"must be a number with `{coin.key}`, got auto, which follows from the number of "
            "tokens; that is known only once steps of some batch are timed; for example 32",
        )
