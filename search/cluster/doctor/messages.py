"""Prints the findings of `fathom doctor` as a table."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fathom.search.cluster.doctor.facts import Finding, Severity

STYLES = {Severity.OK: "green", Severity.WARNING: "yellow", Severity.FAILURE: "red"}


def would_work(findings: Sequence[Finding]) -> bool:
    """True if none of the findings would make a search fail."""
    return all(found.level is not Severity.FAILURE for found in findings)


def print_findings(findings: Sequence[Finding], console: Console) -> None:
    """Prints one row per finding with its remedy, then the verdict."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for found in findings:
        text = Text(found.message)
        if found.remedy:
            text.append(f" -> {found.remedy}", style="bold")
        table.add_row(Text(found.level.value, style=STYLES[found.level]), found.subject, text)
    console.print(table)
    console.print(_verdict(findings), highlight=False)


def _verdict(findings: Sequence[Finding]) -> str:
    levels = [found.level for found in findings]
    answer = "A search would work here" if would_work(findings) else "A search would fail here"
    counts = [
        f"{levels.count(level) or 'no'} {level.value}{'' if levels.count(level) < 2 else 's'}"
        for level in (Severity.FAILURE, Severity.WARNING)
    ]
    return f"{answer}: {', '.join(counts)}"
