"""Rules for initialisation, learning rates and residual scales by the shape of a model.

Standard, muP and CompleteP (Dey et al. 2025, arXiv 2505.01618, table 1, alpha = 1), for AdamW. A
rate tuned on the base shape carries over width under muP, over width and depth under CompleteP. The
table scales hidden weights by d_model / base_width. Here each matrix has its own fan-in, because at
a fixed budget the feed-forward ratio varies too: the output of a feed-forward block has fan-in
`d_ff`, which a width alone does not describe. The output of an expert has fan-in `d_ff` too, and a
router has that of the stream: the rates of both fall as one over their fan-in (Malasnicki et al.
2025, arXiv 2508.09752; Jiang et al. 2026, arXiv 2601.20205). The fan-in of a matrix in groups is
that of a group.

The rules for depth in that table are for pre-norm models. The other kinds of residual start as in
their papers, by Glorot's rule, and take rates from the standard scheme or, over width only, from
muP.

Steps of Muon are scaled by the spectral condition: the change of a matrix has a spectral norm in
proportion to sqrt(fan_out / fan_in) (Yang et al. 2023, arXiv 2310.17813), at every depth where
branches have the multiplier of CompleteP (Zheng et al. 2026, arXiv 2603.00541).
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from fathom.models.options import OptionError, Residual
from fathom.models.shape import Shape

BASE_FF_RATIO = 4
"""`d_ff / d_model` of the base shape, the ratio of Vaswani et al. 2017."""


class Scheme(StrEnum):
    """Tables of scales: standard, muP or CompleteP."""

    STANDARD = "standard"
    MUP = "mup"
    COMPLETEP = "completep"


class OptimizerName(StrEnum):
    """Optimizers that a study may choose."""

    ADAMW = "adamw"
    MUON = "muon"
    """Muon for the matrices of the blocks, AdamW for all other weights (Jordan et al. 2024)."""


class Role(StrEnum):
    """Roles of weights in the model; all weights of one role follow one rule."""

    EMBEDDING = "embedding"
    POSITIONS = "positions"
    PROJECTION = "projection"
    """Second factor of an embedding of low rank; its fan-in does not follow the width."""
    NORM = "norm"
    OUTER_NORM = "outer_norm"
    """Norm after the last block or after the embedding."""
    BIAS = "bias"
    SKIP = "skip"
    """Trained weight of a skip connection, Admin's omega."""
    SMEAR = "smear"
    ATTENTION_IN = "attention_in"
    CROSS_QUERY = "cross_query"
    """Queries of attention to an encoder's output."""
    CROSS_KEY_VALUE = "cross_key_value"
    """Keys and values of an encoder's output."""
    ATTENTION_OUT = "attention_out"
    FEED_FORWARD_IN = "feed_forward_in"
    FEED_FORWARD_OUT = "feed_forward_out"
    ROUTER = "router"
    """Scores of experts."""
    STATE_IN = "state_in"
    """First map of a state-space mixer."""
    STATE_OUT = "state_out"
    STATE = "state"
    """Decays, step sizes, skips and the convolution of a state-space mixer; like a gain, they have
    a number of inputs and outputs that does not follow the width."""
    UNEMBEDDING = "unembedding"


MATRICES = (
    *(Role.ATTENTION_IN, Role.CROSS_QUERY, Role.CROSS_KEY_VALUE, Role.ATTENTION_OUT),
    *(Role.FEED_FORWARD_IN, Role.FEED_FORWARD_OUT, Role.STATE_IN, Role.STATE_OUT),
)
"""Roles of the weights that Muon updates."""
ATTENTION_INPUTS = (Role.ATTENTION_IN, Role.CROSS_QUERY, Role.CROSS_KEY_VALUE)
"""Roles of the weights that compute queries, keys and values."""
RMS_OF_ADAMW = 0.2
"""Root mean square of AdamW's usual step at a rate of 1 (Liu et al. 2025, arXiv 2502.16982)."""


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
    """Initial spread of the weights of a role, and multiples of the study's optimizer settings."""

    init_std: float
    learning_rate: float = 1.0
    weight_decay: float = 1.0
    eps: float = 1.0


@dataclass(frozen=True, slots=True)
class ForwardScales:
    """Multipliers in the forward pass for residual branches, both kinds of logits, and skips."""

    residual: float
    attention: float
    logits: float
    skip: float


