"""Reads CSV and TSV tables with one run each, such as the `metrics.csv` of every run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from fathom.search.formatting import printable, shell_command
from fathom.search.tables.columns.columns import listed, meaning, plain_name
from fathom.search.tables.errors import TableError
from fathom.search.tables.folders.finding import Found, stem
from fathom.search.tables.folders.logged import (
    MEASURED,
    Keep,
    Logged,
    LoggedRun,
    Series,
    lacking,
)
from fathom.search.tables.folders.names import settings_in
from fathom.search.tables.folders.settings_files import SettingsFiles
from fathom.search.tables.sources.read import open_text


@dataclass(slots=True)
class _ReadTable:
    """Columns read from one table."""

    first: dict[str, object] = field(default_factory=dict)
    """Name of a column -> its first value that is not blank."""
    moving: set[str] = field(default_factory=set)
    """Names of columns with several values."""
    series: dict[str, Series] = field(default_factory=dict)


def read_tables(found: Found, keep: Keep, files: SettingsFiles) -> Logged:
    """The runs of tables with one run each; columns that are constant in every table are settings.

    Raises:
        TableError: when no table can be read, or one has runs of several depths.
    """
    written: dict[Path, _ReadTable] = {}
    broken: list[str] = []
    for path in found.tables:
        try:
            written[path] = _written(path, keep)
        except TableError:
            broken.append(found.name(path))
            if len(broken) == len(found.tables):
                raise
    moving = {name for table in written.values() for name in table.moving}
    for path, table in written.items():
        if any(meaning(name) == "depth" for name in table.moving):
            again = shell_command("fathom", "analyse", path)
            raise TableError(
                f"{found.label} must have a table for each run, got several depths in "
                f"{printable(path.name)}; analyse it alone: `{again}`"
            )
    return Logged(
        label=found.label,
        kind="tables",
        runs=[_run(found, path, table, moving, files) for path, table in written.items()],
        lacking=lacking(()),
        notes=(*files.notes(), *_notes(broken)),
    )


def _notes(broken: Sequence[str]) -> Iterator[str]:
    """Yields a note on the tables that could not be read."""
    if broken:
        yield f"tables that could not be read: {listed(broken)}"


def _written(path: Path, keep: Keep) -> _ReadTable:
    found = _ReadTable()
    with open_text(path) as table:
        for line, row in table.rows:
            for name, value in zip(table.names, row, strict=True):
                if value is None or not str(value).strip():
                    continue
                if found.first.setdefault(name, value) != value:
                    found.moving.add(name)
                if keep(name):
                    found.series.setdefault(name, Series()).add(line, value)
    return found


def _run(
    found: Found, path: Path, table: _ReadTable, moving: set[str], files: SettingsFiles
) -> LoggedRun:
    """The run of a table. Columns in `moving`, which vary within some table, are measurements;
    other columns are settings."""
    place = PurePosixPath(found.name(path))
    measured = moving | {name for name in table.first if meaning(name) in MEASURED}
    settings = files.of(path.parent, stem(place))
    known = {*measured, *map(plain_name, settings)}
    settings |= {n: v for n, v in table.first.items() if not known & {n, plain_name(n)}}
    return LoggedRun(
        name=str(place),
        settings=settings,
        named=settings_in([*place.parts[:-1], stem(place)]),
        series={name: series for name, series in table.series.items() if name in measured},
    )
