"""What helps where a trial does not fit into memory: `search/study/planning/memory_remedy.py`."""

from dataclasses import replace

import pytest

from fathom.search.study.file.study_file import parse
from fathom.search.study.hardware.machine import Machine
from fathom.search.study.planning.memory_remedy import memory_remedy
from fathom.search.study.planning.plan import BudgetPlan, plan_study
from tests.support.dry_run import MACHINE

STUDY = """
study: s
objective: {name: language, context: 4096}
budgets: [1M, 30M]
tokens: 1B
space: {depth: [2, 4]}
"""


def planned(text: str, memory: float) -> tuple[str, tuple[BudgetPlan, ...], Machine]:
    """The remedy for the largest budget on a machine with so much memory, and the plans."""
    machine, config = replace(MACHINE, memory=memory), parse(text)
    plans = plan_study(config, 256, machine)
    assert not plans[-1].step.enough
    return memory_remedy(config, plans[-1], plans, machine), plans, machine


def need(context: int) -> int:
    """Bytes of the largest budget's step at a context, as a machine without limit plans it."""
    tight = replace(MACHINE, memory=1.0)
    return plan_study(parse(STUDY.replace("4096", str(context))), 256, tight)[-1].step.memory


def test_a_context_is_advised_with_which_the_plan_fits() -> None:
    memory = need(512) * 1.01
    told, _, machine = planned(STUDY, memory)
    assert told == "set `objective.context: 512`, or use a device with more memory"
    shorter = plan_study(parse(STUDY.replace("4096", "512")), 256, machine)
    assert shorter[-1].step.enough


def test_where_the_weights_alone_do_not_fit_the_budgets_that_do_are_named() -> None:
    told, plans, _ = planned(STUDY, need(16) * 0.9)
    assert plans[0].step.enough
    assert told == "keep the `budgets` that fit, 1M, or use a device with more memory"


def test_rows_are_not_advised_to_be_shorter_and_where_nothing_fits_that_is_said() -> None:
    rows = STUDY.replace("{name: language, context: 4096}", "{name: hop, context: 4096}")
    told, _, _ = planned(rows, 1e6)
    assert told.startswith("no context and no budget of the study fits: use a device with more")


@pytest.mark.parametrize("memory", [1e6, 1e7])
def test_a_budget_that_does_not_fit_is_never_among_those_that_do(memory: float) -> None:
    told, plans, _ = planned(STUDY, memory)
    assert not any(plan.step.enough for plan in plans) or "30M" not in told
