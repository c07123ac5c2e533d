"""Reports on simulated studies, as a run would leave them, and what is to be read in them."""

import csv
import io
import re
from collections.abc import Callable, Sequence
from html import unescape
from pathlib import Path

from rich.console import Console

from fathom.search.analysis.answer.optimum import Located
from fathom.search.conclusion.conclude import Conclusion, conclude
from fathom.search.records import TrialRecord
from fathom.search.report.pages.page import page as page_of
from fathom.search.report.pages.writer import make_charts, write_report
from fathom.search.study.file.study_file import parse

BUDGETS = (300_000, 1_000_000, 3_000_000)
Optima = tuple[Located, ...]
Records = list[TrialRecord]


CONFIG = parse(
    "study: simulated\nbudgets: [300k, 1M, 3M]\nobjective: {name: language, corpus: stdlib}"
)


def conclusion_of(records: Sequence[TrialRecord], *, study: str = "simulated") -> Conclusion:
    """The conclusion of a run with these records."""
    return conclude(records, CONFIG.model_copy(update={"study": study}))


def page_on(records: Sequence[TrialRecord], **texts: str) -> str:
    """The page alone, without the figures for papers, which take longer."""
    conclusion = conclusion_of(records, **texts)
    return page_of(conclusion, make_charts(conclusion))


def publish(folder: Path, records: Sequence[TrialRecord]) -> str:
    """The page of a report that was written to a folder."""
    return write_report(conclusion_of(records), folder).read_text(encoding="utf-8")


def of_budget(records: Sequence[TrialRecord], budget: int) -> list[TrialRecord]:
    return [record for record in records if record.spec.budget == budget]


def printed(show: Callable[[Console], object]) -> str:
    """What a function prints on a wide console without colours."""
    file = io.StringIO()
    show(Console(file=file, width=200))
    return file.getvalue()


def visible(page: str) -> str:
    """The visible text of the page, without scripts and tags."""
    body = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", "", body)).split())


def rows(folder: Path, table: str) -> list[dict[str, str]]:
    with (folder / "tables" / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
