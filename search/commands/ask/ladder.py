"""Which budgets to search, so that their law reaches as far as the time allows. Arithmetic only.

A search of a budget costs about its square, so the largest takes nearly all of the time, and those
below it cost next to nothing while each makes the law's slope surer: as many as keep a distance.
"""

from collections.abc import Callable

from fathom.search.formatting import format_count
from fathom.search.study.errors import ConfigError

SMALLEST = 20_000
"""Below it few depths have shapes, and what they learn is hardly the text's structure."""
SHORTEST_HORIZON = 1_000_000
"""Training tokens of the smallest budget: with fewer, deep models have not learnt to copy yet, and
seeds differ by more than depths do. The quickstart's budgets have 1.2M."""
WIDE_STEP, NARROW_STEP = 3.0, 2.0
"""Between neighbouring budgets: what four keep where there is room, and three at least."""
MANTISSAS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
"""Largest budgets to choose from, times powers of ten."""
SHARE_OF_TIME = 0.85
"""To be planned; the rest is for what no plan knows."""

HoursOf = Callable[[tuple[int, ...]], float]


def smallest_budget(tokens_per_parameter: float) -> int:
    """That learns enough to be judged."""
    return max(SMALLEST, _rounded(SHORTEST_HORIZON / tokens_per_parameter))


def budgets_below(top: int, smallest: int) -> tuple[int, ...]:
    """Four budgets up to the largest, three where four would begin too small; ascending."""
    if top >= smallest * WIDE_STEP**3:
        number, step = 4, WIDE_STEP
    else:
        number, step = 3, max(NARROW_STEP, min(WIDE_STEP, (top / smallest) ** 0.5))
    return (*(_rounded(top / step**k) for k in range(number - 1, 0, -1)), top)


def choose_budgets(most: int, hours: float, hours_of: HoursOf, *, smallest: int) -> tuple[int, ...]:
    """The budgets with the largest top, at most `most`, that are searched in time.

    Raises:
        ConfigError: when the smallest ones are not.
    """
    chosen: tuple[int, ...] = ()
    for top in _tops(smallest, most):
        budgets = budgets_below(top, smallest)
        needed = hours_of(budgets) / SHARE_OF_TIME
        if needed > hours:
            break
        chosen = budgets
    if not chosen:
        words = ", ".join(map(format_count, budgets))
        raise ConfigError(
            f"`--hours` must be at least {needed:.2g} on this machine, for the smallest budgets "
            f"with a law ({words}), got {hours:g}; give it more time, or fewer `--tokens`"
        )
    return chosen


def _tops(smallest: int, most: int) -> list[int]:
    """The largest budgets to choose from, ascending; the asked size itself is the last."""
    least = round(smallest * NARROW_STEP**2)
    powers = range(len(str(least)) - 1, len(str(most)))
    tops = [round(mantissa * 10**power) for power in powers for mantissa in MANTISSAS]
    return [least, *(top for top in tops if least < top < most), *([most] if most > least else [])]


def _rounded(params: float) -> int:
    return int(float(f"{params:.2g}"))
