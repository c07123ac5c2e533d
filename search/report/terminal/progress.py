"""The progress of a running search: a live table, or plain lines in a file."""

import time
from collections import defaultdict
from typing import Self

from rich.console import Console

from fathom.search.formatting import format_hours, format_seconds
from fathom.search.records import TrialRecord
from fathom.search.report.answer_log import AnswerLog
from fathom.search.report.terminal.live_table import (
    LOST,
    UNKNOWN,
    LiveRow,
    LiveView,
    budget_table,
    summary_line,
)
from fathom.search.report.terminal.looks_worse import LooksWorse
from fathom.search.report.terminal.remaining_work import SearchPace, flops_done, flops_left
from fathom.search.report.terminal.screen import screen_for
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.planning.plan import BudgetPlan

LINES_SECONDS = 10.0
"""Least time between two lines of a budget in a file; a new stage is printed at once."""
QUIET_SECONDS = 900.0
"""Time without a change after which a line says that the search goes on."""


class Progress:
    """Follows the trials of a study and shows their state."""

    def __init__(
        self, scheduler: Scheduler, plans: tuple[BudgetPlan, ...], console: Console
    ) -> None:
        """Subscribes to the scheduler; trials of earlier runs do not count for the pace."""
        self._screen = screen_for(console)
        self._scheduler, self._console = scheduler, console
        self._plans = {plan.budget.params: plan for plan in plans}
        self._records: defaultdict[int, dict[str, TrialRecord]] = defaultdict(dict)
        self._running = dict.fromkeys(self._plans, 0.0)
        self._shares: dict[str, float] = {}
        planned = {budget: plan.expected_tokens for budget, plan in self._plans.items()}
        self.answers = AnswerLog(scheduler.folder, planned, seed=scheduler.config.seed)
        self._looks_worse = LooksWorse()
        self._printed: dict[int, tuple[float, str, str]] = {}
        for record in (*scheduler.records, *scheduler.live.values()):
            self._take(record)
        scheduler.listeners.append(self.trial)
        self._pace = SearchPace(self._done())
        self._began = self._drawn = self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        self._screen.draw(self.view())
        return self

    def __exit__(self, *_: object) -> None:
        self._screen.close()
        self._update_answers(all_budgets=True)
        self._print_changes(time.monotonic())

    def trial(self, record: TrialRecord) -> None:
        """Updates the display with a trial that has changed."""
        self._pace.passed(self._running)
        self._take(record)
        if record.outcome in LOST:
            self.print_line(f"{_now()}  {record.spec.trial} {record.outcome}: {record.reason}")

    def print_line(self, text: str) -> None:
        """Prints a line, above the table where there is one."""
        self._last_line = time.monotonic()
        self._screen.print_line(text)

    def tick(self) -> None:
        """Computes answers and redraws, but not more often than a person can read."""
        self._pace.passed(self._running)
        self._update_answers()
        now = time.monotonic()
        self._print_changes(now)
        if now - self._drawn > self._screen.refresh_seconds:
            self._drawn = now
            self._screen.draw(self.view())

    def _update_answers(self, *, all_budgets: bool = False) -> None:
        """Computes the answers of budgets that are done at once, so that no earlier one is shown
        as final, and of the others now and then."""
        for budget, search in self._scheduler.budgets.items():
            if search.done or all_budgets:
                # In the order of the records' file, as the report reads them.
                records = search.ended if search.done else self._of(budget)
                self.answers.update_now(budget, records, done=search.done)
        self.answers.update(self._of)

    def view(self) -> LiveView:
        """Returns the state of all budgets, the running trials and the time left."""
        done, left = sum(self._done().values()), sum(self._left().values())
        return LiveView(
            title=self._title,
            states=self._states(),
            share=done / (done + left) if done else 0.0,
            left=self._time_left(),
        )

    def _title(self) -> str:
        return f"Study {self._scheduler.config.study}, {self._elapsed()}: best depths so far"

    def print_interruption(self, saved: int) -> None:
        """Prints the answers so far and the numbers of trials, when the user ends the search."""
        ended = f"{self._ended()} trials over or paused, {saved} saved where they stood"
        self._console.print(budget_table(self._states()))
        self.print_line(f"Ended after {self._elapsed()}: {ended}")

    def _print_changes(self, now: float) -> None:
        """Prints which depths look worse so far; in a file also each new answer, and a line when
        there was none for long."""
        for state in self._states():
            if state.answer and state.losses and not state.done:
                for sentence in self._looks_worse.news(state.answer, state.losses.losses):
                    self.print_line(f"{_now()}  {sentence}")
            if self._is_due(state, now):
                budget = state.plan.budget.params
                self._printed[budget] = (now, state.stage, state.best)
                self.print_line(f"{_now()}  {summary_line(state)}; {self._time_left()}")
        if not self._screen.shows_table and now - self._last_line > QUIET_SECONDS:
            ended = f"{self._ended()} trials over or paused"
            self.print_line(f"{_now()}  {ended}; {self._time_left()}")

    def _is_due(self, state: LiveRow, now: float) -> bool:
        """Whether a budget has news: a new stage, or in a file another answer."""
        budget, never = state.plan.budget.params, (self._began, "explore", UNKNOWN)
        at, stage, best = self._printed.get(budget, never)
        if state.done or self._screen.shows_table:
            return state.done and stage != "done"
        return stage != state.stage or (best != state.best and now - at > LINES_SECONDS)

    def _take(self, record: TrialRecord) -> None:
        budget, trial = record.spec.budget, record.spec.trial
        share = self._share(record)
        self._running[budget] += share - self._shares.get(trial, 0.0)
        self._shares[trial] = share
        self._records[budget][trial] = record
        self.answers.mark_changed(budget)

    def _share(self, record: TrialRecord) -> float:
        """Returns 1 if the trial has a worker, and 0 if it has ended or waits for one."""
        running = self._scheduler.budgets[record.spec.budget].running
        return float(record.outcome is None and record.spec.trial in running)

    def _ended(self) -> int:
        """Returns the number of trials that are over or paused."""
        return sum(r.outcome is not None for budget in self._plans for r in self._of(budget))

    def _of(self, budget: int) -> list[TrialRecord]:
        return list(self._records[budget].values())

    def _states(self) -> list[LiveRow]:
        return [
            LiveRow(
                plan,
                self._of(budget),
                self.answers.latest.get(budget),
                self.answers.losses.get(budget),
                self._scheduler.budgets[budget].done,
            )
            for budget, plan in self._plans.items()
        ]

    def _done(self) -> dict[int, float]:
        return {budget: flops_done(self._of(budget)) for budget in self._plans}

    def _left(self) -> dict[int, float]:
        left = {}
        for budget, plan in self._plans.items():
            search = self._scheduler.budgets[budget]
            waiting, records = len(search.confirmations), self._of(budget)
            left[budget] = flops_left(plan, records, waiting=waiting, settled=search.settled)
        return left

    def _time_left(self) -> str:
        """Returns the estimated time and cost of the rest of the search."""
        if self._scheduler.done:
            return f"the search took {self._elapsed()}"
        to_come = self._left()
        left = self._pace.left(self._done(), to_come)
        if left is None and self._scheduler.config.train.command:
            return "time left not known yet"  # the plan knows Fathom's own speed alone
        if left is None:
            plans = self._plans.values()
            planned = sum(plan.hours * to_come[plan.budget.params] / plan.flops for plan in plans)
            return f"about {format_seconds(3600 * planned)} left, as planned"
        if not left.busy_seconds:
            return "the last trials are ending"
        resources = self._scheduler.config.resources
        on_gpus = any(r.peak_memory_bytes for budget in self._plans for r in self._of(budget))
        each = resources.gpus_of_trial(1) if on_gpus else resources.cpus_per_trial
        hours = format_hours(left.busy_seconds / 3600 * each)
        unit = "GPU-hours" if on_gpus else "core-hours"
        return f"about {format_seconds(left.seconds)} and {hours} {unit} left"

    def _elapsed(self) -> str:
        return format_seconds(time.monotonic() - self._began)


def _now() -> str:
    return time.strftime("%H:%M:%S")
