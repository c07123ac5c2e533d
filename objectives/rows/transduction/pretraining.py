"""Running text that a model of rows reads first, as Petty et al. 2024 pre-train theirs.

Text and rows share one vocabulary of whole words: the words of the rows stay what they are, so
that exact match means the same with and without the text.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from fathom.objectives.arrays import placed, tokens_of, windows
from fathom.objectives.contract import IGNORED, Batch
from fathom.objectives.errors import ObjectiveError
from fathom.objectives.random_numbers import training_rows
from fathom.objectives.rows.word_ids import UNKNOWN, words_in
from fathom.objectives.text.encode import Ids, id_type


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pretraining:
    """The words of a text as ids, and the number of tokens that a model trains on them."""

    text: Ids | Tensor
    tokens: int
    """Tokens at the start of the horizon that are of the text."""

    @classmethod
    def of(cls, text: str, ids: Mapping[str, int], *, tokens: int, context: int) -> Self:
        """A text encoded; raises ValueError if it has no window of `context` tokens."""
        kind = id_type(max(ids.values(), default=0) + 1)
        found = np.fromiter((ids.get(word, UNKNOWN) for word in words_in(text)), kind)
        if len(found) <= context:
            raise ObjectiveError(
                "the text of `pretraining` must have more words than `context`, got "
                f"{len(found)} and context={context}; use a larger `corpus`"
            )
        return cls(text=found, tokens=tokens)

    def to(self, device: torch.device) -> Self:
        """The pre-training with its text on the device."""
        return dataclasses.replace(self, text=placed(self.text, device))

    def batch(self, *, seed: int, step: int, batch_size: int, context: int) -> Batch | None:
        """Windows of the text, without loss on unknown words; None after the pre-training."""
        if step * batch_size * context >= self.tokens:
            return None
        text = tokens_of(self.text)
        starts = training_rows(len(text) - context, seed=seed, step=step, batch_size=batch_size)
        inputs, targets = windows(text, torch.from_numpy(starts).to(text.device), context)
        return Batch(inputs, targets.masked_fill(targets == UNKNOWN, IGNORED))
