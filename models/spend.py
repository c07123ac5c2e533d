"""The spend of a training: an amount of tokens, of operations, or of another unit, called a
coin."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Self

from fathom.models.shape import Count, Shape


class Coin(StrEnum):
    """Units in which all trainings spend the same amount, one row each; the value is the unit in
    text.

    The columns: the unit; the key in a study file and in MLflow; the name in `records.jsonl` and in
    tables; the cost of a token for a shape; and the cost of a token per parameter of a usual shape,
    by which the steps of a whole budget are counted. A study can only have coins with a key.
    """

    key: str
    """Key of a study file that gives the amount; empty for coins that only tables have."""
    name_in_records: str
    """Name of the amount in records and tables; empty if shapes train on equal numbers of
    tokens."""
    of_a_token: Callable[[Shape], float] | None
    """Cost of a training token of a shape; None where steps have to be timed on a device."""
    of_a_parameter: float
    """Cost of a training token per parameter of a usual shape; 0 if it does not follow from the
    size."""

    def __new__(
        cls, unit: str, key: str = "", name_in_records: str = "",
        of_a_token: Callable[[Shape], float] | None = lambda shape: 1, of_a_parameter: float = 0.0,
    ) -> Self:  # fmt: skip
        coin = str.__new__(cls, unit)
        coin._value_, coin.key, coin.name_in_records = unit, key, name_in_records
        coin.of_a_token, coin.of_a_parameter = of_a_token, of_a_parameter
        return coin

    TOKENS = "tokens", "tokens"
    FLOPS = "FLOPs", "train_flops", "flops_to_spend", attrgetter("train_flops_per_token"), 6.0
    """Operations of training steps; shapes that cost less see more tokens."""
    SECONDS = "seconds", "train_seconds", "seconds_to_spend", None
    """Seconds of training steps on one kind of device."""
    STEPS = ("steps",)
    """Optimizer steps of a table that has no tokens."""
    UNKNOWN = ("",)
    """An unknown amount, the same for all runs of a table of final losses."""

    @classmethod
    def of_budgets(cls, count: Count) -> "Coin | None":
        """The coin in which budgets of a count are stated; None where budgets are sizes."""
        return next((coin for coin in cls if coin.key == count.value), None)

    @property
    def timed(self) -> bool:
        """True if steps of a shape have to be timed on a device to know what they cost."""
        return self.of_a_token is None


OTHER_COINS = tuple(coin for coin in Coin if coin.name_in_records)
"""Coins other than tokens that the trainings of a study may spend."""


@dataclass(frozen=True, slots=True)
class Spend:
    """An amount of a coin that every training to the end spends."""

    amount: float
    coin: Coin = Coin.TOKENS

    def __str__(self) -> str:
        return f"{self.amount:g} {self.coin}"
