"""The settings of a table of a search as axes: numbers from -1 to 1, and categories."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import exp, log, nan

import numpy as np
from numpy.typing import NDArray

from fathom.models.shape import Count
from fathom.models.spend import Coin
from fathom.search.tables.columns.cells import Texts
from fathom.search.tables.grouped.sizes import SAME_SIZE
from fathom.search.tables.grouped.trials import FINAL_NEAR
from fathom.search.tables.grouped.varying import RATE, value_of
from fathom.search.tables.runs import Run, Runs

Array = NDArray[np.float64]

DEPTH, SIZE, TOKENS = "depth", "size", "tokens"
LOGARITHMIC = 4.0
"""Factor between the values of a setting above which its logarithm counts."""
FEW_NUMBERS = 3
"""Most numbers that are taken for categories."""
MOST_CATEGORIES = 8
"""Most texts of a setting; with more it is a name."""
GRID = 11
"""Most values of an axis among which the best is looked for."""
LOW = 0.3
"""Share of the runs, the lowest, whose settings may be the best."""
INSIDE = (0.05, 0.95)
"""Quantiles of their numbers between which the best is looked for."""
FEWEST_RUNS = 40
"""Fewest runs whose settings can be said to have been drawn."""
FEWEST_DEPTHS = 3
FEWEST_WHOLE = 10
"""Fewest runs that were trained to the end, where others were stopped."""
DRAWN = 0.5
"""Share of the runs whose settings no other depth has, above which they were drawn."""
PER_DEPTH = 2
"""Different settings for each depth, at least, where they were drawn: a rule for each has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingAxis:
    """A setting as the model has it: numbers from -1 to 1, or codes of categories."""

    name: str
    """The table's name of the column."""
    categories: tuple[str, ...] = ()
    """The values of a category, a blank among them; empty for numbers."""
    logarithmic: bool = False
    low: float = 0.0
    """The lowest number, or its logarithm."""
    high: float = 1.0

    def place(self, value: str) -> float:
        """The place of a value; not a number for one that is blank or was never tried."""
        if self.categories:
            return float(self.categories.index(value)) if value in self.categories else nan
        number = Texts.number(value)
        if number is None or (self.logarithmic and number <= 0):
            return nan
        at = log(number) if self.logarithmic else number
        return 2 * (at - self.low) / (self.high - self.low) - 1

    def text(self, place: float) -> str:
        """The value at a place, numbers with three digits."""
        if np.isnan(place):
            return "nothing"
        if self.categories:
            return self.categories[round(place)] or "nothing"
        at = self.low + (place + 1) / 2 * (self.high - self.low)
        return f"{exp(at) if self.logarithmic else at:.3g}"


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """The runs of a search whose settings were drawn, as rows of a model."""

    axes: tuple[SettingAxis, ...]
    """Depth first."""
    runs: tuple[Run, ...]
    """Runs with a loss, in the order of `rows`."""
    failed: tuple[Run, ...]
    """Runs without a loss: they diverged."""
    rows: Array
    """Places of the settings, (runs, axes)."""
    depths: Array
    """(runs,), in layers."""
    losses: Array
    """Last loss of each run, nats, (runs,)."""
    sizes: Array
    """Parameters of each run, (runs,)."""
    horizon: float
    """Tokens of a whole training, or of all where the table says none."""

    def at(self, name: str) -> int | None:
        """Place of an axis by its name; None without it."""
        return next((i for i, axis in enumerate(self.axes) if axis.name == name), None)

    def grid(self, axis: int) -> Array:
        """Places of an axis among which the best is looked for, at most `GRID`: those of the runs
        with low losses, without the outermost, which hardly any good run had."""
        if self.axes[axis].name == TOKENS:
            return np.array([self.axes[axis].place(f"{self.horizon:g}")])
        tried = self.rows[self.losses <= np.quantile(self.losses, LOW), axis]
        known = tried[~np.isnan(tried)]
        if len(np.unique(known)) > GRID:
            low, high = np.quantile(known, INSIDE).tolist()
            grid = np.linspace(low, high, GRID)
        else:
            grid = np.unique(known)
        return np.append(grid, nan) if np.isnan(tried).any() else grid

    @property
    def tested(self) -> NDArray[np.int64]:
        """The depths that have a loss, ascending."""
        return np.unique(self.depths).astype(np.int64)


