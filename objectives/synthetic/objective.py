"""Base of the objectives with generated data."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from fathom.objectives.contract import Batch, Model
from fathom.objectives.synthetic.keys import SyntheticConfig
from fathom.objectives.token_loss import masked_loss

CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticObjective:
    """Base of objectives that draw sequences on the device; those add `batch` and `evaluate`."""

    keys: SyntheticConfig
    device: torch.device = CPU

    @classmethod
    def prepare(cls, keys: Any) -> Self:
        """The objective on the CPU; reads nothing."""
        return cls(keys=keys)

    @property
    def vocab_size(self) -> int:
        """Number of token ids."""
        return self.keys.vocab_size()

    @property
    def context(self) -> int:
        """Tokens of the longest sequence."""
        return self.keys.context

    @property
    def chance_loss(self) -> float:
        """Loss of the uniform guess over all token ids, in nats."""
        return math.log(self.vocab_size)

    def to(self, device: torch.device) -> Self:
        """The objective, drawing on the device."""
        return dataclasses.replace(self, device=device)

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean nats over the targets that are not `IGNORED`, a scalar."""
        return masked_loss(model, batch)

    def final_metrics(self, model: Model) -> dict[str, float]:
        """An empty dict, since every evaluation is complete."""
        return {}
