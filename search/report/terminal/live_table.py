"""The state of a search as a table of 80 columns, and as one line for each budget."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fathom.search.analysis.interim import InterimAnswer
from fathom.search.formatting import format_count
from fathom.search.records import Outcome, Stage, TrialRecord
from fathom.search.report.terminal.tables import RoomyTable
from fathom.search.study.plan import BudgetPlan

HEADINGS = ("budget", "stage", "best depth", "loss", "trials", "rungs", "run")
COUNTS = ("done", "paused", "lost")
UNKNOWN = "-"
LOST = (Outcome.DIVERGED, Outcome.FAILED, Outcome.OUT_OF_MEMORY)
RUNNING_LINES = 4
"""Most running trials that are listed one by one."""


@dataclass(frozen=True, slots=True)
class LiveRow:
    """The current state of one budget."""

    plan: BudgetPlan
    records: Sequence[TrialRecord]
    answer: InterimAnswer | None
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
        interval = "" if answer.low is None else f" [{answer.low}-{answer.high}]"
        return f"{answer.depth}{interval}"

    @property
    def loss(self) -> str:
        """The loss at the best depth, nats, where it is known."""
        answer = self.answer
        return UNKNOWN if answer is None or answer.loss is None else f"{answer.loss:.4f}"

    @property
    def trials(self) -> str:
        """Trials started, and the most that are planned as long as more may start: `7/22`."""
        if self.done:
            return str(len(self.records))
        return f"{len(self.records)}/{self.plan.exploring + self.plan.confirming}"

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


def whole_table(title: str, states: Sequence[LiveRow], share: float, left: str) -> RenderableType:
    """Returns the table, the running trials, and a bar of the share that is done."""
    records = (record for state in states for record in state.records)
    running = [record for record in records if record.outcome is None]
    lines = [Text(_running_line(record), style="dim") for record in running[:RUNNING_LINES]]
    if len(running) > RUNNING_LINES:
        lines.append(Text(f"  and {len(running) - RUNNING_LINES} more", style="dim"))
    foot = Table.grid(padding=(0, 1))
    foot.add_row(ProgressBar(total=1.0, completed=share, width=24), f"{share:.0%}", left)
    return Group(Text(title, style="bold"), budget_table(states), *lines, foot)


def summary_line(state: LiveRow) -> str:
    """Returns the state of a budget as one line of a log file."""
    running, done, paused, lost = state.counts
    losses = f", lost {lost}" if lost else ""
    answer = f"best so far {state.best}"
    if state.done:
        answer = f"best depth {state.best}, {state.result}"
    if state.loss != UNKNOWN:
        answer += f", loss {state.loss}"
    trials = state.trials.replace("/", " of at most ")
    return (
        f"{format_count(state.plan.budget.params):<6} {state.stage:<8} {answer:<44} trials "
        f"{trials}: {done} done, {paused} paused, {running} running{losses}"
    )


def _running_line(record: TrialRecord) -> str:
    spec = record.spec
    share = record.tokens / spec.horizon_tokens
    passed = f", {len(record.rungs)} rungs passed" if record.rungs and spec.prunable else ""
    return f"  {spec.trial}: depth {spec.shape.depth}, {share:.0%} of its tokens{passed}"
