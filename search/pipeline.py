"""The steps of `fathom run`, from a checked study to its answer."""

import errno
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial

from rich.console import Console

from fathom.objectives.contract import Objective, content_digest_of
from fathom.objectives.prepare import prepare
from fathom.search import run_folder
from fathom.search.cluster.auto_gpus import settled_resources
from fathom.search.cluster.cost_limit import CostLimit, taken_device_seconds
from fathom.search.cluster.early_end import DiskSpace, TimeLimit, taken_seconds
from fathom.search.cluster.interrupt import Interrupt
from fathom.search.cluster.memory_kills import MemoryKills
from fathom.search.cluster.session.ray_session import cluster_address, start_ray
from fathom.search.cluster.session.secrets import COPIED_BY_TUNE, hidden
from fathom.search.cluster.step_times import device_of_worker, measure_steps, timed_tasks
from fathom.search.cluster.tune import run_trials
from fathom.search.conclusion.conclude import Conclusion, conclude_run
from fathom.search.opening import OpenRun, open_run
from fathom.search.report.terminal.progress import Progress
from fathom.search.report.terminal.steps import Steps
from fathom.search.scheduling.extend import extend, forget_checkpoints
from fathom.search.scheduling.journal import read_run
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.file.study_file import dump
from fathom.search.study.fingerprint import content_read, write_fingerprint
from fathom.search.study.hardware.machine import keep_speeds_of
from fathom.search.study.hardware.mps import GpuSharing
from fathom.search.study.keys.groups import ResourcesConfig
from fathom.search.study.planning.horizons import horizon_words
from fathom.search.study.preflight import ReadyRun, ReadyStudy
from fathom.search.study.timing.step_times import freeze_steps
from fathom.search.tracking.writing.publishing import RunResult, StudyResult, publish, publish_study
from fathom.search.tracking.writing.tracker import Tracker


def run_study(
    ready: ReadyStudy,
    steps: Steps,
    *,
    objective: Objective | None = None,
    extended: bool = False,
    show: Callable[[RunResult], None] = lambda result: None,
) -> StudyResult:
    """Searches the runs of a study one after another, concludes and reports; continues what earlier
    runs on the folder left. Ends with the first run that `max_hours` or the `cap` has cut short.

    With `extended`, trials that were stopped at a rung whose audit failed are resumed too. The
    caller holds the folder's lock. It may hand over the objective with its data; `show` gets the
    result of each run as it ends.

    Raises:
        ValueError: before any trial of a run starts, if it can't be run.
        OSError: when the disk is full; what was trained is saved, as far as there was room. Or when
            the run folder was deleted meanwhile.
    """
    steps.begin("starting Ray" if objective else "reading the data")
    cache = run_folder.token_cache(ready.folder.path.parent)
    objective = objective or prepare(ready.config.objective, cache)
    if ready.config.horizons:
        run_folder.write_atomically(ready.folder.config, dump(ready.config))
    result = StudyResult(ready.folder, ready.config, ())
    for run in _limited(ready):
        is_whole = run.folder == ready.folder  # which the caller has locked
        with nullcontext() if is_whole else run_folder.locked(run.folder):
            if not is_whole:
                steps.end()
                line = f"\nHorizon of {horizon_words(run.config)}"
                steps.console.print(line, style="bold", highlight=False)
            found = _search_run(run, steps, objective, extended=extended)
        result = replace(result, runs=(*result.runs, found))
        publish_study(result)
        show(found)
        if found.conclusion.unfinished:
            break
    return result


def _limited(ready: ReadyStudy) -> Iterator[ReadyRun]:
    """Yields each run when its turn comes, with what earlier runs have left of the shared
    limits."""
    for run in ready.runs:
        others = [other.folder for other in ready.runs if other is not run]
        hours = ready.max_hours and ready.max_hours - sum(map(taken_seconds, others)) / 3600
        cap = ready.cap and ready.cap.after(sum(map(taken_device_seconds, others)))
        limited = replace(run, max_hours=hours and max(0.0, hours), cap=cap)
        if run is not ready.runs[0]:  # whose time has run since the checks
            limited = replace(limited, began=time.time(), began_monotonic=time.monotonic())
        yield limited


