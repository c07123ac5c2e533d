"""`fathom plan` for a study of several horizons: its tables."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from rich.console import Console

from fathom.search.commands.output import print_reply
from fathom.search.commands.plan_tables import print_plan
from fathom.search.formatting import format_bytes, format_seconds, rounded_count
from fathom.search.report.terminal.tables import empty_table
from fathom.search.study.hardware.machine import Machine
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.horizons import horizon_text
from fathom.search.study.planning.advice import plan_notes
from fathom.search.study.planning.horizon_plan import HorizonPlan, horizons_disk, plan_horizons
from fathom.search.study.planning.plan import vocab_size_of
from fathom.search.study.planning.shape_counter import try_own_model
from fathom.search.study.planning.shape_space import ShapeLimits


def show_plan(
    config: StudyConfig,
    machine: Machine,
    *,
    gpu: str | None,
    price: float | None,
    with_shapes: bool,
    command: str,
    as_json: bool,
) -> None:
    """Prints the plan of every horizon, and their sums; `command` searches the study."""
    vocab_size = vocab_size_of(config)
    plans = plan_horizons(config, vocab_size, machine)
    try_own_model(config, ShapeLimits.of(config, vocab_size).smallest())
    notes = [plan_notes(plan.config, plan.plans, machine, gpu) for plan in plans]
    if as_json:
        from fathom.search.contract.plans import Planned, horizons_plan_reply

        whole = replace(machine, notes=tuple(dict.fromkeys(chain.from_iterable(notes))))
        planned = Planned(machine=whole, price=price, with_shapes=with_shapes, command=command)
        print_reply(horizons_plan_reply(plans, planned))
        return
    console = Console()
    for plan, lines in zip(plans, notes, strict=True):
        noted = replace(machine, notes=lines)
        shapes = with_shapes and plan is plans[0]  # they are the same at every horizon
        print_plan(plan.config, plan.plans, noted, console, price=price, with_shapes=shapes)
        console.print()
    _print_sums(config, plans, machine, console)


def _print_sums(
    config: StudyConfig, plans: Sequence[HorizonPlan], machine: Machine, console: Console
) -> None:
    table = empty_table(f"{config.study}: all horizons", ("horizon", "tokens", "time"))
    rows = [(plan.tokens, plan.hours(machine)) for plan in plans]
    labels = [*(horizon_text(plan.horizon) for plan in plans), "all"]
    sums = tuple(map(sum, zip(*rows, strict=True)))
    for label, (tokens, hours) in zip(labels, [*rows, sums], strict=True):
        table.add_row(label, rounded_count(tokens), format_seconds(3600 * hours))
    console.print(table)
    disk = format_bytes(horizons_disk(plans, machine.slots))
    console.print(f"checkpoints of all horizons take up to {disk} of disk", highlight=False)
