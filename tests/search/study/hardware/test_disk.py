"""The disk that a search takes: `search/study/hardware/disk.py`."""

from dataclasses import replace

import pytest

from fathom.search.study.hardware.disk import checkpoint_bytes
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import StoppingConfig
from fathom.search.study.planning.plan import BudgetPlan, plan_study, search_disk
from tests.support.dry_run import MACHINE, study


def plans(config: StudyConfig) -> tuple[BudgetPlan, ...]:
    return plan_study(config, 256, MACHINE)


def sizes(planned: tuple[BudgetPlan, ...]) -> list[int]:
    """The largest checkpoint of each budget."""
    return [max(map(checkpoint_bytes, plan.shapes)) for plan in planned]


def test_a_checkpoint_has_three_numbers_a_parameter_and_the_best_weights_are_a_fourth() -> None:
    shape = max(plans(study())[0].shapes, key=lambda shape: shape.params_total)
    both = checkpoint_bytes(shape, best_weights=True)
    assert both - checkpoint_bytes(shape) == 4 * shape.params_total
    larger = replace(shape, d_ff=2 * shape.d_ff)
    grown = larger.params_total - shape.params_total
    assert checkpoint_bytes(larger) - checkpoint_bytes(shape) == 12 * grown


@pytest.mark.parametrize("slots", [1, 5])
def test_paused_trials_keep_a_checkpoint_and_running_ones_two(slots: int) -> None:
    config = study()
    planned = plans(config)
    paused = sum(plan.exploring * size for plan, size in zip(planned, sizes(planned), strict=True))
    assert search_disk(config.train, planned, slots) == paused + 2 * slots * max(sizes(planned))
    whole = study(stopping=StoppingConfig(enabled=False))  # without rungs no trial pauses
    assert search_disk(whole.train, plans(whole), slots) == 2 * slots * max(sizes(plans(whole)))


def test_more_slots_than_trials_take_no_more_disk() -> None:
    config = study()
    trials = sum(plan.exploring + plan.confirming for plan in plans(config))
    most = search_disk(config.train, plans(config), trials)
    assert search_disk(config.train, plans(config), 10**6) == most
