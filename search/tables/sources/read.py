"""Opens a text file with a table (CSV, TSV, JSON or Markdown; also .gz) as names and rows."""

import csv
import gzip
import io
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BufferedIOBase, RawIOBase
from itertools import chain, count, dropwhile, islice, takewhile
from pathlib import Path

from fathom.objectives.files.reading import GZIP
from fathom.search.formatting import printable
from fathom.search.tables.columns.cells import THOUSANDS
from fathom.search.tables.errors import TableError
from fathom.search.tables.open_table import (
    KINDS,
    MOST_ROWS,
    OpenTable,
    Row,
    flat_names,
    readable,
    readable_rows,
    rows_of,
)
from fathom.search.tables.sources.layouts.objects import rows_in

JSON = (".jsonl", ".ndjson", ".json")
MARKDOWN, BAR = (".md", ".markdown"), "|"
LONGEST_LINE = 1 << 26
"""Most characters of a line, and of JSON that is read as a whole."""
MOST_JSON, OBJECT = 1 << 28, 128
"""Most characters of all lines of JSON, which are kept in memory, and how many each object counts
in addition."""
FIRST_BYTES = 1 << 16
"""First bytes of a file, which must contain no zero byte."""
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?[kmbt]?|nan|inf", re.IGNORECASE)
EXCEL = "sep="
"""Start of a first line that only names the separator, as Excel reads it."""
SEPARATORS = (",", "\t", ";", "|")
COMMA = re.compile(r"[-+]?\d+,\d+(e[-+]?\d+)?|[-+]?[1-9]\d{0,2}(\.\d{3})+(,\d+)?", re.IGNORECASE)
"""Pattern of numbers with decimal commas, such as 3,21, or with points for thousands,
10.000.000."""
PEEKED = 1000
"""Number of first rows that are searched for such a number."""


@contextmanager
def open_text(path: Path) -> Iterator[OpenTable]:
    """Context manager that opens a file as a table, whose rows can be read until it ends.

    Raises:
        TableError: when the file is not a table.
    """
    label = printable(str(path))
    with path.open("rb") as file:
        with readable(label):
            packed = file.peek(2).startswith(GZIP)
            text = _text(gzip.GzipFile(fileobj=file) if packed else file, label)
            if any(suffix.lower() in JSON for suffix in path.suffixes):
                table = _open_json(text, label)
            else:
                is_markdown, lines = path.suffix.lower() in MARKDOWN, _lines(text)
                table = _open_csv(_first_table(lines) if is_markdown else lines, label)
        yield replace(table, rows=readable_rows(table.rows, label))


def _text(stream: RawIOBase | BufferedIOBase, label: str) -> io.TextIOWrapper:
    """The stream decoded as UTF-8; letters in another encoding are replaced."""
    buffered = io.BufferedReader(stream, FIRST_BYTES)
    first = buffered.peek(FIRST_BYTES)[:FIRST_BYTES]
    if not first.strip():
        raise TableError(f"{label} must have a line of names and rows of values, got an empty file")
    if b"\0" in first:
        raise TableError(f"{label} must be {KINDS} in UTF-8, got a binary file")
    return io.TextIOWrapper(buffered, encoding="utf-8-sig", errors="replace", newline="")


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    """Yields the lines of a text; raises `ValueError` for a line that is too long for memory, or
    for too many."""
    for number in count():
        line = text.readline(LONGEST_LINE)
        if len(line) == LONGEST_LINE:
            raise ValueError(f"it has a line of over {LONGEST_LINE:,} characters")
        if number > MOST_ROWS:
            raise ValueError(f"it has over {MOST_ROWS:,} lines; keep every tenth evaluation")
        if not line:
            return
        yield line


def _first_table(text: Iterable[str]) -> Iterator[str]:
    """The lines of the first table in a Markdown text: consecutive lines with a bar."""
    return takewhile(lambda line: BAR in line, dropwhile(lambda line: BAR not in line, text))


