"""Counts the runs behind an answer, says why others do not count, and checks that repeats are
seeds."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from fathom.models.shape import Count
from fathom.models.spend import Spend
from fathom.search.analysis.answer.verdict import FewRuns, UnknownSettings
from fathom.search.formatting import format_count, ranges, rounded_count, spend_text
from fathom.search.tables.errors import TableError
from fathom.search.tables.grouped.trials import loss_at
from fathom.search.tables.runs import Run

MOST = 0.5
"""Share of the runs about a size that an answer must rest on."""
ALIKE = 0.6
"""Share of the repeated shapes that must have the same number of runs if these are seeds; a search
that draws settings repeats shapes unequally, by chance."""
FEWEST_REPEATED = 3
"""Fewest shapes with several runs for the check by `ALIKE`."""
UNUSUAL = 0.01
"""Share of the loss beyond which seeds seldom differ."""
COMPARABLE = 0.5
"""Spread within a depth, as a share of that between depths, above which it hides which depth is
best."""
SPARE = 3
"""Fewest runs, beyond the first of each depth, to estimate the spread within a depth."""
GAIN = -0.2
"""Usual gain from size, nats for a unit of ln(parameters)."""
OTHER_LAYERS = 1.5
"""Factor between depths of one total size in the parameters of their layers, above which a note
says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedRuns:
    """Numbers of runs near a size that count at the horizon, and of those that do not."""

    size: int
    runs: int
    counted: int
    diverged: int
    elsewhere: tuple[int, ...]
    """Depths with runs that have no loss near the horizon."""
    lost: tuple[int, ...]
    """Depths without a run that counts."""
    horizon: str
    """The horizon in words; empty where the table has none."""

    @property
    def cause(self) -> FewRuns | None:
        """The cause of a verdict that too few runs count; None if at least half count."""
        few = self.counted < MOST * self.runs
        return FewRuns(self.counted, self.runs) if few else None

    @property
    def note(self) -> Iterator[str]:
        """Yields a note on how many runs count and why others do not; nothing if all count."""
        if self.counted == self.runs:
            return
        others = self.runs - self.counted - self.diverged
        at = f" at {self.horizon}" if self.horizon else ""
        why = [f"{self.diverged} diverged"] if self.diverged else []
        if others:
            why.append(f"{others} have no loss near it (depth {ranges(self.elsewhere)})")
        lost = f"; none of depth {ranges(self.lost)} counts" if self.lost else ""
        yield (
            f"about {format_count(self.size)}{at}, {self.counted} of {self.runs} runs count: "
            f"{' and '.join(why)}{lost}"
        )


def count_runs(runs: Sequence[Run], size: int, spend: Spend) -> CountedRuns:
    """Numbers of the runs near `size` that have a loss at `spend`, and of those that have none."""
    there = {run.training: run for run in runs if loss_at(run, spend.amount) is not None}
    left = list({run.training: run for run in runs if run.training not in there}.values())
    elsewhere = {run.depth for run in left if not run.diverged}
    lost = {run.depth for run in left} - {run.depth for run in there.values()}
    return CountedRuns(
        size=size,
        runs=len(there) + len(left),
        counted=len(there),
        diverged=sum(run.diverged for run in left),
        elsewhere=tuple(sorted(elsewhere)),
        lost=tuple(sorted(lost)),
        horizon=spend_text(spend),
    )


def check_repeats(runs: Sequence[Run], label: str) -> None:
    """Raises `TableError` if rows that differ only in the loss can't be seeds, because their number
    varies between shapes as in a search that draws settings."""
    rows = Counter((*run.sized_shape, run.learning_rate, *run.settings.items()) for run in runs)
    several = [number for number in rows.values() if number > 1]
    alike = max(Counter(several).values(), default=0)
    if len(several) < FEWEST_REPEATED or alike >= ALIKE * len(several):
        return
    raise TableError(
        f"{label} must have a column for each setting in which its runs differ, got "
        f"{min(several)} to {max(several)} rows for each shape that differ in the loss alone; "
        "export the settings that the table lacks, or name the column of seeds with --map "
        "COLUMN=seed"
    )


def unknown_settings(
    runs: Sequence[Run], tokens: float, count: Count, size: int
) -> UnknownSettings | None:
    """The cause of a verdict on a table without seeds, if runs of one depth differ by more than
    seeds usually do, and by about as much as depths do; otherwise None.

    If a shape has several learning rates or values of settings, only its runs at the best are used.
    """
    values: dict[object, dict[object, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if loss_at(run, tokens) is not None:
            values[run.sized_shape][run.learning_rate, *run.settings.items()].append(run)
    losses: dict[int, list[float]] = defaultdict(list)
    for of_shape in values.values():
        best = min(of_shape.values(), key=lambda some: np.mean(_losses(some, tokens)))
        shift = GAIN * log(best[0].params(count) / size)
        losses[best[0].depth] += [loss - shift for loss in _losses(best, tokens)]
    spare = sum(map(len, losses.values())) - len(losses)
    if len(losses) < 2 or spare < SPARE:
        return None
    means = np.array([np.mean(of_depth) for of_depth in losses.values()])
    squares = sum(float(np.var(of_depth)) * len(of_depth) for of_depth in losses.values())
    within, between = float(np.sqrt(squares / spare)), float(means.std(ddof=1))
    if within < UNUSUAL * float(np.median(means)) or within < COMPARABLE * between:
        return None
    return UnknownSettings(within, between)


def _losses(runs: Sequence[Run], tokens: float) -> list[float]:
    found = (loss_at(run, tokens) for run in runs)
    return [loss for loss in found if loss is not None]


def layers_note(
    runs: Sequence[Run], count: Count, size: int, columns: Mapping[str, str]
) -> Iterator[str]:
    """Yields a note if depths of one total size have layers of different sizes."""
    known = "params_non_embedding" in columns
    if count is not Count.TOTAL or not (known or "d_model" in columns):
        return
    sizes: dict[int, list[float]] = defaultdict(list)
    for run in runs:
        formula = run.depth * (4 * run.d_model**2 + 2 * run.d_model * (run.d_ff or 4 * run.d_model))
        sizes[run.depth].append(run.params_non_embedding if known else formula)
    middle = {depth: float(np.median(of_depth)) for depth, of_depth in sizes.items()}
    low, high = (end(middle, key=lambda depth: middle[depth]) for end in (min, max))
    if middle[high] < OTHER_LAYERS * middle[low]:
        return
    remedy = (
        "--count non_embedding compares equal layers" if known
        else "--map COLUMN=params_non_embedding names a column with their parameters"
    )  # fmt: skip
    yield (
        f"at about {format_count(size)} in all, the layers have {rounded_count(middle[low])} "
        f"parameters at depth {low} and {rounded_count(middle[high])} at depth {high}, so depths "
        f"differ in size as well; {remedy}"
    )
