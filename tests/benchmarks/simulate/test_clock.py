"""The simulated clock and cluster."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from benchmarks.simulate.clock import Moment, Start, run, tokens_until_right
from benchmarks.worlds.known import Known, planted_budget
from benchmarks.worlds.planted import World, symmetric

DEPTHS = (2, 4, 8)


def known() -> Known:
    world = World(curve=symmetric(4.0, 0.1), noise=0.0)
    return planted_budget(world, np.random.default_rng(0), depths=DEPTHS, ratios=(4,), seeds=1)


@dataclass(slots=True)
class Scripted:
    """A searcher that starts the trials of a list and pauses them where it is told to."""

    waiting: list[Start]
    pauses: Sequence[tuple[str, int]] = ()
    shares: Sequence[float] = (0.25, 0.5, 1.0)
    running: set[str] = field(default_factory=set)
    most: int = 0
    seen: list[tuple[str, int, float]] = field(default_factory=list)

    def start(self) -> Start | None:
        if not self.waiting:
            return None
        start = self.waiting.pop(0)
        self.running.add(start.trial)
        self.most = max(self.most, len(self.running))
        return start

    def report(self, trial: str, index: int, loss: float) -> bool:
        self.seen.append((trial, index, loss))
        goes_on = (trial, index) not in self.pauses and index + 1 < len(self.shares)
        if not goes_on:
            self.running.discard(trial)
        return goes_on

    def answer(self) -> int | None:
        return len(self.seen)


def starts(some: Known) -> list[Start]:
    return [Start(str(shape.depth), shape, 0) for shape in some.shapes]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_no_more_trials_at_a_time_than_workers_and_every_token_is_paid(workers: int) -> None:
    some = known()
    script = Scripted(starts(some))
    moments = list(run(some, script, workers=workers, limit=math.inf))
    assert script.most == workers
    assert moments[-1].tokens == pytest.approx(some.ladder_tokens)
    assert len(moments) == len(script.seen) == 9


def test_a_paused_trial_resumes_where_it_was_and_pays_only_for_the_rest() -> None:
    some = known()
    first, shape = starts(some)[0], some.shapes[0]
    for script in (Scripted([first, first], pauses=[("2", 0)]), Scripted([first])):
        moments = list(run(some, script, workers=1, limit=math.inf))
        assert script.seen == [
            ("2", i, some.loss(shape, 0, share * some.horizon))
            for i, share in enumerate(script.shares)
        ]
        assert moments[-1].tokens == pytest.approx(some.horizon)


def test_shallow_trials_are_faster_and_report_first() -> None:
    script = Scripted(starts(known())[::-1])
    list(run(known(), script, workers=3, limit=math.inf))
    order = [trial for trial, _, _ in script.seen]
    assert order == ["2", "4", "2", "8", "4", "2", "8", "4", "8"], "twice as deep, half as fast"


def test_reports_end_once_the_limit_is_spent_or_no_trial_runs() -> None:
    some = known()
    moments = list(run(some, Scripted(starts(some)), workers=1, limit=0.5 * some.horizon))
    assert [moment.answer for moment in moments] == [1, 2]
    assert list(run(some, Scripted([]), workers=1, limit=math.inf)) == []


def test_tokens_until_right_count_from_the_last_time_the_answer_became_right() -> None:
    def until(*answers: int | None) -> float:
        moments = [Moment(float(tokens), answer) for tokens, answer in enumerate(answers, start=1)]
        return tokens_until_right(moments, (3, 4))

    assert until(3, 4, 3) == 1
    assert until(None, 3, 2, 4, 4) == 4
    assert until(3, 3, 5) == math.inf
    assert until() == math.inf
