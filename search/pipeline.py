"""The steps of `fathom run`, from a checked study to its answer."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from rich.console import Console

from fathom.objectives.contract import Objective, content_digest_of, data_digest_of
from fathom.objectives.prepare import prepare
from fathom.search.cluster.disk_space import DiskSpace
from fathom.search.cluster.interrupt import Interrupt
from fathom.search.cluster.ray_session import cluster_address, start_ray
from fathom.search.cluster.time_limit import TimeLimit
from fathom.search.cluster.tune import run_trials
from fathom.search.conclusion import Conclusion, audit_budgets, conclude
from fathom.search.export.best import best_yaml
from fathom.search.records import TrialRecord
from fathom.search.report.terminal.progress import Progress
from fathom.search.report.terminal.steps import Steps
from fathom.search.report.writer import write_report
from fathom.search.run_folder import (
    InUseError,
    RunFolder,
    default_tracking_uri,
    locked,
    token_cache,
    write_atomically,
)
from fathom.search.scheduling.extend import extend, forget_checkpoints
from fathom.search.scheduling.journal import read_past, unfinished_budgets
from fathom.search.scheduling.optuna_studies import FileStudies, Studies, open_database
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.fingerprint import (
    keep_content,
    settled_fingerprint,
    write_fingerprint,
)
from fathom.search.study.hardware.machine import speed_key
from fathom.search.study.hardware.speed import keep_speeds, rates_by_device, start_seconds
from fathom.search.study.keys.config import StudyConfig, dump
from fathom.search.study.keys.groups import TrackingConfig
from fathom.search.study.own_records import Check, own_records, read_records
from fathom.search.study.planning.plan import BudgetPlan
from fathom.search.study.preflight import ReadyStudy, open_run
from fathom.search.study.store_uri import to_keep
from fathom.search.tracking.dataset import data_set
from fathom.search.tracking.messages import TrackedStudy
from fathom.search.tracking.tracker import Tracker

CLOUD_SECRETS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SECURITY_TOKEN",
    "AWS_SESSION_TOKEN",
)
"""Environment variables with credentials of clouds. Tune would copy them to every worker, which
needs none, and Ray's agent would log the copies."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The conclusion of a run and its folder."""

    folder: RunFolder
    conclusion: Conclusion


def run_study(
    ready: ReadyStudy,
    steps: Steps,
    *,
    objective: Objective | None = None,
    studies: Studies | None = None,
    extended: bool = False,
) -> RunResult:
    """Searches every budget, concludes and reports; continues an earlier run on the same folder.

    With `extended`, trials are resumed as well that were paused at a rung which failed its audit.
    The caller holds the folder's lock. It may pass what it has prepared already: the objective with
    its data, and the place of Optuna's studies, which is closed at the end.

    Raises:
        ValueError: before any trial starts, if the study can't be run.
        OSError: when the disk is full; what was trained is saved, as far as there was room.
    """
    config, folder = ready.config, ready.folder
    studies = studies or open_database(config, folder)
    steps.begin("starting Ray" if objective else "reading the data")
    objective = objective or prepare(config.objective, token_cache(ready.runs))
    fingerprint = settled_fingerprint(
        folder,
        config,
        data_digest_of(objective),
        lambda: content_digest_of(objective, lambda: False),
    )
    if extended or not ready.has_report:
        start_ray(config.resources, folder.resume_command, config.own_code)
    folder.create()
    steps.begin("opening MLflow")
    with (
        _checked(folder, own_records(config, fingerprint)),
        closing(studies or FileStudies(folder.optuna)) as kept,
        _tracker(config, folder, ready.runs, searching=True) as tracker,
        _content_read(None if ready.has_report and fingerprint.content else objective) as content,
    ):
        tracker.confirm()
        tracker.data(data_set(config, objective))
        config = _without_secrets(config)  # from here on it goes to files and to other machines
        write_atomically(folder.config, dump(config))
        write_fingerprint(folder, fingerprint)
        if extended:
            _extend(config, folder, ready.plans, steps.console)
        spaces = {plan.budget: plan.shapes for plan in ready.plans}
        scheduler = Scheduler(config, spaces, folder, (tracker.trial,), kept)
        steps.end()
        if interruption := _search(scheduler, objective, ready, steps.console):
            tracker.close()
            raise interruption
        steps.begin("computing the answer and the report")
        if digest := content():  # before the verdict
            keep_content(folder, config, fingerprint, digest)
        conclusion = _answer(scheduler, ready, tracker)
    return RunResult(folder, conclusion)


def _search(
    scheduler: Scheduler, objective: Objective, ready: ReadyStudy, console: Console
) -> BaseException | None:
    """Runs trials until all are done or the hours are over; returns what ended it before, a user's
    interrupt or an error of the machine, or None."""
    folder, interrupt = ready.folder, Interrupt()
    with Progress(scheduler, ready.plans, console) as progress:
        limit = TimeLimit(folder, ready.max_hours, ready.began, interrupt)
        space = DiskSpace(folder, interrupt)

        def tick() -> None:
            limit.tick(progress.print_line)
            space.tick(scheduler.live.values(), progress.print_line)
            progress.tick()

        with _hidden(CLOUD_SECRETS), interrupt.on_signals(folder.ending, progress.print_line):
            if not limit.over:
                run_trials(scheduler, objective, tick, interrupt)
        limit.keep()
    if scheduler.done or limit.over or not interrupt.requested:
        return None
    progress.print_interruption(len(interrupt.saved))
    return interrupt.error or KeyboardInterrupt()


