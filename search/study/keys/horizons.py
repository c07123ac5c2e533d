"""The rules of a study's horizons, and their names."""

from collections.abc import Sequence

from fathom.objectives.keys import TOKENS_FROM, RuleError
from fathom.search.formatting import exact_count

LONGEST_NAME = 64
"""Most characters of a study's name; the names of horizons' studies must keep to it too."""


def horizon_label(horizon: float) -> str:
    """Short name of a horizon: `20` tokens per parameter, or `10M` tokens.

    >>> horizon_label(20.0), horizon_label(10_000_000)
    ('20', '10M')
    """
    return exact_count(int(horizon)) if counts_tokens(horizon) else f"{horizon:g}"


def counts_tokens(horizon: float) -> bool:
    """True if a horizon is a number of tokens, False if it is tokens per parameter."""
    return horizon >= TOKENS_FROM


def horizon_text(horizon: float) -> str:
    """A horizon in words: `20 tokens per parameter`, or `10M tokens`."""
    unit = "tokens" if counts_tokens(horizon) else "tokens per parameter"
    return f"{horizon_label(horizon)} {unit}"


def check_horizons(
    study: str, horizons: Sequence[float], others: dict[str, object], *, of_parameters: bool
) -> None:
    """Checks the horizons of a study; `others` are the keys that contradict them, with their
    values.

    Raises:
        RuleError: for what can't be searched; the message is one line.
    """
    shown = list(map(horizon_label, horizons))
    for key, value in others.items():
        if value is not None:
            text = f"and `{key}` contradict each other, got {shown} and {value}; keep one"
            raise RuleError("horizons", text)
    if list(horizons) != sorted(set(horizons)):
        raise RuleError("horizons", f"must ascend without repeats, got {shown}")
    if counts_tokens(horizons[0]) != counts_tokens(horizons[-1]):
        raise RuleError(
            "horizons",
            f"must all be tokens per parameter (below {exact_count(TOKENS_FROM)}) or all be "
            f"tokens, got {shown}; write them in one way",
        )
    if not (of_parameters or counts_tokens(horizons[0])):
        raise RuleError(
            "horizons",
            "must be tokens, such as [10M, 40M], with a `count` whose budgets are not parameters, "
            f"got {shown}",
        )
    if max(len(f"{study}-{label}") for label in shown) > LONGEST_NAME:
        most = LONGEST_NAME - 1 - max(map(len, shown))
        raise RuleError(
            "study",
            f"must have at most {most} characters with these `horizons`, whose run folders add "
            f"theirs, got {len(study)}; shorten it",
        )


def check_horizon_of(horizons: Sequence[float], horizon: float | None) -> None:
    """Checks that the horizon of a study is one of the horizons that it names.

    Raises:
        RuleError: if it is not.
    """
    if horizon not in horizons:
        raise RuleError(
            "horizon_of",
            "must hold the study's own `tokens` or `tokens_per_parameter`, got "
            f"{list(map(horizon_label, horizons))} and {horizon}; only Fathom writes this key; "
            "use `horizons` instead",
        )
