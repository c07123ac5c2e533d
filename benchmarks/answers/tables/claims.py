"""What published tables of trainings show of the best depth: docs/claims.md.

`python -m benchmarks.answers.tables.claims FOLDER` runs the commands of that page in a folder with
the tables.
"""

import argparse
import itertools
import json
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.search.formatting import format_count, ranges, rounded_count

OPENLM = "fathom analyse openlm_grid.csv --best-of n_heads --best-of warmup_steps"
QUESTIONS = (
    f"{OPENLM} --where batch_field=8",
    f"{OPENLM} --where batch_field=16",
    f"{OPENLM} --where batch_field=64",
    f"{OPENLM} --params 124M --width 0.02 --noise 0.004",
    "fathom analyse qlabs_loops.csv --best-of weight_decay",
    "fathom analyse qlabs_loops.csv --where weight_decay=0.4",
    "fathom analyse gemstones/curves.csv --noise 0.004 --params 508M --width 0.08"
    " --horizons 4B,330B",
)
"""Commands of docs/claims.md."""
COLUMNS = (
    *("table", "held or chosen", "size", "tokens", "depths", "best depth [95 %]"),
    *("not ruled out", "verdict", "half as deep costs (nats)", "times the compute"),
)


def main() -> None:
    """Prints a row for each answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder with the tables")
    add_json_option(parser)
    given = parser.parse_args()
    table, kinds = PrintedTable(dict.fromkeys(COLUMNS, ""), given.json), Counter[str]()
    for command in QUESTIONS:
        for answer in answers_to(command, given.folder):
            table.add(*row(command, answer))
            kinds[answer["verdict"]["kind"]] += 1
    table.figure("answers", kinds.total(), "answers")
    for kind in ("identified", "edge"):
        table.figure(kind, kinds[kind], "answers")


def answers_to(command: str, folder: Path) -> list[dict[str, Any]]:
    """The answers of a command of `fathom` that is typed in a folder."""
    typed = [sys.executable, "-m", *shlex.split(command), "--json"]
    found: list[dict[str, Any]] = json.loads(subprocess.check_output(typed, cwd=folder))["answers"]
    return found


def row(command: str, answer: Mapping[str, Any]) -> tuple[str, ...]:
    """The cells of an answer."""
    _, _, table, *options = shlex.split(command)
    asked, best = answer["question"], answer["answer"]
    low, high = best["interval"] or (None, None)
    nats, compute = half_as_deep(answer)
    return (
        table.split("/")[0].removesuffix(".csv"),
        ", ".join(given for flag, given in itertools.pairwise(options)
                  if flag in ("--best-of", "--where")) or "-",
        format_count(asked["budget"]),
        rounded_count(asked["horizon"]["amount"]),
        ranges([known["depth"] for known in answer["evidence"]["depths"]]),
        f"{best['depth']} [{low}-{high}]" if low else str(best["depth"]),
        ranges(best["not_ruled_out"]),
        answer["verdict"]["kind"],
        nats,
        compute,
    )  # fmt: skip


def half_as_deep(answer: Mapping[str, Any]) -> tuple[str, str]:
    """What the depth nearest to half of the best costs in nats and in compute, as text."""
    half = answer["answer"]["depth"] / 2
    shallower = [cost for cost in answer["costs"] if cost["depth"] < 2 * half]
    if not shallower:
        return "-", "-"
    cost = min(shallower, key=lambda known: abs(known["depth"] - half))
    low, high = cost["nats_interval"]
    nats = f"{cost['nats']:.3f} [{low:.3f} to {high:.3f}]"
    if cost["compute"] is None:
        return nats, "-"
    low, high = cost["compute_interval"]
    return nats, f"{cost['compute']:.2f} [{low:.2f} to {high:.2f}]"


if __name__ == "__main__":
    main()
