"""Keys and token ids of `objective: induction`: padding, the start, then the symbols."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fathom.objectives.keys import Positive, RuleError, Whole
from fathom.papers.tasks.keys import FIRST, LengthRange, SyntheticConfig

START = FIRST
FIRST_SYMBOL = START + 1


class InductionConfig(SyntheticConfig):
    """Blocks of random tokens that are repeated."""

    loss_unit: ClassVar[str] = "nats per predictable token"
    name: Literal["induction"]
    symbols: Whole = Field(64, ge=3, le=1000)
    """Number of different tokens; more than the longest block has."""
    block: LengthRange = (8, 16)
    """Fewest and most tokens of the block that is repeated."""
    gap: tuple[Annotated[Whole, Field(ge=0)], Annotated[Whole, Field(ge=0)]] = (0, 16)
    """Fewest and most other tokens between two copies."""
    context: Positive = 64
    """Tokens of a sequence."""

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        for name, (low, high) in (("block", self.block), ("gap", self.gap)):
            if low > high:
                raise RuleError(name, f"must be [low, high], got [{low}, {high}]; swap them")
        if self.block[0] < 2:
            raise RuleError("block", f"must begin at 2 or more, got {self.block[0]}; use 2")
        if self.block[1] >= self.symbols:
            raise RuleError(
                "symbols",
                "must exceed the longest block, whose tokens all differ, got "
                f"{self.symbols} and {self.block[1]}; use {self.block[1] + 1} or more",
            )
        needed = 2 * self.block[1] + self.gap[1]
        if self.context < needed:
            raise RuleError(
                "context",
                "must hold two copies of the longest block with the longest gap, "
                f"{needed} tokens, got {self.context}; use {needed} or more",
            )
        return self

    def vocab_size(self) -> int:
        """Number of token ids."""
        return FIRST_SYMBOL + self.symbols
