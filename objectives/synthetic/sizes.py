"""Token ids and lengths of the generated objectives, in closed form; standard library only.

Token 0 is padding everywhere, which a model that looks both ways does not see.
"""

from collections.abc import Sequence
from dataclasses import dataclass

PAD = 0
FIRST = 1
"""The first id that means something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HopIds:
    """Symbols, then the prefixes k = 0..hops, then two answers that are no symbol."""

    symbols: int
    hops: int

    @property
    def first_prefix(self) -> int:
        """The id of k = 0."""
        return FIRST + self.symbols

    @property
    def blank(self) -> int:
        """The answer at the prefix."""
        return self.first_prefix + self.hops + 1

    @property
    def bottom(self) -> int:
        """The answer where there is nothing to hop to."""
        return self.blank + 1

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return self.bottom + 1


INDUCTION_START = FIRST


def induction_vocabulary(symbols: int) -> int:
    """Padding, the start and the symbols."""
    return INDUCTION_START + 1 + symbols


NO, YES, QUESTION, FIRST_VERTEX = range(FIRST, FIRST + 4)


def connectivity_vertices(diameter: int) -> int:
    """Two paths of so many edges."""
    return 2 * (diameter + 1)


def connectivity_vocabulary(diameter: int, edge_tokens: int) -> int:
    """Padding, two answers, the question and the vertices; then their pairs, if edges are these."""
    vertices = connectivity_vertices(diameter)
    pairs = vertices * (vertices - 1) // 2 if edge_tokens == 1 else 0
    return FIRST_VERTEX + vertices + pairs


def connectivity_question(edge_tokens: int) -> int:
    """Tokens that say which vertex is asked about: none where it always has the same name."""
    return 2 if edge_tokens == 2 else 0


def connectivity_context(diameter: int, edge_tokens: int) -> int:
    """The edges of both paths, then the question and its vertices."""
    return 2 * diameter * edge_tokens + connectivity_question(edge_tokens) + 2 * diameter


BLOCKS_START, A, B, OUTSIDE, INSIDE = range(FIRST, FIRST + 5)
BLOCKS_VOCABULARY = INSIDE + 1


def blocks_context(train_lengths: Sequence[int], test_lengths: Sequence[Sequence[int]]) -> int:
    """The start and the longest string."""
    return 1 + max(train_lengths[1], *(high for _, high in test_lengths), 0)
