"""What a person should know of a plan before its search. Imports no framework."""

from collections.abc import Sequence
from dataclasses import replace

from fathom.search.study.hardware.machine import Machine
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.devices import core_notes, plans_of_auto
from fathom.search.study.planning.memory_remedy import memory_remedy
from fathom.search.study.planning.plan import BudgetPlan, study_notes
from fathom.search.study.planning.sharing import sharing_notes


def advised(
    config: StudyConfig, plans: Sequence[BudgetPlan], machine: Machine, gpu: str | None = None
) -> tuple[tuple[BudgetPlan, ...], Machine]:
    """Returns the plans on the devices that the search takes, and these with all notes; `gpu` names
    the type of its GPUs."""
    taken, devices = plans_of_auto(config, plans, machine)
    return taken, replace(devices, notes=plan_notes(config, taken, devices, gpu))


def plan_notes(
    config: StudyConfig, plans: Sequence[BudgetPlan], machine: Machine, gpu: str | None = None
) -> tuple[str, ...]:
    """The notes of the machine, and lines on settings that are probably not meant, on trials that
    do not fit into memory, and on devices that would take less time."""
    return (
        *study_notes(config),
        *machine.notes,
        *_memory_notes(config, plans, machine),
        *core_notes(config, plans, machine),
        *sharing_notes(config, plans, machine, gpu),
    )


def _memory_notes(
    config: StudyConfig, plans: Sequence[BudgetPlan], machine: Machine
) -> tuple[str, ...]:
    if config.train.command:  # which takes what Fathom does not know
        return ()
    return tuple(
        f"{plan.budget.label}: a trial does not fit into memory, so the search can't run: "
        f"{memory_remedy(config, plan, plans, machine)}"
        for plan in plans
        if not plan.step.enough
    )
