"""Publishes the conclusion of a run, at its end or later from its records: best.yaml, the report
and MLflow's pages."""

import fcntl
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fathom.search import run_folder
from fathom.search.analysis.laws.token_law import TokenLaw
from fathom.search.conclusion.conclude import Conclusion, conclude_run
from fathom.search.conclusion.token_laws import PartLaw, token_laws_of, write_token_laws
from fathom.search.export.best import HORIZON, best_entries, best_yaml, entries_yaml
from fathom.search.report.pages.horizons import horizons_page, law_sentence, write_horizons
from fathom.search.report.pages.writer import write_report
from fathom.search.report.words.text import next_steps
from fathom.search.scheduling.journal import read_run
from fathom.search.study.file.study_file import dump
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.horizons import horizon_name
from fathom.search.study.preflight import without_passwords
from fathom.search.study.runs import StudyRun, kept_runs, load_folder
from fathom.search.study.store_uri import TrackingError, without_credentials
from fathom.search.tracking.stores.artifacts import strange_artifacts
from fathom.search.tracking.stores.messages import TrackedStudy
from fathom.search.tracking.writing.tracker import Tracker


@dataclass(frozen=True, slots=True)
class RunResult:
    """The conclusion of a run and its folder."""

    folder: run_folder.RunFolder
    conclusion: Conclusion
    untracked: str = ""
    """Reason why a report was not written to MLflow, if the store is not to be trusted."""

    @property
    def horizon(self) -> str | None:
        """Short name of the run's horizon; None if the study has only one."""
        return horizon_name(self.conclusion.config)


@dataclass(frozen=True)
class StudyResult:
    """The results of the runs of a study."""

    folder: run_folder.RunFolder
    """The run folder of the study; for a study of one run, that run's folder."""
    config: StudyConfig
    runs: tuple[RunResult, ...]
    """Runs whose search has begun, in order of ascending horizon."""

    @property
    def conclusions(self) -> Sequence[Conclusion]:
        """The conclusion of each run."""
        return [run.conclusion for run in self.runs]

    @cached_property
    def law(self) -> PartLaw | None:
        """The law over parameters and tokens; None if there is none, as with a single horizon."""
        return next(iter(token_laws_of(self.conclusions)), None)

    @property
    def token_law(self) -> TokenLaw | None:
        """The law over parameters and tokens alone, without the losses that accompany it."""
        return self.law.law if self.law else None

    @property
    def law_sentence(self) -> str:
        """The law over parameters and tokens in words, or why there is none."""
        return law_sentence(self.conclusions, self.token_law)

    @property
    def next_steps(self) -> list[str]:
        """The commands that use the answers; with several horizons, the answers of the longest
        horizon that has a settled one."""
        several, source = self.config.horizons, str(self.folder.path)
        steps = (
            next_steps(run.conclusion, source, run.horizon if several else None)
            for run in reversed(self.runs)
        )
        return next(filter(None, steps), [])

    def page(self, link: str = "{}/report.html") -> str:
        """Returns the page of all horizons; `link` is the address of a horizon's report, with `{}`
        in place of the name of its study."""
        return horizons_page(self.config, self.conclusions, self.token_law, link=link)


def study_result(path: Path) -> StudyResult:
    """Returns the results of a run folder, concluded from the records of its runs.

    Raises:
        RunFolderError: if the folder is not a run folder.
        DamagedFileError: at a record that can't be read.
    """
    folder, config = load_folder(path)
    begun = [run for run in kept_runs(folder, config) if run.began]
    runs = (
        RunResult(run.folder, conclude_run(run.folder, run.config, past))
        for run in begun
        for past in [read_run(run.folder, run.config)]
    )
    return StudyResult(folder, config, tuple(runs))


def report_study(path: Path, *, trust: bool = False) -> StudyResult:
    """Computes the conclusions of a run folder again from its records, even while a search writes
    them, and rewrites the reports.

    The conclusions are also written to MLflow. Only with `trust` may they go to a store that a
    `config.yaml` of the folder names, or artifacts to a place outside the store's folder.

    Raises:
        RunFolderError: if the folder is not a run folder.
    """
    folder, config = load_folder(path)
    runs = (_report_run(run, trust=trust) for run in kept_runs(folder, config) if run.began)
    result = StudyResult(folder, config, tuple(runs))
    publish_study(result)
    return result


def publish_study(result: StudyResult) -> None:
    """Writes best.yaml, the law and the page of all horizons into the folder of a study with
    several horizons; with one horizon there is nothing to do, since the run has written its
    files."""
    if not result.config.horizons:
        return
    entries = [
        {HORIZON: run.horizon, **entry}
        for run in result.runs
        for entry in best_entries(run.conclusion)
    ]
    run_folder.write_atomically(result.folder.best, entries_yaml(result.config, entries))
    if result.law:
        write_token_laws(result.folder.token_law, [result.law])
    else:
        result.folder.token_law.unlink(missing_ok=True)
    write_horizons(result.folder.path, result.page(), result.conclusions, result.token_law)


def _report_run(run: StudyRun, *, trust: bool) -> RunResult:
    """Computes the conclusion of one run again from its records, and rewrites its report."""
    folder, config = run.folder, run.config
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
                began=past.began,
            )
            tracker = held.enter_context(Tracker(study))
        conclusion = conclude_run(folder, config, past)
        try:
            if tracker:
                tracker.confirm()
        except TrackingError as error:  # the report does not need MLflow
            tracker, untracked = None, str(error)
        publish(folder, conclusion, tracker)
    return RunResult(folder, conclusion, untracked)


def _untracked(config: StudyConfig, runs: Path, *, trust: bool) -> str:
    """Returns why a report is not to be written to MLflow; empty if it may be written."""
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
    """Locks the folder until `held` is closed; returns False if another process has locked it."""
    try:
        held.enter_context(run_folder.locked(folder))
    except run_folder.InUseError:
        return False
    return True
