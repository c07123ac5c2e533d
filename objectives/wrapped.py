"""An objective that passes everything on to another, for classes that change one of its methods."""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from fathom.objectives.contract import Batch, Model, Objective


@dataclass(frozen=True)
class Wrapped:
    """An objective with the data and methods of another."""

    objective: Objective

    @property
    def vocab_size(self) -> int:
        """Number of token ids."""
        return self.objective.vocab_size

    @property
    def context(self) -> int:
        """Longest sequence, in tokens."""
        return self.objective.context

    @property
    def chance_loss(self) -> float:
        """Loss of an untrained guess, nats."""
        return self.objective.chance_loss

    def to(self, device: torch.device) -> Self:
        """The objective with its data on the device."""
        return replace(self, objective=self.objective.to(device))

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Training batch of a step."""
        return self.objective.batch(seed=seed, step=step, batch_size=batch_size)

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean loss over the batch's targets, nats."""
        return self.objective.loss(model, batch)

    def evaluate(self, model: Model) -> dict[str, float]:
        """Metrics on the held-out set by name."""
        return self.objective.evaluate(model)

    def final_metrics(self, model: Model) -> dict[str, float]:
        """Metrics by name that are measured once, at the end."""
        return self.objective.final_metrics(model)
