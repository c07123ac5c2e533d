"""The report page: the values of each section, rendered by the templates beside this file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fathom.search.analysis.law import Law
from fathom.search.analysis.optimum import Optimum
from fathom.search.analysis.papers.findings import PaperFindings
from fathom.search.formatting import format_count
from fathom.search.records import TrialRecord
from fathom.search.report.caveats import unsupported
from fathom.search.report.certainty import certainty
from fathom.search.report.charts.chart import Chart
from fathom.search.report.charts.page_figures import interactive, palette, plotly_script
from fathom.search.report.law_section import prediction_rows
from fathom.search.report.papers_section import papers_values
from fathom.search.report.provenance import provenance
from fathom.search.report.text import (
    answer,
    answer_row,
    counted,
    depth_text,
    interval,
    law_text,
    optional,
    plateau,
    question,
    sentence,
)
from fathom.search.scheduling.audit import RungAudit

TEMPLATES = Path(__file__).with_name("templates")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContent:
    """The findings, settings and versions that a report shows."""

    study: str
    records: Sequence[TrialRecord]
    optima: Sequence[Optimum]
    laws: Sequence[Law]
    audits: Mapping[int, Sequence[RungAudit]]
    """The audit of each rung, by budget."""
    papers: PaperFindings
    settings: str
    """The resolved config as text."""
    versions: Mapping[str, str]
    """Library -> version."""
    loss_unit: str
    """Unit of the objective's loss, for example `nats per token`."""


def page(report: PageContent, charts: Sequence[Chart]) -> str:
    """Returns the HTML of the whole page, readable without a network."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    budgets, trials = (
        counted(len(report.optima), "budget"),
        counted(len(report.records), "trial"),
    )
    return environment.get_template("report.html").render(
        study=report.study,
        extent=f"{budgets}, {trials}; losses are {report.loss_unit}",
        answers=[_answer(optimum) for optimum in report.optima],
        optima=[_table_row(optimum) for optimum in report.optima],
        laws=[law_text(law) for law in report.laws],
        predictions=prediction_rows(report.laws, report.optima),
        charts_across=[chart for chart in charts if chart.budget is None],
        budgets=[_budget(report, optimum, charts) for optimum in report.optima],
        limits=unsupported(report.records, report.optima, report.laws, report.audits),
        provenance=provenance(report.records, report.optima, report.versions),
        settings=report.settings,
        plotly=plotly_script(),
        charts={chart.key: interactive(chart) for chart in charts},
        palette=palette(charts),
        **papers_values(report.papers),
    )


def _answer(optimum: Optimum) -> dict[str, str]:
    return {
        "question": question(optimum),
        "depth": depth_text(optimum),
        "interval": interval(optimum),
        "plateau": plateau(optimum),
        "verdict": optimum.verdict,
        "reason": sentence(optimum.reason),
    }


def _table_row(optimum: Optimum) -> dict[str, str]:
    row = answer_row(optimum)
    return row | {"budget": f"{row['budget']} {row.pop('count')}"}


def _budget(report: PageContent, optimum: Optimum, charts: Sequence[Chart]) -> dict[str, Any]:
    rungs = report.audits.get(optimum.budget, ())
    label = format_count(optimum.budget)
    return {
        "anchor": f"budget-{optimum.budget}",
        "label": label,
        "heading": f"{label} {optimum.count.unit}",
        "answer": answer(optimum),
        "certainty": certainty(optimum),
        "charts": [chart for chart in charts if chart.budget == optimum.budget],
        "sentences": [sentence(rung.sentence) for rung in rungs],
        "audit": [_audit_row(rung) for rung in rungs],
    }


def _audit_row(rung: RungAudit) -> dict[str, str]:
    return {
        "rung (tokens)": format_count(rung.rung),
        "finished": str(rung.finished),
        "pairs": str(rung.pairs),
        "agreement": optional(rung.agreement, ".2f"),
        "depth bias": optional(rung.depth_lean, "+.2f"),
        "place of the best": optional(rung.place_of_best, "d"),
        "stopped": str(rung.stopped),
        "exempt": str(rung.exempt),
        "of these, the rule would stop": str(rung.spared),
        "regret (nats)": optional(rung.regret, ".4f"),
        "depths cut off": ", ".join(map(str, rung.cut_depths)) or "none",
    }
