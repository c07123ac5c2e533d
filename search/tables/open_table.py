"""A table as names and rows of values, whatever the format of its file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from fathom.search.formatting import printable
from fathom.search.tables.errors import TableError

MOST_ROWS = 4_000_000
"""Largest number of rows of a table, some 17 seconds to read, or of lines with numbers in logs."""
MOST_COLUMNS = 20_000
"""Largest number of columns of a table; trackers export a thousand or two."""
KINDS = "a CSV or TSV file (also .gz), JSON (.json, .jsonl), Markdown (.md) or parquet"

Row = tuple[int, Sequence[object]]
"""Number of a line in its file, from 1, and a value for each column."""


@dataclass(frozen=True, slots=True)
class OpenTable:
    """The columns of a table, and its rows."""

    label: str
    """Name of the table in messages."""
    names: list[str]
    rows: Iterator[Row]
    """The rows, which can be read once."""
    results: frozenset[str] = frozenset()
    """Columns that are known to be results of a training, not settings."""
    notes: tuple[str, ...] = ()
    """Notes on what was left out, without full stops."""
    maximised: str = ""
    """Column in which higher is known to be better; empty without one."""
    lacking: Mapping[str, str] = field(default_factory=dict)
    """Fathom's name of a column, or `size` -> end of the message that it is missing."""

    def __post_init__(self) -> None:
        if len(self.names) > MOST_COLUMNS:
            raise TableError(
                f"{self.label} must have at most {MOST_COLUMNS:,} columns, got "
                f"{len(self.names):,}; leave out those that are no settings or results"
            )


def readable_rows(rows: Iterable[Row], label: str) -> Iterator[Row]:
    """The rows, read on demand by a library, whose errors become a `TableError`.

    Raises:
        TableError: when the file can't be read to its end.
    """
    with readable(label):
        yield from rows


@contextmanager
def readable(label: str) -> Iterator[None]:
    """Context in which a library reads a file: any exception becomes a `TableError` of one line,
    except errors of the operating system, such as a full disk.

    Raises:
        TableError: when the file can't be read.
    """
    try:
        yield
    except TableError:
        raise
    except Exception as error:
        if getattr(error, "errno", None) is not None:
            raise
        reason = printable(str(error) or type(error).__name__)[:160]
        raise TableError(
            f"{label} must be {KINDS}, got a file that can't be read as one: {reason}"
        ) from None


def rows_of(label: str, rows: Sequence[dict[str, Any]]) -> OpenTable:
    """A table from rows of name -> value; rows may have different names."""
    names = list(dict.fromkeys(chain.from_iterable(rows)))
    values = ([row.get(name) for name in names] for row in rows)
    return OpenTable(
        label, [*map(str, names)], enumerate(values, 1)
    )  # a database may name by bytes


def flat_names(row: dict[str, Any], head: str = "") -> dict[str, Any]:
    """The row with the values of nested objects under joined names such as `config.depth`."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        flat |= (
            flat_names(value, f"{head}{name}.")
            if isinstance(value, dict)
            else {f"{head}{name}": value}
        )
    return flat
