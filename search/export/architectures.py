"""Which model of a framework is a shape, and what stands in the way where none is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from fathom.models.shape import Normalization, Positions, Residual, Shape
from fathom.search.study.errors import ConfigError

COMMON: dict[str, tuple[Any, ...]] = {
    "residual": (Residual.PRE,),
    "embedding_rank": (None,),
    "smeared_keys": (False,),
    "looped": (False,),
    "bidirectional": (False,),
}
"""Options for which every framework here has one value."""
OPTIONS = ("norm", "gated", "biases", "positions", "tied")
"""Options in which they differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A model of a framework: the shapes that it can be, and its names for their weights."""

    name: str
    norm: tuple[Normalization, ...]
    gated: tuple[bool, ...]
    positions: tuple[Positions, ...]
    biases: tuple[bool, ...] = (False, True)
    tied: tuple[bool, ...] = (False, True)
    square: bool = False
    """Whether all heads together are as wide as the model."""
    divides: bool = False
    """Whether d_model must be a multiple of the number of heads, however wide they are."""
    d_ff_is_4_d_model: bool = False
    layers: str
    """What names of weights in a layer begin with, `{}` being its number."""
    names: Mapping[str, str]
    """Its names by ours; several of ours under one name are stacked there in this order."""
    turns_halves: bool = True
    """Rotary positions turn feature i with i + head_dim / 2, not with its neighbour."""
    transposed: bool = False
    """Matrices in the blocks are kept as (in, out)."""

    def obstacles(self, shape: Shape) -> list[str]:
        """What of the shape it can't be, each with what it is instead."""
        taken = COMMON | {name: getattr(self, name) for name in OPTIONS}
        found = [
            f"`model.{name}: {_word(getattr(shape, name))}` (it has {' or '.join(map(_word, own))})"
            for name, own in taken.items()
            if getattr(shape, name) not in own
        ]
        if not shape.d_ff:
            found.append("`space.feed_forward: false`")
        elif self.d_ff_is_4_d_model and shape.d_ff != 4 * shape.d_model:
            found.append(f"d_ff = {shape.d_ff} (it has 4 d_model = {4 * shape.d_model})")
        if self.square and shape.d_attention != shape.d_model:
            heads = f"{shape.n_heads} heads of {shape.head_dim}"
            found.append(f"{heads} (its heads make up d_model = {shape.d_model})")
        elif self.divides and shape.d_model % shape.n_heads:
            found.append(f"{shape.n_heads} heads (their number divides d_model = {shape.d_model})")
        return found


@dataclass(frozen=True, slots=True)
class ArchitectureMatch:
    """A shape as a framework builds it."""

    architecture: Architecture
    shape: Shape
    """As searched, but perhaps for the norm."""
    centred: bool = False
    """RMSNorm where the search had layer norm; weights that never leave the stream a mean make
    both the same (Ashkboos et al. 2024, arXiv 2401.15024, section 3.1)."""


def fit(
    name: str, architectures: Sequence[Architecture], shape: Shape, *, nearest: bool, weights: bool
) -> ArchitectureMatch:
    """The first architecture that is the shape; `name` is the format's.

    Where only bias-free layer norm stands in the way, RMSNorm takes its place: exactly with weights
    whose embedding and unembedding are two, as another model when that is asked for by `nearest`.

    Raises:
        ConfigError: when there is none, with what stands in the way.
    """
    if exact := _first(architectures, shape):
        return ArchitectureMatch(exact, shape)
    rms = replace(shape, norm=Normalization.RMS)
    other = None if shape.norm_biases else _first(architectures, rms)
    if other is None:
        raise ConfigError(_refusal(name, architectures, shape))
    if weights and not shape.tied:
        return ArchitectureMatch(other, rms, centred=True)
    if weights:
        raise ConfigError(
            f"`--format {name}` has no `model.norm: layer` without biases, and no weights can make "
            "up for that with `model.tied: true`; leave `--weights` out, or search with "
            "`model.norm: rms`"
        )
    if not nearest:
        raise ConfigError(
            f"`--format {name}` has no `model.norm: layer` without biases; add `--nearest` to have "
            "RMSNorm there, of as many parameters, or search with `model.norm: rms`"
        )
    return ArchitectureMatch(other, rms)


def _first(architectures: Sequence[Architecture], shape: Shape) -> Architecture | None:
    return next((one for one in architectures if not one.obstacles(shape)), None)


def _refusal(name: str, architectures: Sequence[Architecture], shape: Shape) -> str:
    closest = min(architectures, key=lambda one: len(one.obstacles(shape)))
    return (
        f"`--format {name}` can't express {', '.join(closest.obstacles(shape))}: its closest model "
        f"is {closest.name}; `fathom train` trains the shape as it is"
    )


def _word(value: object) -> str:
    """A value as a study file has it."""
    if isinstance(value, StrEnum):
        return value.value
    return "null" if value is None else str(value).lower()
