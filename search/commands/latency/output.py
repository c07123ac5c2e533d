"""Output of `fathom latency`: a table for each budget, the choice in words, and JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

from fathom.search.analysis.serving_choice import (
    Limits,
    ServedDepth,
    ServingChoice,
    choose_served,
)
from fathom.search.analysis.verdict import PLATEAU_WIDTH
from fathom.search.commands.latency.find import BudgetLosses
from fathom.search.formatting import format_bytes, format_count, ranges
from fathom.search.report.terminal.tables import empty_table, print_whole
from fathom.search.serving.latency_file import latency_json
from fathom.search.serving.values import Latency, ShapeTimes

HEADINGS = (
    *("depth", "d_model", "loss (nats)", "above the best", "ms a token", "ms prefill"),
    *("tokens/s", "weights", "cache"),
)
LEAST = ("cache", "weights", "tokens/s", "d_model", "ms prefill")
"""Columns that a narrow terminal leaves out, the first one first."""
NONE_UNDER = "No depth meets the limits."
WITHIN = f"within {PLATEAU_WIDTH} nats of the best (95 %)"


@dataclass(frozen=True, kw_only=True)
class BudgetLatency:
    """Times and losses of a budget together."""

    losses: BudgetLosses
    latency: Latency
    choice: ServingChoice | None
    """None without a posterior."""


def joined(losses: BudgetLosses, latency: Latency, limits: Limits) -> BudgetLatency:
    """Returns times, losses and choice of a budget."""
    choice = None
    if losses.posterior is not None:
        served = [_served(known, latency) for known in latency.times]
        choice = choose_served(losses.posterior, served, limits)
    return BudgetLatency(losses=losses, latency=latency, choice=choice)


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


def print_latency(found: Sequence[BudgetLatency], console: Console) -> None:
    """Prints where the times are from, and for each budget its table and its choice."""
    latency = found[0].latency
    request = latency.request
    many = "a prompt" if request.batch == 1 else f"{request.batch} prompts at a time, each"
    print_whole(
        f"{many} of {request.prompt} tokens and an answer of {request.tokens}; {latency.device}",
        console,
    )
    for each in found:
        _print_budget(each, console)


def _print_budget(each: BudgetLatency, console: Console) -> None:
    latency = each.latency
    label = f"{format_count(latency.budget)} {each.losses.optimum.count.unit}"
    table = empty_table(label, HEADINGS, LEAST)
    losses = {estimate.depth: estimate.loss for estimate in each.losses.optimum.depths}
    for times in latency.times:
        depth = times.shape.depth
        table.add_row(
            str(depth),
            str(times.shape.d_model),
            f"{losses[depth]:.4f}",
            _above(each.choice, depth),
            _milliseconds(times.token.seconds, measured=times.measured),
            _milliseconds(times.prefill.seconds, measured=times.measured),
            f"{latency.throughput(times):,.0f}",
            format_bytes(latency.weight_bytes(times.shape)),
            format_bytes(latency.cache_bytes(times.shape)),
        )
    console.print(table)
    print_whole(choice_text(each), console)


def _above(choice: ServingChoice | None, depth: int) -> str:
    """How far a depth lies above the best on offer, or how it stands to the limits."""
    if choice is None:
        return "-"
    offered = next((each for each in choice.offered if each.depth == depth), None)
    if offered is None:
        return "perhaps over a limit" if depth in choice.unsure else "over a limit"
    low, high = offered.cost_interval
    return "lowest" if depth == choice.best else f"{low:+.4f} to {high:+.4f}"


def _milliseconds(seconds: float, *, measured: bool) -> str:
    """A time in milliseconds; `~` marks one that is not measured."""
    return f"{'' if measured else '~'}{1000 * seconds:.3g}"


def choice_text(each: BudgetLatency) -> str:
    """Returns the two named depths of a budget in sentences, or why there are none."""
    choice = each.choice
    if choice is None:
        return "Nothing is chosen: losses take three depths that finished to be compared."
    unsure = _unsure_text(choice)
    if choice.best is None:
        return f"No depth is surely under the limits.{unsure}" if unsure else NONE_UNDER
    times = {known.shape.depth: known.token.seconds for known in each.latency.times}
    best = _timed(choice.best, times)
    fastest = "" if choice.fastest is None else _timed(choice.fastest, times)
    if not choice.best_is_sure:
        remedy = "" if unsure else "; more `confirm.seeds` tell depths apart"
        faster = f" Surely within them: {fastest}." if fastest else ""
        return f"Lowest loss: {best}, but not surely {WITHIN}{remedy}.{faster}{unsure}"
    if choice.fastest == choice.best:
        return f"Best: {best}, and no faster depth is surely {WITHIN}.{unsure}"
    return f"Best: {best}. Fastest {WITHIN}: {fastest}.{unsure}"


def _unsure_text(choice: ServingChoice) -> str:
    """The depths that may be under the limits or not, as a sentence; empty without any."""
    if not choice.unsure:
        return ""
    layers = "1 layer" if choice.unsure == (1,) else f"{ranges(choice.unsure)} layers"
    return f" {layers} may take more than a limit or less: the times are not known well enough."


def _timed(depth: int, seconds: Mapping[int, float]) -> str:
    """Layers of a depth and its time for a token."""
    layers = "1 layer" if depth == 1 else f"{depth} layers"
    return f"{layers} ({1000 * seconds[depth]:.3g} ms a token)"


def output_json(found: Sequence[BudgetLatency]) -> dict[str, Any]:
    """Returns latency.json, of these budgets, with the choice of each."""
    return {
        "budgets": [
            {
                **latency_json(each.latency),
                "choice": asdict(each.choice) if each.choice else None,
            }
            for each in found
        ]
    }
