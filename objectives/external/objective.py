"""The objective of a training command of the user's own, which holds no data."""

import math
from dataclasses import dataclass
from typing import Any, NoReturn, Self

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.external.keys import ExternalConfig


@dataclass(frozen=True, slots=True)
class External:
    """Vocabulary and context of the data that a command reads by itself."""

    vocab_size: int
    context: int

    @classmethod
    def prepare(cls, keys: ExternalConfig) -> Self:
        """The objective of these keys."""
        return cls(keys.vocabulary, keys.context)

    @property
    def chance_loss(self) -> float:
        """Loss in nats per token of a guess among all tokens."""
        return math.log(self.vocab_size)

    def to(self, device: object) -> Self:
        """Returns the objective itself: there are no data to move."""
        return self

    def batch(self, **_: Any) -> NoReturn:
        """Raises `ObjectiveError`: only the command has data."""
        raise ObjectiveError(
            "`objective: external` has no data, which `train.command` reads; use another objective"
        )
