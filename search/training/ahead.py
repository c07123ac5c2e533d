"""What a training measures for those of longer horizons, which begin with the same steps."""

import time
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class LongerHorizon:
    """The evaluations of a longer training that lie on the steps it shares with a shorter one."""

    steps: int
    """Optimizer steps of the whole longer training, by which it is told."""
    evaluation_steps: tuple[int, ...]
    detailed_steps: tuple[int, ...]
    """Evaluations that measure more than a loss."""


@dataclass(slots=True, kw_only=True)
class Ahead:
    """The measurements for one longer horizon so far, and what accumulates for the next one."""

    loss_sum: Tensor
    """Sum of the training losses since its last evaluation."""
    loss_steps: int = 0
    step_statistics: list[Tensor] = field(default_factory=list)
    """Loss and gradient norms of each step since its last evaluation; empty without diagnostics."""
    measured: list[dict[str, Any]] = field(default_factory=list)
    """Its evaluations, as keyword arguments of a `Measurement` with the `time` of each."""

    @classmethod
    def nothing(cls, device: torch.device) -> "Ahead":
        """Returns the state before the first step."""
        return cls(loss_sum=torch.zeros((), device=device, dtype=torch.float64))

    def add_step(self, loss: Tensor, statistics: Tensor | None) -> None:
        """Adds the training loss of a step and its statistics, if there are any."""
        self.loss_sum += loss
        self.loss_steps += 1
        if statistics is not None:
            self.step_statistics.append(statistics)

    def add_evaluation(self, **measured: Any) -> None:
        """Adds an evaluation, from which the losses of steps are summed anew."""
        self.measured.append({**measured, "time": time.time()})
        self.loss_sum, self.loss_steps = torch.zeros_like(self.loss_sum), 0
        self.step_statistics = []

    def state(self) -> dict[str, Any]:
        """Returns the fields, from which `Ahead` is made again."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @property
    def train_loss(self) -> float:
        """Mean training loss since the last evaluation."""
        return float(self.loss_sum) / self.loss_steps
