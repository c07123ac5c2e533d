"""The time left that a search tells: `search/study/timing/remaining_work.py`."""

import heapq
import io
import itertools
import math
import random
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import pytest
from rich.console import Console

from benchmarks.simulate.driver import Loss, SimulatedWorkers
from fathom.search.records import Outcome, Stage, TrialRecord, TrialSpec
from fathom.search.report.terminal.progress import Progress
from fathom.search.run_folder import RunFolder
from fathom.search.study.planning.budget import evaluation_steps
from fathom.search.study.planning.plan import BudgetPlan, plan_study
from fathom.search.study.timing.remaining_work import SearchPace, WorkLeft, work_left
from fathom.search.study.timing.time_left import TimeLeft, keep_time_left, told_time_left
from tests.support.dry_run import MACHINE, Simulation, best_at_four, scheduler, slow_deep, study

BEGAN = 1e9
"""Unix time at which simulated runs begin."""


class Clock:
    """A clock that a simulation sets."""

    def __init__(self) -> None:
        self.now = BEGAN

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, slots=True)
class Kind:
    """A simulated study: how fast it trains, on how many workers."""

    name: str
    workers: int = 2
    loss: Loss = best_at_four
    of_depth: float = 0.2
    """Time of a layer, as a share of what a step takes beside."""
    busy: tuple[float, float] = (0, 0)
    """Seconds between which the machine is half as fast, as others use it."""
    interrupted: int = 0
    """Reports after which the search is interrupted, and resumed."""
    budgets: tuple[int, ...] = (20_000, 40_000)


KINDS = (
    Kind("text"),
    Kind("tokens", workers=1, of_depth=1.0, budgets=(20_000, 40_000, 80_000)),
    Kind("translation", workers=4, loss=slow_deep),
    Kind("trainer", workers=1, of_depth=0.0, busy=(100, 200)),
    Kind("resumed", interrupted=60, busy=(60, 1e9)),
)
SHARES = (1 / 12, 2 / 12, 4 / 12, 8 / 12)
"""Those of 1, 2, 4 and 8 minutes of a run of 12."""


class Run:
    """A run of a simulated study on a simulated clock, with the ranges that it told."""

    def __init__(self, kind: Kind, path: Path, clock: Clock, *, events: int = 10**9) -> None:
        config = study(study=kind.name, budgets=kind.budgets)
        self._kind, self._clock, self._random = kind, clock, random.Random(kind.name)
        self._steps: dict[str, float] = {}
        search, plans = scheduler(config, path), plan_study(config, 256, MACHINE)
        self._workers = SimulatedWorkers(search, kind.loss, step_seconds=self._step_seconds)
        known = (*search.live.values(), *search.records)
        self._workers.evaluations = {r.spec.trial: len(r.curve) for r in known}
        self.began, self.told = clock.now, list[tuple[float, TimeLeft | None]]()
        with Progress(search, plans, Console(file=io.StringIO())) as progress:
            self._train(progress, events)
        self.ended = clock.now

    def _train(self, progress: Progress, events: int) -> None:
        order, search = itertools.count(), self._workers.scheduler
        due: list[tuple[float, int, str]] = []
        for _ in range(events):
            while len(due) < self._kind.workers and (spec := search.next_trial()):
                heapq.heappush(due, (self._next(spec) + 1, next(order), spec.trial))
            if not due:
                return
            self._clock.now, _, trial = heapq.heappop(due)
            if self._workers.report(trial):
                heapq.heappush(due, (self._next(search.live[trial].spec), next(order), trial))
            self.told.append((self._clock.now, progress._left()))

    def _next(self, spec: TrialSpec) -> float:
        """The time at which a trial reports next: training steps, and half a second."""
        search = self._workers.scheduler
        steps = evaluation_steps(search.config, search.budgets[spec.budget].budget)
        index = self._workers.evaluations.get(spec.trial, 0)
        count = steps[index] - (steps[index - 1] if index else 0)
        return self._clock.now + 0.5 + count * self._step_seconds(spec)

    def _step_seconds(self, spec: TrialSpec) -> float:
        since, until = self._kind.busy
        slower = 2 if since < self._clock.now - BEGAN < until else 1
        layers = 1 + self._kind.of_depth * spec.shape.depth
        drawn = 0.02 * slower * layers * self._random.uniform(0.8, 1.3)
        return self._steps.setdefault(spec.trial, drawn)

    def at(self, share: float) -> tuple[TimeLeft | None, float]:
        """What was told after a share of the time, and the time that was left."""
        at = self.began + share * (self.ended - self.began)
        return [told for when, told in self.told if when <= at][-1], self.ended - at


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """A run of each kind of study, the last one after an interruption."""
    found, clock = [], Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", clock)
        patch.setattr(time, "monotonic", clock)
        for kind in KINDS:
            clock.now, folder = BEGAN, tmp_path_factory.mktemp("runs") / kind.name
            if kind.interrupted:
                Run(kind, folder, clock, events=kind.interrupted)
            found.append(Run(kind, folder, clock))
    return found


