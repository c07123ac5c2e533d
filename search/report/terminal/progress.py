"""The progress of a running search: a live table, or plain lines in a file."""

import time
from collections import defaultdict
from typing import Self

from rich.console import Console

from fathom.search.formatting import format_seconds
from fathom.search.records import TrialRecord
from fathom.search.report.live.answer_log import AnswerLog
from fathom.search.report.terminal.live_table import (
    LOST,
    UNKNOWN,
    LiveRow,
    LiveView,
    budget_table,
    summary_line,
)
from fathom.search.report.terminal.looks_worse import LooksWorse
from fathom.search.report.terminal.screen import screen_for
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.planning.budget import evaluation_steps
from fathom.search.study.planning.plan import BudgetPlan
from fathom.search.study.timing.remaining_work import SearchPace, WorkLeft, work_left
from fathom.search.study.timing.time_left import NOT_KNOWN, TimeLeft, keep_time_left

LINES_SECONDS = 10.0
"""Least seconds between two lines about a budget in a file; a new stage is printed at once."""
QUIET_SECONDS = 900.0
"""Time without a change after which a line says that the search goes on."""
SILENT_SECONDS = 60.0
"""Least time without a loss after which a running trial is called silent."""
KEEP_SECONDS = 5.0
"""Time between two writes of the time left, which `fathom status` reads."""


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
        steps = {budget: self._steps(plan) for budget, plan in self._plans.items()}
        planned = {budget: plan.expected_tokens for budget, plan in self._plans.items()}
        self.answers = AnswerLog(scheduler.folder, planned, seed=scheduler.config.seed)
        self._looks_worse = LooksWorse()
        self._printed: dict[int, tuple[float, str, str]] = {}
        self._heard: dict[str, float] = {}
        """Trial with a worker -> the time of its last loss, or of its start or resumption."""
        self._longest_wait = 0.0
        """Most seconds that a trial took from its start, or one loss, to the next."""
        self._said_silent: dict[str, float] = {}
        """The silent trials when a line last named them, with their seconds."""
        for record in (*scheduler.records, *scheduler.live.values()):
            self._take(record)
        scheduler.listeners.append(self.trial)
        self._pace = SearchPace(plans, steps)
        self._began = self._drawn = self._last_line = self._kept = time.monotonic()

    def __enter__(self) -> Self:
        self._screen.draw(self.view())
        return self

    def __exit__(self, *_: object) -> None:
        self._screen.close()
        keep_time_left(self._scheduler.folder, self._left())
        self._update_answers(all_budgets=True)
        self._print_changes(time.monotonic())

    def trial(self, record: TrialRecord) -> None:
        """Updates the display with a trial that has changed."""
        self._pace.passed(sum(self._running.values()))
        trial, now = record.spec.trial, time.monotonic()
        before = self._records[record.spec.budget].get(trial)
        heard = self._heard.setdefault(trial, now)
        if len(record.curve) > (len(before.curve) if before else 0):
            self._pace.evaluated()
            self._longest_wait = max(self._longest_wait, now - heard)
            self._heard[trial] = now
        if record.outcome:
            del self._heard[trial]
        self._take(record)
        if record.outcome in LOST:
            self.print_line(f"{_now()}  {record.spec.trial} {record.outcome}: {record.reason}")

    def print_line(self, text: str) -> None:
        """Prints a line, above the table where there is one."""
        self._last_line = time.monotonic()
        self._screen.print_line(text)

    def tick(self) -> None:
        """Computes answers and redraws, at most as often as a person can read."""
        self._pace.passed(sum(self._running.values()))
        self._update_answers()
        now = time.monotonic()
        if now - self._kept > KEEP_SECONDS:
            self._kept = now
            keep_time_left(self._scheduler.folder, self._left())
        self._print_changes(now)
        if now - self._drawn > self._screen.refresh_seconds:
            self._drawn = now
            self._screen.draw(self.view())

    def _update_answers(self, *, all_budgets: bool = False) -> None:
        """Updates the answers: of finished budgets at once, so that no outdated answer is shown as
        final, of other budgets now and then."""
        for budget, search in self._scheduler.budgets.items():
            if search.done or all_budgets:
                # In the order of the records' file, as the report reads them.
                records = search.ended if search.done else self._of(budget)
                self.answers.update_now(budget, records, done=search.done)
        self.answers.update(self._of)

    def view(self) -> LiveView:
        """Returns the state of all budgets, the running trials and the time left."""
        done = sum(r.train_flops for budget in self._plans for r in self._of(budget))
        left = sum(
            (work.least + work.most) / 2 * self._plans[budget].flops_of_a_token
            for budget, work in self._work_left().items()
        )
        return LiveView(
            title=self._title,
            states=self._states(),
            share=done / (done + left) if done else 0.0,
            left=self._time_left(),
            silent=self._silent(),
        )

    def _title(self) -> str:
        return f"Study {self._scheduler.config.study}, {self._elapsed()}: best depths so far"

    def print_interruption(self, saved: int) -> None:
        """Prints the answers so far and the numbers of trials, when the user ends the search."""
        ended = f"{self._ended()} trials over or paused, {saved} saved where they stood"
        self._console.print(budget_table(self._states()))
        self.print_line(f"Ended after {self._elapsed()}: {ended}")

    def _print_changes(self, now: float) -> None:
        """Prints which depths look worse so far. In a file, also prints each new answer, and a line
        if nothing changed for long."""
        for state in self._states():
            if state.answer and state.losses and not state.done:
                for sentence in self._looks_worse.news(state.answer, state.losses.losses):
                    self.print_line(f"{_now()}  {state.name}: {sentence}")
            if self._is_due(state, now):
                budget = state.plan.budget.params
                self._printed[budget] = (now, state.stage, state.best)
                self.print_line(f"{_now()}  {summary_line(state)}; {self._time_left()}")
        if self._screen.shows_table:
            return
        self._print_silent()
        if now - self._last_line > QUIET_SECONDS:
            ended = f"{self._ended()} trials over or paused"
            self.print_line(f"{_now()}  {ended}; {self._time_left()}")

    def _silent(self, sooner: float = 0.0) -> dict[str, float]:
        """Seconds since the last loss, or the start, of each running trial that takes more than a
        minute, and more than twice as long as any has taken; or `sooner` by so many seconds."""
        now, least = time.monotonic(), max(SILENT_SECONDS, 2 * self._longest_wait) - sooner
        quiet = {trial: now - heard for trial, heard in self._heard.items()}
        return {trial: seconds for trial, seconds in quiet.items() if seconds > least}

    def _print_silent(self) -> None:
        """Prints which trials are silent, when one more is or one has been for twice as long."""
        silent, said = self._silent(), self._said_silent
        if not any(seconds > 2 * said.get(trial, 0.0) for trial, seconds in silent.items()):
            return
        self._said_silent = silent = self._silent(sooner=LINES_SECONDS)
        first, seconds = max(silent.items(), key=lambda item: item[1])
        since = time.strftime("%H:%M:%S", time.localtime(time.time() - seconds))
        others = f" and {len(silent) - 1} more" if len(silent) > 1 else ""
        text = f"{_now()}  {first}{others}: no loss since {since}"
        if self._scheduler.config.train.command:
            text += f"; output: {self._scheduler.folder.checkpoint(first).with_suffix('.log')}"
        self.print_line(text)

    def _is_due(self, state: LiveRow, now: float) -> bool:
        """True if a budget has news: a new stage or, when lines go to a file, another answer."""
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
        """Returns the number of trials that have ended or are paused."""
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

    def _steps(self, plan: BudgetPlan) -> int:
        config = self._scheduler.config
        return 0 if config.train.command else len(evaluation_steps(config, plan.budget))

    def _work_left(self) -> dict[int, WorkLeft]:
        return {
            budget: work_left(
                plan,
                self._of(budget),
                waiting=(search := self._scheduler.budgets[budget]).waiting,
                explored=search.explored,
                settled=search.settled,
                together=self._scheduler.config.confirm.together,
            )
            for budget, plan in self._plans.items()
        }

    def _left(self) -> TimeLeft | None:
        """The time left; None where it is not known."""
        records = {budget: self._of(budget) for budget in self._plans}
        return self._pace.left(records, self._work_left())

    def _time_left(self) -> str:
        """Returns the time and cost of the rest of the search, as far as they are known."""
        if self._scheduler.done:
            return f"the search took {self._elapsed()}"
        left = self._left()
        if left is None:
            return NOT_KNOWN
        resources = self._scheduler.config.resources
        on_gpus = any(r.peak_memory_bytes for budget in self._plans for r in self._of(budget))
        each = resources.gpus_of_trial(1) if on_gpus else resources.cpus_per_trial
        return left.with_hours(each, "GPU" if on_gpus else "core")

    def _elapsed(self) -> str:
        return format_seconds(time.monotonic() - self._began)


def _now() -> str:
    return time.strftime("%H:%M:%S")