def forward_scales(
    parametrization: Parametrization, shape: Shape, *, read_by: int = 0
) -> ForwardScales:
    """The multipliers of the forward pass; for a shape with an encoder, the decoder's.

    muP divides attention logits by head_dim, not by its root; a factor, the root of the base head
    dimension, makes both agree on the base shape. `read_by` is the number of decoder layers that
    read the stack, if the shape is an encoder's. Branches of each stack are scaled by its own
    depth.

    Raises:
        ValueError: when the scheme has no rules for the shape's kind of residual.
    """
    check_scheme(parametrization.scheme, shape.residual)
    skip = deepnorm_skip(shape, read_by) if shape.residual is Residual.DEEPNORM else 1.0
    if parametrization.scheme is Scheme.STANDARD:
        return ForwardScales(1.0, shape.head_dim**-0.5, 1.0, skip)
    deep = parametrization.scheme is Scheme.COMPLETEP
    return ForwardScales(
        residual=parametrization.base_depth / shape.decoder_depth if deep else 1.0,
        attention=parametrization.base_head_dim**0.5 / shape.head_dim,
        logits=parametrization.base_width / shape.d_model,
        skip=skip,
    )


def check_scheme(scheme: Scheme, residual: Residual) -> None:
    """Raises `ValueError` if `scheme` is CompleteP and `residual` is not pre-norm."""
    if scheme is Scheme.COMPLETEP and residual is not Residual.PRE:
        raise OptionError(
            "parametrization.scheme",
            f"scales pre-norm residuals, got `residual: "
            f"{residual.value}`; use `parametrization: {{scheme: standard}}` or `mup`",
            value="completep",
        )


def deepnorm_skip(shape: Shape, read_by: int = 0) -> float:
    """DeepNorm's alpha (Wang et al. 2022, table 1): for a decoder, the number of its branches (2 L,
    or 3 L with an encoder) to the power 1/4; for an encoder that M decoder layers read, 0.81 (L^4
    M)^(1/16)."""
    if read_by:
        return float(0.81 * (shape.depth**4 * read_by) ** (1 / 16))
    return float(shape.branches**0.25)


def deepnorm_gain(shape: Shape, read_by: int = 0) -> float:
    """DeepNorm's beta, the initial gain of values, outputs and feed-forward matrices: (8 L)^(-1/4),
    or (12 L)^(-1/4) with an encoder; for the encoder itself 0.87 (L^4 M)^(-1/16)."""
    if read_by:
        return float(0.87 * (shape.depth**4 * read_by) ** (-1 / 16))
    return float((4 * shape.branches) ** -0.25)


def first_skip(shape: Shape) -> float:
    """Initial value of Admin's omega: the closed form of microsoft/admin-torch; 1 if profiled.

    The closed form counts 2 L branches, or 3 L in a decoder with an encoder.
    """
    if shape.residual is not Residual.ADMIN_CLOSED:
        return 1.0
    n = shape.branches
    return math.sqrt((n + 1) / math.log(n + 1) - 1)


def rules(parametrization: Parametrization, shape: Shape, *, read_by: int = 0) -> dict[Role, Rule]:
    """The rule for the weights of each role in a model of `shape`; every role is present.

    `read_by` is the number of decoder layers that read the stack, if the shape is an encoder's.
    """
    by_role = _rules_of_scheme(parametrization, shape)
    if shape.residual is Residual.PRE:
        return by_role
    spreads = _glorot(shape, read_by).items()
    return by_role | {role: replace(by_role[role], init_std=std) for role, std in spreads}


def matrices_of(shape: Shape) -> dict[Role, tuple[tuple[int, ...], int, int]]:
    """Role -> rows of each matrix that a weight of the role is made of, their columns, and the
    number of weights of the role. Matrices in groups are given as whole ones, and each expert has
    weights of its own."""
    D, A, KV, F = shape.d_model, shape.d_attention, shape.d_kv, shape.d_ff
    found: dict[Role, tuple[tuple[int, ...], int, int]] = {
        Role.ATTENTION_IN: ((A, KV, KV), D, shape.blocks - shape.state_layers),
        Role.CROSS_QUERY: ((A,), D, shape.cross_layers),
        Role.CROSS_KEY_VALUE: ((KV, KV), D, shape.cross_layers),
        Role.ATTENTION_OUT: ((D,), A, shape.attentions),
    }
    if shape.state_space:
        rows = shape.state_space.rows(A, shape.n_heads)
        found[Role.STATE_IN] = (rows, D, shape.state_layers)
        found[Role.STATE_OUT] = ((D,), rows[0], shape.state_layers)
    if F:
        found[Role.FEED_FORWARD_IN] = ((F,) * (2 if shape.gated else 1), D, shape.feed_forwards)
        found[Role.FEED_FORWARD_OUT] = ((D,), F, shape.feed_forwards)
    return found


