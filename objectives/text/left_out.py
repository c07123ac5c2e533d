"""Text of a corpus that is not read, each file with the reason and what to do about it."""

import os
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from glob import glob, has_magic
from pathlib import Path

from fathom.objectives.files.download import read_file
from fathom.objectives.files.reading import GZIP, open_regular
from fathom.objectives.text.corpus import CORPORA, corpus_files
from fathom.objectives.text.encodings import defect_of, is_recoded, utf8_text
from fathom.objectives.text.folders import unreadable

WHOLE_BYTES = 1 << 28
"""Largest corpus, in bytes, of which every file is read to its end; of larger ones, only the heads
of files are read."""
HEAD_BYTES = 1 << 16
MOST_NAMES = 5
"""Most files that a line names."""
NO_TEXT = frozenset({".git", ".svn", ".hg", ".cache", ".ipynb_checkpoints", ".venv"})
"""Hidden folders of programs, whose files are never part of a corpus."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Files of a corpus that are not read, or are converted first."""

    unread: frozenset[Path]
    """Files that are not text, or of another encoding."""
    recoded: bool
    """True if some text has another encoding on the disk than in training."""
    words: tuple[str, ...]
    """The first files that are not read, each with the reason."""
    share: float
    """Share of the bytes of all files that is in unread files."""
    empty: tuple[str, ...]


def survey(corpus: str) -> Survey:
    """Returns the files of a corpus that are not read; none for a corpus that Fathom knows by name.

    Raises:
        ObjectiveError: when a file can't be read.
    """
    if corpus in CORPORA:
        return Survey(frozenset(), False, (), 0.0, ())
    files = tuple(corpus_files(corpus))
    return _survey(files, tuple(_time(file) for file in files))


def left_out_note(corpus: str) -> str:
    """A line on all that is not read of a corpus; empty if everything is.

    Raises:
        ObjectiveError: when a file can't be read.
    """
    if corpus in CORPORA:
        return ""
    found, files, notes = survey(corpus), tuple(corpus_files(corpus)), []
    if found.unread:
        count = f"{len(found.unread):,} of {len(files):,} files, {found.share:.0%} of the bytes"
        listed = _listed(found.words, len(found.unread))
        notes.append(f"corpus {corpus!r}: left out {count}: {listed}")
    if others := [*passed_over(corpus, files), *found.empty]:
        notes.append(f"corpus {corpus!r}: not read: {_listed(others, len(others))}")
    return "; ".join(notes)


def _time(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_size, status.st_mtime_ns


@lru_cache(maxsize=8)
def _survey(files: tuple[Path, ...], times: tuple[tuple[int, int], ...]) -> Survey:
    sizes = {file: size for file, (size, _) in zip(files, times, strict=True)}
    whole, unread, empty, recoded = sum(sizes.values()) <= WHOLE_BYTES, [], [], False
    words: list[str] = []
    for file in files:
        content = _content(file, whole=whole)
        recoded = recoded or is_recoded(content)
        text = utf8_text(content, whole=whole or sizes[file] <= HEAD_BYTES)
        if text is None:
            unread.append(file)
            if len(words) < MOST_NAMES:
                words.append(f"{file} {defect_of(file, content)}")
        elif not text and (whole or not sizes[file]):
            empty.append(f"{file} is empty")
    share = sum(map(sizes.__getitem__, unread)) / max(1, sum(sizes.values()))
    return Survey(frozenset(unread), recoded, tuple(words), share, tuple(empty))


def _listed(words: Sequence[str], number: int) -> str:
    more = f"; and {number - MOST_NAMES:,} more" if number > MOST_NAMES else ""
    return "; ".join(words[:MOST_NAMES]) + more


def _content(file: Path, *, whole: bool) -> bytes:
    """The content of a file, unpacked if it is gzipped, or the head of it."""
    if whole and file.suffix == ".gz":
        return read_file(file)
    try:
        with open_regular(file) as opened:
            content = opened.read() if whole else opened.read(HEAD_BYTES)
    except OSError as error:
        raise unreadable(file, error) from error
    if file.suffix == ".gz" and content.startswith(GZIP):
        try:
            return zlib.decompressobj(31).decompress(content, HEAD_BYTES)
        except zlib.error:
            return content
    return content


def passed_over(corpus: str, files: tuple[Path, ...]) -> list[str]:
    """Files and folders near those of a corpus that are no part of it, each with the reason."""
    path = os.path.expanduser(corpus)
    suffixes, read = {file.suffix for file in files if file.suffix}, {*files}
    found = [
        f"{file} (the same as {file.with_suffix('').name}?)"
        for file in files
        if file.suffix == ".gz" and file.with_suffix("") in read
    ]
    if os.path.isdir(path):
        return [*found, *_beside(Path(path), suffixes)]
    return [*found, *_near(path, read)] if has_magic(path) else found


def _beside(folder: Path, suffixes: set[str]) -> Iterator[str]:
    """Hidden files with the suffix of a file that is read, links to folders elsewhere, and broken
    links."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in NO_TEXT)
        hidden = any(part.startswith(".") for part in Path(parent).relative_to(folder).parts)
        for place in (Path(parent, name) for name in folders):
            target = place.resolve()
            if place.is_symlink() and not _related(target, folder.resolve()):
                yield f"{place} is a link to a folder, which is not followed (copy {target} there)"
        for place in (Path(parent, name) for name in sorted(names)):
            if (hidden or place.name.startswith(".")) and place.suffix in suffixes:
                yield f"{place} is hidden (rename it)"
            elif place.is_symlink() and not place.exists():
                yield f"{place} is a link to nothing"


def _related(target: Path, folder: Path) -> bool:
    """True if one of two folders lies in the other."""
    return target.is_relative_to(folder) or folder.is_relative_to(target)


def _near(pattern: str, read: set[Path]) -> Iterator[str]:
    """Files that a pattern would match if the case of letters did not matter, and folders that it
    matches."""
    anyhow = re.sub(
        r"\[[^\]]*\]|[A-Za-z]",
        lambda part: part[0] if len(part[0]) > 1 else f"[{part[0].lower()}{part[0].upper()}]",
        pattern,
    )
    for place in map(Path, sorted({*glob(pattern, recursive=True), *glob(anyhow, recursive=True)})):
        if place.is_dir() and "**" not in pattern:
            yield f"{place} is a folder (use ** in the pattern to take its files)"
        elif place.is_file() and place not in read:
            yield f"{place} differs from the pattern in upper and lower case"
