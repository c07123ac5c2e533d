"""ASHA on virtual workers, without records or files: `search/study/planning/virtual_time.py`."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import pytest

from fathom.search.study.planning.virtual_time import (
    Closing,
    Draw,
    Promotion,
    RandomTrials,
    VirtualJob,
    VirtualTime,
    explore,
)

RUNGS, HORIZON = (10, 25, 60), 100


def virtual_time(workers: int = 4, eta: float = 2.5, rungs: tuple[int, ...] = RUNGS) -> VirtualTime:
    return VirtualTime(workers=workers, rungs=rungs, horizon=HORIZON, eta=eta)


@dataclass
class Given:
    """Trials with given losses, named by their number; `close` ones are kept beside the best."""

    losses: Sequence[float]
    exempt: frozenset[str] = frozenset()
    close: frozenset[str] = frozenset()
    eta: float = 1e9
    drawn: int = 0

    def pauses(self, trial: str, rung: int) -> bool:
        return trial not in self.exempt

    def ranked(self, trials: Sequence[str], rung: int) -> Sequence[str]:
        return sorted(trials, key=lambda trial: self.losses[int(trial)])

    def kept(self, trials: Sequence[str], rung: int) -> Sequence[str]:
        ranked = self.ranked(trials, rung)
        best = max(1, int(len(ranked) / self.eta))
        return [t for place, t in enumerate(ranked) if place < best or t in self.close]

    @property
    def all_drawn(self) -> bool:
        return self.drawn == len(self.losses)


@dataclass
class Driven:
    """A schedule that is driven step by step; what it does is noted."""

    time: VirtualTime
    trials: Given
    diverges: Mapping[str, int] = field(default_factory=dict)
    """Trial -> tokens to which it does not come."""
    assigned: list[VirtualJob] = field(default_factory=list)
    taken: list[VirtualJob] = field(default_factory=list)
    closings: list[Closing] = field(default_factory=list)

    def fill(self) -> None:
        """Makes every decision that is to be made now."""
        while decision := self.time.decision(self.trials):
            match decision:
                case Closing():
                    self.closings.append(decision)
                    self.time.close(decision)
                case Promotion(trial):
                    self._assign(trial)
                case Draw():
                    self.trials.drawn += 1
                    self._assign(str(self.trials.drawn - 1))

    def _assign(self, trial: str) -> None:
        self.assigned.append(job := self.time.job(trial))
        self.time.assign(job)

    def take(self) -> VirtualJob:
        """Takes the next result, and fills."""
        job = self.time.first
        assert job
        lost = job.to >= self.diverges.get(job.trial, HORIZON + 1)
        over = lost or job.to == HORIZON
        self.time.take(job.trial, () if over else (job.to,), over=over, badly=lost)
        self.taken.append(job)
        self.fill()
        return job

    def run(self) -> "Driven":
        self.fill()
        while self.time.first:
            self.take()
        return self


def driven(
    losses: Sequence[float], *, workers: int = 4, eta: float = 2.5, **given: object
) -> Driven:
    return Driven(virtual_time(workers, eta), Given(losses, **given))  # type: ignore[arg-type]


def test_a_job_takes_its_share_of_the_horizon_and_jobs_are_numbered() -> None:
    search = driven([1.0, 2.0])
    search.fill()
    assert search.assigned == [
        VirtualJob(Fraction(1, 10), 0, "0", 10),
        VirtualJob(Fraction(1, 10), 1, "1", 10),
    ]
    search.run()
    assert [job.to for job in search.taken if job.trial == "0"] == [*RUNGS, HORIZON]
    ends = [job.finish for job in search.taken if job.trial == "0"]
    assert ends == [Fraction(1, 10), Fraction(1, 4), Fraction(3, 5), Fraction(1)]


def test_results_are_taken_by_finish_then_by_number_with_filling_between() -> None:
    search = driven([5.0, 4.0, 3.0, 2.0, 1.0, 0.0], workers=3)
    search.fill()
    assert [job.trial for job in search.assigned] == ["0", "1", "2"]
    search.take()
    assert [job.trial for job in search.assigned] == ["0", "1", "2", "3"]
    search.take()
    search.take()
    assert search.assigned[-1] == VirtualJob(Fraction(1, 4), 5, "2", 25), (
        "1 of 3, before another draw"
    )
    search.run()
    assert search.taken == sorted(search.taken)


def test_never_more_jobs_than_workers() -> None:
    search = driven([*range(30)], workers=5)
    search.fill()
    while search.time.first:
        assert len(search.time.jobs) <= 5
        search.take()
    assert search.trials.all_drawn


def test_a_promotion_comes_before_a_draw_and_from_the_highest_rung_first() -> None:
    dice = random.Random(3)
    search = driven([dice.random() for _ in range(40)], eta=2)
    search.fill()
    while search.time.first:
        before = len(search.assigned)
        search.take()
        waiting = [
            rung
            for rung in RUNGS
            for place, trial in enumerate(search.trials.ranked([*search.time.standing[rung]], rung))
            if place < len(search.time.standing[rung]) // 2 and trial in search.time.waiting(rung)
        ]
        tos = [job.to for job in search.assigned[before:]]
        assert not waiting or not search.time.free, "nobody who is promoted waits for a free worker"
        if 10 in tos[:-1]:
            assert set(tos[tos.index(10) :]) == {10}, "draws come last"


def test_a_trial_that_never_pauses_goes_on_at_once_and_counts_at_each_rung() -> None:
    search = driven([9.0, 1.0, 2.0], exempt=frozenset("0"))
    search.fill()
    search.take()
    assert search.assigned[-1] == VirtualJob(Fraction(1, 4), 3, "0", 25)
    search.take()
    search.take()
    assert search.assigned[-1].trial == "1", "1 of 3 with the one that never pauses"
    search.run()
    assert [job.to for job in search.taken if job.trial == "0"] == [*RUNGS, HORIZON]


@pytest.mark.parametrize("last", ["comes to its rung", "diverges"])
def test_no_trial_is_drawn_before_the_first_ones_were_taken_at_their_first_rung(last: str) -> None:
    lost = {"2": 10} if last == "diverges" else {}
    search = Driven(virtual_time(), Given([1.0, 2.0, 3.0, 4.0]), diverges=lost)
    search.time.at_once = 3
    search.fill()
    search.take()
    search.take()
    assert len(search.assigned) == 3
    assert search.time.free == 3
    search.take()
    assert search.assigned[-1].trial == "3"
    assert search.assigned[-1].finish == search.time.now + Fraction(1, 10)


def test_once_nothing_is_left_the_lowest_open_rung_promotes_its_best_and_those_too_close() -> None:
    search = driven([3.0, 1.0, 2.0, 4.0, 5.0], eta=10, close=frozenset("2")).run()
    assert search.closings == [
        Closing(10, ("1", "2")),
        Closing(25, ("1", "2")),
        Closing(60, ("1", "2")),
    ]
    assert {job.trial for job in search.taken if job.to == HORIZON} == {"1", "2"}


def test_a_closing_that_promotes_more_than_there_are_workers_leaves_none_behind() -> None:
    everybody = frozenset(map(str, range(9)))
    search = driven([*range(9)], workers=2, eta=10, close=everybody).run()
    assert search.time.over == everybody


def test_a_rung_to_which_nobody_comes_is_closed_as_well() -> None:
    lost = Driven(virtual_time(), Given([1.0, 2.0]), diverges={"0": 10, "1": 10}).run()
    assert [closing.rung for closing in lost.closings] == [*RUNGS]
    assert not any(closing.promoted for closing in lost.closings)
    assert lost.time.closed == set(RUNGS)


def test_a_trial_that_ends_badly_counts_nowhere_from_its_planned_end_on() -> None:
    search = Driven(virtual_time(eta=3), Given([0.0, 1.0, 2.0, 3.0]), diverges={"0": 25})
    search.fill()
    for _ in range(4):
        search.take()
    assert search.assigned[-1].trial == "0", "1 of 3"
    assert [*search.time.standing[10]] == ["0", "1", "2", "3"]
    search.take()
    assert [*search.time.standing[10]] == ["1", "2", "3"]
    assert search.time.now == Fraction(1, 4)
    assert search.assigned[-1] == VirtualJob(Fraction(2, 5), 5, "1", 25), "who is now 1 of 3"


def test_reopened_rungs_let_go_on_who_does_not_pause_there_any_more() -> None:
    search = driven([3.0, 1.0, 2.0, 4.0, 5.0]).run()
    paused = search.time.waiting(10)
    now = search.time.now
    search.time.closed.clear()
    search.trials.exempt = frozenset("01234")
    search.run()
    assert paused
    assert {job.trial for job in search.taken if job.to == HORIZON} == set("01234")
    assert all(job.finish > now for job in search.taken[-len(paused) :])


@dataclass
class Asha:
    """Algorithm 2 of Li et al. (2020): `get_job` over rungs of (trial, loss), and a random draw."""

    eta: float
    rungs: dict[int, dict[str, float]]
    promoted: dict[int, set[str]]

    def get_job(self) -> tuple[str, int] | None:
        """The trial to promote and the number of its next rung; None to draw a new one."""
        for number in reversed(range(len(RUNGS))):
            here = self.rungs[number]
            top = sorted(here, key=here.__getitem__)[: int(len(here) / self.eta)]
            for trial in top:
                if trial not in self.promoted[number]:
                    self.promoted[number].add(trial)
                    return trial, number + 1
        return None


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("workers", [1, 3, 16])
def test_promotions_are_those_of_the_published_algorithm_on_the_same_order_of_arrival(
    seed: int, workers: int
) -> None:
    dice = random.Random(seed)
    losses = [dice.random() for _ in range(50)]
    eta = dice.choice([2, 2.5, 3, 4])
    search = Driven(virtual_time(workers, eta), Given(losses))
    published = Asha(eta, {n: {} for n in range(3)}, {n: set() for n in range(3)})
    stations = (*RUNGS, HORIZON)

    def compare(jobs: Sequence[VirtualJob]) -> None:
        for job in jobs:
            chosen = published.get_job()
            assert (chosen or (job.trial, 0)) == (job.trial, stations.index(job.to))
            assert (chosen is None) == (job.to == RUNGS[0])

    search.fill()
    compare(search.assigned)
    while search.time.first and not search.closings:
        before = len(search.assigned)
        search.take()
        job = search.taken[-1]
        if job.to < HORIZON:
            published.rungs[stations.index(job.to)][job.trial] = losses[int(job.trial)]
        if not search.closings:
            compare(search.assigned[before:])
            assert search.trials.all_drawn or not search.time.free
    assert len(search.taken) > 50


@pytest.mark.parametrize("eta", [1.5, 2.5, 4])
def test_the_synchronous_rule_promotes_nobody_before_a_rung_is_closed(eta: float) -> None:
    trials = RandomTrials(random.Random(0), 30, exempt=0.0, eta=eta)
    explore(time := virtual_time(eta=eta), trials)
    losses = [trials.losses[str(number)] for number in range(30)]
    search = Driven(replace(virtual_time(eta=eta), waits=True), Given(losses, eta=eta)).run()
    came = 30
    for closing in search.closings:
        ranked = search.trials.ranked([*search.time.standing[closing.rung]], closing.rung)
        assert len(ranked) == came
        came = max(1, int(came / eta))
        assert [*closing.promoted] == ranked[:came]
    assert len(search.time.over) == came
    spent = [sum(len(t.standing[rung]) for rung in RUNGS) for t in (search.time, time)]
    assert spent[0] < spent[1], "fewer tokens than the asynchronous rule takes"


def test_random_trials_are_promoted_at_about_one_in_eta() -> None:
    time = virtual_time(workers=16)
    explore(time, RandomTrials(random.Random(0), 200, 0.1, eta=2.5))
    arrived = [len(time.standing[rung]) for rung in RUNGS]
    assert arrived[0] == 200
    assert 80 <= arrived[1] <= 140
    assert time.closed == set(RUNGS)
