"""Answers at equal operations, seconds or tokens on a terminal."""

from rich.console import Console

from fathom.search.conclusion.findings import Findings
from fathom.search.report.equal_spend import equal_notes, equal_rows
from fathom.search.report.terminal.tables import empty_table, print_text

LEAST = ("not ruled out", "read from", "amount")
"""Columns that a narrow terminal leaves out, the first one first."""


def print_equal_spends(conclusion: Findings, console: Console) -> None:
    """Prints the answers that are read off learning curves, and how; nothing without any."""
    rows = equal_rows(conclusion)
    if rows:
        table = empty_table("Best depth at equal spending", tuple(rows[0]), LEAST)
        for row in rows:
            table.add_row(*(cell or "-" for cell in row.values()))
        console.print(table)
    for note in equal_notes(conclusion):
        print_text(note, console)
