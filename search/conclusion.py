"""Records become the answer: optima, law, audit, `best.yaml`, the report, MLflow's summary."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from fathom.search.analysis.law import Law, fit_laws
from fathom.search.analysis.optimum import Optimum, find_optima
from fathom.search.analysis.papers.findings import PaperFindings, find_paper_findings
from fathom.search.export.best import best_yaml
from fathom.search.records import TrialRecord
from fathom.search.report.answer_log import read_trails
from fathom.search.report.text import summary_table
from fathom.search.report.writer import write_report
from fathom.search.run_folder import RunFolder, write_atomically
from fathom.search.scheduling.audit import RungAudit, audit_stopping
from fathom.search.study.budget import expand_budgets
from fathom.search.study.config import StudyConfig, dump
from fathom.search.study.groups import TrackingConfig
from fathom.search.tracking.tracker import Tracker

DECIDING_PACKAGES = ("fathom-depth", "torch", "ray", "optuna", "mlflow", "numpy", "scipy")
"""Packages whose versions a result may depend on."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """All that a study has found so far."""

    optima: tuple[Optimum, ...]
    laws: tuple[Law, ...]
    audits: dict[int, tuple[RungAudit, ...]]
    """By budget."""
    papers: PaperFindings


def conclude(records: Sequence[TrialRecord], config: StudyConfig) -> Conclusion:
    """Every statistic, from the records alone."""
    optima = find_optima(records, seed=config.seed)
    return Conclusion(
        optima,
        fit_laws(optima),
        audit_budgets(records, config),
        find_paper_findings(records, seed=config.seed),
    )


def audit_budgets(
    records: Sequence[TrialRecord], config: StudyConfig
) -> dict[int, tuple[RungAudit, ...]]:
    """The audit of every budget that has records, as its own rule judged it."""
    audits = {}
    for budget in expand_budgets(config):
        own = [record for record in records if record.spec.budget == budget.params]
        if own:
            audits[budget.params] = audit_stopping(own, config.stopping)
    return audits


def publish(
    folder: RunFolder,
    config: StudyConfig,
    records: Sequence[TrialRecord],
    conclusion: Conclusion,
    tracker: Tracker,
) -> None:
    """Write best.yaml and the report, and hand both to MLflow with every trial."""
    for record in records:  # first, so that MLflow is busy with them while figures are drawn
        tracker.trial(record)
    for trail in read_trails(folder):
        tracker.trail(trail)
    write_atomically(folder.best, best_yaml(config, conclusion.optima))
    write_report(
        folder.path,
        records,
        conclusion.optima,
        conclusion.laws,
        conclusion.audits,
        conclusion.papers,
        study=config.study,
        settings=dump(config.model_copy(update={"tracking": TrackingConfig()})),
        versions=versions(),
        loss_unit=config.objective.loss_unit,
    )
    artifacts = (folder.config, folder.best, folder.report, *sorted(folder.figures.glob("*")))
    tracker.conclude(
        conclusion.optima,
        conclusion.laws,
        conclusion.audits,
        summary_table(conclusion.optima),
        artifacts,
    )


def versions() -> dict[str, str]:
    """What the result was made with."""
    return {"python": platform.python_version()} | {
        name: version(name) for name in DECIDING_PACKAGES
    }
