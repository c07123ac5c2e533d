"""What a study will cost: `search/plan.py`."""

import math
import random

import pytest

from search.budget import expand_budgets
from search.config import Sampler, StoppingConfig, StudyConfig
from search.plan import BudgetPlan, Machine, expected_survivors, plan_study
from tests.search.dry_run import study

MACHINE = Machine(slots=2, flops_per_second=1e10, words="two slots")


def plans(config: StudyConfig) -> tuple[BudgetPlan, ...]:
    return plan_study(config, 256, MACHINE)


@pytest.mark.parametrize(("arriving", "eta"), [(12, 4.0), (30, 2.0), (24, 3.0), (7, 4.0)])
def test_expected_survivors_are_those_of_trials_in_random_order(arriving: int, eta: float) -> None:
    rng = random.Random(0)
    survivors = 0
    for _ in range(400):
        came: list[int] = []
        chosen: set[int] = set()
        for value in rng.sample(range(arriving), arriving):
            came = sorted([*came, value])
            chosen |= set(came[: math.floor(len(came) / eta)])
        survivors += len(chosen | set(came[: math.ceil(arriving / eta)]))
    assert expected_survivors(arriving, eta) == pytest.approx(survivors / 400, rel=0.06)


def test_tokens_and_trials_add_up_without_stopping() -> None:
    config = study(stopping=StoppingConfig(enabled=False))
    for plan in plans(config):
        assert plan.exploring == 10
        assert plan.confirming == 3 * (2 + 2)
        assert plan.rungs == ()
        assert plan.expected_tokens == 22 * plan.budget.tokens
        assert plan.hours == pytest.approx(plan.flops / 2e10 / 3600)


def test_stopping_saves_tokens_and_a_ladder_takes_every_depth() -> None:
    stopped, whole = study(), study(stopping=StoppingConfig(enabled=False))
    for fewer, more in zip(plans(stopped), plans(whole), strict=True):
        assert fewer.expected_tokens < more.expected_tokens
    for plan in plans(study(sampler=Sampler.LADDER)):
        assert plan.exploring == len(plan.depths)
        assert plan.rungs == ()


def test_every_budget_of_the_study_is_planned_with_its_true_error() -> None:
    config = study()
    assert [plan.budget for plan in plans(config)] == list(expand_budgets(config))
    for plan in plans(config):
        errors = [abs(plan.budget.count_error(shape)) for shape in plan.shapes]
        assert plan.worst_count_error == max(errors) <= config.tolerance
