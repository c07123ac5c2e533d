"""What a person sees while a search runs: a live table, or plain lines in a file."""

import time
from collections import defaultdict
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType

from fathom.search.analysis.interim import SoFar
from fathom.search.formatting import format_hours, format_seconds
from fathom.search.records import TrialRecord
from fathom.search.report.answer_log import Answers
from fathom.search.report.terminal.live_table import (
    LOST,
    LiveRow,
    budget_table,
    summary_line,
    whole_table,
)
from fathom.search.report.terminal.remaining_work import (
    SearchPace,
    Wave,
    confirmed_share,
    flops_done,
    flops_left,
)
from fathom.search.report.terminal.screen import PlainFile, screen_for
from fathom.search.run_folder import RunFolder
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.config import StudyConfig
from fathom.search.study.plan import BudgetPlan

LINES_SECONDS = 60.0
"""Between two lines of a budget in a file; a new stage is said at once."""


class Progress:
    """Follows the trials of a study."""

    def __init__(
        self,
        config: StudyConfig,
        plans: tuple[BudgetPlan, ...],
        folder: RunFolder,
        console: Console,
    ) -> None:
        self._screen = screen_for(console)
        self._config, self._console = config, console
        self._plans = {plan.budget.params: plan for plan in plans}
        self._records: defaultdict[int, dict[str, TrialRecord]] = defaultdict(dict)
        self._running = dict.fromkeys(self._plans, 0.0)
        self._shares: dict[str, float] = {}
        planned = {budget: plan.expected_tokens for budget, plan in self._plans.items()}
        self.answers = Answers(folder, planned, seed=config.seed)
        self._scheduler: Scheduler | None = None
        self._pace = SearchPace()
        self._began = self._drawn = time.monotonic()
        self._said: dict[int, tuple[float, str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._screen.close()
        self.answers.look_at_all(self._of)
        if isinstance(self._screen, PlainFile):
            self._say_lines(time.monotonic())

    def follow(self, scheduler: Scheduler) -> None:
        """Take in what an earlier run has done, so that the time left is judged by this one."""
        self._scheduler = scheduler
        for record in (*scheduler.records, *scheduler.live.values()):
            self._take(record)
        self._pace.begin(self._done())
        self._began = time.monotonic()

    def trial(self, record: TrialRecord) -> None:
        """A trial has changed."""
        self._pace.passed(self._running)
        self._take(record)
        if record.outcome in LOST:
            self.say(f"{_now()}  {record.spec.trial} {record.outcome}: {record.reason}")

    def say(self, words: str) -> None:
        """A line for the user, above the table where there is one."""
        self._screen.say(words)

    def tick(self) -> None:
        """Look and draw again, but not more often than a person can read."""
        self._pace.passed(self._running)
        self.answers.look(self._of)
        now = time.monotonic()
        if isinstance(self._screen, PlainFile):
            self._say_lines(now)
        elif now - self._drawn > self._screen.refresh_seconds:
            self._drawn = now
            self._screen.draw(self.table())

    def table(self) -> RenderableType:
        """All of it."""
        passed = format_seconds(time.monotonic() - self._began)
        done, left = sum(self._done().values()), sum(self._left().values())
        share = done / (done + left) if done else 0.0
        title = f"Study {self._config.study}, {passed}"
        return whole_table(title, self._states(), share, self._words_left())

    def say_how_far(self, saved: int) -> None:
        """What was done by the time that the user ended it, and the answers so far."""
        records = [record for own in self._records.values() for record in own.values()]
        ended = sum(record.outcome is not None for record in records)
        self._console.print(budget_table(self._states()))
        self.say(
            f"Ended after {format_seconds(time.monotonic() - self._began)}: {ended} trials over or "
            f"paused, {saved} saved where they stood"
        )

    def _say_lines(self, now: float) -> None:
        for state in self._states():
            budget = state.plan.budget.params
            at, stage = self._said.get(budget, (self._began, "explore"))
            if stage != state.stage or (now - at > LINES_SECONDS and stage != "done"):
                self._said[budget] = (now, state.stage)
                self.say(f"{_now()}  {summary_line(state)}; {self._words_left()}")

    def _take(self, record: TrialRecord) -> None:
        budget, trial = record.spec.budget, record.spec.trial
        share = self._share(record)
        self._running[budget] += share - self._shares.get(trial, 0.0)
        self._shares[trial] = share
        self._records[budget][trial] = record
        self.answers.news(budget)

    def _share(self, record: TrialRecord) -> float:
        """What a trial has of a worker, where several may train as one model."""
        if record.outcome is not None:
            return 0.0
        if self._scheduler is None:
            return 1.0
        return self._scheduler.budgets[record.spec.budget].share(record.spec.trial)

    def _of(self, budget: int) -> list[TrialRecord]:
        return list(self._records[budget].values())

    def _states(self) -> list[LiveRow]:
        return [
            LiveRow(plan, self._of(budget), self._answer(budget), self._is_done(budget))
            for budget, plan in self._plans.items()
        ]

    def _answer(self, budget: int) -> SoFar | None:
        return self.answers.latest.get(budget)

    def _is_done(self, budget: int) -> bool:
        return self._scheduler is not None and self._scheduler.budgets[budget].done

    def _done(self) -> dict[int, float]:
        return {budget: flops_done(self._of(budget)) for budget in self._plans}

    def _left(self) -> dict[int, float]:
        return {
            budget: flops_left(plan, self._of(budget), self._wave(budget))
            for budget, plan in self._plans.items()
        }

    def _wave(self, budget: int) -> Wave:
        share = confirmed_share(self._config)
        if self._scheduler is None:
            return Wave(share=share)
        search = self._scheduler.budgets[budget]
        return Wave(len(search.wave), search.settled, share)

    def _words_left(self) -> str:
        """Time and cost."""
        left = self._pace.left(self._done(), self._left())
        if left is None:
            return "estimating the time left"
        if not left.busy_seconds:
            return "nothing left to train"
        hours = left.busy_seconds / 3600
        resources = self._config.resources
        on_gpus = any(r.peak_memory_bytes for own in self._records.values() for r in own.values())
        if on_gpus:
            cost = f"{format_hours(hours * resources.gpus_of_trial(1))} GPU-hours"
        else:
            cost = f"{format_hours(hours * resources.cpus_per_trial)} core-hours"
        return f"about {format_seconds(left.seconds)} and {cost} left"


def _now() -> str:
    return time.strftime("%H:%M:%S")
