"""The rules of a study whose budgets are amounts that a training spends, so that its size is
free."""

from collections.abc import Mapping

from fathom.models.shape import Count
from fathom.objectives.keys import RuleError
from fathom.search.study.file.errors import ConfigError

FEWEST_TRIALS = 16
"""Fewest exploring trials: the loss over size and depth has six coefficients, and most trials
pause, so that their losses are forecasts."""
FEWEST_WHOLE = 6
"""Fewest whole trainings that `confirm` must allow: as many as the surface of losses has
coefficients."""
NARROWEST = 4
"""Smallest factor between the ends of `space.params`: a narrower range hardly holds the best size.
"""


def check_one_size(count: Count, command: str) -> None:
    """Checks that the budgets of a study fix the size, for a `command` that compares depths of one
    size.

    Raises:
        ConfigError: if they do not.
    """
    if count.frees_size:
        raise ConfigError(
            f"`{command}` compares depths of one size, and a study with `count: {count}` searches "
            "the size as well; set `budgets` to its best size, without `count`"
        )


def check_free_size(
    count: Count, *, params: tuple[int, int] | None, trials: int, whole: int,
    others: Mapping[str, bool],
) -> None:  # fmt: skip
    """Checks the settings of a study that searches size and depth together. `whole` is the most
    whole trainings of a budget; `others` has True for each setting, in words, that the study has
    but that does not go with such a search.

    Raises:
        RuleError: for what can't be searched; the message is one line.
    """
    if params is None or params[1] < NARROWEST * params[0]:
        raise RuleError(
            "space.params",
            f"must be [smallest, largest], at least a factor of {NARROWEST} apart, with `count: "
            f"{count}`, got {list(params) if params else 'nothing'}; for example [1M, 30M]",
        )
    if trials < FEWEST_TRIALS:
        raise RuleError(
            "trials",
            f"must be at least {FEWEST_TRIALS} with `count: {count}`, whose trials differ in size "
            f"and depth, got {trials}; for example {2 * FEWEST_TRIALS}",
        )
    if whole < FEWEST_WHOLE:
        raise RuleError(
            "confirm.depths",
            f"times `confirm.seeds` must be at least {FEWEST_WHOLE} with `count: {count}`, whose "
            f"whole trainings differ in size and depth, got {whole}; for example 8 and 4",
        )
    for other, is_set in others.items():
        if is_set:
            raise RuleError("count", f"{count} can't be combined with {other}")
