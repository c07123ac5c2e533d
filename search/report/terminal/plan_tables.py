"""Tables of a plan."""

from collections.abc import Iterator, Sequence

from rich.console import Console

from fathom.models.spend import Coin
from fathom.search.formatting import format_bytes, format_seconds, ranges, rounded_count
from fathom.search.report.terminal.tables import empty_table
from fathom.search.study.planning.advice import RunPlan
from fathom.search.study.planning.horizons import horizon_words
from fathom.search.study.planning.plan import BudgetPlan, Rung, largest_state, listed_sizes


def print_plans(
    study: str, runs: Sequence[RunPlan], console: Console, *, price: float | None, with_shapes: bool
) -> None:
    """Prints the plan of each run of a study, and their sums if there are several."""
    for run in runs:
        shapes = with_shapes and run is runs[0]  # they are the same at every horizon
        print_plan(run, console, price=price, with_shapes=shapes)
        if len(runs) > 1:
            console.print()
    if len(runs) > 1:
        _print_sums(study, runs, console)


def _print_sums(study: str, runs: Sequence[RunPlan], console: Console) -> None:
    table = empty_table(f"{study}: all horizons", ("horizon", "tokens", "time"))
    rows = [(horizon_words(run.config), run.tokens, run.hours) for run in runs]
    rows.append(("all", sum(run.tokens for run in runs), sum(run.hours for run in runs)))
    for label, tokens, hours in rows:
        table.add_row(label, rounded_count(tokens), format_seconds(3600 * hours))
    console.print(table)
    disk = format_bytes(max(run.disk for run in runs))
    console.print(f"checkpoints of all horizons take up to {disk} of disk", highlight=False)


def print_plan(
    run: RunPlan, console: Console, *, price: float | None = None, with_shapes: bool = False
) -> None:
    """Prints the plan of one run as tables."""
    config, plans, machine = run.config, run.budgets, run.machine
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
            _tokens_each(plan) + _epochs(plan),
            f"{plan.flops:.2g}",
            format_seconds(3600 * plan.hours),
        )
    console.print(table)
    note = "trials: exploring + confirming, at most; the latter run to the end"
    console.print(note, style="dim")
    if meaning := config.model.layer_meaning:
        console.print(f"layer: {meaning}", style="dim")
    for plan in plans:
        if line := _stopping(plan):
            console.print(line, highlight=False)
    for plan in plans if config.train.command is None else ():
        line = f"{plan.budget.label}: {plan.step.text(machine.memory)}"
        console.print(line, style="" if plan.step.enough else "yellow", highlight=False)
    total = format_seconds(3600 * run.hours)
    start = format_seconds(machine.start_seconds)
    text = f"about {total} in all, {start} of it to start and to report, on {machine.description}"
    console.print(text, highlight=False)
    hours = run.device_hours
    cost = "" if price is None else f": {price * hours:,.2f} at {price:g} an hour"
    console.print(f"that is {hours:.3g} {machine.device}-hours{cost}", highlight=False)
    disk = format_bytes(run.disk)
    copy = format_bytes(largest_state(config.train, plans))
    copied = f"; a trial keeps {copy} or more in its machine's memory, to save from"
    text = f"its checkpoints take up to {disk} of disk{copied * (machine.device == 'GPU')}"
    console.print(text, highlight=False)
    for note in machine.notes:
        console.print(note, style="yellow", highlight=False)
    if with_shapes:
        for plan in plans:
            print("\n".join(_shape_lines(plan)))


def _stopping(plan: BudgetPlan) -> str:
    """Number of exploring trials that continue after each rung, as text, for rungs that stop some;
    empty if none does."""
    stops = [rung for rung in plan.rungs if round(rung.surviving) < round(rung.arriving)]
    steps = (f"{rung.surviving:.0f} continue after {_rung_text(plan, rung)}" for rung in stops)
    text = ", ".join(steps)
    return text and f"{plan.budget.label}: of {plan.exploring} exploring trials, about {text}"


def _rung_text(plan: BudgetPlan, rung: Rung) -> str:
    coin = plan.budget.spend.coin
    if coin is Coin.TOKENS:
        return f"{rounded_count(rung.tokens)} tokens"
    return f"{100 * rung.tokens / plan.budget.tokens:.3g}% of the {coin}"


def _tokens_each(plan: BudgetPlan) -> str:
    """The tokens of a trial that runs to the end; fewest and most, where shapes differ."""
    fewest, most = map(rounded_count, plan.tokens_each)
    return most if fewest == most else f"{fewest} to {most}"


def _epochs(plan: BudgetPlan) -> str:
    """The epochs of a budget in words; empty if they are not known."""
    if plan.epochs is None:
        return ""
    return f" ({plan.epochs:.2g} epochs)" if plan.epochs >= 0.01 else " (<0.01 epochs)"


def _shape_lines(plan: BudgetPlan) -> Iterator[str]:
    """Yields the lines of a table of all shapes; rich would take a millisecond for each row."""
    listed = [listed_sizes(shape) for shape in plan.shapes]
    rows = [[*listed[0]], *([f"{value:,}" for value in sizes.values()] for sizes in listed)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    yield f"{plan.budget.label}: feasible shapes"
    for row in rows:
        yield "  ".join(map(str.rjust, row, widths))
