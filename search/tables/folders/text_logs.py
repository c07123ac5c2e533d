"""Reads logs of text, one for each run."""

import gzip
import io
import signal
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import FrameType

from fathom.objectives.files.reading import GZIP, open_regular
from fathom.search.formatting import format_count, printable
from fathom.search.tables.columns.columns import listed
from fathom.search.tables.errors import TableError
from fathom.search.tables.folders.finding import Found, stem
from fathom.search.tables.folders.lines import (
    EXAMPLE,
    ReadLine,
    common_pairs,
    pattern_pairs,
)
from fathom.search.tables.folders.logged import (
    LOGS,
    MOST_OTHERS,
    Keep,
    Logged,
    LoggedRun,
    Series,
    lacking,
)
from fathom.search.tables.folders.names import settings_in
from fathom.search.tables.folders.settings_files import SettingsFiles
from fathom.search.tables.open_table import MOST_ROWS

LONGEST_LINE = 1 << 16
"""Characters of a line that are read; the rest of a longer line is skipped."""
SLOWEST = 2.0
"""Seconds of CPU time after which a pattern on one line counts as too slow."""


@dataclass(slots=True)
class _Reading:
    """Counts and names from the logs read so far."""

    lines: int = 0
    with_numbers: int = 0
    others: dict[str, None] = field(default_factory=dict)
    """Names of numbers whose meaning is not known."""
    sample: str = ""
    """The first line that has letters."""
    binary: list[str] = field(default_factory=list)


def read_logs(found: Found, patterns: Sequence[str], keep: Keep, files: SettingsFiles) -> Logged:
    """The runs of logs, read by a person's patterns or, without patterns, in the common forms.

    Raises:
        TableError: when a pattern is no regular expression or takes too long on a line, or no line
            has a number.
    """
    read_line = pattern_pairs(patterns) if patterns else common_pairs
    seen = _Reading()
    kept = (lambda _: True) if patterns else keep
    with _watched(seen, patterns):
        runs = [
            _run(found, path, _series(path, read_line, kept, seen), files) for path in found.logs
        ]
    if not any(run.series for run in runs):
        raise TableError(_nothing_found(found, patterns, seen))
    names = {name for run in runs for name in run.series}
    return Logged(
        label=found.label,
        kind=LOGS,
        runs=runs,
        lacking=lacking([*seen.others], EXAMPLE),
        notes=files.notes(),
        settings=frozenset(names if patterns else ()),
    )


def _run(found: Found, path: Path, series: dict[str, Series], files: SettingsFiles) -> LoggedRun:
    name = found.name(path)
    place = PurePosixPath(name)
    return LoggedRun(
        name=name,
        settings=files.of(path.parent, stem(place)),
        named=settings_in([*place.parts[:-1], stem(place)]),
        series=series,
    )


def _series(path: Path, read_line: ReadLine, keep: Keep, seen: _Reading) -> dict[str, Series]:
    """Name -> values in a log, for each name that is kept."""
    series: dict[str, Series] = {}
    for number, line in enumerate(_lines(path, seen)):
        seen.lines += 1
        if not seen.sample and any(map(str.isalpha, line)):
            seen.sample = line
        pairs = read_line(line)
        seen.with_numbers += bool(pairs)
        if seen.with_numbers > MOST_ROWS:
            raise TableError(
                f"logs must have at most {format_count(MOST_ROWS)} lines with numbers, got more at "
                f"{printable(str(path))}; use --line to read only evaluations"
            )
        for name, value in pairs:
            if name in series or keep(name):
                if name not in series:
                    series[name] = Series()
                series[name].add(number, value)
            elif len(seen.others) < MOST_OTHERS:
                seen.others[name] = None
    return series


def _lines(path: Path, seen: _Reading) -> Iterator[str]:
    """Yields the lines of a text file, plain or gzip, up to any damage; nothing for a binary
    file."""
    with open_regular(path) as file:
        stream = gzip.GzipFile(fileobj=file) if file.peek(2).startswith(GZIP) else file
        try:
            if b"\0" in stream.peek(LONGEST_LINE):
                seen.binary.append(path.name)
                return
            text = io.TextIOWrapper(stream, encoding="utf-8", errors="replace")
            whole = True
            while line := text.readline(LONGEST_LINE):
                if whole:
                    yield line.strip()
                whole = line.endswith("\n")
        except (EOFError, zlib.error, gzip.BadGzipFile):
            return


@contextmanager
def _watched(seen: _Reading, patterns: Sequence[str]) -> Iterator[None]:
    """Context that raises `TableError` if a pattern takes too long on a line; the time of some
    patterns grows exponentially with the length of a line."""
    if not patterns:
        yield
        return
    before = -1

    def check(_number: int, _frame: FrameType | None) -> None:
        nonlocal before
        if seen.lines == before:
            raise TableError(
                f"`--line` must be a pattern that is matched quickly, got {listed(patterns)}; "
                "leave out repetitions of repetitions, such as (a+)+"
            )
        before = seen.lines

    handler = signal.signal(signal.SIGVTALRM, check)
    signal.setitimer(signal.ITIMER_VIRTUAL, SLOWEST, SLOWEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, handler)


def _nothing_found(found: Found, patterns: Sequence[str], seen: _Reading) -> str:
    """The message of the error that no line of any log has a number or matches a pattern."""
    files = f"{len(found.logs)} files" if len(found.logs) > 1 else "its file"
    if seen.binary and not seen.lines:
        return f"{found.label} must have logs in UTF-8, got binary files: {listed(seen.binary)}"
    got = f"lines such as {printable(seen.sample)[:80]!r}" if seen.sample else "nothing"
    if patterns:
        return (
            f"`--line` must find something in a line of {files} of {found.label}, got {got}; the "
            f"pattern was {listed(patterns)}"
        )
    more = f" with {listed([*seen.others])}" if seen.others else ""
    remedy = "; say which is the loss with --map NAME=loss, or" if seen.others else "; say"
    return (
        f"{found.label} must have lines such as `step 100 | loss 3.21` in {files}, got "
        f"{got}{more}{remedy} how a line looks with {EXAMPLE}"
    )
