"""Small tables of learning curves for the tests of the replay."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.worlds.curve_tables import COLUMNS
from fathom.search.tables.runs import Run


def run(depth: int, *, seed: int = 0, params: int = 1000, points: int = 64) -> Run:
    tokens = np.linspace(100.0, 100.0 * points, points)
    return Run(
        d_model=640 // depth, depth=depth, d_ff=None, seed=seed, params_total=params,
        params_non_embedding=params - 100, seconds_per_step=0.01 * depth, tokens=tokens,
        losses=np.zeros(points),
    )  # fmt: skip


def write(path: Path, runs: Sequence[Run], columns: Sequence[str] = COLUMNS) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for curve in runs:
            for tokens, loss in zip(curve.tokens, curve.losses, strict=True):
                row = {name: getattr(curve, name, None) for name in columns}
                writer.writerow((row | {"tokens": tokens, "loss": loss}).values())
    return path
