"""Values of a study and their sources: lines of its file, and `--set`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fathom.objectives.keys import short
from fathom.search.study.file import safe_yaml
from fathom.search.study.file.errors import ConfigError, Problem
from fathom.search.study.file.text_file import FileError, read_text

MOST_PROBLEMS = 8
"""Largest number of mistakes that are reported for one file."""


@dataclass(frozen=True, slots=True)
class Override:
    """A value that replaces one of the file: `--set a.b=c`."""

    text: str
    keys: tuple[str, ...]
    value: Any

    def answers_for(self, path: Sequence[str | int]) -> bool:
        """True if this override sets the value at a path or a part of it."""
        shared = min(len(path), len(self.keys))
        return shared > 0 and tuple(path[:shared]) == self.keys[:shared]


@dataclass(frozen=True, slots=True)
class Source:
    """The values of a study, with their places in its file."""

    values: Any
    file: Path | None = None
    document: safe_yaml.Document | None = None
    overrides: tuple[Override, ...] = ()

    @property
    def name(self) -> str:
        """Start of a message about the whole file."""
        return f"{self.file}: " if self.file else ""

    def messages(self, problems: Sequence[Problem]) -> Iterator[str]:
        """A line for each mistake with its place, in the order of the file."""
        placed = [(*self._place(problem.path), problem.sentence) for problem in problems]
        placed.sort(key=lambda message: message[0])
        for _, place, sentence in placed[:MOST_PROBLEMS]:
            yield f"{place}{sentence}"
        if len(placed) > MOST_PROBLEMS:
            yield f"{self.name}{len(placed) - MOST_PROBLEMS} more mistakes"

    def _place(self, path: tuple[str | int, ...]) -> tuple[int, str]:
        """Line of a path (0 if it is not in the file) and its place as text."""
        for override in reversed(self.overrides):
            if override.answers_for(path):
                return 0, f"--set {override.text}: "
        line = self.document.line(path) if self.document else 0
        return line, f"{self.file}:{line}: " if self.file else ""


def read_source(path: Path, overrides: Sequence[str]) -> Source:
    """The values of a study file, some of them replaced by `--set`.

    Raises:
        ConfigError: if the file or an override is no plain YAML.
    """
    if (inside := path / "config.yaml").is_file():
        raise ConfigError(f"the study file {path} is a folder; name the file in it, {inside}")
    try:
        text = read_text(path)
    except FileError as error:
        raise ConfigError(f"the study file {path} {error}") from error
    try:
        document = safe_yaml.parse_document(text)
    except FileError as error:
        line = f":{error.line}" if error.line else ""
        raise ConfigError(f"{path}{line}: {error.message}") from error
    values, given = document.value, tuple(map(_override, overrides))
    if isinstance(values, Mapping):
        for override in given:
            values = _with(values, override.keys, override)
    return Source(values, path, document, given)


def _override(text: str) -> Override:
    keys, equals, value = text.partition("=")
    if not equals or not all(keys.split(".")):
        raise ConfigError(
            f"`--set` must be KEY=VALUE, got {short(text)}; for example train.batch_size=8"
        )
    try:
        return Override(text, tuple(keys.split(".")), safe_yaml.parse_yaml(value))
    except FileError as error:
        raise ConfigError(f"--set {text}: {error.message}") from error


def _with(group: object, keys: tuple[str, ...], override: Override) -> dict[Any, Any]:
    """A group of keys with one value replaced; missing groups on the way are created."""
    if isinstance(group, str) and override.keys[0] == "objective":
        group = {"name": group}
    if group is None:
        group = {}
    if not isinstance(group, Mapping):
        above = ".".join(override.keys[: -len(keys)])
        raise ConfigError(
            f"--set {override.text}: `{above}` must be a group of keys, got {short(group)}; "
            f"set `{above}` as a whole"
        )
    first, *rest = keys
    value = _with(group.get(first), tuple(rest), override) if rest else override.value
    return {**group, first: value}
