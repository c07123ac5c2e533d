"""The `--json` output of a plan."""

from collections.abc import Iterator, Sequence
from typing import Any

from fathom.models.spend import OTHER_COINS
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.contract import reply
from fathom.search.contract.questions import asked_horizon, study_question
from fathom.search.contract.reply import Plan, Reply, StatedAnswer, StatedVerdict, Statement
from fathom.search.study.planning.advice import RunPlan
from fathom.search.study.planning.horizons import horizon_name
from fathom.search.study.planning.plan import BudgetPlan, listed_sizes

NOTHING = "nothing was trained yet"


def plan_reply(
    runs: Sequence[RunPlan], *, price: float | None, with_shapes: bool, command: str
) -> Reply:
    """The plan of a study, with sums over its runs. `price` is the price of one device for an hour;
    `command` is the command that searches the study."""
    machine, hours = runs[-1].machine, sum(run.device_hours for run in runs)
    answers, budgets = list[StatedAnswer](), list[reply.PlannedBudget]()
    for run in runs:
        horizon = horizon_name(run.config)
        answers += _answers(run, command, horizon)
        budgets += budget_plans(run.budgets, with_shapes=with_shapes, horizon=horizon)
    return Reply(
        command="plan",
        answers=tuple(answers),
        notes=tuple(dict.fromkeys(note for run in runs for note in run.machine.notes)),
        plan=Plan(
            budgets=tuple(budgets),
            hours=sum(run.hours for run in runs),
            start_seconds=machine.start_seconds,
            device=machine.device,
            device_hours=hours,
            cost=None if price is None else price * hours,
            disk_bytes=max(run.disk for run in runs),
            tokens=round(sum(run.tokens for run in runs)) if len(runs) > 1 else None,
        ),
    )


def budget_plans(
    plans: Sequence[BudgetPlan], *, with_shapes: bool, horizon: str | None = None
) -> Iterator[reply.PlannedBudget]:
    """Yields each budget's plan in the form of a reply, with its shapes if `with_shapes`."""
    for plan in plans:
        spend = plan.budget.spend
        amounts: dict[str, Any] = dict.fromkeys(coin.key for coin in OTHER_COINS)
        amounts |= {"tokens": None, spend.coin.key: spend.amount}
        shapes = tuple(map(listed_sizes, plan.shapes))
        yield reply.PlannedBudget(
            horizon=horizon,
            budget=plan.budget.params,
            count=plan.budget.count.value,
            tokens_each=plan.tokens_each,
            **amounts,
            epochs=plan.epochs,
            shapes=len(plan.shapes),
            depths=plan.depths,
            worst_count_error=plan.worst_count_error,
            trials=plan.exploring + plan.confirming,
            rungs=tuple(
                reply.PlannedRung(
                    share=rung.tokens / plan.budget.tokens,
                    tokens=amounts["tokens"] and rung.tokens,
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


def _answers(run: RunPlan, command: str, horizon: str | None) -> Iterator[StatedAnswer]:
    """Yields the questions that a search would answer, each with the verdict `planned`."""
    cause = Statement(name="NothingTrained", text=NOTHING, values={})
    verdict = StatedVerdict(kind=Kind.PLANNED, reason=NOTHING, cause=cause)
    for plan in run.budgets:
        asked = asked_horizon(plan.budget.spend, horizon)
        yield StatedAnswer(
            question=study_question(plan.budget.params, run.config, None, asked),
            verdict=verdict, command=command,
        )  # fmt: skip
