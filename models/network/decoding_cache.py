"""Keys and values that a decoder keeps from token to token, so that each is computed once.

Shapes: B batch, T new tokens, U all tokens so far, S heads of keys and as many of values, K head
dimension, R rows.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

KeysValues = tuple[Tensor, Tensor]
"""Keys and values, (B, U, S, K) each."""


@dataclass(slots=True)
class LayerCache:
    """Keys and values of one layer."""

    decoded: KeysValues | None = None
    """Keys and values of the decoder's tokens so far."""
    memory: KeysValues | None = None
    """Keys and values of the encoder's output."""

    def extended(self, k_BTSK: Tensor, v_BTSK: Tensor) -> KeysValues:
        """Appends keys and values (B, T, S, K) of new tokens; returns all, (B, U, S, K) each."""
        new = (k_BTSK, v_BTSK)
        if self.decoded is not None:
            old_k, old_v = self.decoded
            new = (torch.cat((old_k, k_BTSK), dim=1), torch.cat((old_v, v_BTSK), dim=1))
        self.decoded = new
        return new


@dataclass(slots=True)
class DecodingCache:
    """Keys and values of all layers; a new one is empty."""

    layers: list[LayerCache] = field(default_factory=list)
    length: int = 0
    """Number of tokens so far."""

    def select(self, rows_R: Tensor) -> None:
        """Keeps the sequences with the indices `rows_R`, in this order; some may repeat, as in a
        beam."""
        for layer in self.layers:
            layer.decoded = _selected(layer.decoded, rows_R)
            layer.memory = _selected(layer.memory, rows_R)


def _selected(kept: KeysValues | None, rows_R: Tensor) -> KeysValues | None:
    if kept is None:
        return None
    return kept[0].index_select(0, rows_R), kept[1].index_select(0, rows_R)
