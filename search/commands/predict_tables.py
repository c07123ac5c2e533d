"""Text, tables and JSON of predictions."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from fathom.search.analysis.law import Prediction
from fathom.search.analysis.published import TRILLION_NOTE
from fathom.search.commands.predict import BudgetPrediction, PublishedPrediction
from fathom.search.formatting import format_count
from fathom.search.report.terminal.tables import empty_table


def prediction_json(prediction: Prediction) -> dict[str, Any]:
    """The prediction as JSON."""
    return {
        "params": prediction.params,
        "law": prediction.law,
        "depth": prediction.depth,
        "d_model": prediction.d_model,
        "interval": list(prediction.interval) if prediction.interval else None,
        "extrapolated": prediction.extrapolated,
    }


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


def table_json(rows: Sequence[PublishedPrediction] | Sequence[BudgetPrediction]) -> dict[str, Any]:
    """The table as JSON: a prediction for each row, and the note of the published law."""
    found: dict[str, Any] = {"rows": [_row_json(row) for row in rows]}
    if any(isinstance(row, PublishedPrediction) for row in rows):
        found["note"] = TRILLION_NOTE
    return found


def print_table(rows: Sequence[PublishedPrediction] | Sequence[BudgetPrediction]) -> None:
    """Prints the table and explains its marks."""
    console = Console()
    published = [row for row in rows if isinstance(row, PublishedPrediction)]
    console.print(_published_table(published) if published else _budget_table(rows))
    if published:
        print(TRILLION_NOTE)
    if any(row.prediction and row.prediction.extrapolated for row in rows):
        print("* outside the sizes that the law was fitted on")


def _published_table(rows: Sequence[PublishedPrediction]) -> Table:
    heads = ("GPT-3", "trained L, d", "N = 12 L d^2", "depth", "d_model")
    table = empty_table("Sizes of GPT-3 by Levine et al. 2020", heads)
    for row in rows:
        trained = row.trained
        was = f"{trained.depth}, {trained.d_model}" if trained.depth else "-"
        size = format_count(trained.params)
        table.add_row(trained.name, was, size, *_depth_and_width(row.prediction))
    return table


def _budget_table(rows: Sequence[PublishedPrediction | BudgetPrediction]) -> Table:
    law = next((row.prediction.law for row in rows if row.prediction), "")
    heads = ("budget", "measured", "95 %", "verdict", "by law", "95 %", "d_model")
    table = empty_table(f"Budgets of the run, and its {law} law", heads)
    for row in rows:
        if isinstance(row, BudgetPrediction):
            table.add_row(*_budget_cells(row))
    return table


def _row_json(row: PublishedPrediction | BudgetPrediction) -> dict[str, Any]:
    predicted = prediction_json(row.prediction) if row.prediction else {}
    if isinstance(row, PublishedPrediction):
        trained = row.trained
        return {
            "model": trained.name,
            "trained_depth": trained.depth,
            "trained_d_model": trained.d_model,
            **predicted,
        }
    own = row.optimum
    return {
        "budget": own.budget,
        "measured_depth": own.optimal_depth,
        "measured_interval": list(own.interval) if own.interval else None,
        "verdict": own.verdict.value,
        "fitted": row.fitted,
        **predicted,
    }


def _budget_cells(row: BudgetPrediction) -> list[str]:
    own, prediction = row.optimum, row.prediction
    low, high = (prediction.interval if prediction else None) or (None, None)
    depth, width = _depth_and_width(prediction)
    return [
        format_count(own.budget),
        str(own.optimal_depth or "-"),
        f"{own.interval[0]}-{own.interval[1]}" if own.interval else "-",
        own.verdict.value if row.fitted else f"{own.verdict.value}, not fitted",
        depth,
        f"{low:.1f}-{high:.1f}" if low and high else "-",
        width,
    ]


def _depth_and_width(prediction: Prediction | None) -> tuple[str, str]:
    if prediction is None:
        return "-", "-"
    star = "*" if prediction.extrapolated else ""
    return f"{prediction.depth:.1f}{star}", f"{prediction.d_model:.0f}"
