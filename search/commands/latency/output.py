"""Output of `fathom latency`: a table for each budget, the choice in words, and JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

from fathom.search.analysis.serving_choice import (
    Limits,
    OfferedDepth,
    ServedDepth,
    ServingChoice,
    choose_served,
)
from fathom.search.analysis.verdict import PLATEAU_WIDTH
from fathom.search.commands.latency.find import BudgetLosses
from fathom.search.formatting import format_bytes, format_count
from fathom.search.report.terminal.tables import empty_table, print_whole
from fathom.search.serving.latency_file import latency_json
from fathom.search.serving.values import Latency, ShapeTimes

HEADINGS = (
    *("depth", "d_model", "loss (nats)", "above the best", "ms a token", "ms prefill"),
    *("tokens/s", "weights", "cache"),
)
LEAST = ("cache", "weights", "tokens/s", "d_model", "ms prefill")
"""Columns that a narrow terminal leaves out, the first one first."""


@dataclass(frozen=True, kw_only=True)
class BudgetLatency:
    """Times and losses of a budget together."""

    losses: BudgetLosses
    times: tuple[ShapeTimes, ...]
    choice: ServingChoice | None
    """None without a posterior."""

    @property
    def budget(self) -> int:
        """Size of the budget."""
        return self.losses.optimum.budget


def joined(
    budgets: Sequence[BudgetLosses], latency: Latency, limits: Limits
) -> list[BudgetLatency]:
    """Returns times, losses and choice of each budget."""
    found = []
    for losses in budgets:
        times, choice = latency.times[losses.optimum.budget], None
        if losses.posterior is not None:
            served = [_served(known, latency) for known in times]
            choice = choose_served(losses.posterior, served, limits)
        found.append(BudgetLatency(losses=losses, times=times, choice=choice))
    return found


def _served(times: ShapeTimes, latency: Latency) -> ServedDepth:
    return ServedDepth(
        depth=times.shape.depth,
        token_seconds=times.token.seconds,
        token_error=times.token.error,
        prefill_seconds=times.prefill.seconds,
        prefill_error=times.prefill.error,
        weight_bytes=latency.weight_bytes(times.shape),
        cache_bytes=latency.cache_bytes(times.shape),
    )


def print_latency(found: Sequence[BudgetLatency], latency: Latency, console: Console) -> None:
    """Prints where the times are from, and for each budget its table and its choice."""
    request = latency.request
    many = "a prompt" if request.batch == 1 else f"{request.batch} prompts at a time, each"
    print_whole(
        f"{many} of {request.prompt} tokens and an answer of {request.tokens}; {latency.device}",
        console,
    )
    for each in found:
        _print_budget(each, latency, console)


def _print_budget(each: BudgetLatency, latency: Latency, console: Console) -> None:
    label = f"{format_count(each.budget)} {each.losses.optimum.count.unit}"
    table = empty_table(label, HEADINGS, LEAST)
    choice = each.choice
    offered = {o.depth: o for o in choice.offered} if choice else {}
    losses = {estimate.depth: estimate.loss for estimate in each.losses.optimum.depths}
    for times in each.times:
        depth = times.shape.depth
        table.add_row(
            str(depth),
            str(times.shape.d_model),
            f"{losses[depth]:.4f}",
            _above(offered.get(depth), is_known=choice is not None),
            _milliseconds(times.token.seconds, measured=times.measured),
            _milliseconds(times.prefill.seconds, measured=times.measured),
            f"{latency.throughput(times):,.0f}",
            format_bytes(latency.weight_bytes(times.shape)),
            format_bytes(latency.cache_bytes(times.shape)),
        )
    console.print(table)
    print_whole(choice_text(each), console)


def _above(offered: OfferedDepth | None, *, is_known: bool) -> str:
    if offered is None:
        return "over a limit" if is_known else "-"
    low, high = offered.cost_interval
    return "the best" if low == high else f"{low:+.4f} to {high:+.4f}"


def _milliseconds(seconds: float, *, measured: bool) -> str:
    """A time in milliseconds; `~` marks one that is not measured."""
    return f"{'' if measured else '~'}{1000 * seconds:.3g}"


def choice_text(each: BudgetLatency) -> str:
    """Returns the two named depths of a budget in a sentence, or why there are none."""
    choice = each.choice
    if choice is None:
        return "Nothing is chosen: losses take three depths that finished to be compared."
    if choice.best is None:
        return "No depth meets the limits."
    times = {known.shape.depth: known.token.seconds for known in each.times}
    best = f"{_layers(choice.best)} ({1000 * times[choice.best]:.3g} ms a token)"
    if choice.fastest is None:
        return (
            f"Best: {best}. No depth is surely (95 %) within {PLATEAU_WIDTH} nats of the best, so "
            "that no faster one is named; more `confirm.seeds` tell them apart."
        )
    if choice.fastest == choice.best:
        return f"Best: {best}, and no faster depth is surely (95 %) within {PLATEAU_WIDTH} nats."
    fastest = f"{_layers(choice.fastest)} ({1000 * times[choice.fastest]:.3g} ms a token)"
    return f"Best: {best}. Fastest within {PLATEAU_WIDTH} nats of the best (95 %): {fastest}."


def _layers(depth: int) -> str:
    return "1 layer" if depth == 1 else f"{depth} layers"


def output_json(found: Sequence[BudgetLatency], latency: Latency) -> dict[str, Any]:
    """Returns latency.json with the choice of each budget."""
    values = latency_json(latency)
    for entry, each in zip(values["budgets"], found, strict=True):
        entry["choice"] = asdict(each.choice) if each.choice else None
    return values
