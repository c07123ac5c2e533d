"""Where a search is shown: a terminal, a notebook, or a file that gets plain lines."""

import importlib
import io
from abc import ABC, abstractmethod
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live

NOTEBOOK_WIDTH = 80


class Screen(ABC):
    """Something that can be drawn on again and again, and that lines can be said above."""

    refresh_seconds: float
    """Between two drawings."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @abstractmethod
    def draw(self, table: RenderableType) -> None:
        """Show this instead of what was shown before."""

    def say(self, words: str) -> None:
        """A line that stays."""
        self._console.print(words, soft_wrap=True, highlight=False, markup=False)

    @abstractmethod
    def close(self) -> None:
        """Nothing more is drawn."""


class Terminal(Screen):
    """The table stays where it is, and goes when the search ends."""

    refresh_seconds = 0.5

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def draw(self, table: RenderableType) -> None:
        """Over the last one."""
        self._live.start()
        self._live.update(table, refresh=True)

    def close(self) -> None:
        """Take the table away and give the cursor back."""
        self._live.stop()


class Notebook(Screen):
    """One output of a cell, which changes; plain text, since a browser knows no escape codes."""

    refresh_seconds = 2.0

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        # No dependency: whoever runs in a notebook has it.
        self._display: Any = importlib.import_module("IPython.display").display
        self._handle: Any = None

    def draw(self, table: RenderableType) -> None:
        """In the place of the last one."""
        shown = {"text/plain": as_text(table)}
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def close(self) -> None:
        """Nothing: what was drawn last stays."""


class PlainFile(Screen):
    """Gets the lines and no table."""

    refresh_seconds = float("inf")

    def draw(self, table: RenderableType) -> None:
        """Nothing: a file can't be drawn on twice."""

    def close(self) -> None:
        """Nothing."""


def screen_for(console: Console) -> Screen:
    """What suits the place where a console writes to."""
    if console.is_jupyter:
        return Notebook(console)
    return Terminal(console) if console.is_terminal else PlainFile(console)


def as_text(table: RenderableType) -> str:
    """As plain characters."""
    plain = Console(file=io.StringIO(), width=NOTEBOOK_WIDTH, force_jupyter=False, no_color=True)
    with plain.capture() as capture:
        plain.print(table)
    return capture.get()
