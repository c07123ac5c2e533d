"""Data-parallel training in several processes, each with a GPU: every rank takes a part of each
batch, and has either the whole model or a part of it. Torch only.

The result differs from that of one process only by the order of additions.
"""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import torch.distributed
from torch import Tensor, nn

from fathom.models.building import SearchedModel
from fathom.models.network.transformer import Transformer
from fathom.objectives.contract import Batch, Model
from fathom.search.training.ranks.sharding import shard

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Ranks:
    """The rank of this process among the processes of a trial; rank 0 of 1 unless it has joined a
    group."""

    rank: int = 0
    size: int = 1

    @property
    def is_leader(self) -> bool:
        """True for the rank that runs evaluations, reports, and writes the checkpoint file."""
        return self.rank == 0

    def network(self, model: SearchedModel, *, shards: str = "") -> Model:
        """Returns the model, wrapped so that its gradients are averaged over all ranks (Li et al.
        2020).

        If `shards` names a kind of device, each rank keeps only its part of every weight, on such a
        device (FSDP, Zhao et al. 2023).
        """
        if self.size == 1:
            return model
        if isinstance(model, Transformer) and shards:
            return shard(model, shards)
        buffers = not isinstance(model, Transformer)  # whose rotations are the same on every rank
        with warnings.catch_warnings():  # PyTorch 2.13 has another name for the first option
            warnings.simplefilter("ignore", FutureWarning)
            return nn.parallel.DistributedDataParallel(
                model, broadcast_buffers=buffers, gradient_as_bucket_view=True
            )

    def accumulating(self, network: Model, *, last: bool) -> AbstractContextManager[None]:
        """Context for a micro-batch: ranks with the whole model average gradients only in the last
        one.

        Ranks with a part of the model average in every micro-batch, since whole gradients would not
        fit in memory.
        """
        if last or not isinstance(network, nn.parallel.DistributedDataParallel):
            return nullcontext()
        without: AbstractContextManager[None] = network.no_sync()
        return without

    def local_batch(self, batch: Batch) -> Batch:
        """The sequences of a batch that this rank trains on.

        Raises:
            ValueError: when the batch does not divide evenly: ranks would wait for each other.
        """
        if self.size == 1:
            return batch
        if len(batch.inputs) % self.size:
            raise ValueError(
                f"a batch of {len(batch.inputs)} sequences can't be shared by {self.size} GPUs"
            )
        return batch.chunk(self.size)[self.rank]

    def backward(self, loss: Tensor) -> None:
        """Computes gradients of this rank's part of a loss; several ranks average theirs."""
        (loss * self.size if self.size > 1 else loss).backward()  # type: ignore[no-untyped-call]

    def broadcast(self, make: Callable[[], Value]) -> Value:
        """Returns on every rank the value that `make` returns on the leader."""
        if self.size == 1:
            return make()
        values: list[Any] = [make() if self.is_leader else None]
        torch.distributed.broadcast_object_list(values, src=0)
        value: Value = values[0]
        return value

    def sum(self, part: Tensor) -> Tensor:
        """Sums a tensor over all ranks, in place, and returns it."""
        if self.size > 1:
            torch.distributed.all_reduce(part)
        return part


SINGLE_PROCESS = Ranks()
"""The only rank of a training in one process."""
