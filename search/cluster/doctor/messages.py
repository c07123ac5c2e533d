"""The findings for people, and for programs."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fathom.search.cluster.doctor.facts import Finding, Severity

STYLES = {Severity.OK: "green", Severity.WARNING: "yellow", Severity.FAILURE: "red"}


def would_work(findings: Sequence[Finding]) -> bool:
    """Whether nothing that was found makes a search fail."""
    return all(found.level is not Severity.FAILURE for found in findings)


def print_findings(findings: Sequence[Finding], console: Console) -> None:
    """One entry a finding, its remedy after it; then the verdict."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for found in findings:
        words = Text(found.words)
        if found.remedy:
            words.append(f" -> {found.remedy}", style="bold")
        level = Text(found.level.value, style=STYLES[found.level])
        table.add_row(level, found.subject, words)
    console.print(table)
    console.print(_verdict(findings), highlight=False)


def findings_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """Everything, for programs."""
    keys = ("level", "subject", "words", "remedy")
    entries = [{key: getattr(found, key) for key in keys} for found in findings]
    return {"works": would_work(findings), "findings": entries}


def _verdict(findings: Sequence[Finding]) -> str:
    count = {level: sum(found.level is level for found in findings) for level in Severity}
    answer = "A search would work here" if would_work(findings) else "A search would fail here"
    many = [
        f"{count[level] or 'no'} {level.value}{'' if count[level] < 2 else 's'}"
        for level in (Severity.FAILURE, Severity.WARNING)
    ]
    return f"{answer}: {', '.join(many)}"
