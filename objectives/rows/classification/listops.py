"""ListOps expressions by the published rules (Nangia, Bowman 2018); standard library only.

A node at depth d (the root has 1) is an operator with probability 1/4 while d < max_depth, else a
digit, uniform. An operator has 2 to max_args arguments, uniform, each a node at d + 1. Trees are
distinct. spinn's d20s has max_depth 20 and max_args 5; Long Range Arena has 10 and 10, and keeps
lengths from 501 to 1999.
"""

import random
import statistics
from collections.abc import Callable, Mapping

from fathom.objectives.errors import ObjectiveError

OPERATORS: Mapping[str, Callable[[list[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: int(statistics.median(values)),
    "[SM": lambda values: sum(values) % 10,
}
END = "]"
DIGITS = tuple(map(str, range(10)))
WORDS = (*DIGITS, *OPERATORS, END)
OPERATOR_SHARE = 0.25
FEWEST = 20
"""Fewest expressions of a study."""
PATIENCE = 100_000
"""Most trees drawn in a row without a new one; three in four are single digits, which soon repeat.
"""


class _TooLong(Exception):
    """Raised when an expression outgrows its length, so that the rest of it is not drawn."""


def expressions(
    count: int, *, max_depth: int, max_args: int, lengths: tuple[int, int], seed: int = 0
) -> list[tuple[str, int]]:
    """Returns `count` distinct expressions with their values, a function of the seed.

    Raises:
        ObjectiveError: when the rules give too few of these lengths.
    """
    draws = random.Random(seed)
    found: dict[str, int] = {}
    in_vain = 0
    while len(found) < count and in_vain < PATIENCE:
        in_vain += 1
        tokens: list[str] = []
        try:
            value = _node(tokens, draws, max_depth, max_args, lengths[1])
        except _TooLong:
            continue
        text = " ".join(tokens)
        if len(tokens) >= lengths[0] and text not in found:
            found[text] = value
            in_vain = 0
    if len(found) == count:
        return list(found.items())
    raise ObjectiveError(
        f"`listops` must allow {count} distinct expressions of {lengths[0]} to {lengths[1]} tokens "
        f"at max_depth={max_depth}, max_args={max_args}, got {len(found)}; lower `examples`, or "
        "widen the lengths"
    )


def check_rules(*, max_depth: int, max_args: int, lengths: tuple[int, int]) -> None:
    """Raises the error of `expressions`, without drawing any, if the rules give next to none."""
    expressions(FEWEST, max_depth=max_depth, max_args=max_args, lengths=lengths)


def _node(tokens: list[str], draws: random.Random, levels: int, max_args: int, longest: int) -> int:
    """Appends a node of at most `levels` levels to the tokens and returns its value."""
    if len(tokens) >= longest:
        raise _TooLong
    if levels == 1 or draws.random() >= OPERATOR_SHARE:
        digit = draws.randrange(10)
        tokens.append(DIGITS[digit])
        return digit
    arguments = draws.randint(2, max_args)
    operator = draws.choice(list(OPERATORS))
    tokens.append(operator)
    values = [_node(tokens, draws, levels - 1, max_args, longest) for _ in range(arguments)]
    if len(tokens) >= longest:
        raise _TooLong
    tokens.append(END)
    return OPERATORS[operator](values)


def without_parentheses(text: str) -> str:
    """The flat form of a published tree, whose parentheses only group its arguments in pairs."""
    return " ".join(token for token in text.split() if token not in "()")
