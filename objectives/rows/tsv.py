"""Rows of tab-separated text, from a path or as published; standard library only."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.files.download import Download, read_download, read_file
from fathom.objectives.files.reading import ARCHIVES

Row = TypeVar("Row")

TAR_AT, TAR = 257, b"ustar"
"""Offset and bytes of the mark of a tar archive, once it is uncompressed."""
MOST_NULS = 0.01
"""Share of NUL characters above which a file is not merely a text into which some have crept."""
UTF16 = (b"\xff\xfe", b"\xfe\xff")
"""First bytes of UTF-16 text, as some programs export it."""

Place = str | Download
"""Place of rows: a user's path, plain or gzipped, or a published file."""


@dataclass(frozen=True, slots=True)
class TsvLine:
    """A line that is not blank, split at its tabs."""

    place: str
    number: int
    """Line number, counted from 1."""
    cells: tuple[str, ...]

    def __str__(self) -> str:
        return f"line {self.number} of {self.place}"


def name_of(place: Place) -> str:
    """Name of a place in messages: its path."""
    return place.path if isinstance(place, Download) else place


def read_text(place: Place) -> str:
    """Reads the whole text of a place, uncompressed.

    Raises:
        ObjectiveError: when it can't be read or is not UTF-8.
    """
    if isinstance(place, Download):
        content = read_download(place)
    else:
        content = read_file(Path(place).expanduser())
    _refuse_binary(content, name_of(place))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ObjectiveError(
            f"{name_of(place)} must be UTF-8 text, but has the invalid byte "
            f"0x{content[error.start]:02x} in line {line}; convert it, such as "
            f"{_converted('LATIN1', name_of(place))}"
        ) from error


def _refuse_binary(content: bytes, name: str) -> None:
    """Raises `ObjectiveError` for an archive, for UTF-16 and for text with NUL characters."""
    for first, kind in ARCHIVES.items():
        if content.startswith(first):
            raise ObjectiveError(f"{name} must be text, but is a {kind} file; unpack it first")
    if content[TAR_AT : TAR_AT + len(TAR)] == TAR:
        raise ObjectiveError(f"{name} must be text, but is a tar archive; unpack it first")
    if content.startswith(UTF16):
        raise ObjectiveError(
            f"{name} must be UTF-8 text, but is UTF-16; {_converted('UTF-16', name)} converts it"
        )
    if (place := content.find(b"\0")) >= 0:
        if content.count(b"\0") > MOST_NULS * len(content):
            raise ObjectiveError(
                f"{name} must be UTF-8 text, but is binary; name a text file, or convert UTF-16: "
                f"{_converted('UTF-16', name)}"
            )
        line = content.count(b"\n", 0, place) + 1
        raise ObjectiveError(
            f"{name} must be text without NUL characters, but has one in line {line}; "
            f"tr -d '\\000' < {name} > text deletes them"
        )


def _converted(encoding: str, name: str) -> str:
    """The command that writes a file as UTF-8."""
    return f"iconv -f {encoding} -t UTF-8 {name} > text"


def read_lines(place: Place) -> Iterator[TsvLine]:
    """Reads the lines that are not blank; only a newline ends a line."""
    first = True
    for number, line in enumerate(read_text(place).split("\n"), 1):
        if line.strip():
            cells = tuple(line.removesuffix("\r").split("\t"))
            row = TsvLine(name_of(place), number, cells)
            if first:
                refuse_csv(row)
            first = False
            yield row


def refuse_csv(line: TsvLine) -> None:
    """Raises `ObjectiveError` for a first line with commas and no tab, or with quoted cells."""
    quoted = all(len(cell) > 1 and cell[0] == cell[-1] == '"' for cell in line.cells)
    if quoted or (len(line.cells) == 1 and "," in line.cells[0]):
        dialect = ', "excel-tab"' if len(line.cells) > 1 else ""
        raise ObjectiveError(
            f"{line} must have plain cells separated by tabs, but looks like CSV; convert the "
            "file: python3 -c 'import csv, sys; "
            f'[print(*row, sep="\\t") for row in csv.reader(sys.stdin{dialect})]\''
            f" < {line.place} > rows.tsv"
        )


def not_empty(rows: Iterable[Row], place: Place) -> list[Row]:
    """All rows of a file; raises `ObjectiveError` if there are none."""
    found = list(rows)
    if not found:
        raise ObjectiveError(
            f"{name_of(place)} must have at least one row, got none; check the path"
        )
    return found


def check_names(further: Iterable[str], *reserved: str) -> None:
    """Raises `ObjectiveError` if a further split has the name of another."""
    for name in set(reserved).intersection(further):
        raise ObjectiveError(
            f"a further split must not be called {name!r}, the name of another split; rename it"
        )


def parts_of(splits: Mapping[str, Iterable[object]], *fields: str) -> Iterator[str]:
    """Yields the name of each split, then the fields of its rows, for a digest of the data."""
    for name, rows in splits.items():
        yield name
        for row in rows:
            yield from attrgetter(*fields)(row)


def with_dev(
    splits: dict[str, list[Row]], key: Callable[[Row], str], fraction: float, *, data: str
) -> dict[str, list[Row]]:
    """The splits with `dev`; if it is missing, the fraction `fraction` of `train` is held out.

    The choice depends on the `key` of each row alone: copies stay on one side, and the order of the
    rows does not matter. `data` names the rows in the message.

    Raises:
        ObjectiveError: when there are too few rows to hold any out.
    """
    if "dev" in splits:
        return splits
    rows = splits["train"]
    distinct = sorted(set(map(key, rows)), key=lambda text: hashlib.sha256(text.encode()).digest())
    chosen = frozenset(distinct[: int(len(distinct) * fraction)])
    if not chosen:
        raise ObjectiveError(
            f"{data} must have enough rows to hold out {fraction:g} of them, got {len(rows)}; add "
            "rows, or name a `dev` file"
        )
    return splits | {
        "train": [row for row in rows if key(row) not in chosen],
        "dev": [row for row in rows if key(row) in chosen],
    }
