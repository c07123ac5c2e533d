"""A task in which each token follows from the one before, small enough to learn in seconds.

It keeps the contract of an objective and can be told to fail on purpose.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from fathom.objectives.contract import Batch, Model

CPU = torch.device("cpu")

Fault = Callable[[float], float]
"""The held-out loss as measured to the loss as told."""


def no_fault(loss: float) -> float:
    """A fault that changes nothing."""
    return loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Successor:
    """A task that counts upwards, modulo the vocabulary."""

    vocab_size: int = 8
    context: int = 6
    fault: Fault = no_fault
    device: torch.device = CPU

    @property
    def chance_loss(self) -> float:
        """Loss of the uniform guess."""
        return math.log(self.vocab_size)

    def to(self, device: torch.device) -> Self:
        """The objective, drawing on a device."""
        return dataclasses.replace(self, device=device)

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Sequences that begin anywhere."""
        generator = torch.Generator().manual_seed(1_000_003 * seed + step)
        starts = torch.randint(self.vocab_size, (batch_size, 1), generator=generator)
        return self._from(starts)

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean nats per token."""
        return F.cross_entropy(model(batch.inputs).flatten(0, 1).float(), batch.targets.flatten())

    @torch.no_grad()
    def evaluate(self, model: Model) -> dict[str, float]:
        """Every sequence there is."""
        loss = self.loss(model, self._from(torch.arange(self.vocab_size)[:, None]))
        return {"loss": self.fault(float(loss)), "sequences": float(self.vocab_size)}

    def final_metrics(self, model: Model) -> dict[str, float]:
        """No final metrics."""
        return {}

    def _from(self, starts: Tensor) -> Batch:
        tokens = ((starts + torch.arange(self.context + 1)) % self.vocab_size).to(self.device)
        return Batch(inputs=tokens[:, :-1], targets=tokens[:, 1:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Overfitted(Successor):
    """Three held-out sequences in ten differ from training, so that confidence is punished."""

    @torch.no_grad()
    def evaluate(self, model: Model) -> dict[str, float]:
        inputs, targets, _ = self._from(torch.arange(self.vocab_size)[:, None])
        logits = model(inputs).flatten(0, 1)
        usual = F.cross_entropy(logits, targets.flatten())
        other = F.cross_entropy(logits, (targets.flatten() + 1) % self.vocab_size)
        return {"loss": float(0.7 * usual + 0.3 * other)}

    def final_metrics(self, model: Model) -> dict[str, float]:
        """The loss once more."""
        return {"loss_at_the_end": Overfitted.evaluate(self, model)["loss"]}
