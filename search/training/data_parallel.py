"""One training by several processes, each with a GPU: every rank has the whole model and its share
of each batch. Torch only.

What they compute together differs from one process in the order of additions alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch.distributed
from torch import Tensor, nn

from fathom.objectives.contract import IGNORED, Batch, Model

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process among those of a trial; on its own unless a process group was joined."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this is the rank that evaluates, reports and saves."""
        return self.rank == 0

    def network(self, model: nn.Module) -> Model:
        """What training calls: gradients become the mean over all ranks (Li et al. 2020)."""
        return nn.parallel.DistributedDataParallel(model) if self.size > 1 else model

    def share(self, batch: Batch) -> Batch:
        """This rank's sequences.

        Raises:
            ValueError: when they can't be shared evenly, and ranks would wait for each other.
        """
        if self.size == 1:
            return batch
        if len(batch.inputs) % self.size:
            raise ValueError(
                f"a batch of {len(batch.inputs)} sequences can't be shared by {self.size} GPUs"
            )
        inputs, targets = (tokens.chunk(self.size)[self.rank] for tokens in batch)
        return Batch(inputs, targets)

    def backward(self, loss: Tensor) -> None:
        """Gradients of this rank's part of a loss; where there are several, their mean is taken."""
        (loss * self.size if self.size > 1 else loss).backward()  # type: ignore[no-untyped-call]

    def told(self, make: Callable[[], Value]) -> Value:
        """What the leading rank has made, told to all."""
        if self.size == 1:
            return make()
        told: list[Any] = [make() if self.leads else None]
        torch.distributed.broadcast_object_list(told, src=0)
        value: Value = told[0]
        return value

    def total(self, own: Tensor) -> Tensor:
        """The sum over all ranks."""
        if self.size > 1:
            torch.distributed.all_reduce(own)
        return own


ALONE = Ranks()


def weighted_parts(batch: Batch, ranks: Ranks, count: int) -> list[tuple[Batch, float]]:
    """This rank's sequences in parts, each with its weight in the mean loss of the whole batch."""
    if ranks.size == count == 1:
        return [(batch, 1.0)]
    own = ranks.share(batch)
    chunks = zip(own.inputs.chunk(count), own.targets.chunk(count), strict=True)
    asked = _asked(batch.targets)
    return [(Batch(*chunk), _asked(chunk[1]) / asked) for chunk in chunks]


def _asked(targets: Tensor) -> int:
    return int((targets != IGNORED).sum())
