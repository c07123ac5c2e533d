"""The findings of a study as data for other programs: rows by kind, and CSV files."""

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import cache
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import Any

from fathom.search.analysis.answer.definitions import cost_of, loss_of
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.laws.law import Law
from fathom.search.conclusion.findings import Findings, flat_optimum_row, shape_row
from fathom.search.conclusion.published import Row
from fathom.search.records import TrialRecord

IN_NATS = ("loss", "train_loss", "noise", "standard_error", "regret")
"""Attributes whose column ends in `_nats`."""

# The columns of each kind of row, in the notation of `columns`.
TRIAL = (
    "trial study stage budget count horizon_tokens seed learning_rate rate_scale decay_scale"
    " prunable"
)
COST = (
    "train_flops step_seconds tokens_per_second setup_seconds peak_memory_bytes device"
    " started_unix_seconds=started ended_unix_seconds=ended"
)
METRIC = (
    "trial=spec.trial stage=spec.stage budget=spec.budget depth=spec.shape.depth seed=spec.seed"
    " outcome tokens"
)
DEPTH = "depth loss standard_error trials"
RUNG = (
    "rung finished pairs rank_correlation depth_bias place_of_best stopped undecided audit_trials"
    " audit_trials_pruned regret noise trusted stopped_depths cut_depths sentence"
)
LAW = (
    "law=name a b budgets bounds params_interval=params_range"
    " leave_one_out_error_ln_depth=leave_one_out_error scatter_ln_depth=scatter"
)
NULL_LAW = (
    "law=name constant standard_error_ln_constant=error params_interval=params_range"
    " leave_one_out_error_ln_depth=leave_one_out_error scatter_ln_depth=scatter"
)
FIRST_ROWS = 1000
"""Number of rows of a kind from which its columns are taken."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Characters at which a spreadsheet takes a cell for a formula."""
POWER = "a z^-p + b z^q + c with z = depth / scale"
PARABOLA = "c0 + c1 x + c2 x^2 with x = ln depth"


def tables(conclusion: Findings) -> dict[str, list[Row]]:
    """Returns the rows by kind, such as `trials` and `optima`; kinds without rows are left out."""
    found = {name: list(rows) for name, rows in rows_by_kind(conclusion).items()}
    return {name: rows for name, rows in found.items() if rows}


def rows_by_kind(conclusion: Findings) -> dict[str, Iterable[Row]]:
    """The rows of each kind, to be iterated once: rows of trials are made one by one, as there may
    be a million."""
    records, optima = conclusion.records, conclusion.optima
    return {
        "trials": map(_trial, records),
        "curves": (
            {
                "trial": record.spec.trial,
                "step": point.step,
                "tokens": point.tokens,
                "loss_nats": point.loss,
                "train_loss_nats": point.train_loss,
                "train_seconds": point.train_seconds,
            }
            for record in records
            for point in record.curve
        ),
        "metrics": (
            {**columns(record, METRIC), "metric": name, "value": value}
            for record in records
            for point in record.curve[-1:]
            for name, value in point.metrics.items()
        ),
        "optima": [_optimum(optimum, conclusion.reason(optimum)) for optimum in optima],
        "depths": [
            {
                "budget": optimum.budget,
                **columns(estimate, DEPTH),
                **_cost(optimum, estimate.depth),
            }
            for optimum in optima
            for estimate in optimum.depths
        ],
        "rungs": [
            {"budget": budget, **columns(audit, RUNG)}
            for budget, audits in conclusion.audits.items()
            for audit in audits
        ],
        "fits": [row for optimum in optima for row in _fits(optimum)],
        "laws": [_law(law) for law in conclusion.laws],
        "null_laws": [columns(law, NULL_LAW) for law in conclusion.null_laws],
        **conclusion.papers.tables,
    }


def save_tables(folder: Path, found: Mapping[str, Iterable[Row]]) -> None:
    """Writes one CSV file for each kind that has rows; lists are separated by blanks."""
    for name, rows in found.items():
        rest = iter(rows)
        if not (first := list(islice(rest, FIRST_ROWS))):
            continue
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            names = max(first, key=len)  # an optimum without a shape has no count of its experts
            writer.writerow(map(_cell, names))
            writer.writerows(map(_cell, map(row.get, names)) for row in chain(first, rest))


def _cell(value: object) -> object:
    """The value as a cell; a text that a spreadsheet would compute is marked as text by `'`."""
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def columns(source: object, names: str) -> Row:
    """Returns the attributes that `names` lists, by column.

    A name is an attribute, or `COLUMN=PATH` for one of another name or of a part. A column
    `X_interval` becomes two, `X_low` and `X_high`, which are None without an interval.
    """
    row: Row = {}
    for column, value_of in _getters(names):
        value = value_of(source)
        if column.endswith("_interval"):
            stem = column.removesuffix("_interval")
            row[f"{stem}_low"], row[f"{stem}_high"] = value or (None, None)
        else:
            row[f"{column}_nats" if column in IN_NATS else column] = value
    return row


@cache
def _getters(names: str) -> tuple[tuple[str, Callable[[object], Any]], ...]:
    """Each column that `names` lists, with the function that gets its value."""
    pairs = (name.partition("=") for name in names.split())
    return tuple((column, attrgetter(path or column)) for column, _, path in pairs)


def _trial(record: TrialRecord) -> Row:
    return {
        **columns(record.spec, TRIAL),
        **shape_row(record.spec.shape),
        **columns(record, "outcome reason tokens loss"),
        "last_loss_nats": record.curve[-1].loss if record.curve else None,
        **columns(record, COST),
    }


def _cost(optimum: Optimum, depth: int) -> Row:
    """The expected loss of a depth, and its cost compared with the best; None where unknown."""
    cost = cost_of(optimum, depth)
    low, high = cost.interval if cost else (None, None)
    costs = {"cost_nats": cost.nats if cost else None, "cost_low_nats": low, "cost_high_nats": high}
    return {"expected_loss_nats": loss_of(optimum, depth), **costs}


def _optimum(optimum: Optimum, reason: str) -> Row:
    row = flat_optimum_row(optimum, reason)
    return {f"{name}_nats" if name in IN_NATS else name: value for name, value in row.items()}


def _fits(optimum: Optimum) -> list[Row]:
    """Returns one row for each coefficient of a curve; losses in nats, depths in layers."""
    if optimum.curves is None:
        return []
    return [
        {"budget": optimum.budget, "formula": formula, "coefficient": name, "value": value}
        for formula, curve in ((POWER, optimum.curves.power), (PARABOLA, optimum.curves.parabola))
        for name, value in asdict(curve).items()
    ]


def _law(law: Law) -> Row:
    (aa, ab), (_, bb) = law.covariance
    return columns(law, LAW) | {"covariance_aa": aa, "covariance_ab": ab, "covariance_bb": bb}
