"""Messages from a search to the process that mirrors it into MLflow: a study, its data, its end."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fathom.objectives.contract import Objective
from fathom.objectives.download import DOWNLOADS
from fathom.objectives.files import digest_of
from fathom.objectives.keys import ObjectiveConfig
from fathom.objectives.tokens.stream import TokenFiles

CLOSE_SECONDS = 20.0
"""Longest time of the last writes; what is missing then is written by the next `fathom report`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedStudy:
    """A study and the MLflow store that its runs go to: the first message."""

    uri: str
    study: str
    folder: Path
    """The run folder."""
    config_text: str
    """The study file, without credentials."""
    searching: bool = False
    """True while trials run: system metrics of this machine are then written as well."""
    trusted: bool = False
    """True if artifacts may go wherever the store says: the user named the store, or said so."""


@dataclass(frozen=True, slots=True)
class Close:
    """The last message: write what waits and end within that many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """The data set that a study trains on, as MLflow describes one."""

    name: str
    digest: str
    """Digest of settings, sizes and all data, of at most 36 characters."""
    source_type: str
    source: str
    """JSON, in the form that MLflow reads for the source type."""
    profile: str
    """JSON: vocabulary size and number of tokens."""


def data_set(objective: Objective, keys: ObjectiveConfig, place: str, data_digest: str) -> DataSet:
    """Returns the description of an objective's data, which lie at `place` or, where a rule draws
    them, are identified by the objective's settings."""
    kind, source = _source(place, keys.name)
    sizes = {f"{key}_tokens": length for key, length in _lengths(objective)}
    profile = json.dumps({"vocab_size": objective.vocab_size} | sizes)
    settings = json.dumps(keys.settings(), sort_keys=True, default=str)
    return DataSet(
        name=place,
        digest=digest_of((settings, profile, data_digest)),
        source_type=kind,
        source=json.dumps(source),
        profile=profile,
    )


def _source(place: str, name: str) -> tuple[str, dict[str, Any]]:
    """Returns the type of the source and the source itself, in forms that MLflow's page shows."""
    if place in DOWNLOADS:
        return "http", {"url": DOWNLOADS[place].url}
    if place != name:
        return "local", {"uri": place}
    return "code", {"tags": {"mlflow.source.name": name, "mlflow.source.type": "LOCAL"}}


def _lengths(held: object, name: str = "") -> Iterator[tuple[str, int]]:
    """Yields name and number of ids of each array and of all files in an objective and in the
    dataclasses it consists of."""
    if isinstance(held, TokenFiles):
        yield name, len(held)
    elif isinstance(held, np.ndarray) and held.size > 1:
        yield name, int(held.size)
    elif is_dataclass(held):
        for field in fields(held):
            yield from _lengths(getattr(held, field.name), f"{name}_{field.name}".strip("_"))
