"""Keys and token ids of `objective: hop`.

Ids: padding, the symbols, the prefixes k = 0..hops, then the two answers that are no symbol.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fathom.objectives.keys import Positive, Whole
from fathom.papers.tasks.keys import FIRST, SyntheticConfig


class HopConfig(SyntheticConfig):
    """k-hop induction heads (Sanford, Hsu, Telgarsky 2024)."""

    loss_unit: ClassVar[str] = "nats per position"
    name: Literal["hop"]
    symbols: Whole = Field(4, ge=3, le=100)
    """Number of different symbols."""
    hops: Whole = Field(16, ge=1, le=256)
    """Largest k; the k of each sequence is uniform from 0."""
    context: Annotated[Positive, Field(ge=3)] = 100
    """Tokens of a sequence, k included."""

    @property
    def first_prefix(self) -> int:
        """Id of the prefix k = 0."""
        return FIRST + self.symbols

    @property
    def blank(self) -> int:
        """Id of the answer at the prefix."""
        return self.first_prefix + self.hops + 1

    @property
    def bottom(self) -> int:
        """Id of the answer at a symbol that has no k-th hop."""
        return self.blank + 1

    def vocab_size(self) -> int:
        """Number of token ids."""
        return self.bottom + 1
