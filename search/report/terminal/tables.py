"""The layout of the tables on a terminal: titles, and columns of text and of numbers."""

import copy
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Self

from rich.cells import cell_len
from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from fathom.search.formatting import visible

PIPED_WIDTH = 1000
"""Width in columns when output is no terminal, so that a table keeps all columns and a sentence is
one line."""


def terminal(*, stderr: bool = False) -> Console:
    """The console of a command, which prints texts unchanged: brackets in them are no styles, and
    `:llama` is no emoji."""
    console = Console(stderr=stderr, emoji=False, markup=False, highlight=False)
    if console.is_dumb_terminal:  # which rich takes for 80 columns wide
        console.size = ConsoleDimensions(*shutil.get_terminal_size())
    if not console.is_terminal and not console.is_jupyter and "COLUMNS" not in os.environ:
        console.width = PIPED_WIDTH
    return console


class RoomyTable(Table):
    """A table that drops columns to fit the terminal or, if that is not enough, becomes a list with
    a line for each cell.

    A table of rich would cut numbers short: `2.9…`.
    """

    least: Sequence[str] = ()
    """Headings of the columns to leave out, in this order."""
    explained: str = ""
    """Heading of the column that the caption explains; without the column, the caption is left out
    too."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yields the table, or its title, the cells by row and its caption."""
        table = self
        for heading in self.least:
            if table._needed_width() > options.max_width:
                table = table._without(heading)
        if table._needed_width() <= options.max_width:
            yield from super(RoomyTable, table).__rich_console__(console, options)
            return
        if self.title:
            yield Text(str(self.title), style=self.title_style or "bold")
        for row in zip(*(column.cells for column in table.columns), strict=True):
            for number, (column, cell) in enumerate(zip(table.columns, row, strict=True)):
                if text := _text(cell):
                    indent = "  " if number else ""
                    yield Text.assemble(f"{indent}{column.header}: ", text, overflow="fold")
        if self.caption:
            yield Text(str(self.caption), style="dim")

    def _without(self, heading: str) -> Self:
        """Returns a copy without the column of this heading and without a caption that explains
        it."""
        smaller = copy.copy(self)
        if heading == self.explained:
            smaller.caption = None
        kept = [column for column in self.columns if column.header != heading]
        smaller.columns = [replace(column, _index=number) for number, column in enumerate(kept)]
        return smaller

    def _needed_width(self) -> int:
        """Least width in columns at which every cell is shown in full; texts that may wrap need the
        width of their longest word."""
        _, right, _, left = self.padding
        width = 0
        for column in self.columns:
            texts = [_text(cell).plain for cell in (column.header, *column.cells)]
            parts = texts if column.no_wrap else _words(texts)
            width += max(map(cell_len, parts), default=0) + left + right
        return width


def empty_table(title: str, headings: tuple[str, ...], least: Sequence[str] = ()) -> RoomyTable:
    """Returns a table without rows, with text aligned to the left and numbers to the right; the
    columns `least` are dropped first on a narrow terminal."""
    table = RoomyTable(title=title, title_style="bold", box=None, padding=(0, 1))
    table.title_justify, table.least = "left", least
    for heading in headings:
        wraps = heading in ("depths", "not ruled out")
        is_text = wraps or heading == "verdict"
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=not wraps)
    return table


def print_whole(line: str, console: Console) -> None:
    """Prints a line without breaking it, so that a path or a command in it can be copied."""
    console.print(visible(line), highlight=False, markup=False, soft_wrap=True)


def print_text(text: str, console: Console) -> None:
    """Prints sentences, wrapped between words on a terminal and unbroken in a file."""
    whole = not console.is_terminal
    console.print(visible(text), highlight=False, markup=False, soft_wrap=whole)


def _text(cell: RenderableType) -> Text:
    return cell if isinstance(cell, Text) else Text(str(cell))


def _words(texts: Iterable[str]) -> list[str]:
    return [word for text in texts for word in text.split()]
