"""What a study will cost: `search/plan.py`."""

import random

import pytest

from search.budget import expand_budgets
from search.config import Sampler, StoppingConfig, StudyConfig
from search.plan import BudgetPlan, Machine, plan_study
from search.scheduler import FairHalving
from tests.search.dry_run import study

MACHINE = Machine(slots=2, flops_per_second=1e10, words="two slots")


def plans(config: StudyConfig) -> tuple[BudgetPlan, ...]:
    return plan_study(config, 256, MACHINE)


@pytest.mark.parametrize("bands", [1, 3])
@pytest.mark.parametrize("eta", [1.5, 2.0])
def test_expected_survivors_are_those_of_trials_in_random_order(bands: int, eta: float) -> None:
    stopping = StoppingConfig(
        bands=bands, eta=eta, foresight=(0.0, 0.0), always_finish=0.0, first_rung=0.25
    )
    config = study(trials=30, stopping=stopping)
    expected = plans(config)[0].rungs
    survivors = [0.0] * len(expected)
    rng = random.Random(0)
    for _ in range(400):
        halving = FairHalving(config.stopping, (1, 27))
        depths = [rng.choice((1, 5, 27)) for _ in range(30)]  # as often in each of three bands
        going = list(range(30))
        for rung in range(len(expected)):
            rng.shuffle(going)
            values = {trial: rng.random() for trial in going}
            going = [t for t in going if halving.judge(str(t), depths[t], rung, values[t])]
            survivors[rung] += len(going) / 400
    assert [rung.surviving for rung in expected] == pytest.approx(survivors, rel=0.04)


def test_trials_that_are_foreseen_to_catch_up_are_expected_to_go_on() -> None:
    now, both = (
        plans(study(stopping=StoppingConfig(foresight=foresight)))[0].expected_tokens
        for foresight in ((0.0, 0.0), (0.0, 1.0))
    )
    assert now < both < 1.15 * now


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
