"""A plan in the form that programs read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fathom.search.analysis.verdict import Kind
from fathom.search.contract import reply
from fathom.search.contract.questions import planned_horizon, study_question
from fathom.search.contract.reply import Plan, Reply, Said, StatedAnswer, StatedVerdict
from fathom.search.study.hardware.machine import Machine
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.horizons import horizon_label
from fathom.search.study.planning.horizon_plan import HorizonPlan, horizons_disk
from fathom.search.study.planning.plan import (
    BudgetPlan,
    device_hours,
    listed_sizes,
    search_disk,
    search_hours,
)

NOTHING = "nothing was trained yet"


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What the plans of a study have in common."""

    machine: Machine
    """With the notes of the whole plan."""
    price: float | None
    """Of an hour of a device."""
    with_shapes: bool
    command: str
    """The command that searches the study."""


def plan_reply(config: StudyConfig, plans: Sequence[BudgetPlan], planned: Planned) -> Reply:
    """The plan of a study of one horizon; hours and cost are for devices of the kind `device`."""
    machine, hours = planned.machine, device_hours(plans, planned.machine)
    return Reply(
        command="plan",
        answers=tuple(_answers(config, plans, planned, None)),
        notes=machine.notes,
        plan=Plan(
            budgets=tuple(budget_plans(plans, with_shapes=planned.with_shapes)),
            hours=search_hours(plans, machine),
            start_seconds=machine.start_seconds,
            device=machine.device,
            device_hours=hours,
            cost=None if planned.price is None else planned.price * hours,
            disk_bytes=search_disk(config, plans, machine.slots),
            tokens=None,
        ),
    )


def horizons_plan_reply(plans: Sequence[HorizonPlan], planned: Planned) -> Reply:
    """The plan of a study of several horizons, with the sums of all."""
    machine = planned.machine
    hours = sum(device_hours(plan.plans, machine) for plan in plans)
    answers, budgets = list[StatedAnswer](), list[reply.PlannedBudget]()
    for plan in plans:
        label = horizon_label(plan.horizon)
        answers += _answers(plan.config, plan.plans, planned, label)
        budgets += budget_plans(plan.plans, with_shapes=planned.with_shapes, horizon=label)
    return Reply(
        command="plan",
        answers=tuple(answers),
        notes=machine.notes,
        plan=Plan(
            budgets=tuple(budgets),
            hours=sum(plan.hours(machine) for plan in plans),
            start_seconds=machine.start_seconds,
            device=machine.device,
            device_hours=hours,
            cost=None if planned.price is None else planned.price * hours,
            disk_bytes=horizons_disk(plans, machine.slots),
            tokens=round(sum(plan.tokens for plan in plans)),
        ),
    )


def budget_plans(
    plans: Sequence[BudgetPlan], *, with_shapes: bool, horizon: str | None = None
) -> Iterator[reply.PlannedBudget]:
    """Yields the plan of each budget."""
    for plan in plans:
        tokens = plan.budget.tokens if plan.budget.unit == "tokens" else None
        shapes = tuple(map(listed_sizes, plan.shapes))
        yield reply.PlannedBudget(
            horizon=horizon,
            budget=plan.budget.params,
            count=plan.budget.count.value,
            tokens=tokens,
            tokens_each=plan.tokens_each,
            train_flops=plan.budget.train_flops,
            train_seconds=plan.budget.train_seconds,
            epochs=plan.epochs,
            shapes=len(plan.shapes),
            depths=plan.depths,
            worst_count_error=plan.worst_count_error,
            trials=plan.exploring + plan.confirming,
            rungs=tuple(
                reply.PlannedRung(
                    share=rung.tokens / plan.budget.tokens,
                    tokens=tokens and rung.tokens,
                    arriving=rung.arriving,
                    surviving=rung.surviving,
                )
                for rung in plan.rungs
            ),
            flops=plan.flops,
            hours=plan.hours,
            step=plan.step,
            shape_list=shapes if with_shapes else None,
        )


def _answers(
    config: StudyConfig, plans: Sequence[BudgetPlan], planned: Planned, horizon: str | None
) -> Iterator[StatedAnswer]:
    """Yields the questions that a search would answer."""
    cause = Said(name="NothingTrained", text=NOTHING, values={})
    verdict = StatedVerdict(kind=Kind.PLANNED, reason=NOTHING, cause=cause)
    for plan in plans:
        asked = planned_horizon(plan.budget, horizon)
        yield StatedAnswer(
            question=study_question(plan.budget.params, config, None, asked),
            verdict=verdict, command=planned.command,
        )  # fmt: skip
