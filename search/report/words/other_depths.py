"""The cost of other depths compared with the best one, in nats and in compute, as text."""

from collections.abc import Iterable, Iterator
from math import log

from fathom.models.unit import NATS, Unit
from fathom.search.analysis.answer.optimum import DepthCost, Located, Optimum
from fathom.search.analysis.laws.compute_law import ComputeMultiple
from fathom.search.conclusion.findings import Findings

COST, COMPUTE = "instead of the best (nats)", "times the compute"
"""Headings of a depth's cost in nats, and in compute."""
TWO_DECIMALS = 10.0
"""Multiple of compute from which on no decimals are shown; smaller ones have two."""


def cost_cells(
    found: Findings, optimum: Optimum, depths: Iterable[int]
) -> dict[int, dict[str, str]]:
    """Returns, for each depth, the texts of its cost by heading, empty for the best depth and for
    unknown costs; the heading of compute is left out where no depth has a text."""
    costs = {cost.depth: cost for cost in optimum.costs}
    unit = optimum.unit
    nats = {depth: cost_text(costs[depth], unit) if depth in costs else "" for depth in depths}
    compute = {
        depth: multiple_text(multiple)
        for depth in nats
        if depth in costs and (multiple := found.compute_multiple(optimum, costs[depth]))
    }
    return {
        depth: {f"instead of the best ({unit})": text}
        | ({COMPUTE: compute.get(depth, "")} if compute else {})
        for depth, text in nats.items()
    }


def cost_note(optimum: Optimum) -> str:
    """Returns a note on the columns of a depth's mean and loss; empty where no cost is known."""
    if not optimum.costs:
        return ""
    return (
        "Mean of its trials: by the trials of this depth alone. Loss, and what a depth costs "
        "instead of the best: by all trials and the curve through them."
    )


def compute_note(found: Findings, optimum: Optimum) -> str:
    """Returns a note on a budget's multiples of compute; empty where there are none."""
    law = found.compute_law
    if law is None or not any(law.multiple(optimum, cost) for cost in optimum.costs):
        return ""
    return (
        "Times the compute: how much more this depth takes to reach the loss of the best one. The "
        f"loss falls with compute as it does over these budgets, whose larger models train on "
        f"{'more' if law.tokens_grow else 'the same'} tokens. In brackets: 95 % intervals."
    )


def other_depths(found: Findings, optimum: Optimum) -> str:
    """Returns what the depths nearest to half and to twice the best one cost, in a line; empty
    where no depth is claimed to be the best."""
    if not isinstance(optimum, Located) or not optimum.kind.decided:
        return ""
    parts = [
        f"depth {cost.depth} costs {cost_text(cost, optimum.unit, f' {optimum.unit}')}"
        f"{_compute(found.compute_multiple(optimum, cost))}"
        for cost in _half_and_twice(optimum)
    ]
    return f"instead of depth {optimum.optimal_depth}: {'; '.join(parts)}" if parts else ""


def _half_and_twice(optimum: Located) -> Iterator[DepthCost]:
    """Yields the costs of the depths nearest to half and to twice the best, where there are any."""
    best = optimum.optimal_depth
    for factor in (0.5, 2.0):
        beside = [cost for cost in optimum.costs if (cost.depth > best) == (factor > 1)]
        if beside:
            yield min(beside, key=lambda cost: abs(log(cost.depth / (factor * best))))


def cost_text(cost: DepthCost, unit: Unit = NATS, suffix: str = "") -> str:
    """Returns a cost in a unit, followed by `suffix` and the 95 % interval."""
    low, high = unit.interval(cost.interval)
    return f"{price_text(cost, unit)}{suffix} [{low:+.4f} to {high:+.4f}]"


def price_text(cost: DepthCost, unit: Unit = NATS) -> str:
    """Returns what a depth costs in a unit."""
    return f"{unit.difference(cost.nats):+.4f}"


def _compute(multiple: ComputeMultiple | None) -> str:
    return f", {multiple_text(multiple, ' times the compute')}" if multiple else ""


def multiple_text(multiple: ComputeMultiple, unit: str = "") -> str:
    """Returns a multiple of compute with its 95 % interval."""
    low, high = multiple.interval
    return f"{_times(multiple.middle)}{unit} [{_times(low)} to {_times(high)}]"


def _times(value: float) -> str:
    return f"{value:.2f}" if value < TWO_DECIMALS else f"{value:,.0f}"