def drawn_settings(runs: Runs, count: Count) -> Drawn | None:
    """The runs of a table whose settings were drawn at random; None for any other table, in which
    depths were tried at the same settings."""
    ended = tuple(run for run in runs.runs if not run.diverged and len(run.losses))
    names = [RATE, *runs.settings]
    varied = [name for name in names if len({value_of(run, name) for run in ended}) > 1]
    if len(ended) < FEWEST_RUNS or not _drawn(ended, varied):
        return None
    horizon = _horizon(ended, runs.coin)
    if horizon is None:
        return None
    columns: dict[str, Callable[[Run], str]] = {
        DEPTH: lambda run: str(run.depth), SIZE: lambda run: str(run.params(count))
    }  # fmt: skip
    if runs.coin:
        columns[TOKENS] = lambda run: f"{run.tokens[-1]:g}"
    columns |= {name: partial(value_of, name=name) for name in varied}
    axes = [a for name, value in columns.items() if (a := _axis(name, [*map(value, ended)]))]
    rows = np.array([[axis.place(columns[axis.name](run)) for axis in axes] for run in ended])
    return Drawn(
        axes=tuple(axes),
        runs=ended,
        failed=tuple(run for run in runs.runs if run.diverged),
        rows=rows,
        depths=np.array([float(run.depth) for run in ended]),
        losses=np.array([float(run.losses[-1]) for run in ended]),
        sizes=np.array([float(run.params(count)) for run in ended]),
        horizon=horizon,
    )


def _drawn(runs: Sequence[Run], names: Sequence[str]) -> bool:
    """True if most runs have settings that no run of another depth has, and depths several."""
    depths: Mapping[tuple[str, ...], set[int]] = defaultdict(set)
    settings = [tuple(value_of(run, name) for name in names) for run in runs]
    for run, values in zip(runs, settings, strict=True):
        depths[values].add(run.depth)
    alone = sum(len(depths[values]) == 1 for values in settings)
    several = len({run.depth for run in runs})
    return (
        len(names) > 1
        and several >= FEWEST_DEPTHS
        and len(depths) >= PER_DEPTH * several
        and alone >= DRAWN * len(runs)
    )


def _horizon(runs: Sequence[Run], coin: Coin) -> float | None:
    """The tokens of a whole training, the most that enough runs have; the others were stopped. None
    if too few have as many."""
    for whole in sorted({float(run.tokens[-1]) for run in runs}, reverse=True):
        near = [run.depth for run in runs if abs(run.tokens[-1] / whole - 1) <= FINAL_NEAR]
        if not coin or (len(near) >= FEWEST_WHOLE and len({*near}) >= FEWEST_DEPTHS):
            return whole
    return None


def _axis(name: str, values: Sequence[str]) -> SettingAxis | None:
    """The axis of a setting; None for one that does not vary, or is a name."""
    known = sorted({value for value in values if value})
    numbers = [number for value in known if (number := Texts.number(value)) is not None]
    ours = name in (DEPTH, SIZE, TOKENS)
    if len(numbers) < len(known) or (not ours and len(known) <= FEW_NUMBERS):
        tried = tuple(sorted(set(values)))
        return (
            SettingAxis(name=name, categories=tried) if 1 < len(tried) <= MOST_CATEGORIES else None
        )
    low, high = min(numbers), max(numbers)
    if ours and high <= low * (1 + SAME_SIZE):
        return None
    logarithmic = ours or (low > 0 and high >= LOGARITHMIC * low)
    ends = (log(low), log(high)) if logarithmic else (low, high)
    return SettingAxis(name=name, logarithmic=logarithmic, low=ends[0], high=ends[1])
