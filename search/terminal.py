"""What a person sees while a search runs: a live table in a terminal, plain lines elsewhere."""

import time
from collections import Counter
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from search.budget import format_count
from search.plan import BudgetPlan
from search.records import Outcome, Stage, TrialRecord

REFRESH_SECONDS = 0.5
PAUSED = "paused"
"""A stopped trial while the search goes on, which may take it up again."""


class Progress:
    """Follows the trials of a study."""

    def __init__(self, study: str, plans: tuple[BudgetPlan, ...], console: Console) -> None:
        self._study, self._console = study, console
        self._plans = {plan.budget.params: plan for plan in plans}
        self._records: dict[str, TrialRecord] = {}
        self._inherited_flops = 0.0
        self._began = time.monotonic()
        self._drawn = 0.0
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def inherit(self, records: list[TrialRecord]) -> None:
        """Take in what an earlier run has done, so that the time left is judged by this one."""
        for record in records:
            self._records[record.spec.trial] = record
        self._inherited_flops = self._flops_done()
        self._began = time.monotonic()

    def trial(self, record: TrialRecord) -> None:
        """A trial has changed."""
        self._records[record.spec.trial] = record
        if record.outcome and not self._console.is_terminal:
            self._console.print(self._line(record), soft_wrap=True, highlight=False, markup=False)

    def tick(self) -> None:
        """Draw again, but not more often than a person can read."""
        now = time.monotonic()
        if self._console.is_terminal and now - self._drawn > REFRESH_SECONDS:
            self._drawn = now
            self._live.update(self._table(), refresh=True)

    def _line(self, record: TrialRecord) -> str:
        spec = record.spec
        ended = sum(r.outcome is not None for r in self._records.values())
        loss = f"loss {record.loss:.4f}" if record.loss is not None else record.reason
        outcome = record.outcome.value if record.outcome else ""
        if record.outcome is Outcome.STOPPED:
            outcome = PAUSED
        return (
            f"{time.strftime('%H:%M:%S')}  {spec.trial:<20} depth {spec.shape.depth:<3} "
            f"d_model {spec.shape.d_model:<4} {outcome:<9} {loss}  "
            f"[{ended} of about {self._trials_planned()}, {self._time_left()}]"
        )

    def _table(self) -> RenderableType:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        for heading in ("budget", "stage", "best so far"):
            table.add_column(heading)
        for heading in ("run", "done", PAUSED, "lost", "trials"):
            table.add_column(heading, justify="right")
        for params, plan in self._plans.items():
            table.add_row(*self._row(params, plan))
        share = min(1.0, self._flops_done() / self._flops_planned())
        bar = ProgressBar(total=1.0, completed=share, width=40)
        foot = Table.grid(padding=(0, 2))
        foot.add_row(bar, f"{share:.0%}", self._time_left())
        running = [record for record in self._records.values() if record.outcome is None]
        lines = [Text(self._running_line(record), style="dim") for record in running[:8]]
        return Group(Text(f"Study {self._study}", style="bold"), table, *lines, foot)

    def _row(self, params: int, plan: BudgetPlan) -> list[str]:
        mine = [record for record in self._records.values() if record.spec.budget == params]
        outcomes = Counter(record.outcome for record in mine)
        confirming = any(record.spec.stage is Stage.CONFIRM for record in mine)
        finished = [r for r in mine if r.loss is not None and r.spec.rate_scale == 1.0]
        best = min(finished, key=lambda r: r.loss or 0.0, default=None)
        words = f"depth {best.spec.shape.depth}, loss {best.loss:.4f}" if best else "-"
        lost = (Outcome.DIVERGED, Outcome.FAILED, Outcome.OUT_OF_MEMORY)
        return [
            format_count(params),
            "confirming" if confirming else "exploring",
            words,
            str(outcomes[None]),
            str(outcomes[Outcome.FINISHED]),
            str(outcomes[Outcome.STOPPED]),
            str(sum(outcomes[outcome] for outcome in lost)),
            f"{len(mine)}/{plan.exploring + plan.confirming}",
        ]

    def _running_line(self, record: TrialRecord) -> str:
        spec = record.spec
        share = record.tokens / spec.horizon_tokens
        passed = f", {len(record.rungs)} rungs passed" if record.rungs and spec.may_stop else ""
        return f"  {spec.trial}: depth {spec.shape.depth}, {share:.0%} of the tokens{passed}"

    def _trials_planned(self) -> int:
        return sum(plan.exploring + plan.confirming for plan in self._plans.values())

    def _flops_planned(self) -> float:
        return sum(plan.flops for plan in self._plans.values())

    def _flops_done(self) -> float:
        return sum(
            record.tokens * record.spec.shape.train_flops_per_token
            for record in self._records.values()
        )

    def _time_left(self) -> str:
        """From the pace of this run; nothing is promised before a twentieth of it is done."""
        done = self._flops_done() - self._inherited_flops
        left = max(0.0, self._flops_planned() - self._inherited_flops - done)
        if done < 0.05 * (done + left):
            return "estimating the time left"
        seconds = (time.monotonic() - self._began) * left / done
        return f"about {format_seconds(seconds)} left"


def format_seconds(seconds: float) -> str:
    """A duration as people say it: 40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
