"""The whole screen of a running search: its table, pictures, running trials and time left."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from fathom.search.records import TrialRecord
from fathom.search.report.terminal.live_table import LiveRow, budget_table
from fathom.search.report.terminal.picture import (
    LEAST_HEIGHT,
    DepthPicture,
    pictures,
    side_by_side,
    sparkline,
)

RUNNING_LINES = 4
"""Most running trials that are listed one by one."""
SPARKS = 12
"""Most evaluations of a running trial that are drawn."""


@dataclass(frozen=True, slots=True)
class LiveView:
    """The whole screen: table, pictures, running trials, and a bar of the share that is done."""

    title: Callable[[], str]
    states: Sequence[LiveRow]
    share: float
    left: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yields the parts; pictures only as far as the terminal has room for them."""
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
        """Returns as many pictures as stand side by side, of open budgets first."""
        drawn = [state for state in self.states if state.picture]
        first = sorted(drawn, key=lambda state: state.done)[: side_by_side(width)]
        return [state.picture for state in drawn if state in first and state.picture]

    def _running(self, width: int, *, sparks: bool) -> list[Text]:
        """Returns a line for each of the first running trials, and one for the number of others."""
        records = [record for state in self.states for record in state.records]
        running = [record for record in records if record.outcome is None]
        lines = [_running_line(record, sparks=sparks) for record in running[:RUNNING_LINES]]
        if not any(record.curve for record in records):
            lines = ["  the first trials are starting: each worker loads PyTorch"]
        if len(running) > RUNNING_LINES:
            lines.append(f"  and {len(running) - RUNNING_LINES} more")
        return [Text(line[:width], style="dim") for line in lines]


def _running_line(record: TrialRecord, *, sparks: bool) -> str:
    spec = record.spec
    share = record.tokens / spec.horizon_tokens
    bars = sparkline([point.loss for point in record.curve], SPARKS) if sparks else ""
    loss = f"{record.curve[-1].loss:.4f}" if record.curve else ""
    return f"  {spec.trial}: depth {spec.shape.depth:<2} {share:4.0%}  {loss:<7} {bars}".rstrip()
