"""Writes the text of best.yaml without breaking long lines, so that a command can be copied."""

import math
from collections.abc import Mapping
from typing import Any

import yaml

from fathom.search.export.other_depths import OTHERS


class _OneLine(dict[str, Any]):
    """A mapping that is written on one line of YAML."""


class _Dumper(yaml.SafeDumper):
    """Writes a `_OneLine` on one line."""


_Dumper.add_representer(
    _OneLine, lambda dumper, row: dumper.represent_mapping("tag:yaml.org,2002:map", row, True)
)


def best_text(content: Mapping[str, Any]) -> str:
    """Returns the YAML of `best` and `study`, in which each of an entry's other depths is one
    line."""
    entries = [_with_rows(entry) for entry in content["best"]]
    text: str = yaml.dump(
        {**content, "best": entries}, Dumper=_Dumper, sort_keys=False, width=math.inf
    )
    return text


def _with_rows(entry: Any) -> Any:
    """The entry with each of its other depths as a row on one line; any other content is
    unchanged."""
    rows = entry.get(OTHERS) if isinstance(entry, dict) else None
    if not isinstance(rows, list):
        return entry
    return {**entry, OTHERS: [_OneLine(row) if isinstance(row, dict) else row for row in rows]}
