"""Renders the figures of the README, the docs and the results page from `figures/*.json`.

    python -m benchmarks.pages

writes them again between the comments of the pages:

    <!-- table: NAME -->                     a table, on lines of its own
    <!-- table: NAME where COLUMN = CELL --> its rows with this cell in this column
    <!-- figure: NAME.ID -->TEXT<!-- / -->   a figure in a sentence, or its date or machine

A file has `command`, `date`, `machine` and `tuned_on`, the table, and `figures` by their ids. A
benchmark writes its file by `--json benchmarks/figures/NAME.json` (`benchmarks/printed_table.py`).
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FIGURES = Path(__file__).parent / "figures"
TABLE = re.compile(
    r"(?P<head><!-- table: (?P<name>\w+)(?: where (?P<column>[^\n]+?) = (?P<cell>[^\n]+?))? -->\n)"
    r"(?P<shown>.*?)(?P<end><!-- /table -->)",
    re.S,
)
FIGURE = re.compile(
    r"(<!-- figure: (?P<name>\w+)\.(?P<id>\w+) -->)(?P<shown>.*?)(<!-- / -->)", re.S
)

HEADER = ("date", "machine")
"""What a sentence may say of a file's measurement, the machine up to the first comma."""


def pages() -> list[Path]:
    """The pages that show figures."""
    return [ROOT / "README.md", ROOT / "benchmarks" / "RESULTS.md", *(ROOT / "docs").glob("*.md")]


def measured(name: str) -> dict[str, Any]:
    """Returns what a benchmark measured."""
    found: dict[str, Any] = json.loads((FIGURES / f"{name}.json").read_text(encoding="utf-8"))
    return found


def rendered(page: str) -> str:
    """Returns the text of a page with the figures and tables that the files have now.

    Raises:
        FileNotFoundError: No benchmark has written this file.
        KeyError: The file has no such figure, or no table.
    """
    page = TABLE.sub(lambda found: found["head"] + _table(found) + found["end"], page)
    return FIGURE.sub(lambda found: found[1] + _figure(found["name"], found["id"]) + found[5], page)


def _table(found: re.Match[str]) -> str:
    result = measured(found["name"])
    if found["column"]:
        table = result["table"]
        at = [column["name"] for column in table["columns"]].index(found["column"])
        table["rows"] = [row for row in table["rows"] if str(row[at]) == found["cell"]]
    return markdown(result)


def markdown(result: dict[str, Any]) -> str:
    """Returns the table of a result as Markdown."""
    columns = result["table"]["columns"]
    rows = [
        [shown(cell, column.get("format", "")) for cell, column in zip(row, columns, strict=True)]
        for row in result["table"]["rows"]
    ]
    lines = [[column["name"] for column in columns], ["---"] * len(columns), *rows]
    return "".join(f"{line_of(line)}\n" for line in lines)


def line_of(cells: Iterable[str]) -> str:
    """Returns a line of a Markdown table."""
    return f"|{'|'.join(cell if cell == '---' else f' {cell} ' for cell in cells)}|"


def shown(value: object, form: str) -> str:
    """Returns a value as the pages show it: numbers in the column's format, text as it is."""
    return value if isinstance(value, str) else format(value, form)


def _figure(name: str, identity: str) -> str:
    result = measured(name)
    if identity in HEADER:
        return str(result[identity]).partition(",")[0]
    figure = result["figures"][identity]
    return shown(figure["value"], figure.get("format", ""))


def main() -> None:
    """Writes the figures of every page anew."""
    for page in pages():
        before = page.read_text(encoding="utf-8")
        page.write_text(rendered(before), encoding="utf-8")


if __name__ == "__main__":
    main()
