"""The state of a search as a table, as one line for each budget, and as the whole screen."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from fathom.search.analysis.answer.interim import DepthLosses, InterimAnswer
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.formatting import budget_text, format_seconds, ranges
from fathom.search.records import Outcome, Stage, TrialRecord
from fathom.search.report.terminal.picture import (
    LEAST_HEIGHT,
    DepthPicture,
    pictures,
    side_by_side,
    sparkline,
)
from fathom.search.report.terminal.tables import RoomyTable
from fathom.search.study.planning.plan import BudgetPlan

HEADINGS = ("budget", "stage", "best depth", "loss", "trials", "rungs", "run")
COUNTS = ("done", "paused", "lost")
LEAST = ("rungs", "lost", "paused", "done", "run", "trials")
"""Columns that a narrow terminal leaves out, in the order in which it does."""
UNKNOWN = "-"
LOST = (Outcome.DIVERGED, Outcome.FAILED, Outcome.OUT_OF_MEMORY)
RUNNING_LINES = 4
"""Most running trials that are listed one by one."""
SPARKS = 12
"""Most evaluations of a running trial in its row of bars."""


@dataclass(frozen=True, slots=True)
class LiveRow:
    """The current state of one budget."""

    plan: BudgetPlan
    records: Sequence[TrialRecord]
    answer: InterimAnswer | None
    losses: DepthLosses | None
    done: bool

    @property
    def name(self) -> str:
        """The budget in short, with its unit unless that is parameters."""
        return budget_text(self.plan.budget.params, self.plan.budget.count)

    @property
    def stage(self) -> str:
        """`explore`, `confirm` or `done`."""
        if self.done:
            return "done"
        confirming = any(record.spec.stage is Stage.CONFIRM for record in self.records)
        return "confirm" if confirming else "explore"

    @property
    def result(self) -> str:
        """The verdict of a budget that is done, otherwise its stage."""
        verdict = self.answer.verdict if self.answer and self.done else None
        return verdict or self.stage

    @property
    def interval(self) -> tuple[int, int] | None:
        """The interval of the best depth; None until the budget is done, since an early interval
        may still move, and None if the answer has none."""
        answer = self.answer
        if not self.done or answer is None or answer.verdict is Kind.INSUFFICIENT:
            return None
        if answer.low is None or answer.high is None:
            return None
        return answer.low, answer.high

    @property
    def best(self) -> str:
        """The best depth so far; at the end with its interval, if there is one: `4 [3-6]`."""
        if self.answer is None:
            return UNKNOWN
        if self.interval is None:
            return str(self.answer.depth)
        low, high = self.interval
        return f"{self.answer.depth} [{ranges(range(low, high + 1))}]"

    @property
    def picture(self) -> DepthPicture | None:
        """The picture of loss against depth; None before three depths have losses."""
        if self.losses is None or self.answer is None:
            return None
        return DepthPicture(
            title=f"{self.name}: depth {self.best}, {self.result}",
            losses=self.losses.losses,
            curve=self.losses.curve,
            interval=self.interval,
            best=self.answer.depth,
        )

    @property
    def loss(self) -> str:
        """The loss at the best depth in nats, as text; empty where it is not known."""
        answer = self.answer
        return UNKNOWN if answer is None or answer.loss is None else f"{answer.loss:.4f}"

    @property
    def trials(self) -> str:
        """Number of trials started and, as long as more may start, the most planned: `7/22`."""
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
        table.add_row(
            state.name, state.result, state.best, state.loss, state.trials, state.rungs,
            *map(str, state.counts),
        )  # fmt: skip
    return table


def summary_line(state: LiveRow) -> str:
    """Returns the state of a budget as one line."""
    running, done, paused, lost = state.counts
    name = state.name
    loss = "" if state.loss == UNKNOWN else f", loss {state.loss}"
    if state.done:
        trials = f"{state.result}{loss}, {state.trials} trials"
        if state.answer is None or state.interval:
            return f"{name} done: best depth {state.best}, {trials}"
        return f"{name} done: depth {state.best} is the best estimate, {trials}"
    losses = f", lost {lost}" if lost else ""
    trials = f"{len(state.records)} of at most {state.most}"
    return (
        f"{name} {state.stage}: best so far {state.best}{loss}, trials {trials}: "
        f"{done} done, {paused} paused, {running} running{losses}"
    )


@dataclass(frozen=True, slots=True)
class LiveView:
    """The whole screen: table, pictures, running trials, and a progress bar."""

    title: Callable[[], str]
    states: Sequence[LiveRow]
    share: float
    left: str
    silent: Mapping[str, float]
    """Running trial without a loss for long -> the seconds since its last one or its start."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yields the parts of the screen, with as many pictures as the terminal has room for."""
        ascii_only = options.ascii_only
        if console.is_terminal:
            yield Spinner("line" if ascii_only else "dots", Text(self.title(), style="bold"))
        else:
            yield Text(self.title(), style="bold")
        yield budget_table(self.states)
        running = self._running(options.max_width, sparks=not ascii_only)
        foot = Table.grid(padding=(0, 1))
        foot.add_row(ProgressBar(total=1.0, completed=self.share, width=24), f"{self.share:.0%}")
        room = console.height - len(self.states) - len(running) - 5
        if not ascii_only and room >= LEAST_HEIGHT:
            yield pictures(self._open_pictures(options.max_width), options.max_width, room)
        yield from running
        yield foot
        yield Text(self.left)

    def _open_pictures(self, width: int) -> list[DepthPicture]:
        """Returns as many pictures as fit side by side, those of unfinished budgets first."""
        drawn = [state for state in self.states if state.picture]
        first = sorted(drawn, key=lambda state: state.done)[: side_by_side(width)]
        return [state.picture for state in drawn if state in first and state.picture]

    def _running(self, width: int, *, sparks: bool) -> list[Text]:
        """Returns a line for each of the first running trials, and a last line with the number of
        the others."""
        records = [record for state in self.states for record in state.records]
        running = [record for record in records if record.outcome is None]
        lines = [self._running_line(each, sparks=sparks) for each in running[:RUNNING_LINES]]
        if not (self.silent or any(record.curve for record in records)):
            lines = ["  the first trials are starting: each worker loads PyTorch"]
        if len(running) > RUNNING_LINES:
            lines.append(f"  and {len(running) - RUNNING_LINES} more")
        return [Text(line[:width], style="dim") for line in lines]

    def _running_line(self, record: TrialRecord, *, sparks: bool) -> str:
        spec = record.spec
        share = record.tokens / spec.horizon_tokens
        bars = sparkline([point.loss for point in record.curve], SPARKS) if sparks else ""
        loss = f"{record.curve[-1].loss:.4f}" if record.curve else ""
        quiet = self.silent.get(spec.trial)
        silence = f" no loss for {format_seconds(quiet)}, " if quiet else ""
        depth = f"depth {spec.shape.depth:<2}{silence}"
        return f"  {spec.trial}: {depth} {share:4.0%}  {loss:<7} {bars}".rstrip()
