"""The planned cost of a study: `search/study/plan.py`."""

import math
import random

import pytest

from fathom.search.study.budget import expand_budgets
from fathom.search.study.config import StudyConfig
from fathom.search.study.groups import ResourcesConfig, Sampler, StoppingConfig
from fathom.search.study.plan import (
    BudgetPlan,
    Machine,
    expected_survivors,
    plan_study,
    this_machine,
)
from tests.support.dry_run import MACHINE, study


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


def test_the_hours_of_devices_are_those_of_every_trial_at_a_time() -> None:
    planned = plans(study())
    hours = sum(plan.hours for plan in planned)
    assert MACHINE.device_hours(planned) == pytest.approx(2 * hours)
    halves = Machine(slots=4, flops_per_second=1e14, description="", device="GPU", devices=0.5)
    assert halves.device_hours(planned) == pytest.approx(2 * hours)


def test_the_devices_of_a_trial_are_those_that_the_study_gives_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fathom.search.study.plan._gpus", lambda: 8)
    monkeypatch.setattr("fathom.search.study.plan.os.cpu_count", lambda: 6)

    def machine(**resources: float) -> Machine:
        return this_machine(study(resources=ResourcesConfig(**resources)))

    assert (machine().device, machine().devices, machine().slots) == ("GPU", 1, 8)
    assert (machine(gpus_per_trial=4).devices, machine(gpus_per_trial=4).slots) == (4, 2)
    cores = machine(gpus_per_trial=0, cpus_per_trial=3)
    assert (cores.device, cores.devices, cores.slots) == ("core", 3, 2)
