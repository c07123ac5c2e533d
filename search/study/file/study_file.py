"""A study file, read: from YAML to the frozen value `StudyConfig`, and back."""

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from fathom.search.study.file.errors import ConfigError, PlanError, Problem, explain
from fathom.search.study.file.safe_yaml import parse_yaml
from fathom.search.study.file.source import Source, read_source
from fathom.search.study.keys.config import StudyConfig


def load(path: Path, overrides: Sequence[str] | None = None) -> StudyConfig:
    """The study of a file; `overrides`, such as `train.batch_size=8`, replace values of the file.

    Raises:
        ConfigError: when it can't be read, is not a mapping, or values break a rule.
    """
    return _study_of(read_source(path, overrides or ()))


@contextmanager
def placed(path: Path, overrides: Sequence[str] | None = None) -> Iterator[None]:
    """Context that adds to a `PlanError` the line of its key in the study file."""
    try:
        yield
    except PlanError as error:
        problem = Problem(tuple(error.key.split(".")), str(error))
        raise ConfigError(*read_source(path, overrides or ()).messages([problem])) from error


def parse(text: str) -> StudyConfig:
    """The study of a YAML text; raises `ConfigError` as `load` does."""
    return study_of(parse_yaml(text))


def study_of(values: object) -> StudyConfig:
    """The study described by values as YAML gives them; raises `ConfigError` as `load` does."""
    return _study_of(Source(values))


def _study_of(source: Source) -> StudyConfig:
    if not isinstance(source.values, Mapping):
        kind = "empty" if source.values is None else f"a {type(source.values).__name__}"
        raise ConfigError(
            f"{source.name}a study file must be a mapping with `study`, `objective` and "
            f"`budgets`; it is {kind}"
        )
    try:
        return StudyConfig.model_validate(source.values)
    except ValidationError as error:
        raise ConfigError(*source.messages(explain(error, StudyConfig))) from error


def dump(config: StudyConfig, exclude: Set[str] = frozenset()) -> str:
    """The resolved study as YAML, without the keys in `exclude`; `parse` reads it back to the same
    value."""
    return yaml.safe_dump(config.model_dump(mode="json", exclude={*exclude}), sort_keys=False)


def changed(config: StudyConfig, changes: Mapping[str, object]) -> StudyConfig:
    """The study with other values of some keys, such as `trials` or `space.depth`.

    Raises:
        ConfigError: if the changed study is refused.
    """
    values: dict[str, Any] = _values_of(config)
    for key, value in changes.items():
        group, _, name = key.partition(".")
        if name:
            inside = values[group]
            inside = inside if isinstance(inside, dict) else _values_of(inside)
            values[group] = {**inside, name: value}
        else:
            values[group] = value
    return study_of(values)


def _values_of(group: Any) -> dict[str, Any]:
    return {name: getattr(group, name) for name in type(group).model_fields}
