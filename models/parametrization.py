"""How initialisation, learning rates and residual scales follow the shape.

Standard, muP and CompleteP (Dey et al. 2025, arXiv 2505.01618, table 1, alpha = 1), for AdamW.
A rate tuned on the base shape carries over width under muP, over width and depth under CompleteP.
The table scales hidden weights by d_model / base_width. Here each matrix goes by its own fan-in,
because at a fixed budget the feed-forward ratio varies too: the output of a feed-forward block has
fan-in `d_ff`, which a width alone does not describe.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from models.shape import Shape

BASE_FF_RATIO = 4
"""`d_ff / d_model` of the base shape, the ratio of Vaswani et al. 2017."""


class Scheme(StrEnum):
    """Which table the scales come from."""

    STANDARD = "standard"
    MUP = "mup"
    COMPLETEP = "completep"


class Role(StrEnum):
    """What a weight does in the model; every weight of one role is treated alike."""

    EMBEDDING = "embedding"
    POSITIONS = "positions"
    NORM = "norm"
    FINAL_NORM = "final_norm"
    ATTENTION_IN = "attention_in"
    ATTENTION_OUT = "attention_out"
    FEED_FORWARD_IN = "feed_forward_in"
    FEED_FORWARD_OUT = "feed_forward_out"
    UNEMBEDDING = "unembedding"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parametrization:
    """A scheme and the base shape on which its learning rate was tuned."""

    scheme: Scheme
    base_width: int
    base_depth: int
    base_head_dim: int
    init_std: float


@dataclass(frozen=True, slots=True)
class Rule:
    """How the weights of one role start and move, as multiples of the study's own settings."""

    init_std: float
    learning_rate: float = 1.0
    weight_decay: float = 1.0
    eps: float = 1.0


@dataclass(frozen=True, slots=True)
class ForwardScales:
    """Multipliers inside the forward pass: residual branches, attention logits, output logits."""

    residual: float
    attention: float
    logits: float


def forward_scales(parametrization: Parametrization, shape: Shape) -> ForwardScales:
    """The multipliers of the forward pass.

    muP divides attention logits by head_dim, not by its root; the root of the base head dimension
    makes both agree there.
    """
    if parametrization.scheme is Scheme.STANDARD:
        return ForwardScales(1.0, shape.head_dim**-0.5, 1.0)
    deep = parametrization.scheme is Scheme.COMPLETEP
    return ForwardScales(
        residual=parametrization.base_depth / shape.depth if deep else 1.0,
        attention=parametrization.base_head_dim**0.5 / shape.head_dim,
        logits=parametrization.base_width / shape.d_model,
    )


def rules(parametrization: Parametrization, shape: Shape) -> dict[Role, Rule]:
    """One rule for every role."""
    std = parametrization.init_std
    plain = {role: Rule(std) for role in (Role.EMBEDDING, Role.POSITIONS, Role.UNEMBEDDING)}
    if parametrization.scheme is Scheme.STANDARD:
        out = Rule(std / math.sqrt(2 * shape.depth))  # Radford et al. 2019
        return plain | {
            Role.NORM: Rule(0.0, weight_decay=0.0),
            Role.FINAL_NORM: Rule(0.0, weight_decay=0.0),
            Role.ATTENTION_IN: Rule(std),
            Role.FEED_FORWARD_IN: Rule(std),
            Role.ATTENTION_OUT: out,
            Role.FEED_FORWARD_OUT: out,
        }
    # No 1/sqrt(2 depth) at initialisation: the residual multiplier does that work already.
    width, depth = parametrization.base_width, parametrization.base_depth
    eps_depth = depth / shape.depth if parametrization.scheme is Scheme.COMPLETEP else 1.0
    eps = eps_depth * width / shape.d_model

    def hidden(fan_in: int, base_fan_in: int) -> Rule:
        m = fan_in / base_fan_in
        return Rule(std / math.sqrt(m), learning_rate=1 / m, weight_decay=m, eps=eps)

    return plain | {
        Role.NORM: Rule(0.0, weight_decay=0.0, eps=eps),
        Role.FINAL_NORM: Rule(0.0, weight_decay=0.0),
        Role.ATTENTION_IN: hidden(shape.d_model, width),
        Role.FEED_FORWARD_IN: hidden(shape.d_model, width),
        Role.ATTENTION_OUT: hidden(shape.d_attention, width),
        Role.FEED_FORWARD_OUT: hidden(max(shape.d_ff, 1), BASE_FF_RATIO * width),
    }
