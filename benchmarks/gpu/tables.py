"""Makes the tables of the results page from a file of `python -m benchmarks.gpu`.

    python -m benchmarks.gpu.tables gpu.json

prints them, and keeps each as `benchmarks/figures/gpu_STAGE.json`. A file of several set-ups needs
`--setup`.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.pages import FIGURES
from benchmarks.printed_table import PrintedTable

BY_SIZE = ("graphs", "speed", "rivals", "memory", "packing", "hours")
"""Stages whose cases have the same figures: a row for each case, a column for each figure."""
ALIKE = ("steps", "attention", "agreement", "resume")
"""Stages that compare: a row for the figure of each case that comes nearest to its mark."""

Cases = Mapping[str, Sequence[Mapping[str, Any]]]
"""Stage and name of a case -> its findings."""


def main() -> None:
    """Writes the tables of a file of findings."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.tables", description=__doc__)
    parser.add_argument("findings", type=Path)
    parser.add_argument("--setup", help="the device and the version of PyTorch, as the file says")
    args = parser.parse_args()
    setups = json.loads(args.findings.read_text(encoding="utf-8"))["setups"]
    if args.setup is None and len(setups) > 1:
        sys.exit(f"--setup must name one of {', '.join(setups)}")
    cases = setups[args.setup or next(iter(setups))]["cases"]
    for stage in BY_SIZE:
        if any(_is_of(case, stage) for case in cases):
            by_size(stage, cases)
    compared(cases)


def by_size(stage: str, cases: Cases) -> None:
    """Keeps a row for each case that has the figures which most cases of a stage have, and prints
    them."""
    found = {
        case.partition("/")[2]: {f["what"]: f["value"] for f in findings if _is_measured(f)}
        for case, findings in cases.items()
        if _is_of(case, stage)
    }
    ((columns, _),) = Counter(tuple(values) for values in found.values()).most_common(1)
    formats = {"case": ""} | dict.fromkeys(columns, ",.5g")
    table = PrintedTable(formats, FIGURES / f"gpu_{stage}.json")
    for case, values in found.items():
        if tuple(values) == columns:
            table.add(case, *(float(f"{value:.4g}") for value in values.values()))


def compared(cases: Cases) -> None:
    """Keeps a row for each case and mark of the stages that compare, and prints them."""
    columns = {"case": "", "figure": "", "value": ".2g", "mark": "", "passes": ""}
    table = PrintedTable(columns, FIGURES / "gpu_compared.json")
    for case, findings in cases.items():
        if not any(_is_of(case, stage) for stage in ALIKE):
            continue
        true = [finding for finding in findings if finding["mark"].startswith("true")]
        if true:
            whats = "; ".join(finding["what"] for finding in true)
            table.add(case, whats, "", "true", _passes(true))
        for mark in dict.fromkeys(finding["mark"] for finding in findings if finding not in true):
            of_mark = [finding for finding in findings if finding["mark"] == mark != ""]
            if of_mark:
                worst = max(of_mark, key=lambda finding: finding["value"])
                table.add(case, worst["what"], worst["value"], mark, _passes(of_mark))


def _passes(findings: Sequence[Mapping[str, Any]]) -> str:
    return "yes" if all(finding["passed"] for finding in findings) else "**no**"


def _is_of(case: str, stage: str) -> bool:
    return case.startswith(f"{stage}/")


def _is_measured(finding: Mapping[str, Any]) -> bool:
    return finding["value"] is not None and not finding["mark"].startswith("true")


if __name__ == "__main__":
    main()
