"""A task with sources, small enough to learn in seconds: write a sequence backwards.

It keeps the contract of an objective for encoder-decoder models, and names itself as a user's own.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from fathom.objectives.contract import IGNORED, Batch, Model
from fathom.objectives.token_ids import PAD
from fathom.objectives.token_loss import answers, masked_loss

CPU = torch.device("cpu")
START = 1
"""First token of every input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reversal:
    """Sources of random letters and lengths; the target is the source backwards."""

    vocab_size: int = 10
    context: int = 8
    device: torch.device = CPU

    @classmethod
    def prepare(cls, *, context: int = 8, letters: int = 8) -> Self:
        return cls(vocab_size=letters + 2, context=context)

    @property
    def chance_loss(self) -> float:
        return math.log(self.vocab_size - 2)

    def to(self, device: torch.device) -> Self:
        return dataclasses.replace(self, device=device)

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        return self._drawn(1_000_003 * seed + step, batch_size)

    def loss(self, model: Model, batch: Batch) -> Tensor:
        return masked_loss(model, batch)

    @torch.no_grad()
    def evaluate(self, model: Model) -> dict[str, float]:
        losses_BT, asked_BT, right_BT = answers(model, self._drawn(2**40, 64))
        asked = asked_BT.sum()
        return {"loss": float(losses_BT.sum() / asked), "right": float(right_BT.sum() / asked)}

    def final_metrics(self, model: Model) -> dict[str, float]:
        return {}

    def _drawn(self, seed: int, rows: int) -> Batch:
        generator = torch.Generator().manual_seed(seed)
        letters = torch.randint(2, self.vocab_size, (rows, self.context), generator=generator)
        lengths = torch.randint(1, self.context + 1, (rows, 1), generator=generator)
        at = torch.arange(self.context)
        backwards = letters.gather(1, (lengths - 1 - at).clamp(min=0))
        inputs = torch.cat((torch.full((rows, 1), START), backwards[:, :-1]), dim=1)
        padding = at >= lengths
        batch = (
            inputs.masked_fill(padding, PAD),
            backwards.masked_fill(padding, IGNORED),
            letters.masked_fill(padding, PAD),
        )
        return Batch(*(tensor.to(self.device) for tensor in batch))
