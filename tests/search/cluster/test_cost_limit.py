"""The cap of costs: trials save in time, a killed run has counted ahead, resumed runs go on."""

import random
from pathlib import Path

import pytest

from benchmarks.simulate.driver import new_scheduler
from benchmarks.simulate.study import TWO_BUDGETS
from fathom.search.cluster import cost_limit
from fathom.search.cluster.cost_limit import CostLimit, taken_device_seconds
from fathom.search.cluster.interrupt import LEAST_SECONDS, Interrupt
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.file.study_file import parse
from fathom.search.study.preflight import Cap

PRICE = 3600.0
"""Price of an hour, so that a second of a device costs 1."""


@pytest.fixture(autouse=True)
def _two_of_eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost_limit, "_devices", lambda _: (2.0, 8.0))
    monkeypatch.setattr(cost_limit, "gpus_per_trial", lambda _: 0.0)
    monkeypatch.setattr(cost_limit, "concurrent_trials", lambda _: 4)


@pytest.fixture
def scheduler(tmp_path: Path) -> Scheduler:
    found = new_scheduler(parse(TWO_BUDGETS), tmp_path)
    found.folder.create()
    return found


class Clock:
    """A clock that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def limit_of(
    scheduler: Scheduler, cost: float, clock: Clock, said: list[str] | None = None
) -> tuple[CostLimit, Interrupt]:
    interrupt, said = Interrupt(), [] if said is None else said
    cap, resources = Cap(cost, PRICE), scheduler.config.resources
    return CostLimit(scheduler, resources, cap, interrupt, said.append, clock), interrupt


def hold(scheduler: Scheduler, trials: int) -> None:
    """So many trials run."""
    scheduler.budgets[20_000].running = {str(number) for number in range(trials)}


def test_a_search_is_asked_to_end_while_its_trials_can_still_save_under_the_cap(
    scheduler: Scheduler,
) -> None:
    clock, said = Clock(), list[str]()
    limit, interrupt = limit_of(scheduler, 1000, clock, said)
    hold(scheduler, 3)
    limit.tick()
    seconds = 0
    while not interrupt.requested:
        clock.now += 1
        seconds += 1
        limit.tick()

    assert 6 * (seconds - 1) + 8 * LEAST_SECONDS < 1000 <= 6 * seconds + 8 * LEAST_SECONDS
    assert limit.over
    assert said == ["Cost limit of 1000 nearly reached: trials under way save"]
    assert scheduler.folder.ending.exists()


def test_a_killed_run_has_counted_what_its_trials_took_until_they_died(
    scheduler: Scheduler,
) -> None:
    clock = Clock()
    limit, _ = limit_of(scheduler, 1e6, clock)
    hold(scheduler, 3)
    for _ in range(73):
        limit.tick()
        clock.now += 1

    assert 6 * 73 <= taken_device_seconds(scheduler.folder) <= 6 * (73 + 20)


def test_a_run_that_ends_by_itself_has_counted_just_what_its_trials_took(
    scheduler: Scheduler,
) -> None:
    clock = Clock()
    limit, _ = limit_of(scheduler, 1e6, clock)
    hold(scheduler, 3)
    limit.tick()
    clock.now += 50
    hold(scheduler, 0)
    limit.tick()
    clock.now += 50
    limit.tick()
    limit.keep()

    assert taken_device_seconds(scheduler.folder) == 300
    assert limit.sentence() == (
        "Trials took 0.0833 core-hours and cost 300 of 1e+06 at 3600 an hour; another 0.139 "
        "core-hours of this run were idle"
    )


def test_no_trial_starts_where_it_could_not_save_under_the_cap(scheduler: Scheduler) -> None:
    hold(scheduler, 0)
    assert limit_of(scheduler, 8 * LEAST_SECONDS - 1, Clock())[0].over
    assert not limit_of(scheduler, 8 * LEAST_SECONDS + 1, Clock())[0].over


def test_without_a_cap_hours_are_counted_for_a_later_one(scheduler: Scheduler) -> None:
    clock = Clock()
    limit = CostLimit(scheduler, scheduler.config.resources, None, Interrupt(), print, clock)
    hold(scheduler, 1)
    limit.tick()
    clock.now += 100
    limit.tick()
    limit.keep()

    assert limit.sentence() == ""
    assert limit_of(scheduler, 439, clock)[0].over
    assert not limit_of(scheduler, 441, clock)[0].over


@pytest.mark.parametrize("seed", range(5))
def test_trials_never_cost_more_than_the_cap_whenever_runs_are_killed(
    scheduler: Scheduler, seed: int
) -> None:
    """Each run is killed at some second, and its trials die up to five seconds after it."""
    luck, clock, cost, cap = random.Random(seed), Clock(), 0.0, 3000.0
    for _ in range(200):
        limit, interrupt = limit_of(scheduler, cap, clock)
        if limit.over:
            break
        life = luck.choice([luck.uniform(0, 30), luck.uniform(0, 600)])
        while life > 0 and not interrupt.requested:
            hold(scheduler, luck.randint(1, 4))
            limit.tick()
            held = 2 * len(scheduler.budgets[20_000].running)
            clock.now += 1
            cost, life = cost + held, life - 1
        if interrupt.requested:
            cost += held * luck.uniform(0, LEAST_SECONDS - 1)
            break
        cost += held * luck.uniform(0, 5)

    assert cost <= cap


def test_a_search_that_has_ended_before_has_no_sentence_and_asks_nothing_of_ray(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # without Ray, as where nothing is left to train
    monkeypatch.setattr(Scheduler, "done", True)
    limit, _ = limit_of(scheduler, 1000, Clock())

    limit.keep()
    assert (limit.over, limit.sentence()) == (False, "")


def test_a_damaged_count_is_taken_for_none(scheduler: Scheduler) -> None:
    for text in ("", "nan", "-3", "inf", "x"):
        scheduler.folder.device_seconds.write_text(text)
        assert taken_device_seconds(scheduler.folder) == 0
