"""Budgets that fit the hours and the text, for `fathom init` and `fathom ask`. Arithmetic only.

Both commands try ascending options and take the last one before the first that costs too much. The
cost of a search grows with the square of its budget, so the largest budget takes nearly all of the
time.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import TypeVar

from fathom.search.formatting import format_count
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.keys.groups import TOKENS_PER_PARAMETER

MOST_EPOCHS = 4
"""Largest number of epochs; up to it, repeated text is nearly worth new text (Muennighoff et al.
2023)."""
TOKENS = int(TOKENS_PER_PARAMETER)
"""Training tokens per parameter of the largest budget of `init`, and of the asked size in `ask`."""
FEWER_TOKENS = (5, 10)
"""Training tokens per parameter if budgets named by the user would take too long with `TOKENS`;
with even fewer, a model hardly learns."""
POWERS = range(4, 12)
"""Powers of ten of the smallest budget of `init`; below 10k a budget has hardly more than three
depths."""
SIZES = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
"""Smallest budgets of `init`, to be multiplied by a power of ten; the other two budgets are two and
four times as large."""
SMALLEST = 20_000
"""Smallest budget of `ask`; below it few depths have shapes, and models hardly learn the text's
structure."""
SHORTEST_HORIZON = 1_000_000
"""Fewest training tokens of the smallest budget of `ask`: with fewer, deep models have not learnt
to copy yet, and seeds differ by more than depths do. The budgets of the quickstart have 600k."""
WIDE_STEP, NARROW_STEP = 3.0, 2.0
"""Ratio of neighbouring budgets of `ask`: if there are four, and the least one if there are
three."""
MANTISSAS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
"""Largest budgets of `ask`, times powers of ten."""
CHEAPER = 0.85
"""Largest budget of `ask`, as a share of the asked size: its search and those of smaller budgets
together then cost less than a search of the asked size alone."""
SHARE_OF_TIME = 0.85
"""Share of the hours that `ask` plans; the rest is a reserve for what no plan knows."""

SHARES = (0.75, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05, 0.03, 0.02, 0.01)
"""Shares of the asked tokens that are tried where the hours are too few."""

HoursOf = Callable[[tuple[int, ...]], float]
T = TypeVar("T")


class TooFewHoursError(ConfigError):
    """No search that answers the question of `ask` fits its hours; the message has no remedy."""


def fewer_tokens(tokens: int, params: int, fits: Callable[[int], bool]) -> int | None:
    """The largest number of tokens, among `SHARES` of the asked ones, whose search fits; None if
    none does.

    Fewer tokens make a search of small models cheaper only as long as the smallest budget need not
    grow: it trains for at least `SHORTEST_HORIZON` tokens.
    """
    fewer = (_two_digits(share * tokens) for share in SHARES)
    return next((f for f in fewer if f >= FEWER_TOKENS[0] * params and fits(f)), None)


def largest_affordable(options: Iterable[tuple[T, bool]]) -> tuple[T | None, T | None]:
    """The last option before the first unaffordable one, and the first unaffordable one; each is
    None if there is none.

    Each option comes with True if it is affordable; no option is computed after the first
    unaffordable one.
    """
    chosen = None
    for option, affordable in options:
        if not affordable:
            return chosen, option
        chosen = option
    return chosen, None


def three_budgets() -> Iterator[tuple[tuple[int, ...], int]]:
    """Options of `init`, ascending: three budgets, and tokens per parameter of the largest."""
    for power, size in product(POWERS, SIZES):
        smallest = int(size * 10**power)
        yield (smallest, 2 * smallest, 4 * smallest), TOKENS


def smallest_budget(tokens_per_parameter: float) -> int:
    """The smallest budget of `ask`, which trains for about `SHORTEST_HORIZON` tokens at least."""
    return max(SMALLEST, _two_digits(SHORTEST_HORIZON / tokens_per_parameter))


def budgets_below(top: int, smallest: int) -> tuple[int, ...]:
    """Four budgets up to the largest, or three if four would begin too small; ascending."""
    if top >= smallest * WIDE_STEP**3:
        number, step = 4, WIDE_STEP
    else:
        number, step = 3, max(NARROW_STEP, min(WIDE_STEP, (top / smallest) ** 0.5))
    return (*(_two_digits(top / step**k) for k in range(number - 1, 0, -1)), top)


def choose_budgets(
    params: int, most: int, hours: float, hours_of: HoursOf, *, smallest: int
) -> tuple[int, ...]:
    """The budgets of `ask`: the asked size alone if its search fits the hours, else smaller ones.

    The largest of the smaller budgets is as large as fits, at most `most`. The asked size is priced
    only if all cheaper searches fit, so that no far too large size is measured.

    Raises:
        TooFewHoursError: if the cheapest of these searches takes too long.
    """
    tops = [top for top in _tops(smallest, most) if top <= CHEAPER * params]
    options = [budgets_below(top, smallest) for top in tops]
    if most >= params or not tops:
        options.append((params,))
    priced = ((budgets, hours_of(budgets) / SHARE_OF_TIME) for budgets in options)
    chosen, refused = largest_affordable((option, option[1] <= hours) for option in priced)
    if chosen is None:
        assert refused is not None, "there is at least one option"
        budgets, needed = refused
        ladder = f"the smallest budgets with a law ({', '.join(map(format_count, budgets))})"
        what = f"a search of {format_count(params)} itself" if len(budgets) == 1 else ladder
        raise TooFewHoursError(f"`--hours` must be at least {needed:.2g} for {what}, got {hours:g}")
    return chosen[0]


def _tops(smallest: int, most: int) -> list[int]:
    """Largest budgets to choose from, ascending; the last one is `most` itself."""
    least = round(smallest * NARROW_STEP**2)
    powers = range(len(str(least)) - 1, len(str(most)))
    tops = [round(mantissa * 10**power) for power in powers for mantissa in MANTISSAS]
    return [least, *(top for top in tops if least < top < most), *([most] if most > least else [])]


def _two_digits(params: float) -> int:
    return int(float(f"{params:.2g}"))
