"""Publishes what a run has come to, at its end or again from its records: best.yaml, the report and
MLflow's pages."""

import fcntl
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from fathom.search import run_folder
from fathom.search.conclusion.conclude import Conclusion, conclude_run
from fathom.search.export.best import best_yaml
from fathom.search.report.writer import write_report
from fathom.search.scheduling.journal import read_run
from fathom.search.study.keys.config import StudyConfig, dump
from fathom.search.study.preflight import load_run, without_passwords
from fathom.search.study.store_uri import without_credentials
from fathom.search.tracking.artifacts import strange_artifacts
from fathom.search.tracking.messages import TrackedStudy
from fathom.search.tracking.tracker import Tracker


@dataclass(frozen=True, slots=True)
class RunResult:
    """The conclusion of a run and its folder."""

    folder: run_folder.RunFolder
    conclusion: Conclusion
    untracked: str = ""
    """Why a report was not written to MLflow, where its store is not to be trusted."""


def report_study(path: Path, *, trust: bool = False) -> RunResult:
    """Concludes again from the records of a run folder, even while a search writes them, and
    rewrites its report.

    MLflow is written too, but only with `trust` a store that the folder's `config.yaml` names, and
    artifacts outside the folder of a store.

    Raises:
        RunFolderError: if the folder is not a run folder.
    """
    folder, config = load_run(path)
    with ExitStack() as held:
        searched = not _held(held, folder)  # it then mirrors itself into MLflow
        # Refused before MLflow, or a report that still has the answers, sees any of it.
        past = read_run(folder, config, at_rest=not searched)
        tracker, untracked = None, _untracked(config, folder.path.parent, trust=trust)
        if not searched and not untracked:
            uri = config.tracking.uri or run_folder.default_tracking_uri(folder.path.parent)
            study = TrackedStudy(
                uri=uri,
                study=config.study,
                folder=folder.path,
                config_text=dump(without_passwords(config)),
                trusted=trust or run_folder.is_named_store(config.tracking.uri),
            )
            tracker = held.enter_context(Tracker(study))
        conclusion = conclude_run(folder, config, past)
        if tracker:
            tracker.confirm()
        publish(folder, conclusion, tracker)
    return RunResult(folder, conclusion, untracked)


def _untracked(config: StudyConfig, runs: Path, *, trust: bool) -> str:
    """Returns why a report is not written to MLflow; empty if it may be."""
    if trust:
        return ""
    if uri := config.tracking.uri:
        return f"the run names {without_credentials(uri)}; add --trust"
    if run_folder.is_named_store(uri):
        return ""
    return strange_artifacts(run_folder.default_tracking_uri(runs), config.study)


def publish(folder: run_folder.RunFolder, conclusion: Conclusion, tracker: Tracker | None) -> None:
    """Writes best.yaml and the report, and sends the conclusion to MLflow if there is a tracker."""
    with (folder.state / "report.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a report and a search that ends write the same files
        run_folder.write_atomically(folder.best, best_yaml(conclusion))
        write_report(conclusion, folder.path)
    if tracker:
        tracker.conclude(conclusion)


def _held(held: ExitStack, folder: run_folder.RunFolder) -> bool:
    """Locks the folder until `held` is closed; returns False if another process has it."""
    try:
        held.enter_context(run_folder.locked(folder))
    except run_folder.InUseError:
        return False
    return True