def _open_csv(text: Iterable[str], label: str) -> OpenTable:
    lines: Iterator[str] = iter(text)
    head, comment = "", ""
    for line in lines:
        if line.strip() and not line.startswith(("#", EXCEL)):
            head = line
            break
        comment = line if line.strip() else comment
    if _is_header(comment, head):  # `# layers,loss`: the names, marked as a comment
        lines, head = chain([head], lines), comment.lstrip("# ")
    separator = max(SEPARATORS, key=head.count)
    reader = csv.reader(chain([head], lines), delimiter=separator)
    names = [name.strip() for name in next(reader)]
    if len(names) < 2:
        raise TableError(
            f"{label} must be {KINDS}, got text whose first line has none of the separators "
            f"{' '.join(map(repr, SEPARATORS))}; if it is a log, name the folder that has a log "
            "for each run, or give the form of its lines with --line"
        )

    def rows() -> Iterator[Row]:
        for row in reader:
            if len(row) > len(names) and any(cell.strip() for cell in row[len(names) :]):
                raise TableError(
                    f"{label}:{reader.line_num}: a row must have as many values as there are "
                    f"columns, {len(names)}, got {len(row)}; put values with {separator!r} in "
                    "quotes"
                )
            if row and [cell.strip() for cell in row] != names:  # which each run may append
                yield reader.line_num, row + [""] * (len(names) - len(row))

    return OpenTable(label, names, _with_points(rows()) if separator == ";" else rows())


def _with_points(rows: Iterator[Row]) -> Iterator[Row]:
    """Yields rows with decimal points for decimal commas; unchanged if commas separate
    thousands."""
    head = list(islice(rows, PEEKED))
    commas = [str(cell).strip() for _, row in head for cell in row if "," in str(cell)]
    if not any(COMMA.fullmatch(text) and not THOUSANDS.fullmatch(text) for text in commas):
        yield from chain(head, rows)
        return
    for line, row in chain(head, rows):
        cells = [str(cell).strip() for cell in row]
        yield (
            line,
            [
                cell.replace(".", "").replace(",", ".") if COMMA.fullmatch(cell) else cell
                for cell in cells
            ],
        )


def _is_header(comment: str, first: str) -> bool:
    """True if a comment has a name for each value of the next line, and all these values are
    numbers."""
    separator = max(SEPARATORS, key=first.count)
    values = [value.strip() for value in first.split(separator)]
    if not comment.count(separator) == first.count(separator) > 0:
        return False
    return all(map(_is_number, values)) and not any(
        _is_number(name.strip()) for name in comment.lstrip("# ").split(separator)
    )


def _is_number(text: str) -> bool:
    """True for a number as people write it in a table, such as 3.1, 1e6 or 10M."""
    return NUMBER.fullmatch(text) is not None


def _open_json(text: io.TextIOWrapper, label: str) -> OpenTable:
    lines = ((number, line) for number, line in enumerate(_lines(text), 1) if line.strip())
    first = next(lines)
    if not isinstance(_value(first[1]), dict) and first[1].lstrip()[0] in "[{":
        whole = first[1] + text.read(LONGEST_LINE)
        if len(whole) >= LONGEST_LINE:
            raise ValueError(f"it has over {LONGEST_LINE:,} characters; write a line for each row")
        return rows_of(label, [*map(flat_names, rows_in(json.loads(whole)))])
    found, size = [], 0
    for number, line in chain([first], lines):
        size += len(line) + OBJECT
        if size > MOST_JSON:
            raise TableError(
                f"{label}:{number}: lines of JSON are kept in memory, and these are too many; "
                "write them as CSV, or keep every tenth evaluation"
            )
        row = _value(line)
        if not isinstance(row, dict):
            raise TableError(
                f"{label}:{number}: a line must be a JSON object with a value for each column, got "
                f"{printable(line)[:60]}"
            )
        found.append(row)
    return rows_of(label, [*map(flat_names, rows_in(found[0]) if len(found) == 1 else found)])


def _value(line: str) -> object:
    """The value of a line in JSON; None for other text."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
