"""Runs of a table: each is a learning curve, with one point if only the final loss is known."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fathom.models.shape import Count
from fathom.models.spend import Coin

Array = NDArray[np.float64]

NO_TIME = 1.0
"""Stands for the tokens of a final loss in a table that states none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One learning curve."""

    d_model: int
    depth: int
    d_ff: int | None
    seed: int
    params_total: int
    params_non_embedding: int
    seconds_per_step: float
    tokens: Array
    losses: Array
    learning_rate: float | None = None
    """Peak learning rate; None if the table has none."""
    diverged: bool = False
    """True if the run's last loss in the table is no finite number, or a placeholder of a
    failure."""
    spent: Mapping[Coin, float] = field(default_factory=dict)
    """FLOPs and seconds at the end of the run, as far as the table has them."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The table's name of a setting -> its value, which is constant along the run."""

    @property
    def shape(self) -> tuple[int, int, int | None]:
        """Width, depth and d_ff."""
        return self.d_model, self.depth, self.d_ff

    @property
    def sized_shape(self) -> tuple[int, int, int | None, int, int]:
        """The shape, and its parameters in total and without the embedding."""
        return *self.shape, self.params_total, self.params_non_embedding

    @property
    def training(self) -> tuple[object, ...]:
        """Key of a training; equal for its final losses at several horizons."""
        return *self.sized_shape, self.seed, self.learning_rate, *self.settings.items()

    @property
    def label(self) -> str:
        """Text with width x depth, and d_ff if the table has it."""
        return f"{self.d_model}x{self.depth}" + (f"/{self.d_ff}" if self.d_ff else "")

    def params(self, count: str) -> int:
        """Parameters of the run's shape under a counting rule."""
        return self.params_total if count == Count.TOTAL else self.params_non_embedding


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """The runs of a table and what had to be decided about them."""

    runs: tuple[Run, ...]
    coin: Coin
    """Unit of the runs' `tokens`: tokens, steps, or unknown in a table of final losses only."""
    notes: tuple[str, ...]
    """Notes on rows that were left out, and on how others were read."""
    settings: tuple[str, ...] = ()
    """The table's names of the settings."""
    shaped: tuple[str, ...] = ()
    """Columns that have one value for each shape, but may nevertheless be settings."""
    seeded: bool = True
    """True if the table has a column that tells the seeds of a shape apart."""
