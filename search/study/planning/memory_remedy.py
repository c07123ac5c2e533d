"""The remedy for a trial of a budget that does not fit into memory, tried on the plan."""

from collections.abc import Sequence
from dataclasses import replace

from fathom.search.formatting import format_count
from fathom.search.study.hardware.fit import fit_step
from fathom.search.study.hardware.machine import Machine
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.plan import BudgetPlan, largest_training

SHORTEST = 16
"""Shortest context that is tried."""
OWN_LENGTH = ("language", "tokens")
"""Objectives whose context may be any; that of others is the length of their rows."""


def memory_remedy(
    config: StudyConfig, plan: BudgetPlan, plans: Sequence[BudgetPlan], machine: Machine
) -> str:
    """The change by which a trial of a budget fits: a shorter context, which is computed, or only
    the budgets that fit; if neither helps, another device."""
    device = "use a device with more memory"
    if context := _context_that_fits(config, plan, machine):
        return f"set `objective.context: {context}`, or {device}"
    if fitting := [other.budget.params for other in plans if other.step.enough]:
        sizes = ", ".join(format_count(size) for size in fitting)
        return f"keep the `budgets` that fit, {sizes}, or {device}"
    return f"no context and no budget of the study fits: {device}, or lower `budgets`"


def _context_that_fits(config: StudyConfig, plan: BudgetPlan, machine: Machine) -> int | None:
    if config.objective.name not in OWN_LENGTH:
        return None
    shape, sequences, how = largest_training(
        config.train, config.resources, plan.budget, plan.shapes, machine
    )
    context = shape.context // 2
    while context >= SHORTEST:
        shorter = replace(shape, context=context)
        if fit_step(shorter, sequences, machine.memory, how).enough:
            return context
        context //= 2
    return None
