"""Compares the interval of a command's evaluations with the horizon, where a loss is needed."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import Budget, expand_budgets

NEAR = 0.01
"""Largest distance of a command's last evaluation from the horizon, as a share of the horizon's
tokens."""
INTERVAL = re.compile(
    r"-*(?:\w+[._-])*(?:eval|evaluation|val|valid|validation)[._-]?"
    r"(?:interval|every|freq|frequency|every_n_steps)(?:[._-]steps)?"
)
"""Usual names of the argument that has the interval, in steps."""
ARGUMENT = re.compile(rf"(?P<name>{INTERVAL.pattern})(?:=(?P<value>\d+))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Interval:
    """An argument of a command that says how often it evaluates."""

    argument: str
    steps: int


def interval_of(command: Sequence[str]) -> Interval | None:
    """The interval of evaluations that a command names, as `--eval_interval=50` or with the number
    as the next argument; None if it names none.

    >>> interval_of(["python", "train.py", "--eval-every", "250"])
    Interval(argument='--eval-every 250', steps=250)
    >>> interval_of(["python", "train.py", "--eval_iters=20"])
    """
    for argument, following in zip(command, [*command[1:], ""], strict=True):
        found = ARGUMENT.fullmatch(argument)
        if found is None:
            continue
        if found["value"]:
            return Interval(argument, max(1, int(found["value"])))
        if following.isdecimal():
            return Interval(f"{argument} {following}", max(1, int(following)))
    return None


def falls_short(steps: float, interval: float) -> bool:
    """True if the multiples of `interval` just before and after a horizon of `steps` steps are both
    too far from it."""
    last = math.floor(steps / interval) * interval
    return last < (1 - NEAR) * steps and last + interval > (1 + NEAR) * steps


def interval_note(config: StudyConfig) -> str:
    """A line if a command evaluates at an interval that misses a horizon; otherwise empty."""
    interval = interval_of(config.train.command or ())
    if interval is None:
        return ""
    short = [
        budget for budget in expand_budgets(config) if falls_short(budget.steps, interval.steps)
    ]
    if not short:
        return ""
    budget = short[0]
    last = budget.steps // interval.steps * interval.steps
    return (
        f"`train.command` has {interval.argument}, and the {budget.steps:,} steps of budget "
        f"{budget.label} are no multiple of it: unless the trainer also evaluates at its end, its "
        f"last loss comes at {last:,} steps, and every trial fails; "
        f"{horizon_remedy(config, budget, interval.steps)}"
    )


def horizon_remedy(config: StudyConfig, budget: Budget, interval_steps: float) -> str:
    """A remedy if the horizon of a budget is no multiple of an interval of evaluations: tokens that
    are the nearest multiple, or an interval that meets the horizons of all budgets."""
    if config.tokens is not None:
        multiple = max(1, round(budget.steps / interval_steps))
        tokens = round(multiple * interval_steps * budget.tokens_per_step)
        return f"set `tokens: {tokens}`, the nearest multiple, or evaluate at the end, too"
    steps = [each.steps for each in expand_budgets(config)]
    fits = next(
        interval
        for interval in range(max(1, math.floor(interval_steps)), 0, -1)
        if not any(falls_short(each, interval) for each in steps)
    )
    return f"evaluate every {fits:,} steps, which meets every horizon, or at the end, too"
