"""Times of a run's depths beside their losses: rows of a table, and the choice in words.

The command `fathom latency` and the report both use this text.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fathom.models.shape import Shape
from fathom.search.analysis.answer.definitions import loss_of
from fathom.search.analysis.answer.finding import find_with_posterior
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.answer.verdict import PLATEAU_WIDTH
from fathom.search.analysis.curve.posterior import Posterior
from fathom.search.analysis.spending.serving_choice import (
    Limits,
    ServedDepth,
    ServingChoice,
    choose_served,
)
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.formatting import format_bytes, ranges
from fathom.search.report.words.text import optional
from fathom.search.run_folder import RunFolder
from fathom.search.serving.latency_file import read_latency
from fathom.search.serving.values import Latency, ShapeTimes

NONE_UNDER = "No depth meets the limits."
WITHIN = f"within {PLATEAU_WIDTH} nats of the best (95 %)"


@dataclass(frozen=True, kw_only=True)
class BudgetLosses:
    """The losses of a budget's depths."""

    optimum: Optimum
    posterior: Posterior | None
    """None with fewer than three finished depths."""

    @property
    def shapes(self) -> list[Shape]:
        """The best shape of each finished depth, by ascending depth."""
        return [estimate.shape for estimate in self.optimum.depths]


@dataclass(frozen=True, kw_only=True)
class BudgetLatency:
    """Times and losses of a budget together."""

    losses: BudgetLosses
    latency: Latency
    choice: ServingChoice | None
    """None without a posterior."""

    @property
    def budget(self) -> int:
        """Size of the budget."""
        return self.latency.budget

    @property
    def is_current(self) -> bool:
        """True if the times are of the best shapes of all depths that have finished."""
        return [times.shape for times in self.latency.times] == self.losses.shapes


def kept_latency(conclusion: Conclusion, folder: RunFolder) -> list[BudgetLatency]:
    """Returns what `fathom latency` found last for the budgets of a run, without limits."""
    latencies = read_latency(folder)
    return [
        _kept(conclusion, optimum, latencies[optimum.budget])
        for optimum in conclusion.optima
        if optimum.budget in latencies
    ]


def _kept(conclusion: Conclusion, optimum: Optimum, latency: Latency) -> BudgetLatency:
    found = BudgetLatency(
        losses=BudgetLosses(optimum=optimum, posterior=None), latency=latency, choice=None
    )
    if not found.is_current:
        return found
    records = conclusion.records_of(optimum.budget)
    _, posterior = find_with_posterior(records, seed=conclusion.seed)
    return joined(BudgetLosses(optimum=optimum, posterior=posterior), latency, Limits())


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


def request_text(latency: Latency) -> str:
    """Returns what was timed, and where."""
    request = latency.request
    many = "a prompt" if request.batch == 1 else f"{request.batch} prompts at a time, each"
    asked = f"{many} of {request.prompt} tokens and an answer of {request.tokens}"
    return f"{asked}; {latency.device}"


def latency_rows(each: BudgetLatency) -> list[dict[str, str]]:
    """Returns a row for each depth, as texts by heading; `~` marks a time that is not measured."""
    latency = each.latency
    return [
        {
            "depth": str(times.shape.depth),
            "d_model": str(times.shape.d_model),
            "loss (nats)": optional(loss_of(each.losses.optimum, times.shape.depth), ".4f"),
            "above the best": _above(each.choice, times.shape.depth),
            "ms a token": _milliseconds(times.token.seconds, measured=times.measured),
            "ms prefill": _milliseconds(times.prefill.seconds, measured=times.measured),
            "tokens/s": f"{latency.throughput(times):,.0f}",
            "weights": format_bytes(latency.weight_bytes(times.shape)),
            "cache": format_bytes(latency.cache_bytes(times.shape)),
        }
        for times in latency.times
    ]


def _above(choice: ServingChoice | None, depth: int) -> str:
    """The distance in loss of a depth from the best depth on offer, or that it exceeds a limit, as
    text."""
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
        return "Nothing is chosen: to compare losses takes three finished depths."
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
    """A sentence on the depths of which it is unsure whether they meet the limits; empty without
    any."""
    if not choice.unsure:
        return ""
    layers = "1 layer" if choice.unsure == (1,) else f"{ranges(choice.unsure)} layers"
    return f" {layers} may or may not exceed a limit: the times are not known well enough."


def _timed(depth: int, seconds: Mapping[int, float]) -> str:
    """A depth in layers, and its time per token, as text."""
    layers = "1 layer" if depth == 1 else f"{depth} layers"
    return f"{layers} ({1000 * seconds[depth]:.3g} ms a token)"
