"""The plans of a study's runs, with notes for people. Imports no framework."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fathom.search.study.hardware.machine import Machine
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.devices import core_notes, plans_of_auto
from fathom.search.study.planning.horizons import horizon_studies
from fathom.search.study.planning.memory_remedy import memory_remedy
from fathom.search.study.planning.plan import (
    BudgetPlan,
    device_hours,
    plan_study,
    search_disk,
    search_hours,
    study_notes,
    vocab_size_of,
)
from fathom.search.study.planning.sharing import sharing_notes
from fathom.search.study.planning.space.shape_counter import try_own_model
from fathom.search.study.planning.space.shape_space import ShapeLimits


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The plan of one run of a study."""

    config: StudyConfig
    """The study at the one horizon."""
    budgets: tuple[BudgetPlan, ...]
    """Plan of each budget, by ascending size."""
    machine: Machine
    """The devices that the search takes, with all notes on the plan."""

    @property
    def tokens(self) -> float:
        """Expected training tokens of the search."""
        return sum(plan.expected_tokens for plan in self.budgets)

    @property
    def hours(self) -> float:
        """Expected hours of the search, its start and its report included."""
        return search_hours(self.budgets, self.machine)

    @property
    def device_hours(self) -> float:
        """Hours of all devices together; shared GPUs count as whole ones."""
        return device_hours(self.budgets, self.machine)

    @property
    def disk(self) -> int:
        """Most bytes of checkpoints at a time."""
        return search_disk(self.config.train, self.budgets, self.machine.slots)


def plan_runs(config: StudyConfig, machine: Machine, gpu: str | None = None) -> tuple[RunPlan, ...]:
    """Returns the plan of each run of a study, by ascending horizon; `gpu` names the type of its
    GPUs.

    Raises:
        ConfigError: if a budget has too few shapes, or the study's own model can't be built.
    """
    vocab_size = vocab_size_of(config.objective)
    plans = [(each, plan_study(each, vocab_size, machine)) for each in horizon_studies(config)]
    try_own_model(config, ShapeLimits.of(config, vocab_size).smallest())
    return tuple(advised(each, budgets, machine, gpu) for each, budgets in plans)


def advised(
    config: StudyConfig, plans: Sequence[BudgetPlan], machine: Machine, gpu: str | None = None
) -> RunPlan:
    """Returns the plan of a run on the devices that its search takes; `gpu` names the type of its
    GPUs."""
    taken, devices = plans_of_auto(config, plans, machine)
    notes = plan_notes(config, taken, devices, gpu)
    return RunPlan(config, taken, replace(devices, notes=notes))


def plan_notes(
    config: StudyConfig, plans: Sequence[BudgetPlan], machine: Machine, gpu: str | None = None
) -> tuple[str, ...]:
    """Notes on the machine, on settings that are probably mistakes, on trials that do not fit into
    memory, and on devices that would take less time."""
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
