"""The text of best.yaml, with long lines whole, so that a command can be copied."""

import math
from collections.abc import Mapping
from typing import Any

import yaml

from fathom.search.export.other_depths import OTHERS


class _OneLine(dict[str, Any]):
    """A mapping that YAML has on one line."""


class _Dumper(yaml.SafeDumper):
    """Writes a `_OneLine` on one line."""


_Dumper.add_representer(
    _OneLine, lambda dumper, row: dumper.represent_mapping("tag:yaml.org,2002:map", row, True)
)


def best_text(content: Mapping[str, Any]) -> str:
    """Returns the YAML of `best` and `study`, each other depth of an entry on a line of its own."""
    entries = [_with_rows(entry) for entry in content["best"]]
    text: str = yaml.dump(
        {**content, "best": entries}, Dumper=_Dumper, sort_keys=False, width=math.inf
    )
    return text


def _with_rows(entry: Any) -> Any:
    """The entry with its other depths as rows; other content stays as it is."""
    rows = entry.get(OTHERS) if isinstance(entry, dict) else None
    if not isinstance(rows, list):
        return entry
    return {**entry, OTHERS: [_OneLine(row) if isinstance(row, dict) else row for row in rows]}
