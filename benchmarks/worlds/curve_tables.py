"""Tables of learning curves: one row an evaluation, one run a (shape, seed).

Columns: d_model, depth, params_total, params_non_embedding, tokens, seconds_per_step, loss; and,
where the table has them, seed and d_ff. A run folder of a study that stopped nothing will do too.
"""

import csv
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fathom.search.records import Outcome, TrialRecord
from fathom.search.run_folder import RunFolder, read_records
from fathom.search.tables.errors import TableError
from fathom.search.tables.grouped.sizes import SHORT
from fathom.search.tables.runs import Array, Run

COLUMNS = (
    *("d_model", "depth", "params_total", "params_non_embedding"),
    *("tokens", "seconds_per_step", "loss"),
)
FINAL_EVALUATIONS = 3
"""Number of last evaluations whose median is the final loss, against spikes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeClass:
    """Runs of about one size, on common tokens."""

    runs: tuple[Run, ...]
    tokens: Array
    """Evaluations, ascending; the last is the horizon."""
    losses: Array
    """Losses of the runs, (runs, evaluations), nats."""

    @property
    def horizon(self) -> float:
        """Tokens of a run that goes to the end."""
        return float(self.tokens[-1])

    @property
    def final(self) -> Array:
        """(runs,) mean final loss over the seeds of each run's shape, nats."""
        shapes = [run.shape for run in self.runs]
        return np.array([_mean_of(shape, shapes, self.ends) for shape in shapes])

    @property
    def ends(self) -> Array:
        """(runs,) final loss of each run, nats."""
        ends: Array = np.median(self.losses[:, -FINAL_EVALUATIONS:], axis=1)
        return ends

    @property
    def best(self) -> Run:
        """A run of the shape with the lowest mean final loss."""
        return self.runs[int(self.final.argmin())]


def read_runs(path: Path) -> tuple[Run, ...]:
    """The runs of a table, or the finished trials of a run folder at the study's own rate.

    Raises:
        TableError: when a table lacks a column, or a value is no number.
    """
    if path.is_dir():
        records = read_records(RunFolder(path).records)
        return tuple(_run_of(record) for record in records if _counts(record))
    return _read_table(path)


def _read_table(path: Path) -> tuple[Run, ...]:
    rows: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise TableError(f"{path} must have the columns {', '.join(COLUMNS)}; add {missing}")
        for row in reader:
            rows[tuple(row.get(key) or "" for key in ("d_model", "depth", "d_ff", "seed"))] += [row]
    try:
        runs = [_run(some) for some in rows.values()]
    except ValueError as error:
        raise TableError(f"{path} must hold numbers in every column: {error}") from error
    return tuple(run for run in runs if len(run.tokens) > 1)


def size_class(runs: Sequence[Run], horizon: float | None = None) -> SizeClass:
    """The class of runs, at the evaluations of the sparsest run; broken-off runs are left out."""
    longest = max(run.tokens[-1] for run in runs)
    whole = tuple(run for run in runs if run.tokens[-1] >= SHORT * longest)
    end = min(horizon or math.inf, *(run.tokens[-1] for run in whole))
    start = max(run.tokens[0] for run in whole)
    grids = [run.tokens[(run.tokens >= start) & (run.tokens <= end)] for run in whole]
    grid = min(grids, key=len)
    losses = [np.interp(np.log(grid), np.log(run.tokens), run.losses) for run in whole]
    return SizeClass(runs=whole, tokens=grid, losses=np.array(losses))


def corrected(some: SizeClass, count: str, slope: float) -> SizeClass:
    """The class as if all its shapes had the median size."""
    sizes = np.log([run.params(count) for run in some.runs])
    shift = slope * (sizes - np.median(sizes))
    return replace(some, losses=some.losses - shift[:, None])


def _run(rows: list[dict[str, str]]) -> Run:
    # Tokens that come twice are those of a run that was restarted: the later row is its own.
    losses = {float(row["tokens"]): float(row["loss"]) for row in rows}
    points = [point for point in sorted(losses.items()) if math.isfinite(point[1])]
    first = rows[0]
    return Run(
        d_model=_whole(first["d_model"]),
        depth=_whole(first["depth"]),
        d_ff=_whole(first["d_ff"]) if first.get("d_ff") else None,
        seed=_whole(first["seed"]) if first.get("seed") else 0,
        params_total=_whole(first["params_total"]),
        params_non_embedding=_whole(first["params_non_embedding"]),
        seconds_per_step=float(first["seconds_per_step"]),
        tokens=np.array([tokens for tokens, _ in points]),
        losses=np.array([loss for _, loss in points]),
    )


def _counts(record: TrialRecord) -> bool:
    return record.outcome is Outcome.FINISHED and record.spec.rate_scale == 1


def _run_of(record: TrialRecord) -> Run:
    shape = record.spec.shape
    return Run(
        d_model=shape.d_model,
        depth=shape.depth,
        d_ff=shape.d_ff,
        seed=record.spec.seed,
        params_total=shape.params_total,
        params_non_embedding=shape.params_non_embedding,
        seconds_per_step=record.step_seconds or 0.0,
        tokens=np.array([float(point.tokens) for point in record.curve]),
        losses=np.array([point.loss for point in record.curve]),
    )


def _whole(text: str) -> int:
    return int(float(text))


def _mean_of(shape: object, shapes: Sequence[object], ends: Array) -> float:
    return float(np.mean([end for other, end in zip(shapes, ends, strict=True) if other == shape]))