@pytest.mark.drill  # five whole searches
def test_the_range_holds_what_was_left_in_most_cases_and_its_middle_is_near(
    runs: list[Run],
) -> None:
    held, errors = 0, []
    for run in runs:
        for share in SHARES:
            told, left = run.at(share)
            if told:
                held += told.low <= left <= told.high
                errors.append(abs((told.low + told.high) / 2 / left - 1))
    assert held >= 16, "of 20"
    assert median(errors) < 0.3


@pytest.mark.drill  # five whole searches
def test_the_range_does_not_jump_and_is_no_wider_later(runs: list[Run]) -> None:
    for run in runs:
        told = [(at, left) for at, left in run.told if left]
        for (at, left), (then, later) in itertools.pairwise(told):
            assert then + later.low <= at + left.high + 1e-6
            assert then + later.high >= at + left.low - 1e-6
        first, last = run.at(SHARES[0])[0], run.at(SHARES[-1])[0]
        assert first
        assert last
        assert last.high - last.low < 1.05 * (first.high - first.low)


@pytest.fixture(scope="module")
def budget(tmp_path_factory: pytest.TempPathFactory) -> tuple[BudgetPlan, list[TrialRecord]]:
    """The plan of a budget, and its trials at the end of a search."""
    config = study(budgets=(20_000,))
    search = scheduler(config, tmp_path_factory.mktemp("ended"))
    [plan] = plan_study(config, 256, MACHINE)
    Simulation(search).run()
    return plan, search.records


Budget = tuple[BudgetPlan, list[TrialRecord]]


def test_the_planned_work_lies_in_the_range_before_anything_is_done(budget: Budget) -> None:
    plan, _ = budget
    work = work_left(plan, [])
    assert work.least < plan.expected_tokens < work.most
    assert math.isinf(work.together), "exploring trials run side by side"


def test_nothing_is_left_of_a_settled_budget_but_what_runs(budget: Budget) -> None:
    plan, records = budget
    assert work_left(plan, records, explored=True, settled=True) == WorkLeft(0, 0, 1)
    last = next(r for r in records if r.outcome is Outcome.FINISHED)
    spec = replace(last.spec, stage=Stage.CONFIRM)
    running = replace(last, spec=spec, outcome=None, curve=last.curve[:1])
    to_the_end = plan.budget.tokens - running.tokens
    work = work_left(plan, [*records, running], explored=True, settled=True)
    assert work == WorkLeft(to_the_end, to_the_end, 1)


def test_a_budget_that_has_taken_more_than_planned_may_take_more_until_it_is_settled(
    budget: Budget,
) -> None:
    plan, records = budget
    twice = [*records, *records]
    work = work_left(plan, twice, waiting=2, explored=True)
    assert work.least == 2 * plan.budget.tokens
    assert work.most >= 4 * plan.budget.tokens
    assert work.together == 2


def test_trials_that_end_before_the_horizon_shorten_the_rest(budget: Budget) -> None:
    plan, records = budget
    finished = [record for record in records if record.outcome is Outcome.FINISHED]
    early = replace(finished[0], curve=finished[0].curve[: len(finished[0].curve) // 2])
    share = early.tokens / plan.budget.tokens
    assert work_left(plan, [early]).most < share * work_left(plan, []).most


def test_nothing_is_told_before_this_run_has_measured_its_pace(budget: Budget) -> None:
    plan, records = budget
    now = max(record.ended or 0.0 for record in records) + 1.0
    pace = SearchPace([plan], {plan.budget.params: 4}, lambda: now)
    pace.passed(2)
    work = {plan.budget.params: work_left(plan, records)}
    assert pace.left({plan.budget.params: records}, work) is None
    pace.evaluated()
    pace.passed(2)
    assert pace.left({plan.budget.params: records}, work) is None, "all of it was in earlier runs"


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (170, 310, "3 to 5 min left"),
        (40, 170, "40 s to 3 min left"),
        (170, 185, "about 3 min left"),
        (2, 50, "up to 50 s left"),
        (0, 1, "seconds left"),
        (4000, 9000, "67 min to 2.5 h left"),
    ],
)
def test_a_range_is_told_in_words(low: float, high: float, text: str) -> None:
    assert TimeLeft(low, high, low, high).text == text


def test_the_hours_of_devices_stand_behind_the_range_until_the_last_trials_end() -> None:
    left = TimeLeft(3600, 9000, 5400, 13_500)
    assert left.with_hours(2, "core") == "60 min to 2.5 h left, 3 to 7.5 core-hours"
    assert TimeLeft(0, 0, 0, 0).with_hours(1, "GPU") == "the last trials are ending"


def test_what_a_search_told_is_read_less_the_time_since(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert told_time_left(folder, time.time()) is None
    folder.time_left.parent.mkdir()
    keep_time_left(folder, TimeLeft(60.0, 90.0, 60.0, 90.0))
    told = told_time_left(folder, time.time() + 70)
    assert told
    assert told.low == 0
    assert told.high == pytest.approx(20, abs=5)
    keep_time_left(folder, None)
    assert told_time_left(folder, time.time()) is None


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "3", '{"low": NaN, "high": 1}', "null", "x" * 9999]
)
def test_a_damaged_file_of_the_time_left_says_nothing(tmp_path: Path, text: str) -> None:
    folder = RunFolder(tmp_path)
    folder.time_left.parent.mkdir()
    folder.time_left.write_text(text)
    assert told_time_left(folder, time.time()) is None
