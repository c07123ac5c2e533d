"""Tables with a planted best depth, as people have them."""

import csv
import os
from collections.abc import Iterable, Sequence
from functools import cache
from math import log
from pathlib import Path

import numpy as np

DEPTHS = (2, 4, 8, 16, 32)
BEST = 6
NOISE = 0.003


def planted_loss(depth: int, params: float = 1e7, *, best: float = BEST) -> float:
    """A loss with its lowest point at `best`, and the noise of a seed."""
    curve = 3 + 0.06 * log(depth / best) ** 2 - 0.3 * log(params / 1e7)
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" (")[0]
    return curve + float(_draws(test).normal(0, NOISE))


@cache
def _draws(test: str) -> np.random.Generator:
    """Of a test: the same, whichever tests ran before it."""
    return np.random.default_rng(0)


def write_table(path: Path, names: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(rows)
    return path
