"""The report of a run: one page to look at, its figures for papers, its numbers as CSV."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fathom.search.analysis.law import Law
from fathom.search.analysis.optimum import Optimum
from fathom.search.analysis.papers.findings import PaperFindings
from fathom.search.records import Outcome, TrialRecord
from fathom.search.report.charts.chart import Chart
from fathom.search.report.charts.cost import loss_against_flops, loss_against_step_time
from fathom.search.report.charts.depth import loss_against_depth
from fathom.search.report.charts.law import depth_against_budget
from fathom.search.report.charts.paper_figures import save_static
from fathom.search.report.charts.sizes import loss_against_size
from fathom.search.report.charts.trials import learning_curves
from fathom.search.report.csv_tables import save_tables, shape_values, tables
from fathom.search.report.page import PageContent, page
from fathom.search.scheduling.audit import RungAudit

FIGURES = (".png", ".svg")
TABLES = (".csv",)


def write_report(
    run_folder: Path,
    records: Sequence[TrialRecord],
    optima: Sequence[Optimum],
    laws: Sequence[Law],
    audits: Mapping[int, Sequence[RungAudit]],
    papers: PaperFindings,
    *,
    study: str,
    settings: str,
    versions: Mapping[str, str],
    loss_unit: str,
) -> Path:
    """Write `report.html`, `figures/` and `tables/` into the run's folder; returns the page's path.

    The same arguments give the same bytes. Everything is written aside first and then moved, the
    page last, so that an interruption leaves an earlier report whole.
    """
    report = PageContent(
        study=study,
        records=records,
        optima=optima,
        laws=laws,
        audits=audits,
        papers=papers,
        settings=settings,
        versions=versions,
        loss_unit=loss_unit,
    )
    charts = make_charts(records, optima, laws, papers)
    with TemporaryDirectory(dir=run_folder, prefix=".report-") as aside:
        draft = Path(aside)
        (draft / "figures").mkdir()
        (draft / "tables").mkdir()
        save_static(charts, draft / "figures")
        save_tables(draft / "tables", tables(records, optima, laws, audits, papers))
        (draft / "report.html").write_text(page(report, charts), encoding="utf-8")
        _publish(draft / "figures", run_folder / "figures", FIGURES)
        _publish(draft / "tables", run_folder / "tables", TABLES)
        os.replace(draft / "report.html", run_folder / "report.html")
    return run_folder / "report.html"


def make_charts(
    records: Sequence[TrialRecord],
    optima: Sequence[Optimum],
    laws: Sequence[Law],
    papers: PaperFindings,
) -> tuple[Chart, ...]:
    """Every chart for which there is something to show: across budgets first, then by budget."""
    charts = [
        depth_against_budget(optima, laws),
        loss_against_size(optima, papers.crossings),
    ]
    for optimum in optima:
        own = [record for record in records if record.spec.budget == optimum.budget]
        charts += [
            loss_against_depth(own, optimum),
            learning_curves(own, optimum),
            loss_against_step_time(own, optimum),
            loss_against_flops(own, optimum),
        ]
    return tuple(chart for chart in charts if chart is not None)


def _publish(draft: Path, folder: Path, suffixes: Sequence[str]) -> None:
    """Move new files over old ones, then drop those that an earlier report had and this has not."""
    folder.mkdir(exist_ok=True)
    names = {path.name for path in draft.iterdir()}
    for name in sorted(names):
        os.replace(draft / name, folder / name)
    for path in folder.iterdir():
        if path.suffix in suffixes and path.name not in names:
            path.unlink()


def report_json(
    study: str,
    optima: Sequence[Optimum],
    laws: Sequence[Law],
    audits: Mapping[int, Sequence[RungAudit]],
    papers: PaperFindings,
) -> dict[str, Any]:
    """The answers for programs; `law` is the best one, None when none was fitted.

    `rungs` of a budget audit its stopping. `crossings` is None, `needs` and `matched` are empty,
    where the records say nothing of them.
    """
    return {
        "study": study,
        "budgets": [_budget_json(own, audits.get(own.budget, ())) for own in optima],
        "law": _law_json(laws[0]) if laws else None,
        **asdict(papers),
    }


def _budget_json(optimum: Optimum, audits: Sequence[RungAudit]) -> dict[str, Any]:
    counts = optimum.trials
    return {
        "budget": optimum.budget,
        "count": optimum.count.value,
        "tokens": optimum.tokens,
        "optimal_depth": optimum.optimal_depth,
        "interval": list(optimum.interval) if optimum.interval else None,
        "plateau": list(optimum.plateau),
        "verdict": optimum.verdict.value,
        "shape": shape_values(optimum.shape) if optimum.shape else None,
        "loss": optimum.loss,
        "trials": {
            "finished": counts[Outcome.FINISHED],
            "stopped": counts[Outcome.STOPPED],
            "diverged": counts[Outcome.DIVERGED],
            # Four outcomes are promised; running out of memory is one way to fail.
            "failed": counts[Outcome.FAILED] + counts[Outcome.OUT_OF_MEMORY],
        },
        "reason": optimum.reason,
        "shallowest": optimum.shallowest,
        "vertex": optimum.vertex,
        "vertex_interval": list(optimum.vertex_interval) if optimum.vertex_interval else None,
        "disagreement": optimum.disagreement,
        "dropped": optimum.dropped,
        "noise": optimum.noise,
        "params_slope": optimum.params_slope,
        "best_ratio": optimum.best_ratio,
        "depths": [asdict(own) for own in optimum.depths],
        "power": asdict(optimum.power) if optimum.power else None,
        "parabola": asdict(optimum.parabola) if optimum.parabola else None,
        "rungs": [asdict(audit) for audit in audits],
    }


def _law_json(law: Law) -> dict[str, Any]:
    lists = {
        "covariance": [list(row) for row in law.covariance],
        "params_range": list(law.params_range),
    }
    return asdict(law) | lists
