"""Predictions of a published law or of a run's law: for one size, or a table of sizes."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from fathom.search.analysis.law import Law, Prediction, usable
from fathom.search.analysis.optimum import Optimum, find_optima
from fathom.search.analysis.published import GPT3, LEVINE, TRILLION_NOTE, levine2020
from fathom.search.conclusion import best_law
from fathom.search.formatting import format_count
from fathom.search.report.terminal.tables import empty_table
from fathom.search.run_folder import RunFolder
from fathom.search.study.budget import count_of
from fathom.search.study.config import load
from fathom.search.study.errors import ConfigError
from fathom.search.study.own_records import read_records

Row = dict[str, Any]
"""A row of a table of predictions, as JSON has it; without the keys of `Prediction` if the law has
no depth of at least 1 at this size."""


def predict_size(params: str, law: str) -> Prediction:
    """The best depth for a size; `law` is `levine2020` or a run folder.

    Raises:
        ConfigError: when the size is no number, or the run has no law.
    """
    size = count_of("--params", params)
    if law == LEVINE:
        return levine2020(size)
    return best_law(_optima(law), Path(law)).predict(size)


def predict_table(law: str) -> dict[str, Any]:
    """The table as JSON: `rows` for the sizes of GPT-3 by `levine2020`, with a `note`, or for a
    run's budgets by its own law.

    Raises:
        ConfigError: when the run has no law.
    """
    if law == LEVINE:
        rows = [
            {"model": own.name, "trained_depth": own.depth, "trained_d_model": own.d_model}
            | asdict(levine2020(own.params))
            for own in GPT3
        ]
        return {"rows": rows, "note": TRILLION_NOTE}
    optima = _optima(law)
    fitted, used = best_law(optima, Path(law)), usable(optima)
    return {"rows": [_budget_row(own, fitted, is_used=own in used) for own in optima]}


def print_prediction(prediction: Prediction) -> None:
    """Prints the prediction, and a warning if it is extrapolated."""
    width = f", d_model {prediction.d_model:.0f}" if prediction.d_model else ""
    interval = ""
    if prediction.interval:
        interval = f" (95 %: {prediction.interval[0]:.1f} to {prediction.interval[1]:.1f})"
    print(
        f"{format_count(prediction.params)} parameters: "
        f"depth {prediction.depth:.1f}{interval}{width} by {prediction.law}"
    )
    if prediction.extrapolated:
        print("This size lies outside the range that the law was fitted on.")


def print_table(table: dict[str, Any]) -> None:
    """Prints the table and explains its marks."""
    rows, note = table["rows"], table.get("note")
    Console().print(_published_table(rows) if note else _budget_table(rows))
    if note:
        print(note)
    if any(row.get("extrapolated") for row in rows):
        print("* outside the sizes that the law was fitted on")


def _optima(run: str) -> tuple[Optimum, ...]:
    folder = RunFolder(Path(run))
    folder.check_files()
    if not folder.config.exists():
        raise ConfigError(f"`--law` must be {LEVINE} or a run folder, got {run}")
    config = load(folder.config)
    return find_optima(read_records(folder, config), seed=config.seed)


def _budget_row(optimum: Optimum, law: Law, *, is_used: bool) -> Row:
    row = {
        "budget": optimum.budget,
        "measured_depth": optimum.optimal_depth,
        "measured_interval": optimum.interval,
        "verdict": optimum.verdict.value,
        "fitted": is_used,
    }
    try:
        return row | asdict(law.predict(optimum.budget))
    except ValueError:
        return row


def _published_table(rows: Sequence[Row]) -> Table:
    heads = ("GPT-3", "trained L, d", "N = 12 L d^2", "depth", "d_model")
    table = empty_table("Sizes of GPT-3 by Levine et al. 2020", heads)
    for row in rows:
        was = f"{row['trained_depth']}, {row['trained_d_model']}" if row["trained_depth"] else "-"
        table.add_row(row["model"], was, format_count(row["params"]), *_depth_and_width(row))
    return table


def _budget_table(rows: Sequence[Row]) -> Table:
    law = next((row["law"] for row in rows if "law" in row), "")
    heads = ("budget", "measured", "95 %", "verdict", "by law", "95 %", "d_model")
    table = empty_table(f"Budgets of the run, and its {law} law", heads)
    for row in rows:
        measured, predicted = row["measured_interval"], row.get("interval")
        depth, width = _depth_and_width(row)
        table.add_row(
            format_count(row["budget"]),
            str(row["measured_depth"] or "-"),
            "{}-{}".format(*measured) if measured else "-",
            row["verdict"] if row["fitted"] else f"{row['verdict']}, not fitted",
            depth,
            "{:.1f}-{:.1f}".format(*predicted) if predicted else "-",
            width,
        )
    return table


def _depth_and_width(row: Row) -> tuple[str, str]:
    if "depth" not in row:
        return "-", "-"
    star = "*" if row["extrapolated"] else ""
    return f"{row['depth']:.1f}{star}", f"{row['d_model']:.0f}"
