"""Finds bookkeeping columns, such as the machine of a run, that nevertheless affect the loss."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from fathom.search.tables.columns.cells import Cells, Codes, numbered

BY_CHANCE, SLIGHT = 1e-3, 0.02
"""Largest p-value at which a column affects the losses, and the share of the spread of all losses
up to which its effect is too small to matter."""
MOST_NAMES = 50
"""Most values of a column that is tested; with more, each value has few runs."""
AMOUNTS = ("loss", "seed", "run", "tokens", "step", "flops", "seconds", "seconds_per_step")
"""Columns, by Fathom's names, in which runs that repeat each other may differ."""


def moves_loss(name: str, cells: Cells, settings: Iterable[str]) -> bool:
    """True if an analysis of variance shows that the column `name` affects the last losses, among
    runs that otherwise differ only in the seed."""
    texts, values = cells.texts[name], cells.values
    is_named = any(value and texts.number(value) is None for value in texts.values)
    if not is_named or len(texts.values) > MOST_NAMES:
        return False
    columns = [column for ours, column in values.items() if ours not in AMOUNTS]
    groups = numbered([*columns, *(cells.texts[name].codes for name in settings)])
    time = values.get("tokens", values.get("step", np.zeros(len(groups))))
    ends = np.full(len(groups), -np.inf)
    np.maximum.at(ends, groups, time)
    last = (time == ends[groups]) & np.isfinite(values["loss"])
    if not last.any():
        return False
    losses, groups, codes = values["loss"][last], groups[last], texts.codes[last]
    has = codes[:, None] == np.unique(codes)
    losses_within = _within(losses[:, None], groups)[:, 0]
    fitted, _, rank, _ = np.linalg.lstsq(_within(has, groups), losses_within, rcond=None)
    explained = float(((_within(has, groups) @ fitted) ** 2).sum())
    spare = len(losses) - len(np.unique(groups)) - int(rank)
    if not rank or spare < 1 or explained <= len(losses) * (SLIGHT * losses.std()) ** 2:
        return False
    rest = max(float((losses_within**2).sum()) - explained, 1e-12 * explained)
    return float(fdtrc(rank, spare, explained / rank / (rest / spare))) < BY_CHANCE


def _within(columns: NDArray[np.float64] | NDArray[np.bool_], groups: Codes) -> NDArray[np.float64]:
    """The columns minus their mean in each group, (rows, columns)."""
    sums = np.zeros((groups.max(initial=0) + 1, columns.shape[1]))
    np.add.at(sums, groups, columns)
    means: NDArray[np.float64] = sums / np.maximum(np.bincount(groups), 1)[:, None]
    return columns - means[groups]
