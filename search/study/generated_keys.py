"""The keys of the objectives whose data are drawn afresh: `hop`, `induction`, `connectivity`,
`blocks`."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fathom.objectives.synthetic.sizes import blocks_context, connectivity_context
from fathom.search.study.types import ObjectiveGroup, Positive, Whole

LengthRange = tuple[Positive, Positive]


class GeneratedGroup(ObjectiveGroup):
    """Fresh data at every step; a fixed set for evaluation."""

    eval_examples: Positive = 64
    """Sequences of each difficulty in an evaluation."""

    def probing(self, *, context: int, eval_tokens: int) -> dict[str, Any]:
        """The same task, whose length is part of it; fewer sequences in an evaluation."""
        return self.settings() | {"eval_examples": min(self.eval_examples, 16)}


class HopConfig(GeneratedGroup):
    """k-hop induction heads (Sanford, Hsu, Telgarsky 2024)."""

    name: Literal["hop"]
    loss_unit: ClassVar[str] = "nats per position"
    symbols: Whole = Field(4, ge=3, le=100)
    hops: Whole = Field(16, ge=1, le=256)
    """Largest k; each sequence has one of its own, uniform from 0."""
    context: Annotated[Positive, Field(ge=3)] = 100
    """Tokens of a sequence, k included."""


class InductionConfig(GeneratedGroup):
    """Blocks of random tokens that come again."""

    name: Literal["induction"]
    loss_unit: ClassVar[str] = "nats per token that earlier ones foretell"
    symbols: Whole = Field(64, ge=3, le=1000)
    block: LengthRange = (8, 16)
    """Fewest and most tokens that are repeated."""
    gap: tuple[Annotated[Whole, Field(ge=0)], Annotated[Whole, Field(ge=0)]] = (0, 16)
    """Fewest and most other tokens between two copies."""
    context: Positive = 64

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for name, (low, high) in (("block", self.block), ("gap", self.gap)):
            if low > high:
                raise ValueError(f"`{name}` must be [low, high], got [{low}, {high}]; swap them")
        if self.block[0] < 2:
            raise ValueError(f"`block` must begin at 2 or more, got {self.block[0]}; use 2")
        if self.block[1] >= self.symbols:
            raise ValueError(
                "`symbols` must exceed the longest block, whose tokens all differ, got "
                f"{self.symbols} and {self.block[1]}; use {self.block[1] + 1} or more"
            )
        needed = 2 * self.block[1] + self.gap[1]
        if self.context < needed:
            raise ValueError(
                "`context` must hold two copies of the longest block with the longest gap, "
                f"{needed} tokens, got {self.context}; use {needed} or more"
            )
        return self


class ConnectivityConfig(GeneratedGroup):
    """Are two vertices of a graph connected?"""

    name: Literal["connectivity"]
    loss_unit: ClassVar[str] = "nats per answer"
    diameter: Whole = Field(8, ge=1, le=256)
    """Largest distance; each graph has one of its own, uniform from 1."""
    edge_tokens: Literal[1, 2] = 1
    """Tokens of an edge: one for the pair of its vertices, or one for each of them."""

    @property
    def context(self) -> int:
        """Tokens of the largest graph with its question."""
        return connectivity_context(self.diameter, self.edge_tokens)


class BlocksConfig(GeneratedGroup):
    """The languages L_k of alternating blocks (Yang, Cadilhac, Chiang 2025)."""

    name: Literal["blocks"]
    loss_unit: ClassVar[str] = "nats per letter"
    blocks: Whole = Field(3, ge=2, le=1000)
    """k: how many blocks alternate."""
    train_lengths: LengthRange = (20, 40)
    test_lengths: tuple[LengthRange, ...] = ((41, 60), (61, 80))
    """Longer strings, which training never sees; exact match is told for each range."""

    @model_validator(mode="after")
    def _ranges(self) -> Self:
        for low, high in (self.train_lengths, *self.test_lengths):
            if not self.blocks <= low <= high:
                raise ValueError(
                    "`train_lengths` and `test_lengths` must be [low, high] with room for "
                    f"{self.blocks} blocks, got [{low}, {high}]; use low >= {self.blocks} and "
                    "high >= low"
                )
        ranges = (self.train_lengths, *self.test_lengths)
        if len(set(ranges)) < len(ranges):
            raise ValueError(f"`test_lengths` must all differ, got {list(map(list, ranges))}")
        return self

    @property
    def context(self) -> int:
        """Tokens of the longest string with its start; the horizon counts so many a string."""
        return blocks_context(self.train_lengths, self.test_lengths)
