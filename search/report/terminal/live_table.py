"""The state of a search as a table, and as one line for each budget."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from fathom.search.analysis.interim import DepthLosses, InterimAnswer
from fathom.search.formatting import format_count, ranges
from fathom.search.records import Outcome, Stage, TrialRecord
from fathom.search.report.terminal.picture import DepthPicture
from fathom.search.report.terminal.tables import RoomyTable
from fathom.search.study.planning.plan import BudgetPlan

HEADINGS = ("budget", "stage", "best depth", "loss", "trials", "rungs", "run")
COUNTS = ("done", "paused", "lost")
LEAST = ("rungs", "lost", "paused", "done", "run", "trials")
"""Columns that a narrow terminal leaves out, the first one first."""
UNKNOWN = "-"
LOST = (Outcome.DIVERGED, Outcome.FAILED, Outcome.OUT_OF_MEMORY)


@dataclass(frozen=True, slots=True)
class LiveRow:
    """The current state of one budget."""

    plan: BudgetPlan
    records: Sequence[TrialRecord]
    answer: InterimAnswer | None
    losses: DepthLosses | None
    done: bool

    @property
    def stage(self) -> str:
        """`explore`, `confirm` or `done`."""
        if self.done:
            return "done"
        confirming = any(record.spec.stage is Stage.CONFIRM for record in self.records)
        return "confirm" if confirming else "explore"

    @property
    def result(self) -> str:
        """The verdict of a budget that is done, else its stage."""
        verdict = self.answer.verdict if self.answer and self.done else None
        return verdict or self.stage

    @property
    def best(self) -> str:
        """The incumbent depth with its interval where that is known, for example `4 [3-6]`."""
        answer = self.answer
        if answer is None:
            return UNKNOWN
        if answer.low is None or answer.high is None:
            return str(answer.depth)
        return f"{answer.depth} [{ranges(range(answer.low, answer.high + 1))}]"

    @property
    def picture(self) -> DepthPicture | None:
        """Loss against depth; None before there are losses of three depths."""
        if self.losses is None or self.answer is None:
            return None
        low, high = self.answer.low, self.answer.high
        return DepthPicture(
            title=f"{format_count(self.plan.budget.params)}: depth {self.best}, {self.result}",
            losses=self.losses.losses,
            curve=self.losses.curve,
            interval=(low, high) if low and high else None,
            best=self.answer.depth,
        )

    @property
    def loss(self) -> str:
        """The loss at the best depth, nats, where it is known."""
        answer = self.answer
        return UNKNOWN if answer is None or answer.loss is None else f"{answer.loss:.4f}"

    @property
    def trials(self) -> str:
        """Trials started, and the most that are planned as long as more may start: `7/22`."""
        return str(len(self.records)) if self.done else f"{len(self.records)}/{self.most}"

    @property
    def most(self) -> int:
        """The most trials that are planned."""
        return self.plan.exploring + self.plan.confirming

    @property
    def rungs(self) -> str:
        """Exploring trials that reached each rung, for example `7>3>1`."""
        explored = [r for r in self.records if r.spec.stage is Stage.EXPLORE]
        came = (sum(rung.tokens in r.rungs for r in explored) for rung in self.plan.rungs)
        return ">".join(map(str, came)) or UNKNOWN

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Numbers of trials that are running, done, paused and lost."""
        outcomes = Counter(record.outcome for record in self.records)
        lost = sum(outcomes[outcome] for outcome in LOST)
        return outcomes[None], outcomes[Outcome.FINISHED], outcomes[Outcome.STOPPED], lost


def budget_table(states: Sequence[LiveRow]) -> Table:
    """Returns a table with one row for each budget."""
    table = RoomyTable(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    table.least = LEAST
    for heading in (*HEADINGS, *COUNTS):
        is_text = heading in HEADINGS[:3]
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=True)
    for state in states:
        name = format_count(state.plan.budget.params)
        table.add_row(
            name, state.result, state.best, state.loss, state.trials, state.rungs,
            *map(str, state.counts),
        )  # fmt: skip
    return table


def summary_line(state: LiveRow) -> str:
    """Returns the state of a budget as one line."""
    running, done, paused, lost = state.counts
    name = format_count(state.plan.budget.params)
    loss = "" if state.loss == UNKNOWN else f", loss {state.loss}"
    if state.done:
        return f"{name} done: best depth {state.best}, {state.result}{loss}, {state.trials} trials"
    losses = f", lost {lost}" if lost else ""
    trials = f"{len(state.records)} of at most {state.most}"
    return (
        f"{name} {state.stage}: best so far {state.best}{loss}, trials {trials}: "
        f"{done} done, {paused} paused, {running} running{losses}"
    )
