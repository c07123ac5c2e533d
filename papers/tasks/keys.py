"""Keys that all objectives with generated data have."""

from typing import Self

from fathom.objectives.keys import ObjectiveConfig, Positive
from fathom.objectives.token_ids import PAD

FIRST = PAD + 1
"""The first token id with a meaning of the objective's own."""

LengthRange = tuple[Positive, Positive]


class SyntheticConfig(ObjectiveConfig):
    """Keys of an objective that draws fresh data at every step, and a fixed set for evaluation."""

    eval_examples: Positive = 64
    """Sequences of each difficulty in an evaluation."""

    @property
    def evaluation_tokens(self) -> int:
        """Tokens of an evaluation."""
        return self.eval_examples * self.context

    def for_probe(self, *, context: int, eval_tokens: int) -> Self:
        """The keys with fewer sequences in an evaluation; their length is part of the task."""
        return self.model_copy(update={"eval_examples": min(self.eval_examples, 16)})
