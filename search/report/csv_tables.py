"""The numbers behind a report: rows by kind, and as CSV files."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fathom.search.analysis.law import Law
from fathom.search.analysis.optimum import Optimum
from fathom.search.conclusion import Conclusion, flat_optimum_row, shape_row
from fathom.search.records import TrialRecord
from fathom.search.report.charts.cost import train_flops
from fathom.search.report.papers_tables import papers_tables
from fathom.search.scheduling.audit import RungAudit

Row = dict[str, Any]
TRIAL = (
    "trial",
    "study",
    "stage",
    "budget",
    "count",
    "horizon_tokens",
    "seed",
    "learning_rate",
    "rate_scale",
    "prunable",
)
NATS = "_nats"
"""Ends the name of each loss, noise and error."""
TIMES = ("step_seconds", "tokens_per_second", "setup_seconds", "peak_memory_bytes")
POWER = "a z^-p + b z^q + c with z = depth / scale"
PARABOLA = "c0 + c1 x + c2 x^2 with x = ln depth"


def tables(conclusion: Conclusion) -> dict[str, list[Row]]:
    """Rows by the kind of thing that they are about; no kind without any."""
    records, optima = conclusion.records, conclusion.optima
    found = {
        "trials": [_trial(record) for record in records],
        "curves": [row for record in records for row in _curve(record)],
        "metrics": [row for record in records for row in _metrics(record)],
        "optima": [_optimum(optimum) for optimum in optima],
        "depths": [row for optimum in optima for row in _depths(optimum)],
        "rungs": [
            _rung(budget, own) for budget, rungs in conclusion.audits.items() for own in rungs
        ],
        "fits": [row for optimum in optima for row in _fits(optimum)],
        "laws": [_law(law) for law in conclusion.laws],
        **papers_tables(conclusion.papers),
    }
    return {name: rows for name, rows in found.items() if rows}


def save_tables(folder: Path, found: Mapping[str, Sequence[Row]]) -> None:
    """Write one file for each kind of row."""
    for name, rows in found.items():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


def _trial(record: TrialRecord) -> Row:
    return {
        **{name: getattr(record.spec, name) for name in TRIAL},
        **shape_row(record.spec.shape),
        "outcome": record.outcome,
        "reason": record.reason,
        "tokens": record.tokens,
        f"loss{NATS}": record.loss,
        f"last_loss{NATS}": record.curve[-1].loss if record.curve else None,
        "train_flops": train_flops(record),
        **{name: getattr(record, name) for name in TIMES},
        "started_unix_seconds": record.started,
        "ended_unix_seconds": record.ended,
    }


def _curve(record: TrialRecord) -> list[Row]:
    return [
        {
            "trial": record.spec.trial,
            "step": point.step,
            "tokens": point.tokens,
            f"loss{NATS}": point.loss,
            f"train_loss{NATS}": point.train_loss,
            "train_seconds": point.train_seconds,
        }
        for point in record.curve
    ]


def _metrics(record: TrialRecord) -> list[Row]:
    """One row for each thing that the objective measured beside the loss, as it was last."""
    return [
        {
            "trial": record.spec.trial,
            "stage": record.spec.stage,
            "budget": record.spec.budget,
            "depth": record.spec.shape.depth,
            "seed": record.spec.seed,
            "outcome": record.outcome,
            "tokens": point.tokens,
            "metric": name,
            "value": value,
        }
        for point in record.curve[-1:]
        for name, value in point.metrics.items()
    ]


def _optimum(optimum: Optimum) -> Row:
    flat = flat_optimum_row(optimum)
    row = {f"{name}{NATS}" if name in ("loss", "noise") else name: flat[name] for name in flat}
    return row | {"plateau": " ".join(map(str, optimum.plateau))}


def _depths(optimum: Optimum) -> list[Row]:
    return [
        {
            "budget": optimum.budget,
            "depth": own.depth,
            f"loss{NATS}": own.loss,
            f"standard_error{NATS}": own.standard_error,
            "trials": own.trials,
        }
        for own in optimum.depths
    ]


def _fits(optimum: Optimum) -> list[Row]:
    """One row a coefficient; losses in nats, depths in layers."""
    return [
        {"budget": optimum.budget, "formula": formula, "coefficient": name, "value": value}
        for formula, curve in ((POWER, optimum.power), (PARABOLA, optimum.parabola))
        if curve is not None
        for name, value in asdict(curve).items()
    ]


def _rung(budget: int, audit: RungAudit) -> Row:
    names = ("finished", "pairs", "agreement", "depth_lean", "place_of_best", "stopped")
    return {
        "budget": budget,
        "rung": audit.rung,
        **{name: getattr(audit, name) for name in (*names, "exempt", "spared")},
        "regret_nats": audit.regret,
        "noise_nats": audit.noise,
        "trusted": audit.trusted,
        "stopped_depths": " ".join(map(str, audit.stopped_depths)),
        "cut_depths": " ".join(map(str, audit.cut_depths)),
        "sentence": audit.sentence,
    }


def _law(law: Law) -> Row:
    return {
        "law": law.name,
        "a": law.a,
        "b": law.b,
        "params_low": law.params_range[0],
        "params_high": law.params_range[1],
        "leave_one_out_error_ln_depth": law.leave_one_out_error,
        "scatter_ln_depth": law.scatter,
        "covariance_aa": law.covariance[0][0],
        "covariance_ab": law.covariance[0][1],
        "covariance_bb": law.covariance[1][1],
    }
