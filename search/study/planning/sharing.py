"""Several small trials on each GPU compared with one at a time. Imports no framework."""

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from fathom.models.shape import Shape
from fathom.search.formatting import format_seconds
from fathom.search.study.file.errors import PlanError
from fathom.search.study.file.study_file import changed
from fathom.search.study.hardware.machine import Machine, this_machine
from fathom.search.study.hardware.mps import mps_may_start
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import Budget
from fathom.search.study.planning.plan import BudgetPlan, plan_budget, search_hours

TRIALS = (2, 4, 8)
"""Numbers of trials on a GPU that are compared with one."""
WORTH = 0.75
"""Largest part of the time with one trial on each GPU at which sharing is advised or chosen: both
times are estimates."""

GPUS = "resources.gpus_per_trial"

Size = tuple[Budget, Sequence[Shape]]
"""A budget and its shapes."""


@dataclass(frozen=True, slots=True)
class PlannedSearch:
    """The plans of a study's budgets on a machine."""

    machine: Machine
    plans: tuple[BudgetPlan, ...]
    """Empty if a step does not fit the memory of a trial."""

    @property
    def hours(self) -> float:
        """Hours of all trials, without start and report; infinite without plans."""
        return sum(plan.hours for plan in self.plans) if self.plans else math.inf


def planned_on(config: StudyConfig, sizes: Iterable[Size], machine: Machine) -> PlannedSearch:
    """The planned search of a study on a machine; no plans if it can't fit."""
    with suppress(PlanError):
        plans = tuple(plan_budget(config, budget, tuple(s), machine) for budget, s in sizes)
        if all(plan.step.enough for plan in plans):
            return PlannedSearch(machine, plans)
    return PlannedSearch(machine, ())


@dataclass(frozen=True, slots=True)
class Sharing:
    """Trials that share each GPU, and the time of the search with them and with one on each."""

    trials: int
    hours: float
    hours_alone: float

    @property
    def share(self) -> float:
        """Number of GPUs of each trial, below 1."""
        return 1 / self.trials

    @property
    def times(self) -> str:
        """Both times as text."""
        shared, alone = (format_seconds(3600 * h) for h in (self.hours, self.hours_alone))
        return f"about {shared} instead of {alone}, both estimated from data sheets"


def compares_by_time(config: StudyConfig) -> bool:
    """True if a study's device can be chosen by the time of its search.

    The time can only be predicted for Fathom's own training of its own models. Where steps are
    timed, a faster device trains more in the same time instead.
    """
    own = not config.train.command and not config.model.build
    return own and not config.coin.timed


def sizes_of(plans: Sequence[BudgetPlan]) -> list[Size]:
    """Returns the budget of each plan with its shapes."""
    return [(plan.budget, plan.shapes) for plan in plans]


def auto_sharing(config: StudyConfig, sizes: Sequence[Size]) -> Sharing | None:
    """Returns how `gpus_per_trial: auto` shares the GPUs of this machine; None if each trial has
    one, or CUDA's MPS is not here, without which the trials would take turns."""
    if config.resources.gpus_per_trial != "auto" or not mps_may_start():
        return None
    return _best(config, sizes)


def sharing_notes(
    config: StudyConfig, plans: Sequence[BudgetPlan], machine: Machine, gpu: str | None = None
) -> tuple[str, ...]:
    """A line if several trials on each GPU would take much less time than one, or if
    `gpus_per_trial: auto` shares the GPUs of this machine for that reason; none otherwise.

    A small model's step takes the time of its launches, during which the GPU waits. As many trials
    can share a GPU as fill this time with work, fit its memory without micro-batches, and have
    cores. `gpu` is the type that the plan was asked for.
    """
    if machine.device != "GPU" or machine.devices != 1:
        return ()
    if machine.here and (found := auto_sharing(config, sizes_of(plans))):
        return (f"{found.trials} trials share each GPU by CUDA's MPS: {found.times}",)
    most = config.resources.max_concurrent_trials
    found = _best(config, sizes_of(plans), gpu, at_a_time=most)
    if found is None:
        return ()
    more = "" if most == "auto" else f", max_concurrent_trials: {found.trials * most}"
    return (
        f"a trial leaves its GPU idle most of the time: with `resources: {{gpus_per_trial: "
        f"{found.share:g}{more}}}` {found.trials} share each, and the search takes {found.times}; "
        "start CUDA's MPS for it (docs/clusters.md)",
    )


def _best(
    config: StudyConfig,
    sizes: Sequence[Size],
    gpu: str | None = None,
    *,
    at_a_time: int | str = "auto",
) -> Sharing | None:
    """The number of trials on each GPU with which a search is fastest; None if one trial each is
    nearly as fast. `at_a_time` is the number of GPUs in use, if the study limits it."""
    if not compares_by_time(config):
        return None
    hours: dict[int, float] = {}
    pieces: list[int] = []
    for trials in (1, *TRIALS):
        found = _shared(config, sizes, gpu, trials, at_a_time)
        counts = [plan.step.micro_batches for plan in found.plans]
        pieces = pieces or counts
        if counts and all(now <= alone for now, alone in zip(counts, pieces, strict=True)):
            hours[trials] = search_hours(found.plans, found.machine)
    fastest = min(hours, key=hours.__getitem__, default=1)
    if 1 not in hours or hours[fastest] > WORTH * hours[1]:
        return None
    return Sharing(fastest, hours[fastest], hours[1])


def _shared(
    config: StudyConfig, sizes: Sequence[Size], gpu: str | None, trials: int, at_a_time: int | str
) -> PlannedSearch:
    """The search with `trials` trials on each GPU, by the GPU's data sheet."""
    changes: dict[str, object] = {GPUS: 1 / trials}
    if not isinstance(at_a_time, str):
        changes["resources.max_concurrent_trials"] = trials * at_a_time
    study = changed(config, changes)
    machine = this_machine(study.resources, study.train, gpu)
    return planned_on(study, sizes, replace(machine, speed=replace(machine.speed, measured=())))
