"""What every objective is to the rest of Fathom.

An objective is prepared once, on the driver, from plain settings; it then travels to every worker
as numpy arrays (read without copying from a node's object store) and is placed on the device where
the trial trains.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor

Model = Callable[[Tensor], Tensor]
"""Tokens (B, T) to logits (B, T, V)."""


IGNORED = -100
"""The target where nothing is asked of the model: in a prompt, in padding."""


class Batch(NamedTuple):
    """Token ids, both (B, T) and int64: what the model reads, and what it should say next.

    T is at most the objective's context. A target may be `IGNORED`.
    """

    inputs: Tensor
    targets: Tensor


class Objective(Protocol):
    """What a shape is judged on. Losses are nats, lower is better."""

    @property
    def vocab_size(self) -> int:
        """Number of token ids."""

    @property
    def context(self) -> int:
        """Longest sequence, in tokens; the length of the training sequences."""

    @property
    def chance_loss(self) -> float:
        """Loss of a guess without learning; a trained model above it has diverged."""

    def to(self, device: torch.device) -> Self:
        """The same objective with its data on the device."""

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Training batch of a step: the same for the same seed and step, whatever came before.

        This is what makes a resumed trial bit-identical and lets shapes be compared on the same
        data in the same order.
        """

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean training loss over the batch's targets, a scalar with a gradient."""

    def evaluate(self, model: Model) -> dict[str, float]:
        """Fixed held-out measurement; has the key `loss`, other keys are further metrics."""

    def final_metrics(self, model: Model) -> dict[str, float]:
        """Measured once, when training has ended: what is too dear for every evaluation."""


class ReplicatedObjective(Objective, Protocol):
    """An objective that can also judge several models at once, each on data of its own.

    The model is then called with the sequences of all, replica by replica, and answers in the same
    order; each replica meets what it would meet alone.
    """

    def batches(self, *, seeds: Sequence[int], step: int, batch_size: int) -> Batch:
        """One after another, what `batch` returns for each seed."""

    def losses(self, model: Model, batch: Batch, *, replicas: int) -> Tensor:
        """Mean training loss of each replica, (replicas,) with a gradient."""

    def evaluations(self, model: Model, *, replicas: int) -> list[dict[str, float]]:
        """What `evaluate` would return for each replica."""
