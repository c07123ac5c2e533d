"""The best size of models that all spend the same amount, in words."""

from collections.abc import Iterator

from fathom.search.analysis.answer import verdict as v
from fathom.search.analysis.answer.optimum import BestSize
from fathom.search.analysis.laws.amount_law import AmountLaw
from fathom.search.formatting import format_count, rounded_count, spend_text
from fathom.search.report.words.other_depths import cost_text
from fathom.search.words import plateau_width


def size_lines(found: BestSize, part: str = "") -> Iterator[str]:
    """Yields sentences on the best size at an amount, for a part of a table, and on the cost of
    other sizes."""
    where = f"{part}, {spend_text(found.spend)}" if part else spend_text(found.spend)
    yield f"{where}: best size {size_text(found)}; {size_reason(found)}"
    if found.size and found.verdict.kind.decided and found.costs:
        costs = (
            f"{format_count(cost.depth)} costs {cost_text(cost, found.unit, f' {found.unit}')}"
            for cost in found.costs
        )
        yield f"{where}, instead of {format_count(found.size)}: {'; '.join(costs)}"


def size_text(found: BestSize) -> str:
    """Returns a best size with its interval and its verdict."""
    answer = format_count(found.size) if found.size else "not known"
    ends = "-".join(map(format_count, found.interval or ()))
    return f"{answer}{f' [{ends}]' if ends else ''}, {found.verdict.kind.value}"


def size_reason(found: BestSize) -> str:
    """Returns the reason for the best size's verdict, and what to add where it is uncertain."""
    low, high = map(rounded_count, found.sizes)
    match found.verdict.cause:
        case v.NarrowInterval():
            return f"the interval ends inside the sizes that were trained, {low} to {high}"
        case v.Flat():
            ends = " to ".join(map(format_count, found.plateau or ()))
            return f"sizes {ends} differ by less than {plateau_width(found.unit)}"
        case v.BestAtEnd(_, larger):
            side = f"larger than the largest, {high}" if larger else f"smaller than all, {low}"
            return f"the best may be {side}; add sizes beyond it"
        case v.TooFewDepths():
            return f"a curve needs three sizes, from {low} to {high}; add more"
        case v.NoiseUnknown():
            return "no size has two seeds, so size can't be told from noise; add seeds, or --noise"
        case v.UnknownSettings():
            return "models of one size differ by more than seeds do; export the settings' columns"
        case _:
            return "the noise hides differences between sizes; add sizes between, or seeds"


def amount_law_text(law: AmountLaw) -> str:
    """Returns the law over amounts as a clause."""
    grow = (
        f"{power.quantity} {'grows ' * (not place)}as {law.coin}^{power.exponent:.2f} "
        f"[{power.interval[0]:.2f} to {power.interval[1]:.2f}]"
        for place, power in enumerate(law.powers)
    )
    return f"over {law.amounts} amounts, {', '.join(grow)}"
