"""Files below a folder, and their splits where names say which text is held out."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.held_out.names import TEST, VALIDATION, by_split, entries_of, named_apart


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFiles:
    """The files of a folder by their splits, as names say them."""

    train: tuple[Path, ...]
    validation: tuple[Path, ...]


def named_files(folder: Path) -> NamedFiles | None:
    """The files of a folder by their splits, those for a test left out; None if names do not say
    which are to be trained on and which are held out."""
    try:
        entries = entries_of(folder)
    except OSError as error:
        raise unreadable(folder, error) from error
    if not named_apart(entries):
        return None
    named = by_split(entries)
    held_out, test = (frozenset(named.get(split, ())) for split in (VALIDATION, TEST))
    train = [entry for entry in entries if entry not in held_out | test]
    return NamedFiles(
        train=tuple(_files_below(train)), validation=tuple(_files_below(sorted(held_out)))
    )


def _files_below(entries: Sequence[Path]) -> Iterator[Path]:
    for entry in entries:
        if entry.is_dir():
            yield from folder_files(entry)
        elif entry.is_file():
            yield entry


def folder_files(folder: Path, *, without: frozenset[str] = frozenset()) -> Iterator[Path]:
    """Regular files that are not hidden, below folders that are neither hidden nor `without`."""

    def refuse(error: OSError) -> NoReturn:
        raise unreadable(Path(error.filename), error) from error

    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in without
        )
        files = (Path(parent, name) for name in sorted(names) if not name.startswith("."))
        yield from (file for file in files if os.path.isfile(file))


def unreadable(path: Path, error: OSError) -> ObjectiveError:
    """The error of a file or folder that can't be read."""
    return ObjectiveError(
        f"every file of a corpus must be readable, got {error.strerror} for {path}; "
        f"change its permissions or move it elsewhere"
    )
