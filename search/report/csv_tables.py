"""The tables of a report: rows by kind, and the CSV files that hold them."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fathom.search.analysis.law import Law
from fathom.search.analysis.optimum import Optimum
from fathom.search.analysis.papers.crossing_law import CrossingLaw
from fathom.search.analysis.papers.crossings import Crossing
from fathom.search.analysis.papers.findings import PaperFindings
from fathom.search.analysis.papers.matched_loss import LossLevel, MatchedComparison
from fathom.search.analysis.papers.required_depth import DifficultyDepth, RequiredDepth
from fathom.search.conclusion import Conclusion, flat_optimum_row, shape_row
from fathom.search.records import TrialRecord
from fathom.search.report.charts.cost import train_flops

Row = dict[str, Any]
"""Column -> value; a value may be a list of numbers."""

IN_NATS = ("loss", "train_loss", "noise", "standard_error", "regret")
"""Attributes whose column ends in `_nats`."""
TRIAL = "trial study stage budget count horizon_tokens seed learning_rate rate_scale prunable"
TIMES = "step_seconds tokens_per_second setup_seconds peak_memory_bytes"
RUNG = (
    "rung finished pairs rank_correlation depth_bias place_of_best stopped audit_trials"
    " audit_trials_pruned regret noise trusted stopped_depths cut_depths sentence"
)
POWER = "a z^-p + b z^q + c with z = depth / scale"
PARABOLA = "c0 + c1 x + c2 x^2 with x = ln depth"


def tables(conclusion: Conclusion) -> dict[str, list[Row]]:
    """Returns the rows by kind, such as `trials` and `optima`; kinds without rows are left out."""
    records, optima = conclusion.records, conclusion.optima
    found = {
        "trials": [_trial(record) for record in records],
        "curves": [row for record in records for row in _curve(record)],
        "metrics": [row for record in records for row in _metrics(record)],
        "optima": [_optimum(optimum) for optimum in optima],
        "depths": [
            {"budget": optimum.budget, **_columns(own, "depth loss standard_error trials")}
            for optimum in optima
            for own in optimum.depths
        ],
        "rungs": [
            {"budget": budget, **_columns(audit, RUNG)}
            for budget, audits in conclusion.audits.items()
            for audit in audits
        ],
        "fits": [row for optimum in optima for row in _fits(optimum)],
        "laws": [_law(law) for law in conclusion.laws],
        **_papers(conclusion.papers),
    }
    return {name: rows for name, rows in found.items() if rows}


def save_tables(folder: Path, found: Mapping[str, Sequence[Row]]) -> None:
    """Write one CSV file for each kind of row; lists are separated by blanks."""
    for name, rows in found.items():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows({head: _cell(value) for head, value in row.items()} for row in rows)


def _cell(value: object) -> object:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _columns(source: object, names: str) -> Row:
    """Returns the attributes that `names` lists, by column."""
    return {
        f"{name}_nats" if name in IN_NATS else name: getattr(source, name) for name in names.split()
    }


def _ends(name: str, interval: tuple[float, float | None] | None) -> Row:
    low, high = interval or (None, None)
    return {f"{name}_low": low, f"{name}_high": high}


def _trial(record: TrialRecord) -> Row:
    return {
        **_columns(record.spec, TRIAL),
        **shape_row(record.spec.shape),
        **_columns(record, "outcome reason tokens loss"),
        "last_loss_nats": record.curve[-1].loss if record.curve else None,
        "train_flops": train_flops(record),
        **_columns(record, TIMES),
        "started_unix_seconds": record.started,
        "ended_unix_seconds": record.ended,
    }


def _curve(record: TrialRecord) -> list[Row]:
    names = "step tokens loss train_loss train_seconds"
    return [{"trial": record.spec.trial, **_columns(point, names)} for point in record.curve]


def _metrics(record: TrialRecord) -> list[Row]:
    """Returns one row for each metric of the objective at the last evaluation."""
    return [
        {
            **_columns(record.spec, "trial stage budget"),
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
    row = flat_optimum_row(optimum)
    return {f"{name}_nats" if name in IN_NATS else name: value for name, value in row.items()}


def _fits(optimum: Optimum) -> list[Row]:
    """Returns one row for each coefficient of a curve; losses in nats, depths in layers."""
    return [
        {"budget": optimum.budget, "formula": formula, "coefficient": name, "value": value}
        for formula, curve in ((POWER, optimum.power), (PARABOLA, optimum.parabola))
        if curve is not None
        for name, value in asdict(curve).items()
    ]


def _law(law: Law) -> Row:
    return {
        "law": law.name,
        "a": law.a,
        "b": law.b,
        **_ends("params", law.params_range),
        "leave_one_out_error_ln_depth": law.leave_one_out_error,
        "scatter_ln_depth": law.scatter,
        "covariance_aa": law.covariance[0][0],
        "covariance_ab": law.covariance[0][1],
        "covariance_bb": law.covariance[1][1],
    }


def _papers(papers: PaperFindings) -> dict[str, list[Row]]:
    crossings = papers.crossings
    return {
        "crossings": [_crossing(pair) for pair in crossings.pairs] if crossings else [],
        "crossing_law": [_crossing_law(crossings.law)] if crossings else [],
        "required_depth": [
            _need(own, need) for own in papers.required_depths for need in own.needs
        ],
        "matched": [_matched(own, level) for own in papers.matched for level in own.levels],
    }


def _crossing(pair: Crossing) -> Row:
    return {
        "shallow_depth": pair.shallow,
        "deep_depth": pair.deep,
        "neighbours": pair.neighbours,
        "finding": pair.kind,
        **_columns(pair, "budgets params"),
        **_ends("params", pair.interval),
        "d_model": pair.d_model,
    }


def _crossing_law(law: CrossingLaw) -> Row:
    return {
        **_columns(law, "crossings supported a b"),
        **_ends("a", law.a_interval),
        **_ends("b", law.b_interval),
        "reason": law.reason,
    }


def _need(own: RequiredDepth, need: DifficultyDepth) -> Row:
    return {
        "budget": own.budget,
        "metric": own.metric,
        "difficulty": need.difficulty,
        "limit": own.rule.limit,
        "depth": need.depth,
        "soonest_depth": need.soonest,
        "surest_depth": need.surest,
        "tested_depths": own.depths,
        "trials": own.trials,
        "gained_in": "log2(difficulty)" if own.rule.doubling else "difficulty",
        "gained_each_layer": own.gained,
        **_ends("gained_each_layer", own.gained_interval),
    }


def _matched(own: MatchedComparison, level: LossLevel) -> Row:
    row: Row = {
        **_columns(own, "budget metric yardstick"),
        "shallow_depth": own.shallow,
        "deep_depth": own.deep,
        "shallow_trials": own.trials[0],
        "deep_trials": own.trials[1],
        "level": level.level,
    }
    for name in ("shallow", "deep", "difference"):
        estimate = getattr(level, name)
        row |= {name: estimate.mean, **_ends(name, estimate.interval)}
    return row
