"""Runs of a table: one learning curve each, a single point where only final losses are known."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fathom.models.shape import Count
from fathom.models.spend import Coin

Array = NDArray[np.float64]

NO_TIME = 1.0
"""Tokens of a final loss in a table that says none."""


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
    """Peak rate; None where the table has none."""
    diverged: bool = False
    """True if the table has it end with a loss that is no number."""
    spent: Mapping[Coin, float] = field(default_factory=dict)
    """FLOPs and seconds to the end of the run, as far as the table has them."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The table's name of a setting -> its value; what changes along the run is none."""

    @property
    def shape(self) -> tuple[int, int, int | None]:
        """Width, depth and d_ff, which the seeds of a shape have in common."""
        return self.d_model, self.depth, self.d_ff

    @property
    def sized_shape(self) -> tuple[int, int, int | None, int, int]:
        """The shape and its sizes, total and without the embedding."""
        return *self.shape, self.params_total, self.params_non_embedding

    @property
    def training(self) -> tuple[object, ...]:
        """Key that final losses of one training at several horizons share."""
        return *self.sized_shape, self.seed, self.learning_rate, *self.settings.items()

    @property
    def label(self) -> str:
        """Width x depth, with d_ff where the table has it."""
        return f"{self.d_model}x{self.depth}" + (f"/{self.d_ff}" if self.d_ff else "")

    def params(self, count: str) -> int:
        """Parameters of the run's shape under a counting rule."""
        return self.params_total if count == Count.TOTAL else self.params_non_embedding


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """The runs of a table and what had to be decided about them."""

    runs: tuple[Run, ...]
    coin: Coin
    """What the tokens of the runs are: tokens, steps, or unknown in a table of final losses."""
    notes: tuple[str, ...]
    """Sentences on what was left out or taken for something."""
    settings: tuple[str, ...] = ()
    """Names of the settings, as the table has them."""
    shaped: tuple[str, ...] = ()
    """Columns that have one value for each shape, but may be settings all the same."""
    seeded: bool = True
    """True if the table has a column that tells the seeds of a shape apart."""
