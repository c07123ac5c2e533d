"""Keys and token ids of `objective: connectivity`.

Ids: padding, two answers, the question, the vertices; then their pairs, if an edge is one token.
"""

from typing import ClassVar, Literal

from pydantic import Field

from fathom.objectives.keys import Whole
from fathom.papers.tasks.keys import FIRST, SyntheticConfig

NO, YES, QUESTION, FIRST_VERTEX = range(FIRST, FIRST + 4)


class ConnectivityConfig(SyntheticConfig):
    """Are two vertices of a graph connected?"""

    loss_unit: ClassVar[str] = "nats per answer"
    bidirectional: ClassVar[bool] = True
    name: Literal["connectivity"]
    diameter: Whole = Field(8, ge=1, le=256)
    """Largest distance; the distance in each graph is uniform from 1."""
    edge_tokens: Literal[1, 2] = 1
    """Tokens of an edge: one for the pair of its vertices, or one for each of them."""

    @property
    def vertices(self) -> int:
        """Vertices of the largest graph, which is two paths of `diameter` edges."""
        return 2 * (self.diameter + 1)

    @property
    def question_tokens(self) -> int:
        """Tokens that name the vertex asked about; 0 if it always has the same name."""
        return 2 if self.edge_tokens == 2 else 0

    @property
    def context(self) -> int:
        """Tokens of the largest graph with its question and the vertices asked."""
        return 2 * self.diameter * self.edge_tokens + self.question_tokens + 2 * self.diameter

    def vocab_size(self) -> int:
        """Number of token ids."""
        pairs = self.vertices * (self.vertices - 1) // 2 if self.edge_tokens == 1 else 0
        return FIRST_VERTEX + self.vertices + pairs