def _answer(scheduler: Scheduler, ready: ReadyStudy, tracker: Tracker) -> Conclusion:
    """The conclusion of a search, once it is published; checkpoints that no trial needs any more
    are deleted."""
    began, folder, records = time.time(), ready.folder, scheduler.records
    conclusion = conclude_run(folder, scheduler.config, records)
    publish(folder, conclusion, tracker)
    scheduler.conclude(conclusion.optima)
    _keep_speeds(ready, records, time.time() - began)
    if scheduler.done:
        forget_checkpoints(folder, records, conclusion.audits)
    return conclusion


def report_study(path: Path, *, trust: bool = False) -> RunResult:
    """Concludes again from the records of a run folder, also while it is searched, and rewrites its
    report.

    Only with `trust` is an MLflow store reached that the folder's `config.yaml` names.

    Raises:
        RunFolderError: if the folder is not a run folder.
    """
    folder, config = open_run(path)
    with ExitStack() as held:
        searched = not _held(held, folder)  # it then mirrors itself into MLflow
        records = read_records(folder, config)  # refused before MLflow sees any of it
        tracker = None
        if not searched and (trust or config.tracking.uri is None):
            tracker = held.enter_context(_tracker(config, folder, path.parent))
        conclusion = conclude_run(folder, config, records)
        if tracker:
            tracker.confirm()
        publish(folder, conclusion, tracker)
    return RunResult(folder, conclusion)


def conclude_run(
    folder: RunFolder, config: StudyConfig, records: Sequence[TrialRecord]
) -> Conclusion:
    """Decides the best depth of each budget of a run, and says which of them are unfinished."""
    unfinished = unfinished_budgets(config, folder)
    return conclude(records, config, unfinished=unfinished, resume=folder.resume_command)


def publish(folder: RunFolder, conclusion: Conclusion, tracker: Tracker | None) -> None:
    """Writes best.yaml and the report, and hands the answers to MLflow unless a search does."""
    with (folder.state / "report.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a report and a search that ends write the same files
        write_atomically(folder.best, best_yaml(conclusion))
        write_report(conclusion, folder.path)
    if tracker:
        tracker.conclude(conclusion)


def _held(held: ExitStack, folder: RunFolder) -> bool:
    """True if the folder is now locked; False if another process has it."""
    try:
        held.enter_context(locked(folder))
    except InUseError:
        return False
    return True


def _keep_speeds(ready: ReadyStudy, records: Sequence[TrialRecord], report_seconds: float) -> None:
    """Keeps what the trials of this run say of the speed of their devices, for the next plan."""
    resources = ready.config.resources
    if ready.config.train.command:
        return  # its speed is not Fathom's
    started = start_seconds(records, ready.began)
    alone = resources.processes_per_trial == 1
    if started is None or not alone or ready.config.model.build:  # whose operations are estimates
        return
    start = started + report_seconds if cluster_address() is None else None
    for (device, gpu), rates in rates_by_device(records, ready.began).items():
        keep_speeds(speed_key(device, resources, gpu=gpu), rates, start)


def _without_secrets(config: StudyConfig) -> StudyConfig:
    uri, optuna = config.tracking.uri, config.tracking.optuna
    kept = TrackingConfig(uri=uri and to_keep(uri), optuna=optuna and to_keep(optuna))
    return config.model_copy(update={"tracking": kept})


def _extend(
    config: StudyConfig, folder: RunFolder, plans: tuple[BudgetPlan, ...], console: Console
) -> None:
    records = read_records(folder, config)
    budgets = [plan.budget for plan in plans]
    extensions = extend(folder, records, audit_budgets(records, config), budgets)
    for extension in extensions:
        console.print(extension.sentence, highlight=False)
    if not extensions:
        console.print("Nothing to extend: no rung that stops trials has failed its audit")


@contextmanager
def _checked(folder: RunFolder, check: Check) -> Iterator[None]:
    """Context that is entered only if all that an earlier run left is of this study."""
    read_past(folder, check)
    yield


@contextmanager
def _content_read(objective: Objective | None) -> Iterator[Callable[[], str | None]]:
    """Context in which all data are read in the background; waits for their digest when called."""
    left = Event()
    with ThreadPoolExecutor(1) as pool:
        digest = pool.submit(content_digest_of, objective, left.is_set)
        try:
            yield digest.result
        finally:
            left.set()


@contextmanager
def _hidden(names: tuple[str, ...]) -> Iterator[None]:
    """Context in which these variables are not in this process's environment."""
    taken = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(taken)


@contextmanager
def _tracker(
    config: StudyConfig, folder: RunFolder, runs: Path, *, searching: bool = False
) -> Iterator[Tracker]:
    tracker = Tracker(
        TrackedStudy(
            uri=config.tracking.uri or default_tracking_uri(runs),
            study=config.study,
            folder=folder.path,
            config_text=dump(_without_secrets(config)),
            searching=searching,
        )
    )
    try:
        yield tracker
    except KeyboardInterrupt:
        tracker.leave()
        raise
    finally:
        tracker.close()
