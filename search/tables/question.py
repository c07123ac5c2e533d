"""A question to a table, and the findings that answer it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fathom.models.shape import Count
from fathom.models.spend import Coin
from fathom.search.analysis.answer.optimum import BestSize, Optimum
from fathom.search.analysis.losses.scaled_shape import with_scaled
from fathom.search.conclusion.findings import Findings
from fathom.search.scheduling.offers import MANY, Offer, asked_depths, may_gain, offers
from fathom.search.scheduling.trained_depths import TrainingLimits
from fathom.search.study.keys.groups import ConfirmConfig
from fathom.search.tables.grouped.horizons import Horizon
from fathom.search.tables.grouped.sizes import WIDTH
from fathom.search.words import table_reason, table_remedy

SEED = 0
"""Seed of the bootstrap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuestion:
    """A question to a table."""

    count: Count | None = None
    """Rule by which sizes are counted; None for the one that the table has, preferably in total."""
    budgets: Sequence[int] = ()
    """Sizes that are asked for; if empty, the sizes near which the table has most depths."""
    width: float = WIDTH
    """Largest distance of a run's size from a budget, as a share of the budget."""
    horizons: Sequence[Horizon] = ()
    """Horizons that are asked for; if empty, one that the runs of each size have in common."""
    noise: float | None = None
    """Noise between seeds, in the table's unit, as stated by the person who asks; None to measure
    it."""
    unit: str = ""
    """Name of the unit of the losses; if empty, the unit in their column's name, or nats."""
    tokens_per_byte: float | None = None
    """Tokens per byte, or per character, for losses in such a unit; None for the usual number."""
    maximise: bool = False
    """True if higher values in the column of losses are better."""
    at: Coin | None = None
    """Quantity, such as FLOPs, of which compared models of any size spent equal amounts; None to
    compare models of one size, unless the table shows that all runs spent an equal amount."""
    best_of: Sequence[str] = ()
    """Columns of settings for which each shape's best value is used."""
    where: Mapping[str, str] = field(default_factory=dict)
    """Column -> value; only rows with that value are used."""
    by: Sequence[str] = ()
    """Columns by which runs are split; each value gets separate answers."""

    @property
    def said(self) -> bool:
        """True if the question states how to treat settings or which horizon to use."""
        return bool(self.best_of or self.by or self.horizons)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the question names."""
        return (*self.best_of, *self.where, *self.by)


@dataclass(frozen=True, kw_only=True)
class TableFindings(Findings):
    """Findings from a table for several sizes at one horizon."""

    table: str
    counted: Count
    horizon: Horizon | None = None
    """The horizon that was asked for; None for a horizon that the runs have in common."""
    best_size: BestSize | None = None
    """The best size, if models of any size are compared at an equal amount; `optima` then has the
    best depth, if its effect can be separated from that of size."""

    @property
    def horizon_text(self) -> str:
        """The horizon in words, as asked for if per parameter, otherwise that of the first
        answer."""
        ratio = self.horizon is not None and self.horizon.per_parameter
        return self.horizon.text if self.horizon and ratio else super().horizon_text

    @property
    def title(self) -> str:
        """The name of the table, and of its part, in messages."""
        return ", ".join((self.table, *(part for part in [self.part_text] if part)))

    @property
    def count(self) -> Count:
        """Rule by which sizes are counted."""
        return self.counted

    @property
    def seed(self) -> int:
        """Seed of the statistics, the same for every table."""
        return SEED

    def offers(self, optimum: Optimum, noise: float | None = None) -> tuple[Offer, ...]:
        """Trainings that a search with default settings would run next, given these runs, at their
        learning rates; `noise` is in the table's unit."""
        if self.best_size or self.searched or not may_gain(optimum):
            return ()
        noise = noise and noise * optimum.unit.nats
        records = self.records_of(optimum.budget)
        limits = TrainingLimits(
            confirm=ConfirmConfig(depths=MANY, seeds=MANY, rates=(1.0,)),
            shapes=with_scaled({record.spec.shape: None for record in records}),
            first_seed=0,
            asked=asked_depths(optimum),
        )
        return offers(records, limits, noise=noise)

    def reason(self, optimum: Optimum) -> str:
        """Returns the reason for a verdict, in words for a table."""
        return table_reason(optimum.verdict, optimum.unit)

    def remedy(self, optimum: Optimum) -> str:
        """Returns advice on the runs to add for a settled answer; empty if none are needed."""
        return table_remedy(optimum.verdict)
