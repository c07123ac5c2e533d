"""The plan of a study of several horizons: that of each, and the tokens that trunks save."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fathom.search.study.hardware.machine import Machine
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import constant_until
from fathom.search.study.planning.horizons import horizon_of, horizon_studies, unshared_reason
from fathom.search.study.planning.plan import (
    BudgetPlan,
    plan_study,
    search_disk,
    search_hours,
    start_hours,
)

Ends = Sequence[tuple[float, float]]
"""Number of trials and the tokens that each of them has seen, longest first."""


@dataclass(frozen=True, slots=True)
class HorizonPlan:
    """The plan of one horizon."""

    config: StudyConfig
    plans: tuple[BudgetPlan, ...]
    taken: tuple[float, ...]
    """Tokens of each budget that shorter horizons have trained already, if every horizon asks for
    the same trainings."""

    @property
    def horizon(self) -> float:
        """Tokens per parameter, or tokens."""
        return horizon_of(self.config)

    @property
    def tokens(self) -> float:
        """Expected training tokens of a search of this horizon alone."""
        return sum(plan.expected_tokens for plan in self.plans)

    @property
    def new_tokens(self) -> float:
        """Expected training tokens with trunks."""
        return self.tokens - sum(self.taken)

    def hours(self, machine: Machine) -> float:
        """Expected hours of a search of this horizon alone."""
        return search_hours(self.plans, machine)

    def new_hours(self, machine: Machine) -> float:
        """Expected hours with trunks, in which evaluations are saved in proportion; a search of
        several horizons starts once, with the shortest."""
        saved = sum(
            plan.hours * taken / plan.expected_tokens
            for plan, taken in zip(self.plans, self.taken, strict=True)
        )
        first = self.config.horizon_of and self.horizon == self.config.horizon_of[0]
        return sum(plan.hours for plan in self.plans) - saved + bool(first) * start_hours(machine)


def plan_horizons(
    config: StudyConfig, vocab_size: int, machine: Machine
) -> tuple[HorizonPlan, ...]:
    """The plan of each horizon, ascending; raises `ConfigError` if a budget has too few shapes."""
    trunks: list[Ends] = [[] for _ in config.budgets]
    found = []
    for study in horizon_studies(config):
        plans = plan_study(study, vocab_size, machine)
        ends = [sorted(plan.ends, key=lambda end: -end[1]) for plan in plans]
        taken = [_taken(trunk, end) for trunk, end in zip(trunks, ends, strict=True)]
        found.append(HorizonPlan(study, plans, tuple(taken)))
        if not unshared_reason(study):
            trunks = [_cut(end, study, plan) for end, plan in zip(ends, plans, strict=True)]
    return tuple(found)


def horizons_disk(plans: Sequence[HorizonPlan], slots: int) -> int:
    """Most bytes of checkpoints and trunks at a time; a trunk is kept for each training of a
    shorter horizon until the longest is searched."""
    if unshared_reason(plans[0].config):
        return max(search_disk(plan.config, plan.plans, slots) for plan in plans)
    every = [search_disk(plan.config, plan.plans, 1) for plan in plans]
    kept = max(_trunks_disk(plan) for plan in plans[:-1])
    return kept + max(*every, *(search_disk(plan.config, plan.plans, slots) for plan in plans))


def _trunks_disk(plan: HorizonPlan) -> int:
    """Bytes of the trunks of a horizon: one for each of its trials."""
    slots = sum(each.exploring + each.confirming for each in plan.plans)
    return search_disk(plan.config, plan.plans, slots)


def _cut(ends: Ends, config: StudyConfig, plan: BudgetPlan) -> Ends:
    """The trunks that trials leave: what each has seen before its cool-down."""
    last = constant_until(config, plan.budget) * plan.budget.tokens_per_step
    return [(trials, min(tokens, last)) for trials, tokens in ends]


def _taken(trunks: Ends, ends: Ends) -> float:
    """Tokens that trials take over from trunks, the longest from the longest."""
    return sum(number * min(trunk, end) for number, trunk, end in _pairs(trunks, ends))


def _pairs(trunks: Ends, ends: Ends) -> Iterator[tuple[float, float, float]]:
    """Yields numbers of trials with the tokens of their trunk and of their end."""
    waiting = list(trunks)
    for trials, end in ends:
        left = trials
        while left > 1e-9 and waiting:
            number, trunk = waiting.pop(0)
            paired = min(left, number)
            yield paired, trunk, end
            left -= paired
            if number > paired:
                waiting.insert(0, (number - paired, trunk))