def _search_run(
    ready: ReadyRun, steps: Steps, objective: Objective, *, extended: bool
) -> RunResult:
    """Searches every budget of one run, concludes and reports."""
    run = open_run(ready, objective)
    config, folder, fingerprint = run.config, run.folder, run.fingerprint
    if extended or not ready.has_report:
        start_ray(config.resources, folder.resume_command, config.own_code)
    folder.create()
    run = _with_steps_measured(run, objective, steps)
    unread = None if ready.has_report and fingerprint.content else objective
    read = partial(content_digest_of, unread)
    steps.begin("opening MLflow")
    with (
        Tracker(run.tracked) as tracker,
        content_read(folder, run.data.name, fingerprint, read) as keep_content,
    ):
        tracker.confirm()
        tracker.data(run.data)
        _write_down(run)
        if extended:
            _extend(run, steps.console)
        scheduler = _scheduler(run, tracker)
        _check_device(scheduler, run, objective, steps)
        steps.end()
        with _ends_when_deleted(folder):
            resources, interruption = _search(scheduler, objective, run, steps.console)
            if interruption:
                tracker.close()
                raise interruption
            steps.begin("computing the answer and the report")
            keep_content()  # before the verdict
            conclusion = _answer(scheduler, tracker, resources, run.began)
    return RunResult(folder, conclusion)


def _with_steps_measured(run: OpenRun, objective: Objective, steps: Steps) -> OpenRun:
    """The run, with step times measured if its trainings spend seconds and none are frozen yet; Ray
    must have started.

    Raises:
        ValueError: if they can't be measured, or the seconds are too few for a shape.
    """
    if not run.config.coin.timed or run.step_times:
        return run
    shapes = len(timed_tasks(run.plans))
    steps.begin(f"measuring training steps of {shapes} shapes, before the first trial")
    return run.timed(measure_steps(run.config, run.plans, objective))


def _write_down(run: OpenRun) -> None:
    """Writes into the run folder what a later run that continues this one compares itself with."""
    run_folder.write_atomically(run.folder.config, run.tracked.config_text)
    write_fingerprint(run.folder, run.fingerprint)
    if run.step_times:
        freeze_steps(run.folder, run.step_times)


def _scheduler(run: OpenRun, tracker: Tracker) -> Scheduler:
    """The scheduler of a run, which continues where an earlier run on the folder ended."""
    return Scheduler(
        run.config,
        run.spaces,
        run.folder,
        [tracker.trial],
        past=run.past,
        fingerprint=run.fingerprint.study,
    )


def _check_device(scheduler: Scheduler, run: OpenRun, objective: Objective, steps: Steps) -> None:
    """Checks that trials resume on the device on which the step times of the run were measured.

    Raises:
        RunFolderError: if a worker has another device.
    """
    frozen, config, folder = run.step_times, run.config, run.folder
    if frozen is None or run.measured_now or scheduler.done:
        return
    steps.begin("asking a worker for its device")
    start_ray(config.resources, folder.resume_command, config.own_code)
    device = device_of_worker(config, objective)
    if device != frozen.device:
        raise run_folder.RunFolderError(
            "a search whose trainings spend seconds must resume on the device on which its steps "
            f"were timed, {frozen.device}, but a worker here has {device}; resume {folder.path} "
            f"on {frozen.device}, or give the study another `study` name"
        )


@contextmanager
def _ends_when_deleted(folder: run_folder.RunFolder) -> Iterator[None]:
    """Context in which the deletion of a run folder raises one error, whichever file is missed
    first."""
    try:
        yield
    except FileNotFoundError:
        if folder.marker.exists():
            raise
        what = "the run folder was deleted while its search ran; it is not made again"
        raise OSError(errno.ENOENT, what, str(folder.path)) from None


