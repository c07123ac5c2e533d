"""A table that a benchmark prints row by row and, with `--json FILE`, keeps for the pages."""

import argparse
import json
import os
import platform
import shlex
import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.pages import line_of, shown

KEPT = ("machine", "tuned_on", "settings")
"""What a person says of a measurement; a new one keeps it."""


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--json FILE`, the file of `benchmarks/figures/` to write."""
    parser.add_argument("--json", type=Path, help="file that the pages are made from")


class PrintedTable:
    """A Markdown table; the file is written anew with each row."""

    def __init__(self, columns: Mapping[str, str], file: Path | None = None, **said: str) -> None:
        """Prints the heads of the columns, which are given with the formats of their numbers; keeps
        what is said of the measurement, such as its `machine`."""
        self._formats, self._file = [*columns.values()], file
        header = _header(file) | said
        self._result = {**header, "figures": {}, "table": {"columns": [], "rows": []}}
        for name, form in columns.items():
            column = {"name": name, "format": form} if form else {"name": name}
            self._result["table"]["columns"].append(column)
        print(line_of(columns))
        print(line_of(["---"] * len(columns)), flush=True)

    def add(self, *cells: object) -> None:
        """Prints a row: numbers in their columns' formats, text as it is."""
        texts = [shown(cell, form) for cell, form in zip(cells, self._formats, strict=True)]
        print(line_of(texts), flush=True)
        self._result["table"]["rows"].append([*cells])
        self._write()

    def figure(self, name: str, value: object, unit: str, form: str = "") -> None:
        """Keeps a figure that sentences show."""
        self._result["figures"][name] = figure(value, unit, form)
        self._write()

    def _write(self) -> None:
        if self._file:
            write_result(self._file, self._result)


def figure(value: object, unit: str, form: str = "") -> dict[str, object]:
    """Returns a figure as a file has it."""
    return {"value": value, "unit": unit, **({"format": form} if form else {})}


def write_result(file: Path, result: Mapping[str, Any]) -> None:
    """Writes what was measured, one line for each figure, column and row."""
    parts = {name: json.dumps(value, ensure_ascii=False) for name, value in result.items() if value}
    if figures := result.get("figures"):
        parts["figures"] = _lines("{", [_pair(*pair) for pair in figures.items()], "}", " ")
    if table := result.get("table"):
        inner = {key: [json.dumps(x, ensure_ascii=False) for x in table[key]] for key in table}
        lists = [f'"{key}": {_lines("[", lines, "]", "  ")}' for key, lines in inner.items()]
        parts["table"] = _lines("{", lists, "}", " ")
    text = _lines("{", [f'"{name}": {value}' for name, value in parts.items()], "}", "")
    file.write_text(text + "\n", encoding="utf-8")


def _pair(name: str, value: object) -> str:
    return f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"


def _lines(start: str, lines: list[str], end: str, indent: str) -> str:
    return f"{start}\n" + ",\n".join(f"{indent} {line}" for line in lines) + f"\n{indent}{end}"


def _header(file: Path | None) -> dict[str, Any]:
    before = json.loads(file.read_text(encoding="utf-8")) if file and file.exists() else {}
    machine = f"{os.cpu_count()} {platform.machine()} cores"
    kept = {"machine": machine, "tuned_on": "not said yet"} | {
        name: before[name] for name in KEPT if name in before
    }
    return {"command": _command(), "date": date.today().isoformat(), **kept}


def _command() -> str:
    """The command that runs now, as one types it."""
    main = sys.modules["__main__"].__spec__
    program = f"python -m {main.name}" if main else Path(sys.argv[0]).name
    return f"{program.removesuffix('.__main__')} {shlex.join(sys.argv[1:])}".strip()
