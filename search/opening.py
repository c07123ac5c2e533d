"""A run that is opened: its inputs are read and derived once, before a study is searched."""

from dataclasses import dataclass, replace
from functools import partial

from fathom.models.shape import Shape
from fathom.objectives.contract import Objective, content_digest_of, data_digest_of
from fathom.search.run_folder import RunFolder
from fathom.search.scheduling.journal import Past, read_past
from fathom.search.study.file.study_file import dump
from fathom.search.study.fingerprint import (
    Fingerprint,
    check_settings,
    fingerprint_of,
    settled_fingerprint,
)
from fathom.search.study.hardware.machine import this_machine
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.own_records import record_check
from fathom.search.study.planning.budget import Budget
from fathom.search.study.planning.plan import BudgetPlan, with_step_times
from fathom.search.study.preflight import Cap, ReadyRun
from fathom.search.study.timing.sized_times import times_by_budget
from fathom.search.study.timing.step_times import MeasuredSteps, frozen_steps
from fathom.search.tracking.stores.messages import DataSet, TrackedStudy
from fathom.search.tracking.writing.data_set import data_set


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """A study and what its run folder holds, ready to be searched."""

    config: StudyConfig
    """The study without passwords: it goes to files and to other machines."""
    folder: RunFolder
    plans: tuple[BudgetPlan, ...]
    """Plan of each budget, with its shapes, by ascending size."""
    step_times: MeasuredSteps | None
    """Step times that are frozen in the folder; None before they are measured, and if trainings
    spend tokens or FLOPs."""
    measured_now: bool = False
    """True if this start measured the step times."""
    tracked: TrackedStudy
    """The study as it is passed to MLflow's follower, with the store's address and password."""
    data: DataSet
    """Description of the data for MLflow."""
    fingerprint: Fingerprint
    """Digests of the study and its data at the first start."""
    past: Past
    """What earlier runs on the folder recorded."""
    began: float
    """Unix time at which the run began."""
    began_monotonic: float
    """Time of the monotonic clock at which the run began, seconds."""
    max_hours: float | None
    """Hours after which the search ends, those of earlier runs included; None without a limit."""
    cap: Cap | None
    """Most that trials may cost, those of earlier runs included; None without a limit."""

    @property
    def spaces(self) -> dict[Budget, tuple[Shape, ...]]:
        """The shapes of each budget, as its plan has them."""
        return {plan.budget: plan.shapes for plan in self.plans}

    def timed(self, steps: MeasuredSteps) -> "OpenRun":
        """The run with step times, from which its plans follow.

        Raises:
            PlanError: if `train_seconds` are too few for a shape.
        """
        plans = _timed(self.config, self.plans, steps)
        return replace(self, step_times=steps, plans=plans, measured_now=True)


def _timed(
    config: StudyConfig, plans: tuple[BudgetPlan, ...], steps: MeasuredSteps
) -> tuple[BudgetPlan, ...]:
    machine = this_machine(config.resources, config.train)
    return with_step_times(config, plans, times_by_budget(steps, config), machine)


def open_run(ready: ReadyRun, objective: Objective) -> OpenRun:
    """Returns the run of a checked study on its data.

    Raises:
        RunFolderError: if the folder's trials were trained on other data.
        DamagedFileError: if the folder holds records that can't be read or are of another study.
    """
    config, folder = ready.config, ready.folder
    steps = frozen_steps(folder, config)
    plans = _timed(config, ready.plans, steps) if steps else ready.plans
    data_digest = data_digest_of(objective)
    data = data_set(objective, config.objective, data_digest)
    every_byte = partial(content_digest_of, objective, lambda: False)
    now = fingerprint_of(config, data_digest)
    fingerprint = settled_fingerprint(folder, now, data.name, every_byte)
    check_settings(folder, config, fingerprint)
    check = record_check(config, [plan.budget for plan in plans], fingerprint.study)
    past = read_past(folder, check)
    return OpenRun(
        config=config,
        folder=folder,
        plans=plans,
        step_times=steps,
        tracked=TrackedStudy(
            uri=ready.addresses.mlflow,
            study=config.study,
            folder=folder.path,
            config_text=dump(config),
            searching=True,
            trusted=ready.trust or ready.addresses.is_named,
            began=past.began,
        ),
        data=data,
        fingerprint=fingerprint,
        past=past,
        began=ready.began,
        began_monotonic=ready.began_monotonic,
        max_hours=ready.max_hours,
        cap=ready.cap,
    )
