"""Checks that two splits in files share no file, and finds content that both have."""

import os
from collections.abc import Iterable
from functools import lru_cache

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.held_out.overlap import WINDOW, Overlap, overlap_of
from fathom.objectives.tokens.stream import TokenFiles, TokenReader


def check_apart(
    train: TokenFiles, held_out: TokenFiles, *, held_out_key: str, remedy: str,
    unit: str = "tokens", window: int = WINDOW,
) -> None:  # fmt: skip
    """Checks that two splits that the user named share no file, and that none contains the other.

    Raises:
        ObjectiveError: if they share a file or one contains the other, with `remedy`.
    """
    trained = {_identity(segment.path): segment.path for segment in train.segments}
    for segment in held_out.segments:
        if (path := trained.get(_identity(segment.path))) is not None:
            also = "" if path == segment.path else f" (there as {path})"
            raise ObjectiveError(
                f"{held_out_key} must not be trained on, got {segment.path}, which is also "
                f"among the files to train on{also}; {remedy}"
            )
    found = file_overlap(train, held_out, window)
    if found is not None and found.contained:
        raise contained_error(found, held_out_key, unit, remedy)


def contained_error(found: Overlap, held_out_key: str, unit: str, remedy: str) -> ObjectiveError:
    """The error that one of two splits contains the other."""
    smaller, larger = found.names
    return ObjectiveError(
        f"{held_out_key} must not be trained on, got {smaller} {unit} of which {found.percent} "
        f"are among the {larger} {unit}, in windows of {found.window}; {remedy}"
    )


def overlap_note(train: TokenFiles, held_out: TokenFiles) -> str:
    """A line on the content that two splits share; empty if it is too little to mention."""
    found = file_overlap(train, held_out)
    return found.note() if found else ""


def file_overlap(train: TokenFiles, held_out: TokenFiles, window: int = WINDOW) -> Overlap | None:
    """The overlap of two splits in files; cached until a file's size or time changes."""
    times = times_of(segment.path for split in (train, held_out) for segment in split.segments)
    return _overlap(train, held_out, window, times)


@lru_cache(maxsize=8)
def _overlap(
    train: TokenFiles, held_out: TokenFiles, window: int, _times: tuple[tuple[int, int], ...]
) -> Overlap | None:
    return overlap_of(TokenReader(train), TokenReader(held_out), window)


def times_of(paths: Iterable[str]) -> tuple[tuple[int, int], ...]:
    """Size and modification time of each file."""
    found = map(os.stat, dict.fromkeys(paths))
    return tuple((status.st_size, status.st_mtime_ns) for status in found)


def _identity(path: str) -> tuple[int, int]:
    """Device and inode number of the file at a path, the same for all names of the file."""
    status = os.stat(path)
    return status.st_dev, status.st_ino