def muon_norm(parametrization: Parametrization, role: Role, fan_out: int, fan_in: int) -> float:
    """Spectral norm of Muon's step on a matrix (fan_out, fan_in) of a role, at a rate of 1.

    On the base shape, and on every shape of the standard scheme, the step is as large as AdamW's at
    the same rate, in root mean square (Liu et al. 2025). Elsewhere it follows the spectral
    condition, so that the rate of the base shape carries over.
    """
    if parametrization.scheme is Scheme.STANDARD:
        return RMS_OF_ADAMW * math.sqrt(max(fan_out, fan_in))
    width = parametrization.base_width
    base_out = width * (BASE_FF_RATIO if role is Role.FEED_FORWARD_IN else 1)
    base_in = width * (BASE_FF_RATIO if role is Role.FEED_FORWARD_OUT else 1)
    on_base = RMS_OF_ADAMW * math.sqrt(max(base_out, base_in))
    return on_base * math.sqrt(fan_out / fan_in * base_in / base_out)


def _rules_of_scheme(parametrization: Parametrization, shape: Shape) -> dict[Role, Rule]:
    std = parametrization.init_std
    plain = {role: Rule(std) for role in (Role.EMBEDDING, Role.POSITIONS, Role.UNEMBEDDING)}
    # So that the product of both factors has the spread of an embedding in one piece.
    plain[Role.PROJECTION] = Rule((shape.embedding_rank or 1) ** -0.5)
    plain[Role.OUTER_NORM] = Rule(0.0, weight_decay=0.0)
    vectors = (Role.NORM, Role.BIAS, Role.SKIP, Role.SMEAR, Role.STATE)
    if parametrization.scheme is Scheme.STANDARD:
        branches = 3 if shape.encoder_depth else 2
        out = Rule(std / math.sqrt(branches * shape.decoder_depth))  # Radford et al. 2019
        return plain | {
            **dict.fromkeys(vectors, Rule(0.0, weight_decay=0.0)),
            **dict.fromkeys(ATTENTION_INPUTS, Rule(std)),
            **dict.fromkeys((Role.FEED_FORWARD_IN, Role.ROUTER, Role.STATE_IN), Rule(std)),
            **dict.fromkeys((Role.ATTENTION_OUT, Role.FEED_FORWARD_OUT, Role.STATE_OUT), out),
        }
    # No 1/sqrt(2 depth) at initialisation: the residual multiplier does that work already.
    width, depth = parametrization.base_width, parametrization.base_depth
    # A looped block's gradient is the sum over all layers, each of which has that multiplier.
    deep = parametrization.scheme is Scheme.COMPLETEP
    eps_depth = depth / (shape.blocks - shape.encoder_depth) if deep else 1.0
    eps = eps_depth * width / shape.d_model

    def hidden(fan_in: int, base_fan_in: int) -> Rule:
        m = fan_in / shape.groups / base_fan_in  # the base shape is dense
        return Rule(std / math.sqrt(m), learning_rate=1 / m, weight_decay=m, eps=eps)

    return plain | {
        **dict.fromkeys(vectors, Rule(0.0, weight_decay=0.0, eps=eps)),
        **dict.fromkeys(ATTENTION_INPUTS, hidden(shape.d_model, width)),
        **dict.fromkeys(
            (Role.FEED_FORWARD_IN, Role.ROUTER, Role.STATE_IN), hidden(shape.d_model, width)
        ),
        # A state-space mixer is as many times wider than attention in the base shape.
        **dict.fromkeys((Role.ATTENTION_OUT, Role.STATE_OUT), hidden(shape.d_attention, width)),
        Role.FEED_FORWARD_OUT: hidden(max(shape.d_ff, 1), BASE_FF_RATIO * width),
    }


def _glorot(shape: Shape, read_by: int) -> dict[Role, float]:
    """Initial spread of hidden matrices by fan-in and fan-out (Glorot & Bengio 2010), with
    DeepNorm's gain.

    Queries, keys, values and gates count as matrices of their own. Values, which lie in one matrix
    with queries and keys, get their gain when they are drawn.
    """
    gain = deepnorm_gain(shape, read_by) if shape.residual is Residual.DEEPNORM else 1.0
    attention = math.sqrt(2 * shape.groups / (shape.d_model + shape.d_attention))
    feed_forward = math.sqrt(2 * shape.groups / (shape.d_model + shape.d_ff))
    return {
        **dict.fromkeys(ATTENTION_INPUTS, attention),
        Role.ATTENTION_OUT: gain * attention,
        Role.FEED_FORWARD_IN: gain * feed_forward,
        Role.FEED_FORWARD_OUT: gain * feed_forward,
    }
