"""Screens that show a running search: a terminal, a notebook, or a file of plain lines."""

import importlib
import io
from abc import ABC, abstractmethod
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live

NOTEBOOK_WIDTH = 80


class Screen(ABC):
    """A place with a table that is drawn again and again, and lines above it."""

    refresh_seconds: float
    """Least time between two drawings."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @abstractmethod
    def draw(self, table: RenderableType) -> None:
        """Replace the table."""

    def print_line(self, text: str) -> None:
        """Print a line that stays."""
        self._console.print(text, soft_wrap=True, highlight=False, markup=False)

    @abstractmethod
    def close(self) -> None:
        """End the drawing."""


class Terminal(Screen):
    """A terminal: the table is drawn in place and removed when the search ends."""

    refresh_seconds = 0.5

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def draw(self, table: RenderableType) -> None:
        """Draw over the last table."""
        self._live.start()
        self._live.update(table, refresh=True)

    def close(self) -> None:
        """Remove the table and show the cursor again."""
        self._live.stop()


class Notebook(Screen):
    """A notebook: one output of the cell is updated, as plain text without escape codes."""

    refresh_seconds = 2.0

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        # IPython is no dependency: every notebook has it.
        self._display: Any = importlib.import_module("IPython.display").display
        self._handle: Any = None

    def draw(self, table: RenderableType) -> None:
        """Update the output of the cell."""
        shown = {"text/plain": as_text(table)}
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def close(self) -> None:
        """Do nothing: the last table stays."""


class PlainFile(Screen):
    """A file: it has lines and no table."""

    refresh_seconds = float("inf")

    def draw(self, table: RenderableType) -> None:
        """Do nothing: a file can't be overwritten."""

    def close(self) -> None:
        """Do nothing."""


def screen_for(console: Console) -> Screen:
    """Returns the screen for the place to which a console writes."""
    if console.is_jupyter:
        return Notebook(console)
    return Terminal(console) if console.is_terminal else PlainFile(console)


def as_text(table: RenderableType) -> str:
    """Returns a table as plain characters, 80 columns wide."""
    plain = Console(file=io.StringIO(), width=NOTEBOOK_WIDTH, force_jupyter=False, no_color=True)
    with plain.capture() as capture:
        plain.print(table)
    return capture.get()
