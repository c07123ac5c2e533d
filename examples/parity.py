"""An objective of one's own: is the number of ones so far odd?

The study beside it, `parity.yaml`, names it by its place; from the folder that holds `examples`:

    fathom run examples/parity.yaml

Every key of the study's `objective` but `name` is an argument of `prepare`, and `context` is always
among them: the horizon counts in it. The instance travels to the workers by pickle.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from fathom.objectives.contract import Batch, Model
from fathom.objectives.random_numbers import held_out_draws, training_draws
from fathom.objectives.token_loss import answers, masked_loss

ZERO, ONE, EVEN, ODD = range(1, 5)
"""Token 0 is left to padding."""
CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """Fresh bits at every step; the answer at each is whether the ones so far are odd."""

    context: int
    share_of_ones: float
    eval_examples: int
    device: torch.device = CPU

    @classmethod
    def prepare(cls, *, context: int, share_of_ones: float = 0.5, eval_examples: int = 256) -> Self:
        """Called once; reads and checks what it needs, raising ValueError for a user's mistake."""
        if not 0 < share_of_ones < 1:
            raise ValueError(
                f"`share_of_ones` must be between 0 and 1, got {share_of_ones}; use 0.5"
            )
        return cls(context=context, share_of_ones=share_of_ones, eval_examples=eval_examples)

    @property
    def vocab_size(self) -> int:
        """Padding, two bits, two answers."""
        return ODD + 1

    @property
    def chance_loss(self) -> float:
        """Loss of the uniform guess over all tokens."""
        return math.log(self.vocab_size)

    def to(self, device: torch.device) -> Self:
        """The same, with its batches on the device."""
        return dataclasses.replace(self, device=device)

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """The same bits for the same seed and step, whatever came before."""
        return self._batch(batch_size, training_draws(seed=seed, step=step))

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean nats for each answer."""
        return masked_loss(model, batch)

    @torch.no_grad()
    def evaluate(self, model: Model) -> dict[str, float]:
        """The same held-out bits every time; `loss` decides, other keys are reported."""
        batch = self._batch(self.eval_examples, held_out_draws(0))
        losses_BT, _, right_BT = answers(model, batch)
        return {
            "loss": losses_BT.mean().item(),
            "exact_match": right_BT.all(1).float().mean().item(),
        }

    def final_metrics(self, model: Model) -> dict[str, float]:
        """Measured once, at the end of training; nothing is too dear to measure every time."""
        return {}

    def _batch(self, rows: int, draws: torch.Generator) -> Batch:
        shape = (rows, self.context)
        drawn_BT = torch.rand(shape, generator=draws)  # on the host: the same for every device
        ones_BT = drawn_BT.to(self.device) < self.share_of_ones
        odd_BT = ones_BT.cumsum(1) % 2 == 1
        return Batch(torch.where(ones_BT, ONE, ZERO), torch.where(odd_BT, ODD, EVEN))
