"""Output of `fathom latency`: a table for each budget, the choice in words, and JSON."""

from collections.abc import Sequence

from rich.console import Console

from fathom.search.contract.reply import Reply, ServedBudget
from fathom.search.formatting import format_count
from fathom.search.report.terminal.tables import empty_table, print_text
from fathom.search.report.words.latency import (
    BudgetLatency,
    choice_text,
    latency_rows,
    request_text,
)
from fathom.search.serving.latency_file import latency_json

LEAST = ("cache", "weights", "tokens/s", "d_model", "ms prefill")
"""Columns to leave out in a narrow terminal, the first one first."""


def print_latency(found: Sequence[BudgetLatency], console: Console) -> None:
    """Prints the request and device of the times, and a table and the choice for each budget."""
    print_text(request_text(found[0].latency), console)
    for each in found:
        rows = latency_rows(each)
        label = f"{format_count(each.budget)} {each.losses.optimum.count.unit}"
        table = empty_table(label, tuple(rows[0]), LEAST)
        for row in rows:
            table.add_row(*row.values())
        console.print(table)
        print_text(choice_text(each), console)


def latency_reply(found: Sequence[BudgetLatency]) -> Reply:
    """The times and the choice of each budget, for `--json`."""
    budgets = (latency_json(each.latency) | {"choice": each.choice} for each in found)
    return Reply(command="latency", latency=tuple(map(ServedBudget.model_validate, budgets)))
