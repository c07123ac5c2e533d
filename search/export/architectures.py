"""Architectures of other frameworks: the shapes that each can have, and its names for the
weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fathom.models.options import Activation, Normalization, Positions, Residual
from fathom.models.shape import DEFAULTS, Shape, option_key

OPTIONS = ("norm", "qk_norm", "gated", "activation", "biases", "positions", "tied")
"""Options whose allowed values differ between architectures."""
APART = {
    *("residual", "queries_per_key", "encoder_depth", "source_vocab_size", "own_counts"),
    *("experts", "state_space"),
}
"""Options that `obstacles` checks one by one, and the option of a user's own model, which no format
can have."""
COMMON = {
    name: (value,) for name, value in DEFAULTS.items() if name not in OPTIONS and name not in APART
}
"""Options that no framework has, so that a shape must have their defaults; each with its
default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """One model of a framework: the options and sizes that it can have, and its names for the
    weights."""

    name: str
    residual: tuple[Residual, ...] = (Residual.PRE,)
    norm: tuple[Normalization, ...]
    gated: tuple[bool, ...]
    activation: tuple[Activation, ...] = (Activation.GELU,)
    qk_norm: tuple[bool, ...] = (False,)
    grouped: bool = True
    """True if several heads may share keys and values."""
    positions: tuple[Positions, ...]
    biases: tuple[bool, ...] = (False, True)
    tied: tuple[bool, ...] = (False, True)
    square: bool = False
    """True if n_heads * head_dim must be d_model."""
    divides: bool = False
    """True if d_model must be a multiple of n_heads, although heads may have any width."""
    d_ff_is_4_d_model: bool = False
    layers: str = ""
    """Prefix of the names of a layer's weights; `{}` stands for the number of the layer."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Fathom's name of a weight -> the framework's name; weights that share a framework's name are
    stacked, in this order.

    Empty if the format writes no weights.
    """
    transposed: bool = False
    """True if the matrices of blocks are stored as (in, out)."""
    encoder: "Architecture | None" = None
    """The encoder's own architecture, with the names of its weights; None if the model has no
    encoder."""
    divides_logits: bool = True
    """False if the model does not divide attention logits by sqrt(head_dim); query weights are then
    divided instead."""
    experts: bool = False
    shared_experts: bool = False
    """True if the model has shared experts beside the others, and may have layers without
    experts."""
    state_spaces: str = ""
    """Letters that the pattern of state-space layers may have; empty if the model has no such
    layers."""
    feed_forward: bool = True
    unused_positions: int = 0
    """Number of rows of learned positions that come before the row of the first token."""

    def obstacles(self, shape: Shape) -> list[str]:
        """Returns the options of the shape that this model lacks, each with what the model has
        instead."""
        possible = (
            {"residual": self.residual} | COMMON | {name: getattr(self, name) for name in OPTIONS}
        )
        found = [
            f"`{option_key(name)}: {_word(value)}` (it has {' or '.join(map(_word, values))})"
            for name, values in possible.items()
            if (value := getattr(shape, name)) not in values
        ]
        if shape.queries_per_key > 1 and not self.grouped:
            found.append(f"`{option_key('queries_per_key')}: {shape.queries_per_key}` (it has 1)")
        if shape.encoder_depth and not self.encoder:
            found.append("`space.split` (it has no encoder)")
        if self.encoder and not shape.encoder_depth:
            found.append("no `space.split` (it has an encoder)")
        found += [*self._obstacles_of_experts(shape), *self._obstacles_of_mixers(shape)]
        if shape.source_vocab_size:
            found.append("an embedding of the encoder's own (it has one for both stacks)")
        if bool(shape.d_ff) != self.feed_forward:
            found.append(f"`space.feed_forward: {_word(not self.feed_forward)}`")
        elif self.d_ff_is_4_d_model and shape.d_ff != 4 * shape.d_model:
            found.append(f"d_ff = {shape.d_ff} (it has 4 d_model = {4 * shape.d_model})")
        if self.square and shape.d_attention != shape.d_model:
            heads = f"{shape.n_heads} heads of {shape.head_dim}"
            found.append(f"{heads} (its heads make up d_model = {shape.d_model})")
        elif self.divides and shape.d_model % shape.n_heads:
            found.append(f"{shape.n_heads} heads (their number divides d_model = {shape.d_model})")
        return found

    def _obstacles_of_mixers(self, shape: Shape) -> list[str]:
        if shape.state_space is None:
            return ["no `model.state_space` (it has them)"] if self.state_spaces else []
        if not self.state_spaces:
            return ["`model.state_space` (it has none)"]
        pattern = shape.state_space.pattern
        lacks = set(pattern) - set(self.state_spaces)
        return [f"`model.state_space.pattern: {pattern}` (it has M)"] if lacks else []

    def _obstacles_of_experts(self, shape: Shape) -> list[str]:
        experts = shape.experts
        if experts is None:
            return ["no `model.experts` (it has them)"] if self.experts else []
        if not self.experts:
            return ["`model.experts` (it has none)"]
        lacks = {
            "balance: bias` (its scores are probabilities)": experts.has_bias,
            f"shared: {experts.shared}` (it has {'some' if self.shared_experts else 'none'})": (
                bool(experts.shared) != self.shared_experts
            ),
            f"every: {experts.every}` (it has 1)": experts.every > 1 and not self.shared_experts,
            "top_k: 1` (its weights sum to 1)": experts.top_k == 1 and not self.shared_experts,
        }
        return [f"`model.experts.{text}" for text, is_lacking in lacks.items() if is_lacking]


def _word(value: object) -> str:
    """Returns a value as it is written in a study file."""
    if isinstance(value, StrEnum):
        return value.value
    return "null" if value is None else str(value).lower()
