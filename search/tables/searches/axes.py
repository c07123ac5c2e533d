"""The settings of a search's table as axes of a model: numbers from -1 to 1, or categories."""

from collections import Counter, defaultdict
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
"""Factor between the values of a setting from which on its logarithm is used."""
FEW_NUMBERS = 3
"""Largest number of different numbers of a setting that are treated as categories."""
MOST_CATEGORIES = 8
"""Largest number of categories of a setting; a column with more is a name."""
GRID = 11
"""Largest number of values of an axis that are tried to find the best."""
LOW = 0.3
"""Share of the runs, those with the lowest losses, between whose settings the best is searched."""
INSIDE = (0.05, 0.95)
"""Quantiles of the values of these runs between which the best is searched."""
FEWEST_RUNS = 40
"""Fewest runs to conclude that settings were drawn at random."""
FEWEST_DEPTHS = 3
FEWEST_WHOLE = 10
"""Fewest runs that were trained to the end, where others were stopped."""
DRAWN = 0.5
"""Share of runs with settings that no other depth has, from which on settings count as drawn."""
PER_SHAPE = 2
"""Least average number of runs of one depth and size from which a design can be told."""
PER_DEPTH = 2
"""Least average number of different settings per depth if they were drawn; if settings follow from
depth, there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingAxis:
    """A setting as an axis of the model: numbers from -1 to 1, or codes of categories."""

    name: str
    """The table's name of the column."""
    categories: tuple[str, ...] = ()
    """The values of a categorical setting, including any blank; empty for numbers."""
    logarithmic: bool = False
    low: float = 0.0
    """The lowest number, or its logarithm."""
    high: float = 1.0

    def place(self, value: str) -> float:
        """The position of a value on the axis; NaN for a blank or a category that was never
        tried."""
        if self.categories:
            return float(self.categories.index(value)) if value in self.categories else nan
        number = Texts.number(value)
        if number is None or (self.logarithmic and number <= 0):
            return nan
        at = log(number) if self.logarithmic else number
        return 2 * (at - self.low) / (self.high - self.low) - 1

    def text(self, place: float) -> str:
        """The value at a position as text, numbers with three digits."""
        if np.isnan(place):
            return "nothing"
        if self.categories:
            return self.categories[round(place)] or "nothing"
        at = self.low + (place + 1) / 2 * (self.high - self.low)
        return f"{exp(at) if self.logarithmic else at:.3g}"


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """The runs of a search that drew settings at random, as input of the model."""

    axes: tuple[SettingAxis, ...]
    """The axes, depth first."""
    runs: tuple[Run, ...]
    """Runs with a loss, in the order of `rows`."""
    failed: tuple[Run, ...]
    """Runs without a loss: they diverged."""
    rows: Array
    """Positions of the settings on their axes, (runs, axes)."""
    depths: Array
    """Depth of each run, in layers, (runs,)."""
    losses: Array
    """Last loss of each run, nats, (runs,)."""
    sizes: Array
    """Parameters of each run, (runs,)."""
    horizon: float
    """Tokens of a training to the end."""

    def at(self, name: str) -> int | None:
        """Index of the axis with this name; None without it."""
        return next((i for i, axis in enumerate(self.axes) if axis.name == name), None)

    def grid(self, axis: int) -> Array:
        """Positions on an axis that are tried to find the best: the positions of runs with low
        losses or, if more than `GRID`, an even grid between them."""
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
        """The depths with a loss, ascending."""
        return np.unique(self.depths).astype(np.int64)


def drawn_settings(runs: Runs, count: Count) -> Drawn | None:
    """The runs of a table as input of the model, if their settings were drawn at random; None for
    any other table."""
    ended = tuple(run for run in runs.runs if not run.diverged and len(run.losses))
    names = [RATE, *runs.settings]
    varied = [name for name in names if len({value_of(run, name) for run in ended}) > 1]
    if len(ended) < FEWEST_RUNS or not _drawn(ended, varied, count):
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


def _drawn(runs: Sequence[Run], names: Sequence[str], count: Count) -> bool:
    """True if most runs have settings that no run of another depth has, and depths have several
    settings each; settings of a design count for nothing."""
    names = [name for name in names if not _is_designed(runs, name, count)]
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


def _is_designed(runs: Sequence[Run], name: str, count: Count) -> bool:
    """True if a setting follows from depth and size, or takes equal values equally often at each
    pair of them, as no drawn setting does; False if most pairs have one run."""
    values: Mapping[tuple[int, float], Counter[str]] = defaultdict(Counter)
    for run in runs:
        values[run.depth, run.params(count)][value_of(run, name)] += 1
    if len(values) > len(runs) / PER_SHAPE:
        return False
    several = [*values.values()]
    return all(each == several[0] for each in several) or all(len(each) == 1 for each in several)


def _horizon(runs: Sequence[Run], coin: Coin) -> float | None:
    """The tokens of a training to the end: the largest number near which enough runs end; runs with
    fewer were stopped. None without such a number."""
    for whole in sorted({float(run.tokens[-1]) for run in runs}, reverse=True):
        near = [run.depth for run in runs if abs(run.tokens[-1] / whole - 1) <= FINAL_NEAR]
        if not coin or (len(near) >= FEWEST_WHOLE and len({*near}) >= FEWEST_DEPTHS):
            return whole
    return None


def _axis(name: str, values: Sequence[str]) -> SettingAxis | None:
    """The axis of a setting; None if it does not vary or is a name."""
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
