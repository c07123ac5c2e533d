"""A copy of a training's state in CPU memory, in buffers that are kept for the next copy. Torch
only."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class StateCopy:
    """Buffers that hold one copy of a state at a time, from which the state is written to disk.

    Buffers for tensors on a GPU are pinned, so that the GPU fills them by itself while this process
    goes on; PyTorch rounds the size of each buffer up to a power of two.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, Tensor] = {}
        self._copied: torch.cuda.Event | None = None

    def take(self, state: Any) -> Any:
        """Begins to copy a state, which may change from then on; returns the copy. It is complete
        once `wait` returns, and the next copy overwrites it."""
        used: dict[str, Tensor] = {}

        def copied(name: str, leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            used[name] = self._buffer(leaf, name).copy_(leaf.detach(), non_blocking=True)
            return used[name]

        copy = mapped(state, copied)
        self._buffers = used
        self._copied = None
        if any(buffer.is_pinned() for buffer in used.values()):
            self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._copied.record()  # the steps that follow wait in the same queue
        return copy

    def wait(self) -> None:
        """Waits until the last copy is complete."""
        if self._copied is not None:
            self._copied.synchronize()

    def _buffer(self, tensor: Tensor, name: str) -> Tensor:
        """The buffer of this name if it has the tensor's size, otherwise a new one."""
        kept = self._buffers.get(name)
        if kept is not None and (kept.shape, kept.dtype) == (tensor.shape, tensor.dtype):
            return kept
        return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)


def mapped(state: Any, change: Callable[[str, Any], Any], name: str = "") -> Any:
    """A state with the same structure, in which each leaf is what `change` returns for its name and
    value."""
    if isinstance(state, dict):
        return {key: mapped(part, change, f"{name}/{key}") for key, part in state.items()}
    if isinstance(state, list):
        return [mapped(part, change, f"{name}/{at}") for at, part in enumerate(state)]
    return change(name, state)