def _search(
    scheduler: Scheduler, objective: Objective, run: OpenRun, console: Console
) -> tuple[ResourcesConfig, BaseException | None]:
    """Runs trials until all are done, or the hours or the money are over.

    Returns the resources of each trial, and what ended the search before that: the user's interrupt
    or an error of the machine; None if nothing did.
    """
    folder, interrupt = run.folder, Interrupt()
    with Progress(scheduler, run.plans, console) as progress, GpuSharing() as sharing:
        limit = TimeLimit(folder, run.max_hours, run.began_monotonic, interrupt)
        resources = _resources(scheduler, progress, sharing)
        cost = CostLimit(scheduler, resources, run.cap, interrupt, progress.print_line)
        space, memory = DiskSpace(folder, interrupt), MemoryKills(folder, interrupt)

        def tick() -> None:
            limit.tick(progress.print_line)
            cost.tick()
            for watch in (space, memory):
                watch.tick(scheduler.live.values(), progress.print_line)
            progress.tick()

        with hidden(COPIED_BY_TUNE), interrupt.on_signals(folder.ending, progress.print_line):
            if not (limit.over or cost.over):
                run_trials(scheduler, objective, tick, interrupt, resources, sharing.pipes)
        limit.keep()
        cost.keep()
        if line := cost.sentence():
            progress.print_line(line)
    at_a_limit = interrupt.error is None and (limit.over or cost.over)
    if scheduler.done or at_a_limit:
        return resources, None
    progress.print_interruption(len(interrupt.saved))
    if interrupt.requested:
        return resources, interrupt.error or KeyboardInterrupt()
    return resources, _cut_short(scheduler)


def _cut_short(scheduler: Scheduler) -> OSError:
    """The error for a search that Ray has ended before all of its planned trials had ended."""
    left = sum(search.left for search in scheduler.budgets.values())
    return OSError(
        errno.ECANCELED,
        f"paused, as Ray's loop has ended before the search: {left or 'further'} planned trials "
        f"have not ended; nothing is lost: go on with: {scheduler.folder.resume_command}",
    )


def _resources(scheduler: Scheduler, progress: Progress, sharing: GpuSharing) -> ResourcesConfig:
    """Starts Ray if trials are left to train, and returns the resources of each trial, with the
    devices that `gpus_per_trial: auto` takes; starts `sharing` where trials share a GPU of this
    machine."""
    config, folder = scheduler.config, scheduler.folder
    if scheduler.done:
        return config.resources
    start_ray(config.resources, folder.resume_command, config.own_code)
    sizes = [(search.budget, search.shapes) for search in scheduler.budgets.values()]
    return settled_resources(config, folder, sizes, sharing, progress.print_line)


def _answer(
    scheduler: Scheduler, tracker: Tracker, resources: ResourcesConfig, began: float
) -> Conclusion:
    """Returns the conclusion of a search after publishing it. Deletes checkpoints that no trial
    needs, and keeps the speeds of the trials since the Unix time `began`, which had these
    resources."""
    folder, records, ended = scheduler.folder, scheduler.records, time.monotonic()
    conclusion = conclude_run(folder, scheduler.config, read_run(folder, scheduler.config))
    publish(folder, conclusion, tracker)
    scheduler.conclude(conclusion.optima)
    if scheduler.done:
        forget_checkpoints(folder, records, conclusion.audits)
    seconds = time.monotonic() - ended if cluster_address() is None else None
    config = scheduler.config
    if not (config.train.command or config.model.build):  # whose FLOPs are not known
        keep_speeds_of(records, resources, began, seconds)
    return conclusion


def _extend(run: OpenRun, console: Console) -> None:
    """Moves the first rung of each budget whose audit failed, and prints these extensions."""
    found = Conclusion(config=run.config, records=tuple(run.past.latest))
    extensions = extend(run.folder, run.past, found.audits, [plan.budget for plan in run.plans])
    for extension in extensions:
        console.print(extension.sentence, highlight=False)
    if not extensions:
        console.print("Nothing to extend: no rung that stops trials has failed its audit")
