"""Reads settings of a run from files beside its log: config.json, args.json, config.yaml."""

import json
from ast import literal_eval
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fathom.objectives.files.reading import open_regular
from fathom.search.formatting import printable
from fathom.search.tables.columns.columns import listed
from fathom.search.tables.open_table import flat_names

NAMES = (
    *("config.json", "args.json", "params.json", "hparams.json", "config.yaml", "config.yml"),
    *("args.yaml", "hparams.yaml", ".hydra/config.yaml", "logs/debug.log"),
)
"""Names of files with settings. If two files of a run have the same setting, the file named first
here counts. The last one is the log that W&B writes for each run."""
CONFIG_LINE = "config: "
"""Beginning of the line with the config of a run in W&B's log."""
LARGEST = 1_000_000
"""Largest size in bytes of a file with settings."""
LONGEST = 200
"""Most characters of a setting's value; longer values are texts by which no runs are compared."""

Parse = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class SettingsFiles:
    """Reader of the settings of runs below a folder; reads each file once."""

    root: Path
    parse_yaml: Parse | None
    """Function that parses YAML, or raises ValueError for other text; None if PyYAML isn't
    installed."""
    _known: dict[Path, dict[str, Any]] = field(default_factory=dict)
    _unread: list[str] = field(default_factory=list)

    def of(self, folder: Path, stem: str = "") -> dict[str, Any]:
        """The settings of a run in a folder. Files named like the run's log count first, then
        others in its folder, then files in the folders above."""
        found: dict[str, Any] = {}
        for name in (f"{stem}.json", f"{stem}.yaml") if stem else ():
            found = self._settings(folder / name) | found
        while True:
            for name in NAMES:
                found = self._settings(folder / name) | found
            if folder == self.root or self.root not in folder.parents:
                return found
            folder = folder.parent

    def notes(self) -> tuple[str, ...]:
        """Notes on the files that could not be read."""
        if not self._unread:
            return ()
        return (f"settings could not be read: {listed(self._unread)}",)

    def _settings(self, path: Path) -> dict[str, Any]:
        if path not in self._known:
            self._known[path] = self._read(path) if path.is_file() else {}
        return self._known[path]

    def _read(self, path: Path) -> dict[str, Any]:
        name = printable(path.relative_to(self.root).as_posix())
        parsers: dict[str, Parse | None] = {".json": json.loads, ".log": _config_of_wandb}
        parse = parsers.get(path.suffix, self.parse_yaml)
        if parse is None:
            self._unread.append(f"{name} (pip install pyyaml)")
            return {}
        try:
            with open_regular(path) as file:
                text = file.read(LARGEST + 1)
            if len(text) > LARGEST and path.suffix != ".log":
                raise ValueError(f"larger than {LARGEST:,} bytes")
            found = parse(text.decode("utf-8"))
            if not isinstance(found, dict):
                raise ValueError("no object")
            return _plain(found)
        except (ValueError, OSError, RecursionError) as error:
            self._unread.append(f"{name} ({printable(str(error))[:80]})")
            return {}


def _config_of_wandb(log: str) -> object:
    """The config of a run in W&B's own log; an empty one in other logs of that name."""
    lines = (line for line in log.splitlines() if line.startswith(CONFIG_LINE))
    try:
        config = literal_eval(next(lines, "").removeprefix(CONFIG_LINE) or "{}")
    except (SyntaxError, MemoryError):
        config = None
    return config if isinstance(config, dict) else {}


def _plain(found: dict[Any, Any]) -> dict[str, Any]:
    """Settings as name -> value, also from W&B's config.yaml, where values are one level deeper."""
    named = {
        str(name): value["value"] if isinstance(value, dict) and "value" in value else value
        for name, value in found.items()
    }
    return {
        name: value
        for name, value in flat_names(named).items()
        if value is not None and len(str(value)) <= LONGEST
    }
