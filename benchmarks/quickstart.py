"""Writes the answer of a run of the quickstart into the files that the pages are made from.

    make quickstart
    python -m benchmarks.quickstart runs/quickstart --machine "two idle cores"

`--recorded` says that docs/terminal.svg is a recording of this run (`benchmarks/recording.py`). The
run becomes the first row of the table of runs, and the pages are written anew.
"""

import argparse
import json
import math
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks import pages
from benchmarks.answers.trained import agreement
from benchmarks.printed_table import figure, write_result
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.formatting import format_count
from fathom.search.run_folder import RunFolder, read_records
from fathom.search.study.file.study_file import load

LADDER = pages.ROOT / "benchmarks" / "data" / "quickstart_ladder.jsonl"
RECORDED = " (recorded)"
"""Marks the run that docs/terminal.svg shows."""
COLUMNS = ("run", "10k", "20k", "40k")


def main() -> None:
    """Writes quickstart.json and agreement.json, then the pages."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, help="run folder")
    parser.add_argument("--machine", default="two cores", help="as a reader should know it")
    parser.add_argument("--recorded", action="store_true", help="docs/terminal.svg shows this run")
    asked = parser.parse_args()
    folder, file = RunFolder(asked.run), pages.FIGURES / "quickstart.json"
    command = [sys.executable, "-P", "-m", "fathom", "report", str(asked.run), "--json"]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    records, ladder = read_records(folder.records), agreement.read_ladder(LADDER)
    comparison = pages.FIGURES / "agreement.json"
    agreement.compare(records, load(folder.config).seed, ladder, comparison)
    ended = [record.ended for record in records if record.ended]
    seconds = max(ended) - min(record.started for record in records)
    spent, full = agreement.tokens(records), sum(row["tokens"] for row in ladder)
    result = with_run(pages.measured("quickstart"), report["answers"], seconds, asked)
    result["figures"]["tokens_saved"] = figure(round(full / spent, 1), "times the search's tokens")
    write_result(file, result)
    pages.main()


def with_run(
    before: dict[str, Any],
    answers: Sequence[dict[str, Any]],
    seconds: float,
    asked: argparse.Namespace,
) -> dict[str, Any]:
    """Returns the file's contents with this run as the answer that every page shows."""
    minutes = figure(math.ceil(seconds / 60), "minutes, from the first trial to the last")
    figures = before["figures"] | {
        "answer": figure(answer(answers), "best depth in layers, 95 % interval in brackets"),
        "minutes": minutes,
    }
    where = f"{asked.machine}, Python {platform.python_version()}, {date.today().isoformat()}"
    row = [where, *map(cell, answers)]
    earlier = [other for other in before["table"]["rows"] if not other[0].startswith(where)]
    if asked.recorded:
        earlier = [[other[0].removesuffix(RECORDED), *other[1:]] for other in earlier]
        row[0] += RECORDED
        recorded = "; ".join(
            f"{name}: {text}" for name, text in zip(COLUMNS[1:], row[1:], strict=True)
        )
        figures |= {"recorded": figure(recorded, "as in the answer"), "recorded_minutes": minutes}
    return {
        **before,
        "date": date.today().isoformat(),
        "machine": asked.machine,
        "figures": figures,
        "table": before["table"] | {"rows": [row, *earlier]},
    }


def answer(answers: Sequence[dict[str, Any]]) -> str:
    """Returns the answer as a clause: "at 10k parameters **2 layers** are best [2-5], ..."."""
    parts = [_clause(budget, first=place == 0) for place, budget in enumerate(answers)]
    return f"{', '.join(parts[:-1])}, and {parts[-1]}"


def _clause(answered: dict[str, Any], *, first: bool) -> str:
    size = format_count(answered["question"]["budget"]) + (" parameters" if first else "")
    if not settled(answered):
        return f"at {size} no depth is settled (`{answered['verdict']['kind']}`)"
    depth = answered["answer"]["depth"]
    many = "layer is" if depth == 1 else "layers are"
    layers = f"{depth} {many} best" if first else depth
    return f"at {size} **{layers}** [{_interval(answered)}]{_plateau(answered, '(`plateau`)')}"


def cell(answered: dict[str, Any]) -> str:
    """Returns a budget's answer in a table: "2 [2-5]", or its verdict if no depth is settled."""
    if not settled(answered):
        return str(answered["verdict"]["kind"])
    depth = answered["answer"]["depth"]
    return f"{depth} [{_interval(answered)}]{_plateau(answered, 'plateau')}"


def settled(answered: dict[str, Any]) -> bool:
    """True if the answer names a depth and an interval."""
    found = answered["answer"]
    return bool(answered["verdict"]["settled"] and found and found["interval"])


def _plateau(answered: dict[str, Any], word: str) -> str:
    return f" {word}" if answered["verdict"]["kind"] == Kind.PLATEAU else ""


def _interval(answered: dict[str, Any]) -> str:
    low, high = answered["answer"]["interval"]
    return f"{low}-{high}" if low < high else str(low)


if __name__ == "__main__":
    main()
