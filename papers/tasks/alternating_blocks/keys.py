"""Keys and token ids of `objective: blocks`: padding, the start, two letters, two answers."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from fathom.objectives.keys import RuleError, Whole
from fathom.papers.tasks.keys import FIRST, LengthRange, SyntheticConfig

START, A, B, OUTSIDE, INSIDE = range(FIRST, FIRST + 5)


class BlocksConfig(SyntheticConfig):
    """The languages L_k of alternating blocks (Yang, Cadilhac, Chiang 2025)."""

    loss_unit: ClassVar[str] = "nats per letter"
    name: Literal["blocks"]
    blocks: Whole = Field(3, ge=2, le=1000)
    """Number k of blocks in a string."""
    train_lengths: LengthRange = (20, 40)
    """Letters of the shortest and the longest training string."""
    test_lengths: tuple[LengthRange, ...] = ((41, 60), (61, 80))
    """Ranges of lengths that training never sees; exact match is measured for each range."""

    @model_validator(mode="after")
    def _check_ranges(self) -> Self:
        for low, high in self.ranges:
            if not self.blocks <= low <= high:
                raise RuleError(
                    "train_lengths",
                    f"and `test_lengths` must be [low, high] with room for {self.blocks} blocks, "
                    f"got [{low}, {high}]; use low >= {self.blocks} and high >= low",
                )
        if len(set(self.ranges)) < len(self.ranges):
            raise RuleError("test_lengths", f"must all differ, got {list(map(list, self.ranges))}")
        return self

    @property
    def ranges(self) -> tuple[LengthRange, ...]:
        """The range of training lengths, then those of test lengths."""
        return (self.train_lengths, *self.test_lengths)

    @property
    def context(self) -> int:
        """Tokens of the longest string with its start; every string counts as this many training
        tokens."""
        return 1 + max(high for _, high in self.ranges)

    def vocab_size(self) -> int:
        """Number of token ids."""
        return INSIDE + 1
