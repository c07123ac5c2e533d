"""Plans and answers as tables for people, plans also as JSON for programs."""

from typing import Any

from rich.console import Console
from rich.table import Table

from models.shape import Shape
from search.analysis.further import Further
from search.analysis.law import Law
from search.analysis.law_line import LOGARITHMIC
from search.analysis.optimum import Optimum
from search.analysis.verdict import Verdict
from search.budget import format_count
from search.config import StudyConfig
from search.durations import format_seconds
from search.plan import BudgetPlan, Machine
from search.report.further_words import further_lines
from search.report.words import interval, ranges

VERDICT_STYLES = {
    Verdict.IDENTIFIED: "green",
    Verdict.PLATEAU: "cyan",
    Verdict.EDGE: "yellow",
    Verdict.INSUFFICIENT: "red",
}


def plan_json(
    plans: tuple[BudgetPlan, ...], machine: Machine, *, price: float | None, with_shapes: bool
) -> dict[str, Any]:
    """The plan for programs; `device` is what `device_hours` and the price are of."""
    hours = machine.device_hours(plans)
    return {
        "budgets": [_plan_entry(plan, with_shapes) for plan in plans],
        "device": machine.device,
        "device_hours": hours,
        "cost": None if price is None else price * hours,
    }


def print_plan(
    config: StudyConfig,
    plans: tuple[BudgetPlan, ...],
    machine: Machine,
    console: Console,
    *,
    price: float | None = None,
    with_shapes: bool = False,
) -> None:
    """The plan for people."""
    table = empty_table(
        f"{config.study}: {config.count.unit_in_full}",
        ("budget", "shapes", "depths", "worst error", "trials", "tokens each", "FLOPs", "time"),
    )
    for plan in plans:
        table.add_row(
            plan.budget.label,
            str(len(plan.shapes)),
            ranges(plan.depths),
            f"{plan.worst_count_error:.2%}",
            f"{plan.exploring}+{plan.confirming}",
            _rounded(plan.budget.tokens),
            f"{plan.flops:.2g}",
            format_seconds(3600 * plan.hours),
        )
    console.print(table)
    console.print("[dim]trials: exploring + confirming, at most; the latter run to the end[/]")
    for plan in plans:
        if plan.rungs:
            console.print(f"{plan.budget.label}: {_rung_words(plan)}", highlight=False)
    total = format_seconds(3600 * sum(plan.hours for plan in plans))
    console.print(f"about {total} in all, on {machine.words}", highlight=False)
    hours = machine.device_hours(plans)
    cost = "" if price is None else f", which cost {price * hours:,.2f} at {price:g} an hour"
    console.print(f"that is {hours:.3g} {machine.device}-hours{cost}", highlight=False)
    if with_shapes:
        for plan in plans:
            console.print(_shape_table(plan))


def print_findings(
    config: StudyConfig,
    optima: tuple[Optimum, ...],
    laws: tuple[Law, ...],
    console: Console,
    *,
    further: Further | None = None,
) -> None:
    """All that a study has found: the optima, the law, and what else is given."""
    _print_optima(config, optima, console)
    _print_laws(laws, console)
    if further:
        print_further(further, console)


def _print_optima(config: StudyConfig, optima: tuple[Optimum, ...], console: Console) -> None:
    """The answer: one line a budget, then why for each verdict."""
    table = empty_table(
        f"{config.study}: optimal depth ({config.count.unit_in_full})",
        (
            "budget",
            "tokens",
            "depth",
            "95 %",
            "plateau",
            "d_model",
            "ff_ratio",
            "loss",
            "verdict",
        ),
    )
    for optimum in optima:
        table.add_row(*_optimum_row(optimum))
    console.print(table)
    for optimum in optima:
        console.print(f"{format_count(optimum.budget)}: {optimum.reason}", highlight=False)


def _print_laws(laws: tuple[Law, ...], console: Console) -> None:
    """The law across budgets, or nothing."""
    for law in laws[:1]:
        formula = (
            f"ln d_model = {law.a:.3f} + {law.b:.4f} depth"
            if law.name == LOGARITHMIC
            else f"ln depth = {law.a:.3f} + {law.b:.4f} ln params"
        )
        console.print(f"law: {formula} ({law.name})", highlight=False)


def print_further(further: Further, console: Console) -> None:
    """What else the records say, or nothing."""
    for line in further_lines(further):
        console.print(line, highlight=False, markup=False)


def empty_table(title: str, headings: tuple[str, ...]) -> Table:
    """An empty one; words to the left, numbers to the right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1))
    for heading in headings:
        words = heading in ("depths", "plateau", "verdict")
        # Of the words, a list of depths may wrap; a verdict may not.
        table.add_column(
            heading,
            justify="left" if words else "right",
            no_wrap=heading not in ("depths", "plateau"),
        )
    return table


def _plan_entry(plan: BudgetPlan, with_shapes: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "budget": plan.budget.params,
        "count": plan.budget.count.value,
        "tokens": plan.budget.tokens,
        "shapes": len(plan.shapes),
        "depths": list(plan.depths),
        "worst_count_error": plan.worst_count_error,
        "trials": plan.exploring + plan.confirming,
        "rungs": [
            {"tokens": rung.tokens, "arriving": rung.arriving, "surviving": rung.surviving}
            for rung in plan.rungs
        ],
        "flops": plan.flops,
        "hours": plan.hours,
    }
    if with_shapes:
        entry["shape_list"] = [_shape_entry(shape) for shape in plan.shapes]
    return entry


def _shape_entry(shape: Shape) -> dict[str, int]:
    names = ("depth", "d_model", "d_ff", "n_heads", "params_total", "params_non_embedding")
    return {name: getattr(shape, name) for name in names}


def _shape_table(plan: BudgetPlan) -> Table:
    names = ("depth", "d_model", "d_ff", "n_heads", "params_total", "params_non_embedding")
    table = empty_table(f"{plan.budget.label}: feasible shapes", names)
    for shape in plan.shapes:
        table.add_row(*(f"{value:,}" for value in _shape_entry(shape).values()))
    return table


def _rung_words(plan: BudgetPlan) -> str:
    steps = [
        f"at {_rounded(rung.tokens)} tokens {rung.surviving:.1f} of {rung.arriving:.1f} go on"
        for rung in plan.rungs
    ]
    return "expected " + ", ".join(steps)


def _optimum_row(optimum: Optimum) -> list[str]:
    shape = optimum.shape
    style = VERDICT_STYLES[optimum.verdict]
    return [
        format_count(optimum.budget),
        _rounded(optimum.tokens),
        str(optimum.optimal_depth or "-"),
        # Shorter than in the report, to leave room for the plateau in 80 columns.
        interval(optimum).replace(" or deeper", "+") or "-",
        ranges(optimum.plateau) or "-",
        str(shape.d_model) if shape else "-",
        f"{shape.ff_ratio:.2f}" if shape else "-",
        f"{optimum.loss:.4f}" if optimum.loss is not None else "-",
        f"[{style}]{optimum.verdict.value}[/]",
    ]


def _rounded(tokens: int) -> str:
    """Whole steps make horizons of many digits; three are enough to read."""
    return format_count(float(f"{tokens:.3g}"))
