"""Files of JSON lines as a forger writes them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fathom.search.json_lines import append_line, without_checksums


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The values of the lines of a file, without a check of them."""
    return [without_checksums(json.loads(line)) for line in path.read_text().splitlines()]


def write_sealed(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Writes lines in place of a file, with checksums, as a search or a forger does."""
    path.unlink(missing_ok=True)
    for line in lines:
        append_line(path, line, wait=False)
