"""Display of a command before it has results: a spinner, or a line for each step."""

import time
from typing import Self

from rich.console import Console
from rich.status import Status
from rich.text import Text

from fathom.search.formatting import format_seconds
from fathom.search.report.terminal.tables import print_text

LEAST_SECONDS = 1.0
"""Seconds above which a step leaves a line on a terminal."""


class Steps:
    """The steps of a start, one at a time, each with the time that it took."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._status: Status | None = None
        self._step, self._began = "", 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self, step: str) -> None:
        """Ends the last step and begins the next, such as `starting Ray`."""
        self.end()
        self._step, self._began = step, time.monotonic()
        if self.console.is_interactive:
            kind = "line" if self.console.options.ascii_only else "dots"
            self._status = Status(Text(step), console=self.console, spinner=kind)
            self._status.start()
        else:
            print_text(step, self.console)

    def end(self) -> None:
        """Ends the step; on a terminal a step that took a while leaves a line."""
        if self._status is None:
            return
        self._status.stop()
        self._status = None
        took = time.monotonic() - self._began
        if took >= LEAST_SECONDS:
            line = f"{self._step}: {format_seconds(took)}"
            self.console.print(line, style="dim", highlight=False)
