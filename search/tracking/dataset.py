"""The data set of a study as MLflow describes one: name, digest, source and size."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fathom.objectives.contract import Objective
from fathom.objectives.download import DOWNLOADS
from fathom.search.study.config import StudyConfig

PLACES = ("corpus", "data", "train")
"""Keys of an objective that may name the place of its data; the first one given counts."""
LONGEST_HASHED = 2**24
"""Most bytes hashed at either end of an array, so that a large corpus is not read whole again."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """The data set that a study trains on, as MLflow describes one."""

    name: str
    digest: str
    """Hash of settings and tokens, of at most 36 characters."""
    source_type: str
    source: str
    """JSON, in the form that MLflow reads for the source type."""
    profile: str
    """JSON: vocabulary size and number of tokens."""


def data_set(config: StudyConfig, objective: Objective) -> DataSet:
    """Returns the data set of the objective; generated data are identified by their settings."""
    settings = config.objective.settings()
    name = config.objective.name
    place = next((str(settings[key]) for key in PLACES if settings.get(key)), None)
    arrays = dict(_arrays(objective))
    kind, source = _source(place, name)
    return DataSet(
        name=place or name,
        digest=_digest(settings, arrays),
        source_type=kind,
        source=json.dumps(source),
        profile=json.dumps(
            {"vocab_size": objective.vocab_size}
            | {f"{key}_tokens": int(array.size) for key, array in arrays.items()}
        ),
    )


def _source(place: str | None, name: str) -> tuple[str, dict[str, Any]]:
    """Returns the type of the source and the source itself, in forms that MLflow's page shows."""
    if place in DOWNLOADS:
        return "http", {"url": DOWNLOADS[place].url}
    if place:
        return "local", {"uri": place}
    return "code", {"tags": {"mlflow.source.name": name, "mlflow.source.type": "LOCAL"}}


def _arrays(held: object, name: str = "") -> Iterator[tuple[str, "np.ndarray[Any, Any]"]]:
    """Yields name and array of each array in an objective and in the dataclasses it consists of."""
    if isinstance(held, np.ndarray) and held.size > 1:
        yield name, held
    elif dataclasses.is_dataclass(held):
        for field in dataclasses.fields(held):
            yield from _arrays(getattr(held, field.name), f"{name}_{field.name}".strip("_"))


def _digest(settings: Mapping[str, Any], arrays: Mapping[str, "np.ndarray[Any, Any]"]) -> str:
    """Returns 32 characters that differ for other settings or other data."""
    found = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    for key, array in arrays.items():
        found.update(f"{key} {array.dtype} {array.shape}".encode())
        flat = array.reshape(-1)
        most = LONGEST_HASHED // array.itemsize
        for part in (flat[:most], flat[-most:]):
            found.update(np.ascontiguousarray(part).tobytes())
    return found.hexdigest()[:32]
