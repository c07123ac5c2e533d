"""Attention of a decoder's tokens to the output of an encoder.

Shapes: B batch, T time, U time of the source, N = B * T, D d_model, H heads, S heads of keys and as
many of values, K head dimension, R rows.
"""

from typing import NamedTuple

from torch import Tensor, nn

from fathom.models.network.attention import mixed
from fathom.models.network.blocks import head_norms
from fathom.models.network.decoding_cache import KeysValues, LayerCache
from fathom.models.shape import Shape


class Memory(NamedTuple):
    """The output of an encoder."""

    output_BUD: Tensor
    mask_B11U: Tensor
    """True where a token of the source is not padding."""

    def select(self, rows_R: Tensor) -> "Memory":
        """The sequences with the indices `rows_R`, of which some may repeat, as in a beam."""
        return Memory(*(tensor.index_select(0, rows_R) for tensor in self))


class CrossAttention(nn.Module):
    """Attention to an encoder's output, (N, D) to (N, D), without rotation by positions."""

    def __init__(self, shape: Shape, scale: float) -> None:
        super().__init__()
        self.n_heads, self.kv_heads = shape.n_heads, shape.kv_heads
        self.head_dim, self.scale = shape.head_dim, scale
        self.query = nn.Linear(shape.d_model, shape.d_attention, bias=shape.biases)
        self.key_value = nn.Linear(shape.d_model, 2 * shape.d_kv, bias=shape.biases)
        self.out = nn.Linear(shape.d_attention, shape.d_model, bias=shape.biases)
        self.q_norm, self.k_norm = head_norms(shape)

    def forward(self, x_ND: Tensor, memory: Memory, kept: LayerCache | None = None) -> Tensor:
        q_BTHK = self.query(x_ND).view(len(memory.output_BUD), -1, self.n_heads, self.head_dim)
        if self.q_norm is not None:
            q_BTHK = self.q_norm(q_BTHK)
        k_BUSK, v_BUSK = self._keys_values(memory, kept)
        y_BTHK = mixed(q_BTHK, k_BUSK, v_BUSK, self.scale, memory.mask_B11U)
        out: Tensor = self.out(y_BTHK.reshape(len(x_ND), -1))
        return out

    def _keys_values(self, memory: Memory, kept: LayerCache | None) -> KeysValues:
        """Keys and values of the source, (B, U, S, K) each, which a cache keeps."""
        if kept is not None and kept.memory is not None:
            return kept.memory
        B, U, _ = memory.output_BUD.shape
        kv_BUGK = self.key_value(memory.output_BUD).view(B, U, 2 * self.kv_heads, self.head_dim)
        k_BUSK, v_BUSK = kv_BUGK.chunk(2, dim=2)
        if self.k_norm is not None:
            k_BUSK = self.k_norm(k_BUSK)
        if kept is not None:
            kept.memory = (k_BUSK, v_BUSK)
        return k_BUSK, v_BUSK
