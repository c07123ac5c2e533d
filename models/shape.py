"""The size of a transformer and everything that follows from it in closed form.

Standard library only: planning a search must not wait for a deep-learning framework.
"""

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from fathom.models.layers.experts import Experts
from fathom.models.layers.state_space import StateSpace
from fathom.models.options import (
    Activation,
    ModelPart,
    Normalization,
    OptionError,
    Positions,
    Residual,
    check_activation,
    check_loop,
    check_multiple,
    option,
)

LEAST_RATIO = 1e-3
"""Smallest `ff_ratio` whose logarithm is taken: without feed-forward branches the ratio is 0."""


class Count(StrEnum):
    """Quantities that a budget fixes. The best depth can differ between `total` and
    `non_embedding`."""

    TOTAL = "total"
    """Every trained parameter."""
    NON_EMBEDDING = "non_embedding"
    """All but token embedding, learned positions and unembedding (Kaplan et al. 2020)."""
    MATRICES = "matrices"
    """Weights of attention, or of state spaces, and feed-forward: 12 depth d_model**2 in a dense
    model (Levine et al. 2020)."""
    FLOPS = "flops"
    """Operations of a forward pass for a token."""
    ACTIVE = "active"
    """Parameters that a token uses: all but those of experts that it is not routed to."""
    HEADS = "heads"
    """Heads of all layers together; parameters follow from them (Brown et al. 2022)."""
    WIDTH = "width"
    """`d_model`: deeper models then have more parameters (Liu et al. 2020)."""
    TRAIN_FLOPS = "train_flops"
    """Operations of a whole training: models may have any size, and train on the tokens that the
    operations pay for (Hoffmann et al. 2022)."""
    TRAIN_SECONDS = "train_seconds"
    """Seconds of a whole training on the device of the search: models may have any size."""

    @property
    def frees_size(self) -> bool:
        """True if a budget is an amount that a training spends, so that the size is searched along
        with the depth."""
        return self in (Count.TRAIN_FLOPS, Count.TRAIN_SECONDS)

    @property
    def of_parameters(self) -> bool:
        """True if budgets are numbers of parameters."""
        return self in (Count.TOTAL, Count.NON_EMBEDDING, Count.MATRICES, Count.ACTIVE)

    @property
    def unit(self) -> str:
        """Unit that follows a budget's number in text."""
        units = {
            Count.FLOPS: "FLOPs a token", Count.HEADS: "heads", Count.WIDTH: "wide",
            Count.TRAIN_FLOPS: "FLOPs", Count.TRAIN_SECONDS: "seconds",
        }  # fmt: skip
        return units.get(self, "parameters")

    @property
    def unit_in_full(self) -> str:
        """Unit of a budget, naming the rule by which parameters are counted."""
        if self is Count.MATRICES:
            return "parameters in matrices"
        return f"{self.label} parameters" if self.of_parameters else self.unit

    @property
    def label(self) -> str:
        """Name of the rule in text, such as `non-embedding`."""
        return self.unit if self.frees_size else self.value.replace("_", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCounts:
    """Parameters and memory of a user's own model at a shape, counted by building it."""

    total: int
    """Every trained parameter."""
    non_embedding: int
    """Parameters whose number does not follow the vocabulary or the context."""
    saved_bytes: int = field(compare=False)
    """Bytes that the forward pass of a sequence keeps for its backward pass, an estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One transformer, exactly as it is built: nothing is rounded later.

    Attention is `n_heads * head_dim` wide, which need not equal `d_model`. `d_ff = 0` leaves the
    feed-forward branch and its norm out. Norms have a gain.

    >>> shape = Shape(
    ...     depth=12, d_model=768, d_ff=3072, n_heads=12, head_dim=64,
    ...     vocab_size=50257, context=1024,
    ... )
    >>> shape.size(Count.MATRICES), shape.size(Count.NON_EMBEDDING), shape.size(Count.TOTAL)
    (84934656, 84953856, 123551232)

    Raises:
        ValueError: when a size is out of range.
    """

    depth: int
    """Layers, each a block: a mixer of tokens and, unless `d_ff` is 0, a feed-forward network."""
    d_model: int
    d_ff: int
    n_heads: int
    head_dim: int
    vocab_size: int
    context: int
    queries_per_key: int = option(1, ModelPart.STATES_ALONE, key="attention.queries_per_key")
    """Heads that share one head of keys and values (grouped queries, Ainslie et al. 2023)."""
    groups: int = option(1, ModelPart.ENCODER, ModelPart.EXPERTS, ModelPart.STATE_SPACE, rare=True)
    """Number of diagonal blocks in every matrix of a layer; outputs are shuffled, so that features
    of all blocks mix (ShuffleNet, Zhang et al. 2018); 1 if matrices are whole."""
    qk_norm: bool = option(False, ModelPart.STATES_ALONE, key="attention.qk_norm")
    """True if RMS norms with gains scale each head's queries and keys (Henry et al. 2020)."""
    gated: bool = False
    activation: Activation = option(Activation.GELU, key="feed_forward.activation", fused=True)
    tied: bool = option(True, fused=True)
    positions: Positions = option(Positions.ROTARY, fused=True)
    residual: Residual = option(Residual.PRE, ModelPart.STATE_SPACE)
    norm: Normalization = option(Normalization.RMS, fused=True)
    biases: bool = option(False, ModelPart.EXPERTS, ModelPart.STATE_SPACE)
    """True if linear maps in the blocks and layer norms have biases; the unembedding has none."""
    embedding_rank: int | None = option(None, fused=True)
    """Rank of the two factors whose product is the embedding, and likewise the unembedding."""
    smeared_keys: bool = option(False, ModelPart.ENCODER, ModelPart.STATES_ALONE)
    """True if each head mixes every key with the one before, in a trained share (Olsson et al.
    2022)."""
    looped: bool = option(
        False, ModelPart.ENCODER, ModelPart.EXPERTS, ModelPart.STATE_SPACE, fused=True
    )
    """True if one block is applied `depth` times."""
    bidirectional: bool = option(False, ModelPart.ENCODER, ModelPart.STATE_SPACE)
    """True if there is no causal mask; token 0 is then padding, which is not attended to."""
    encoder_depth: int = 0
    """Layers of the encoder, which are part of `depth`; 0 without an encoder. The other layers are
    the decoder's, and have attention to the encoder's output as well."""
    source_vocab_size: int = option(0, fused=True)
    """Number of token ids of the encoder's own embedding; 0 if both stacks share one."""
    experts: Experts | None = option(None, rare=True)
    """Experts in place of feed-forward networks, each of them `d_ff` wide; None without."""
    state_space: StateSpace | None = option(None, rare=True)
    """Layers with a state-space mixer in place of attention; None if all have attention."""
    own_counts: OwnCounts | None = None
    """Counts of a user's own model, to which the options above do not apply."""

    def __post_init__(self) -> None:
        sizes = ("depth", "d_model", "n_heads", "head_dim", "vocab_size", "context")
        for name in (*sizes, "queries_per_key", "groups", "embedding_rank"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"`{name}` must be at least 1, got {value}")
        if self.d_ff < 0:
            raise ValueError(f"`d_ff` must be at least 0, got {self.d_ff}")
        heads = {"n_heads": self.n_heads}
        check_multiple("queries_per_key", self.queries_per_key, heads, unit=" heads")
        widths = {"d_model": self.d_model, "d_ff": self.d_ff, "d_kv": self.d_kv}
        check_multiple("groups", self.groups, widths)
        if self.positions is Positions.ROTARY and self.head_dim % 2:
            raise ValueError(
                "rotary positions rotate features in pairs, so `head_dim` must be even, got "
                f"{self.head_dim}; use {self.head_dim + 1} or `positions: learned`"
            )
        check_loop(looped=self.looped, residual=self.residual)
        check_activation(gated=self.gated, activation=self.activation)
        self._check_stacks()

    def __hash__(self) -> int:
        """Hash of the sizes that usually differ, as shapes are looked up by the million."""
        return hash((self.depth, self.d_model, self.d_ff, self.n_heads))

    def _check_stacks(self) -> None:
        """Raises `ValueError` for an impossible encoder depth, options that do not go with experts,
        state spaces or an encoder, or a source vocabulary without an encoder."""
        if not 0 <= self.encoder_depth < self.depth:
            raise ValueError(
                f"`encoder_depth` must be at least 0 and below `depth`, got {self.encoder_depth} "
                f"of {self.depth}"
            )
        if self.encoder_depth or self.experts or self.state_space:
            options = {name: getattr(self, name) for name in DEFAULTS}
            check_options(options, encoder=self.encoder_depth > 0)
        others = self.encoder_depth or self.own_counts
        if self.state_space and others:
            raise ValueError("`model.state_space` needs Fathom's own decoder; drop it")
        if self.experts and (others or not self.d_ff):
            raise ValueError("`model.experts` need Fathom's own decoder with `d_ff`; drop them")
        if self.source_vocab_size and not self.encoder_depth:
            raise ValueError("`source_vocab_size` is for a shape with an encoder; drop it")

    @property
    def has_plain_blocks(self) -> bool:
        """True if the blocks have no option that the fused block of `fused_block.py` lacks."""
        plain = (getattr(self, name) == DEFAULTS[name] for name in DEFAULTS.keys() - FUSED)
        return self.d_ff > 0 and all(plain)

    @property
    def ff_ratio(self) -> float:
        """`d_ff / d_model`."""
        return self.d_ff / self.d_model

    @property
    def ln_ff_ratio(self) -> float:
        """Natural logarithm of `ff_ratio`, which counts as at least `LEAST_RATIO`."""
        return math.log(max(self.ff_ratio, LEAST_RATIO))

    def off_ratio(self, ratio: float) -> float:
        """Absolute difference of `ff_ratio` from another ratio, in natural log."""
        return abs(math.log(max(self.ff_ratio, LEAST_RATIO) / max(ratio, LEAST_RATIO)))

    @property
    def d_attention(self) -> int:
        """Width of all heads together."""
        return self.n_heads * self.head_dim

    @property
    def kv_heads(self) -> int:
        """Number of key heads, equal to the number of value heads."""
        return self.n_heads // self.queries_per_key

    @property
    def d_kv(self) -> int:
        """Width of all keys together, equal to that of all values."""
        return self.kv_heads * self.head_dim

    @property
    def heads_step(self) -> int:
        """Number that must divide `n_heads`, so that heads share keys evenly in whole groups."""
        return self.queries_per_key * self.groups // math.gcd(self.groups, self.head_dim)

    def multiple(self, width: float) -> int:
        """The multiple of `groups` nearest to a width."""
        return self.groups * round(width / self.groups)

    @property
    def blocks(self) -> int:
        """Blocks with weights of their own."""
        return 1 if self.looped else self.depth

    @property
    def decoder_depth(self) -> int:
        """Layers of the decoder; all layers without an encoder."""
        return self.depth - self.encoder_depth

    @property
    def least_depth(self) -> int:
        """The fewest layers that a shape of this kind can have: one in each stack."""
        return 2 if self.encoder_depth else 1

    @property
    def depth_step(self) -> int:
        """Layers between two depths with the same split between encoder and decoder; 1 without an
        encoder."""
        return self.depth // math.gcd(self.encoder_depth, self.decoder_depth)

    @property
    def cross_layers(self) -> int:
        """Layers with attention to an encoder's output: those of a decoder that has an encoder."""
        return self.decoder_depth if self.encoder_depth else 0

    @property
    def expert_layers(self) -> int:
        """Layers with experts; 0 in a dense model."""
        return self.depth // self.experts.every if self.experts else 0

    @property
    def feed_forwards(self) -> int:
        """Feed-forward networks with weights of their own, all experts counted."""
        more = self.experts.number + self.experts.shared - 1 if self.experts else 0
        return self.blocks + self.expert_layers * more

    @property
    def active_feed_forwards(self) -> int:
        """Feed-forward networks with weights of their own that a token uses."""
        more = self.experts.active - 1 if self.experts else 0
        return self.blocks + self.expert_layers * more

    @property
    def state_layers(self) -> int:
        """Layers with a state-space mixer; 0 if all have attention."""
        return self.state_space.layers(self.depth) if self.state_space else 0

    @property
    def attentions(self) -> int:
        """Attention branches with weights of their own, including those to an encoder's output."""
        return self.blocks - self.state_layers + self.cross_layers

    def of_layer(self, index: int) -> "Shape":
        """The shape as layer `index`, from 0, is built: without experts if the layer has none, and
        without state spaces if its mixer is attention."""
        is_between = self.experts and (index + 1) % self.experts.every
        layer = replace(self, experts=None) if is_between else self
        attends = self.state_space and not self.state_space.at(index)
        return replace(layer, state_space=None) if attends else layer

    @property
    def branches_per_block(self) -> int:
        """Residual branches of a block: attention and, unless `d_ff` is 0, feed-forward. A layer
        with attention to an encoder's output has one more."""
        return 2 if self.d_ff else 1

    @property
    def branches(self) -> int:
        """Residual branches that a token goes through: a token of the decoder if there is an
        encoder."""
        return self.decoder_depth * self.branches_per_block + self.cross_layers

    @property
    def encoder(self) -> "Shape":
        """The encoder alone; its embedding counts even if both stacks share one."""
        return replace(
            self,
            depth=self.encoder_depth,
            vocab_size=self.source_vocab_size or self.vocab_size,
            tied=True,
            bidirectional=True,
            encoder_depth=0,
            source_vocab_size=0,
        )

    @property
    def post_norm(self) -> bool:
        """True if norms follow the residual sums, so that the stream itself is normed."""
        return self.residual not in (Residual.PRE, Residual.NONE)

    @property
    def norm_biases(self) -> bool:
        """True if norms have a bias as well as a gain."""
        return self.biases and self.norm is Normalization.LAYER

    @property
    def trained_skips(self) -> bool:
        """True if skip connections have trained weights, Admin's omega."""
        return self.residual in (Residual.ADMIN, Residual.ADMIN_CLOSED)

    @property
    def parameter_groups(self) -> dict[str, int]:
        """Parameters by structure; the parts sum to `params_total`. Tied weights count once, and
        `attention` has all mixers of tokens, state spaces among them.

        There is a norm for each branch, and one more for each stack: after the last block or, if
        norms follow the residual sums, after the embedding. Attention to an encoder's output has as
        many weights as self-attention, and an encoder has learned positions of its own.
        """
        attention, feed_forward = self._matrices_of_a_block
        if self.biases:
            attention += self.d_attention + 2 * self.d_kv + self.d_model
            feed_forward += (self.d_ff * (2 if self.gated else 1) + self.d_model) * bool(self.d_ff)
        if self.smeared_keys:
            attention += self.kv_heads
        stacks = 2 if self.encoder_depth else 1
        skips = self.blocks * self.branches_per_block + self.cross_layers
        norms = (skips + stacks) * self.d_model * (2 if self.norm_biases else 1)
        if self.state_space:
            norms += self.state_layers * self.state_space.expand * self.d_attention
        positions = stacks * self.context if self.positions is Positions.LEARNED else 0
        return {
            "embedding": self.vocabulary_matrices + self._source_matrices,
            "positions": positions * self.d_model,
            "attention": self.attentions * attention + sum(self._of_state_spaces),
            "feed_forward": self.feed_forwards * feed_forward + self._routers,
            "norms": norms + self.attentions * self.params_of_head_norms,
            "skips": skips * self.d_model if self.trained_skips else 0,
            "unembedding": 0 if self.tied else self.vocabulary_matrices,
        }

    @property
    def params_of_head_norms(self) -> int:
        """Gains of the norms of queries and of keys in one attention, which all heads share."""
        return 2 * self.head_dim if self.qk_norm else 0

    @property
    def _matrices_of_a_block(self) -> tuple[int, int]:
        """Numbers of weights in the matrix products of a block's attention and feed-forward."""
        matrices = 3 if self.gated else 2
        attention = 2 * self.d_model * (self.d_attention + self.d_kv)
        feed_forward = matrices * self.d_model * self.d_ff
        return attention // self.groups, feed_forward // self.groups

    @property
    def _of_state_spaces(self) -> tuple[int, int]:
        """Numbers of weights in the matrices of all state-space mixers, and in their vectors except
        norms."""
        if self.state_space is None:
            return 0, 0
        heads = self.d_attention, self.n_heads
        of_one = self.state_space.matrices(self.d_model, *heads), self.state_space.vectors(*heads)
        return self.state_layers * of_one[0], self.state_layers * of_one[1]

    @property
    def _routers(self) -> int:
        """Weights of the routers of all layers."""
        return self.expert_layers * self.experts.number * self.d_model if self.experts else 0

    @property
    def _idle_matrices(self) -> int:
        """Weights of the experts that a token does not use, in all layers."""
        idle = self.feed_forwards - self.active_feed_forwards
        return idle * self._matrices_of_a_block[1]

    @property
    def vocabulary_matrices(self) -> int:
        """Weights of an embedding or of the unembedding, whole or in two factors."""
        if self.embedding_rank is None:
            return self.vocab_size * self.d_model
        return (self.vocab_size + self.d_model) * self.embedding_rank

    @property
    def _source_matrices(self) -> int:
        """Weights of the encoder's own embedding; 0 if it has none."""
        if not self.source_vocab_size:
            return 0
        return replace(self, vocab_size=self.source_vocab_size).vocabulary_matrices

    @property
    def _all_matrices(self) -> int:
        """Weights of the matrix products of all blocks."""
        attention, feed_forward = self._matrices_of_a_block
        mixers = self.attentions * attention + self._of_state_spaces[0]
        return mixers + self.feed_forwards * feed_forward + self._routers

    @property
    def params_total(self) -> int:
        """Every trained parameter."""
        if self.own_counts:
            return self.own_counts.total
        return sum(self.parameter_groups.values())

    @property
    def params_active(self) -> int:
        """Parameters that a token uses: all but those of experts that it is not routed to."""
        return self.params_total - self._idle_matrices

    @property
    def counts(self) -> dict[str, int]:
        """The shape's numbers of parameters by name, as answers list them; `params_active` only
        with experts."""
        counts = {name: getattr(self, name) for name in ("params_total", "params_non_embedding")}
        return counts | ({"params_active": self.params_active} if self.experts else {})

    @property
    def params_non_embedding(self) -> int:
        """All parameters but those of token embedding, learned positions and unembedding."""
        if self.own_counts:
            return self.own_counts.non_embedding
        groups = self.parameter_groups
        return sum(groups[name] for name in ("attention", "feed_forward", "norms", "skips"))

    def size(self, count: Count) -> int:
        """Size of the shape in the quantity that a budget fixes; all its parameters if the budget
        leaves the size free."""
        match count:
            case Count.TOTAL | Count.TRAIN_FLOPS | Count.TRAIN_SECONDS:
                return self.params_total
            case Count.NON_EMBEDDING:
                return self.params_non_embedding
            case Count.MATRICES:
                return self._all_matrices
            case Count.ACTIVE:
                return self.params_active
            case Count.FLOPS:
                return round(self.forward_flops_per_token)
            case Count.HEADS:
                return self.depth * self.n_heads
            case Count.WIDTH:
                return self.d_model

    @property
    def forward_flops_per_token(self) -> float:
        """Floating-point operations to predict one token, averaged over a full context.

        Two operations for every weight of a matrix product, each time it is applied. The
        unembedding is such a product, tied or not; looking up an embedding is none, but applying
        its second factor is one. Of the experts, only those that a token is routed to count. Each
        layer adds two products with every position that is seen: all of them or, with causal
        attention, (context + 1) / 2 on average; a state-space layer adds its recurrence and its
        convolution. A user's own model is estimated: the unembedding, and two operations for every
        other parameter. With an encoder, each token of the target comes with one of the source, and
        both sides have the context's length.
        """
        if self.own_counts:
            embedding = self.own_counts.total - self.own_counts.non_embedding
            head = min(embedding, self.vocab_size * self.d_model)
            return 2 * (self.own_counts.non_embedding + head)
        stacks = 2 if self.encoder_depth else 1
        weights = self.depth // self.blocks * (self._all_matrices - self._idle_matrices)
        weights += self.vocabulary_matrices
        if self.embedding_rank is not None:
            weights += stacks * self.embedding_rank * self.d_model
        causal = self.context if self.bidirectional else (self.context + 1) / 2
        seen = (self.decoder_depth - self.state_layers) * causal
        seen += (self.encoder_depth + self.cross_layers) * self.context
        states = (
            self.state_layers * self.state_space.flops(self.d_attention) if self.state_space else 0
        )
        return 2 * weights + 4 * self.d_attention * seen + states

    @property
    def train_flops_per_token(self) -> float:
        """Floating-point operations to train on a token: three times those of a forward pass."""
        return 3 * self.forward_flops_per_token


OPTIONS = {each.name: each.metadata for each in fields(Shape) if each.default is not MISSING}
"""What `option` says of each option of a shape, by the option's name; empty if nothing."""
DEFAULTS = {each.name: each.default for each in fields(Shape) if each.name in OPTIONS}
"""Default of each option of a shape, by the option's name."""
FUSED = {name for name, about in OPTIONS.items() if about.get("fused")}
"""Options that the block of `fused_block.py` has, or that are outside the blocks."""
RARE = [name for name, about in OPTIONS.items() if about.get("rare")]
"""Options of a shape that records have only if they differ from their defaults."""


def option_key(name: str) -> str:
    """Key in a study file of the shape's option `name`, such as `model.attention.qk_norm`."""
    return f"model.{OPTIONS[name].get('key') or name}"


def check_options(options: Mapping[str, Any], *, encoder: bool) -> None:
    """Raises `ValueError` if one of a shape's `options`, by name, does not go with its experts, its
    state-space layers or, if it has one, its encoder."""
    states = options["state_space"]
    parts = {
        ModelPart.ENCODER: encoder,
        ModelPart.EXPERTS: options["experts"],
        ModelPart.STATE_SPACE: states,
        ModelPart.STATES_ALONE: states and "A" not in states.pattern,
    }
    for part in (part for part, is_there in parts.items() if is_there):
        for name, about in OPTIONS.items():
            if part in about.get("lacked_by", ()) and options[name] != DEFAULTS[name]:
                lacking = part.format(pattern=states and states.pattern)
                got = str(options[name]).lower()
                raise OptionError(
                    option_key(name), f"does not go with {lacking}, got {got}; drop it"
                )
