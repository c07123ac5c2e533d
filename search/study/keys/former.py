"""Keys that an earlier version wrote into the `config.yaml` of a run folder and that have no
meaning now: the folder is read, and its search is not resumed."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

FORMER_KEYS = (("tracking", "optuna"), ("target",))
"""Paths of the keys."""


def without_former(values: Any) -> Any:
    """The values of a study without the `FORMER_KEYS`."""
    return reduce(_without, FORMER_KEYS, values)


def _without(values: Any, path: Sequence[str]) -> Any:
    first, *rest = path
    if not isinstance(values, Mapping) or first not in values:
        return values
    if rest:
        return {**values, first: _without(values[first], rest)}
    return {key: value for key, value in values.items() if key != first}
