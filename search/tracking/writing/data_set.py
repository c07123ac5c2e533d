"""The data set of a study, as MLflow describes one: the names and sizes of an objective's data."""

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from fathom.objectives.contract import Objective
from fathom.objectives.files.download import DOWNLOADS
from fathom.objectives.files.reading import digest_of
from fathom.objectives.keys import ObjectiveConfig
from fathom.objectives.tokens.stream import TokenFiles
from fathom.search.tracking.stores.messages import DataSet


def data_set(objective: Objective, keys: ObjectiveConfig, data_digest: str) -> DataSet:
    """Returns the description of an objective's data: their place or, if the objective generates
    them, its settings."""
    place = keys.place
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
    """Returns the type of the data's source and the source itself, in forms that MLflow's page
    shows."""
    if place in DOWNLOADS:
        return "http", {"url": DOWNLOADS[place].url}
    if place != name:
        return "local", {"uri": place}
    return "code", {"tags": {"mlflow.source.name": name, "mlflow.source.type": "LOCAL"}}


def _lengths(held: object, name: str = "") -> Iterator[tuple[str, int]]:
    """Yields the name and the number of ids of each array, and of all files together, in an
    objective and in the dataclasses inside it."""
    if isinstance(held, TokenFiles):
        yield name, len(held)
    elif isinstance(held, np.ndarray) and held.size > 1:
        yield name, int(held.size)
    elif is_dataclass(held):
        for field in fields(held):
            yield from _lengths(getattr(held, field.name), f"{name}_{field.name}".strip("_"))
