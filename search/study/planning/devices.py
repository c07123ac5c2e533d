"""Compares CPU cores with GPUs by the time that they take for a study. Imports no framework."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fathom.search.formatting import format_seconds
from fathom.search.study.file.study_file import changed
from fathom.search.study.hardware.machine import Machine, this_machine
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import ResourcesConfig, TrainConfig
from fathom.search.study.planning.plan import BudgetPlan
from fathom.search.study.planning.sharing import (
    GPUS,
    PlannedSearch,
    Size,
    auto_sharing,
    compares_by_time,
    planned_on,
    sizes_of,
)

MOST_CORES = 16
"""Most cores per GPU that a plan assumes of a machine that is not this one."""

SOONER = "CPU cores train this study sooner"
TAKE_CORES = "set `resources.gpus_per_trial: 0`"


@dataclass(frozen=True, slots=True)
class DeviceTimes:
    """The time of a study's trials on CPU cores and on GPUs, without start and report."""

    cores: PlannedSearch
    gpus: PlannedSearch

    @property
    def cores_win(self) -> bool:
        """True if the cores take less time."""
        return self.cores.hours < self.gpus.hours

    @property
    def times(self) -> str:
        """Both times as text, with the devices and the sources of their speeds."""
        return ", ".join(
            f"{_time(on.hours)} on {on.machine.description} ({on.machine.speed.source})"
            for on in (self.cores, self.gpus)
        )


def compare_devices(
    config: StudyConfig, sizes: Sequence[Size], *, cores: Machine, gpus: Machine
) -> DeviceTimes:
    """Returns the time of a study's trials on either machine."""
    alone = changed(config, {GPUS: 0})
    return DeviceTimes(planned_on(alone, sizes, cores), planned_on(config, sizes, gpus))


def core_notes(
    config: StudyConfig, plans: Sequence[BudgetPlan], machine: Machine
) -> tuple[str, ...]:
    """A line if CPU cores would train the study sooner than the GPUs of its plan; none otherwise.

    GPUs of this machine are compared with its own cores. Other machines may have any number of
    cores, so the line says how many are enough.
    """
    if machine.device != "GPU" or not compares_by_time(config):
        return ()
    cores, sizes = _cores(config.resources, config.train), sizes_of(plans)
    is_auto = config.resources.gpus_per_trial == "auto"
    if machine.here:
        found = compare_devices(config, sizes, cores=cores, gpus=machine)
        text = choice_text(found) if is_auto else f"{SOONER}: {found.times}; {TAKE_CORES}"
        return (text,) if cores.here and found.cores_win else ()
    if (enough := _enough_cores(config, sizes, cores, machine)) is None:
        return ()
    then = "`gpus_per_trial: auto` takes them" if is_auto else TAKE_CORES
    return (f"{SOONER}: {enough.times}; where machines have them, {then}",)


def plans_of_auto(
    config: StudyConfig, plans: Sequence[BudgetPlan], machine: Machine
) -> tuple[tuple[BudgetPlan, ...], Machine]:
    """Returns the plans and the machine of a search here on the devices that `gpus_per_trial: auto`
    takes: CPU cores, shared GPUs, or as planned a whole GPU for each trial."""
    is_asked = config.resources.gpus_per_trial == "auto" and compares_by_time(config)
    if machine.device != "GPU" or not (is_asked and machine.here):
        return tuple(plans), machine
    sizes = sizes_of(plans)
    cores, sharing = _cores(config.resources, config.train), auto_sharing(config, sizes)
    on_gpus = changed(config, {GPUS: sharing.share if sharing else 1})
    gpus = this_machine(on_gpus.resources, config.train) if sharing else machine
    found = compare_devices(on_gpus, sizes, cores=cores, gpus=gpus)
    cores_win = cores.here and found.cores_win
    if not (cores_win or sharing):
        return tuple(plans), machine
    taken = found.cores if cores_win else found.gpus
    both = zip(taken.plans, plans, strict=True)
    notes = (*taken.machine.notes, choice_text(found))
    return (
        tuple(replace(now, epochs=before.epochs) for now, before in both),
        replace(taken.machine, notes=notes),
    )


def _cores(resources: ResourcesConfig, train: TrainConfig) -> Machine:
    """This machine, as if trials used none of its GPUs."""
    return this_machine(resources.model_copy(update={"gpus_per_trial": 0}), train)


def choice_text(found: DeviceTimes) -> str:
    """Returns the choice of `gpus_per_trial: auto` as text, with the times of both devices and the
    key for the other choice."""
    taken, other = ("CPU cores", 1) if found.cores_win else ("GPUs", 0)
    more = ""
    share = found.gpus.machine.devices
    if not found.cores_win and share < 1:
        taken, more = f"GPUs, {round(1 / share)} trials on each", ", for one on each 1"
    return (
        f"`gpus_per_trial: auto` takes {taken}: {found.times}; for the others, set "
        f"`resources.gpus_per_trial: {other}`{more}"
    )


def _enough_cores(
    config: StudyConfig, sizes: Sequence[Size], cores: Machine, gpus: Machine
) -> DeviceTimes | None:
    """The comparison with the fewest cores that take less time than the GPUs; None if more than
    `MOST_CORES` for each GPU would be needed."""
    each = config.resources.cpus_per_trial
    most = MOST_CORES * max(1, math.ceil(gpus.slots * gpus.devices))
    alone, on_gpus = changed(config, {GPUS: 0}), planned_on(config, sizes, gpus)

    def compared(slots: int) -> DeviceTimes:
        number = f"{slots * each:g} core{'' if slots * each == 1 else 's'}"
        there = replace(cores, slots=slots, description=f"{number} such as this machine's")
        return DeviceTimes(planned_on(alone, sizes, there), on_gpus)

    numbers = range(1, int(most / each) + 1)
    least = bisect_left(numbers, True, key=lambda slots: compared(slots).cores_win)
    return compared(numbers[least]) if least < len(numbers) else None


def _time(hours: float) -> str:
    if math.isinf(hours):
        return "no time, as a trial does not fit,"
    return f"about {format_seconds(3600 * hours)}"
