"""Keys, values and states that a decoder keeps from token to token, so that each is computed once.

Shapes: B batch, T new tokens, U all tokens so far, S heads of keys and as many of values, K head
dimension, R rows.
"""

from dataclasses import dataclass, field

from torch import Tensor

KeysValues = tuple[Tensor, Tensor]
"""Keys and values, (B, U, S, K) each."""


@dataclass(slots=True)
class LayerCache:
    """Keys and values of one layer, or the state of one with a state-space mixer."""

    room: int = 0
    """Number of tokens for which memory is reserved; beyond it each new token copies the cache."""
    length: int = 0
    """Number of the decoder's tokens so far."""
    decoded: KeysValues | None = None
    """Keys and values of the decoder's tokens so far, and perhaps room for more."""
    last_key: Tensor | None = None
    """The last token's key before it was smeared, (B, 1, S, K); None without smeared keys."""
    memory: KeysValues | None = None
    """Keys and values of the encoder's output."""
    inputs: Tensor | None = None
    """Inputs of a state-space mixer's convolution, of the last tokens that the next token sees, (B,
    tokens, features)."""
    state: Tensor | None = None
    """State of a state-space mixer, (B, features, numbers in the state of a feature)."""

    def extended(self, k_BTSK: Tensor, v_BTSK: Tensor) -> KeysValues:
        """Appends keys and values (B, T, S, K) of new tokens; returns all, (B, U, S, K) each."""
        start, self.length = self.length, self.length + k_BTSK.shape[1]
        if self.decoded is None or self.decoded[0].shape[1] < self.length:
            self.decoded = self._larger(k_BTSK, v_BTSK, start)
        for kept, new in zip(self.decoded, (k_BTSK, v_BTSK), strict=True):
            kept[:, start : self.length] = new
        return self._filled(self.decoded)

    def select(self, rows_R: Tensor) -> None:
        """Keeps the sequences with the indices `rows_R`, in this order."""
        if self.decoded is not None:
            self.decoded = _selected(self._filled(self.decoded), rows_R)
        for name in ("last_key", "inputs", "state"):
            if (kept := getattr(self, name)) is not None:
                setattr(self, name, kept.index_select(0, rows_R))
        if self.memory is not None:
            self.memory = _selected(self.memory, rows_R)

    def _filled(self, decoded: KeysValues) -> KeysValues:
        """The part of the memory that has keys and values already, (B, U, S, K) each."""
        return decoded[0][:, : self.length], decoded[1][:, : self.length]

    def _larger(self, k_BTSK: Tensor, v_BTSK: Tensor, start: int) -> KeysValues:
        """New memory with the keys and values of the first `start` tokens."""
        tokens = max(self.room, self.length)
        k, v = (new.new_empty(len(new), tokens, *new.shape[2:]) for new in (k_BTSK, v_BTSK))
        if self.decoded is not None:
            for old, new in zip(self.decoded, (k, v), strict=True):
                new[:, :start] = old[:, :start]
        return k, v


@dataclass(slots=True)
class DecodingCache:
    """The caches of all layers; a new one is empty."""

    layers: list[LayerCache] = field(default_factory=list)
    length: int = 0
    """Number of tokens so far."""
    room: int = 0
    """Number of tokens for which memory is reserved; beyond it each new token copies the cache."""

    def of_layers(self, number: int) -> list[LayerCache]:
        """The caches of `number` layers, made at the first call."""
        if not self.layers:
            self.layers = [LayerCache(self.room) for _ in range(number)]
        return self.layers

    def select(self, rows_R: Tensor) -> None:
        """Keeps the sequences with the indices `rows_R`, in this order; some may repeat, as in a
        beam."""
        for layer in self.layers:
            layer.select(rows_R)


def _selected(kept: KeysValues, rows_R: Tensor) -> KeysValues:
    return kept[0].index_select(0, rows_R), kept[1].index_select(0, rows_R)
