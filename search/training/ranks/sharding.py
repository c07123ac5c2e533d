"""Sharding of a model that does not fit as a whole: every rank of a trial keeps a part of it
(FSDP2).

A block's weights are gathered while the block computes; its gradients are averaged and sharded
again at once. Torch only. PyTorch's FSDP is imported only when it is needed, since the import takes
1.7 s.
"""

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from fathom.models.network.transformer import Transformer


def shard(model: Transformer, device_type: str) -> Transformer:
    """Returns the same model, sharded: this rank keeps only its part of the weights, on its
    device."""
    fsdp: Any = importlib.import_module("torch.distributed.fsdp")
    meshes: Any = importlib.import_module("torch.distributed.device_mesh")
    mesh = meshes.init_device_mesh(device_type, (torch.distributed.get_world_size(),))
    # The logits are a view, on which nothing operates in place.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view")
    for _, block in model.named_blocks():
        fsdp.fully_shard(block, mesh=mesh)
    fsdp.fully_shard(model, mesh=mesh)
    return model


@contextmanager
def whole(model: Transformer) -> Iterator[None]:
    """Context in which every rank has the whole model, so that any rank may compute alone; all
    ranks must enter it together."""
    parts: list[Any] = [model, *(block for _, block in model.named_blocks())]
    for part in parts:
        part.set_reshard_after_forward(False, recurse=False)
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.set_reshard_after_forward(part is not model, recurse=False)
            part.reshard()
