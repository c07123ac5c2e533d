"""Reports on simulated studies, as a run would leave them, and what is to be read in them."""

import csv
import re
from collections.abc import Sequence
from html import unescape
from pathlib import Path

from fathom.search.analysis.law import fit_laws
from fathom.search.analysis.optimum import find_optima
from fathom.search.analysis.papers.findings import find_paper_findings
from fathom.search.records import TrialRecord
from fathom.search.report.page import PageContent
from fathom.search.report.page import page as page_of
from fathom.search.report.writer import make_charts, write_report
from fathom.search.scheduling.audit import audit_stopping

BUDGETS = (300_000, 1_000_000, 3_000_000)


def report_on(
    records: Sequence[TrialRecord], *, study: str = "simulated", settings: str = ""
) -> PageContent:
    """What a run with these records would report."""
    optima = find_optima(records, seed=0)
    return PageContent(
        study=study,
        records=records,
        optima=optima,
        laws=fit_laws(optima),
        audits={o.budget: audit_stopping(of_budget(records, o.budget)) for o in optima},
        papers=find_paper_findings(records, seed=0),
        settings=settings,
        versions={"torch": "2.13.0"},
        loss_unit="nats per token",
    )


def page_on(records: Sequence[TrialRecord], **texts: str) -> str:
    """The page alone, without the figures for papers, which take longer."""
    report = report_on(records, **texts)
    return page_of(report, make_charts(records, report.optima, report.laws, report.papers))


def publish(folder: Path, records: Sequence[TrialRecord]) -> str:
    """The page of a report that was written to a folder."""
    report = report_on(records)
    path = write_report(
        folder,
        records,
        report.optima,
        report.laws,
        report.audits,
        report.papers,
        study=report.study,
        settings=report.settings,
        versions=report.versions,
        loss_unit=report.loss_unit,
    )
    return path.read_text(encoding="utf-8")


def of_budget(records: Sequence[TrialRecord], budget: int) -> list[TrialRecord]:
    return [record for record in records if record.spec.budget == budget]


def visible(page: str) -> str:
    """The words of the page, without its scripts and its marks."""
    body = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", "", body)).split())


def rows(folder: Path, table: str) -> list[dict[str, str]]:
    with (folder / "tables" / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
