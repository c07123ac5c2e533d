"""Screens that show a running search: a terminal, a notebook, or a file of plain lines."""

import importlib
import io
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live

from fathom.search.report.terminal.tables import print_text

NOTEBOOK_WIDTH = 80
FRAMES_PER_SECOND = 4


class Screen:
    """Plain lines, for a file or a dumb terminal; other screens show a table as well."""

    refresh_seconds = 0.0
    """Least time between two drawings of the table."""
    shows_table = False

    def __init__(self, console: Console) -> None:
        self._console = console

    def draw(self, table: RenderableType) -> None:
        """Replaces the table; does nothing here, as plain lines can't be overwritten."""

    def print_line(self, text: str) -> None:
        """Prints a line that stays."""
        print_text(text, self._console)

    def close(self) -> None:
        """Ends the drawing; printed lines stay."""


class Terminal(Screen):
    """A terminal: the table is drawn in place and removed when the search ends."""

    refresh_seconds = 0.5
    shows_table = True

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        # A thread of its own draws it again, so that time goes on while Ray keeps this one waiting.
        self._live = Live(console=console, refresh_per_second=FRAMES_PER_SECOND, transient=True)

    def draw(self, table: RenderableType) -> None:
        """Draws over the last table."""
        self._live.update(table)
        self._live.start(refresh=True)

    def close(self) -> None:
        """Removes the table and shows the cursor again."""
        self._live.stop()


class Notebook(Screen):
    """A notebook: one output of the cell is updated, as plain text without escape codes."""

    refresh_seconds = 2.0
    shows_table = True

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        # IPython is no dependency: every notebook has it.
        self._display: Any = importlib.import_module("IPython.display").display
        self._handle: Any = None

    def draw(self, table: RenderableType) -> None:
        """Updates the output of the cell."""
        shown = {"text/plain": as_text(table)}
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


def screen_for(console: Console) -> Screen:
    """The screen that fits where a console writes."""
    if console.is_jupyter:
        return Notebook(console)
    return Terminal(console) if console.is_interactive else Screen(console)


def as_text(table: RenderableType) -> str:
    """Returns a table as plain characters, 80 columns wide."""
    plain = Console(file=io.StringIO(), width=NOTEBOOK_WIDTH, force_jupyter=False, no_color=True)
    with plain.capture() as capture:
        plain.print(table)
    return capture.get()
