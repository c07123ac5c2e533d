"""The plan of a study of several horizons, which are searched one after another."""

from collections.abc import Sequence
from dataclasses import dataclass

from fathom.search.study.hardware.machine import Machine
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.horizons import horizon_of, horizon_studies
from fathom.search.study.planning.plan import BudgetPlan, plan_study, search_disk, search_hours


@dataclass(frozen=True, slots=True)
class HorizonPlan:
    """The plan of one horizon."""

    config: StudyConfig
    plans: tuple[BudgetPlan, ...]

    @property
    def horizon(self) -> float:
        """Tokens per parameter, or tokens."""
        return horizon_of(self.config)

    @property
    def tokens(self) -> float:
        """Expected training tokens of the horizon's search."""
        return sum(plan.expected_tokens for plan in self.plans)

    def hours(self, machine: Machine) -> float:
        """Expected hours of the horizon's search."""
        return search_hours(self.plans, machine)


def plan_horizons(
    config: StudyConfig, vocab_size: int, machine: Machine
) -> tuple[HorizonPlan, ...]:
    """The plan of each horizon, ascending; raises `ConfigError` if a budget has too few shapes."""
    return tuple(
        HorizonPlan(study, plan_study(study, vocab_size, machine))
        for study in horizon_studies(config)
    )


def horizons_disk(plans: Sequence[HorizonPlan], slots: int) -> int:
    """Most bytes of checkpoints at a time."""
    return max(search_disk(plan.config, plan.plans, slots) for plan in plans)
