"""Finds the files with runs in a folder, or by a pattern such as `runs/*/train.log`."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from fathom.objectives.files.reading import matches
from fathom.search.formatting import format_count, printable
from fathom.search.tables.errors import TableError

EVENTS = "tfevents"
"""Text in the name of every event file of TensorBoard."""
LOGS = (".log", ".txt", ".out", ".jsonl", ".ndjson")
"""Ends of the names of logs in a folder; a pattern may match any file."""
TABLES = (".csv", ".tsv")
"""Ends of the names of tables."""
RAY_RESULTS, RAY_SETTINGS = "result.json", "params.json"
"""Files that Ray Tune writes for each trial: its results as JSON lines, and its settings."""
PACKED = ".gz"
MOST_FILES = 100_000
WILD = "*?["


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The files of a folder or pattern by kind, sorted, and the folder `root` that holds them
    all."""

    label: str
    root: Path
    logs: tuple[Path, ...]
    events: tuple[Path, ...]
    tables: tuple[Path, ...]
    others: tuple[Path, ...]
    """Files that are neither logs, event files nor tables."""

    def name(self, path: Path) -> str:
        """The path of a file or folder from the root."""
        return path.relative_to(self.root).as_posix()


def is_pattern(source: str) -> bool:
    """True for a pattern of paths, unless a file or folder has exactly that name."""
    wild = any(char in source for char in WILD) and "://" not in source
    return wild and not os.path.lexists(source)


def find_files(source: str) -> Found:
    """The files below a folder, or below and among the paths that a pattern matches. Hidden files,
    and links to files that are found anyway, are left out.

    Raises:
        TableError: when there are too many files.
        ObjectiveError: when a pattern would search the whole disk.
        OSError: when a folder can't be read.
    """
    label = printable(source)
    named = [Path(source)]
    if is_pattern(source):
        named = matches(source)
    files = [path for path in named if path.is_file()]
    below = _below([path for path in named if path.is_dir()], label)
    everything = _without_links(dict.fromkeys([*files, *below]))
    chosen = set(files)
    events = [path for path in everything if EVENTS in path.name]
    tables = [path for path in everything if _ends(path, TABLES)]
    logs = [path for path in everything if path in chosen or _ends(path, LOGS)]
    logs = [path for path in logs if path not in {*events, *tables}]
    if of_ray := [path for path in everything if _is_of_ray(path)]:
        # Ray Tune writes each result into a table, an event file and often a log as well.
        logs, events, tables = of_ray, [], []
    others = {*everything} - {*events, *tables, *logs}
    is_folder = Path(source).is_dir()
    common = [path.parent for path in everything] if everything and not is_folder else [source]
    return Found(
        label=label,
        root=Path(os.path.commonpath(common)),
        logs=tuple(sorted(logs)),
        events=tuple(sorted(events)),
        tables=tuple(sorted(tables)),
        others=tuple(sorted(others)),
    )


def stem(path: PurePosixPath) -> str:
    """The name of a log or table without its usual ends; points in it, as of `lr=0.01`, stay."""
    name = path.name.removesuffix(PACKED)
    ends = (*LOGS, *TABLES)
    return next((name.removesuffix(end) for end in ends if name.endswith(end)), name)


def _ends(path: Path, ends: tuple[str, ...]) -> bool:
    return path.name.lower().removesuffix(PACKED).endswith(ends)


def _is_of_ray(path: Path) -> bool:
    return path.name == RAY_RESULTS and path.with_name(RAY_SETTINGS).is_file()


def _below(folders: Iterable[Path], label: str) -> Iterator[Path]:
    """Yields the files below folders."""
    count = 0
    for top in folders:
        for folder, folders_in, names in os.walk(top, onerror=_refuse):
            folders_in[:] = sorted(name for name in folders_in if not name.startswith("."))
            count += len(names) + len(folders_in)
            if count > MOST_FILES:
                raise TableError(
                    f"{label} must have at most {format_count(MOST_FILES)} files, got more; name "
                    "the logs by a pattern in quotes, such as 'runs/*/train.log'"
                )
            for name in sorted(names):
                path = Path(folder, name)
                if not name.startswith(".") and path.is_file():
                    yield path


def _refuse(error: OSError) -> None:
    raise error


def _without_links(paths: Iterable[Path]) -> list[Path]:
    """The paths without links to other paths among them, such as a link to the latest log."""
    known = list(paths)
    real = {path.resolve() for path in known if not path.is_symlink()}
    return [path for path in known if not path.is_symlink() or path.resolve() not in real]
