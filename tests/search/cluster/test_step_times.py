"""Timing steps on workers: `search/cluster/step_times.py`."""

from collections.abc import Iterator

import pytest
import ray

from fathom.search.cluster.session.ray_session import start_ray
from fathom.search.cluster.step_times import (
    LEAST_SECONDS,
    MOST_SECONDS,
    SHARE,
    device_of_worker,
    measure_steps,
    measured_steps,
    seconds_each,
    timed_tasks,
)
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.study_file import parse
from fathom.search.study.hardware.machine import processor
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.plan import BudgetPlan, plan_study
from tests.support.dry_run import MACHINE
from tests.support.ray_folder import cluster_of
from tests.support.toy import Successor

STUDY = """
study: timed
objective: {name: language, context: 6}
budgets: [8k, 10k]
count: non_embedding
train_seconds: 10
space: {depth: [1, 3], n_heads: 2}
train: {batch_size: 4}
resources: {gpus_per_trial: 0}
"""
CONFIG: StudyConfig = parse(STUDY)


def plans() -> tuple[BudgetPlan, ...]:
    return plan_study(CONFIG, 8, MACHINE)


def test_the_median_of_the_workers_counts() -> None:
    tasks = timed_tasks(plans())
    results = [[factor * (1.0 + place) for place in range(len(tasks))] for factor in (1, 2, 9)]
    found = measured_steps(plans(), ["a core"] * 3, results)
    assert (found.device, found.at_once) == ("a core", 3)
    for place, (budget, shape) in enumerate(tasks):
        seconds = found.times[budget.params].seconds(shape)
        assert seconds == pytest.approx(2 * (1.0 + place))


def test_a_shape_that_can_not_be_measured_is_left_out_and_a_whole_budget_is_refused() -> None:
    tasks = timed_tasks(plans())
    small = plans()[0].budget.params
    some = [1.0 if place else "RuntimeError: too wide" for place in range(len(tasks))]
    assert (
        len(measured_steps(plans(), ["a core"], [some]).budgets[small])
        == len([task for task in tasks if task[0].params == small]) - 1
    )
    none = ["RuntimeError: too wide" if budget.params == small else 1.0 for budget, _ in tasks]
    with pytest.raises(ConfigError, match=r"budget 8k can't be measured: RuntimeError: too wide"):
        measured_steps(plans(), ["a core"], [none])


def test_workers_with_devices_of_several_kinds_are_refused() -> None:
    results = [[1.0] * len(timed_tasks(plans()))] * 2
    with pytest.raises(ConfigError, match=r"devices of one kind, got workers on a GPU and a core"):
        measured_steps(plans(), ["a GPU", "a core"], results)


def test_measuring_takes_a_share_of_a_trial_within_limits() -> None:
    assert seconds_each(1, 10) == LEAST_SECONDS
    assert seconds_each(100, 10) == pytest.approx(SHARE * 10)
    assert seconds_each(1e6, 10) == MOST_SECONDS


@pytest.fixture
def _joined(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process has joined a cluster of two cores."""
    with cluster_of({"num_cpus": 2}) as address:
        monkeypatch.setenv("RAY_ADDRESS", address)
        start_ray(CONFIG.resources, "fathom run")
        yield
        ray.shutdown()


@pytest.mark.drill
@pytest.mark.usefixtures("_joined")
def test_each_worker_of_a_cluster_times_every_shape_and_frees_its_core() -> None:
    objective = Successor()
    found = measure_steps(CONFIG, plans(), objective)

    assert found.at_once == 2
    assert found.device.startswith(processor())
    assert device_of_worker(CONFIG, objective) == found.device
    for plan in plans():
        depths = sorted(s.depth for budget, s in timed_tasks(plans()) if budget == plan.budget)
        timed = found.budgets[plan.budget.params]
        assert [shape.depth for shape in timed] == depths
        assert all(shape.seconds > 0 for shape in timed)
    both = ray.remote(num_cpus=2)(lambda: "free")
    assert ray.get(both.remote(), timeout=60) == "free"
