"""Makes the tables of the results page from a file of `python -m benchmarks.gpu`.

    python -m benchmarks.gpu.tables gpu.json

prints them, and keeps each as `benchmarks/figures/gpu_STAGE.json`, and what the pages say of all in
`gpu.json`. A file of several set-ups needs `--setup`.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import pages
from benchmarks.pages import FIGURES
from benchmarks.printed_table import PrintedTable, figure, write_result

BY_SIZE = ("graphs", "speed", "rivals", "memory", "packing", "hours")
"""Stages whose cases have the same figures: a row for each case, a column for each figure."""
ALIKE = ("steps", "attention", "agreement", "resume", "ranks", "search")
"""Stages that compare: a row for the figure of each case that comes nearest to its mark."""

EIGHT = "8 processes / one alone"
SUMMARY = "gpu.json"
"""File of what the pages say of all that was measured on a GPU."""

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
    machine = args.setup or next(iter(setups))
    cases = setups[machine]["cases"]
    for stage in BY_SIZE:
        if any(_is_of(case, stage) for case in cases):
            by_size(stage, cases, machine)
    compared(cases, machine)
    write_result(FIGURES / SUMMARY, summary(FIGURES))


def by_size(stage: str, cases: Cases, machine: str) -> None:
    """Keeps a row for each case that has the figures which most cases of a stage have, and prints
    them."""
    found = {
        case.partition("/")[2]: {f["what"]: f["value"] for f in findings if _is_measured(f)}
        for case, findings in cases.items()
        if _is_of(case, stage)
    }
    ((columns, _),) = Counter(tuple(values) for values in found.values()).most_common(1)
    formats = {"case": ""} | dict.fromkeys(columns, ",.5g")
    file = FIGURES / f"gpu_{stage}.json"
    table = PrintedTable(formats, file, machine=machine, tuned_on="nothing")
    for case, values in found.items():
        if tuple(values) == columns:
            table.add(case, *(float(f"{value:.4g}") for value in values.values()))


def compared(cases: Cases, machine: str) -> None:
    """Keeps a row for each case and mark of the stages that compare, and prints them."""
    columns = {"case": "", "figure": "", "value": ".2g", "mark": "", "passes": ""}
    file = FIGURES / "gpu_compared.json"
    table = PrintedTable(columns, file, machine=machine, tuned_on="nothing")
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


def summary(figures: Path) -> dict[str, Any]:
    """What the pages say of measurements on a GPU, from the tables of a folder: the machine and the
    day of the last one, the stages that were measured and the others, and ratios."""
    names = [f"gpu_{stage}" for stage in (*BY_SIZE, "compared") if _kept(figures, f"gpu_{stage}")]
    kept = {name: _kept(figures, name) for name in names}
    last = max(kept.values(), key=lambda result: result["date"])
    measured = {stage for stage in BY_SIZE if f"gpu_{stage}" in kept}
    measured |= {row["case"].partition("/")[0] for row in _rows(kept, "compared")}
    stages = [row[0] for row in pages.measured("gpu_marks")["table"]["rows"]]
    done = [stage for stage in stages if stage.strip("`") in measured]
    left = [stage for stage in stages if stage not in done]
    lists = {
        "measured": figure(_listed(done), "stages"),
        "missing": figure(_listed(left), "stages"),
    }
    return {
        "command": "python -m benchmarks.gpu.tables gpu.json",
        **{key: last[key] for key in ("date", "machine", "tuned_on")},
        "figures": lists | _ratios(kept),
    }


def _kept(figures: Path, name: str) -> dict[str, Any]:
    file = figures / f"{name}.json"
    kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return kept


def _listed(names: Iterable[str]) -> str:
    """Names as a sentence lists them; `none` where there is none."""
    *first, last = [*names] or ["none"]
    return f"{', '.join(first)} and {last}" if first else last


def _ratios(kept: Mapping[str, Any]) -> dict[str, object]:
    """The smallest and largest ratio of what was predicted to what was measured, and how much more
    eight processes train than one eager process, and than one as it trains by default."""
    found: dict[str, object] = {}
    for name, part in (("memory", "predicted / measured"), ("hours", "estimated / measured")):
        if ratios := [
            value for row in _rows(kept, name) for key, value in row.items() if part in key
        ]:
            found[f"{name}_least"] = figure(min(ratios), "of what was measured", ".2f")
            found[f"{name}_most"] = figure(max(ratios), "of what was measured", ".2f")
    if again := [row for row in _rows(kept, "compared") if row["case"] == "resume/deterministic"]:
        same = all(row["passes"] == "yes" for row in again)
        found["resumed"] = figure("the same bits" if same else "other bits", "weights")
    packed = [row for row in _rows(kept, "packing") if row["case"] == "processes, with MPS"]
    single = [row for row in _rows(kept, "graphs") if row["case"] == "5x128"]
    for many, one in zip(packed, single, strict=False):
        if EIGHT in many:
            steps = many[EIGHT] * many["one process alone, steps a second"]
            found["eight"] = figure(many[EIGHT], "times one", ".1f")
            by_default = steps * one["step, ms, recorded"] / 1000
            found["eight_by_default"] = figure(by_default, "times one", ".1f")
    return found


def _rows(kept: Mapping[str, Any], stage: str) -> list[dict[str, Any]]:
    """Name of each column -> its value, of each row of a stage's table."""
    table = kept.get(f"gpu_{stage}", {"table": {"columns": [], "rows": []}})["table"]
    names = [column["name"] for column in table["columns"]]
    return [dict(zip(names, row, strict=True)) for row in table["rows"]]


def _passes(findings: Sequence[Mapping[str, Any]]) -> str:
    return "yes" if all(finding["passed"] for finding in findings) else "**no**"


def _is_of(case: str, stage: str) -> bool:
    return case.startswith(f"{stage}/")


def _is_measured(finding: Mapping[str, Any]) -> bool:
    return finding["value"] is not None and not finding["mark"].startswith("true")


if __name__ == "__main__":
    main()
