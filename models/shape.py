"""The size of a transformer and everything that follows from it in closed form.

Standard library only: planning a search must not wait for a deep-learning framework.
"""

from dataclasses import dataclass
from enum import StrEnum


class Positions(StrEnum):
    """How a model knows where a token stands."""

    NONE = "none"
    LEARNED = "learned"
    ROTARY = "rotary"


class Count(StrEnum):
    """Which parameters a budget counts. The same runs name different depths under the two."""

    TOTAL = "total"
    NON_EMBEDDING = "non_embedding"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One decoder-only transformer, exactly as it is built: nothing is rounded later.

    Attention is `n_heads * head_dim` wide, which need not equal `d_model`. `d_ff = 0` leaves the
    feed-forward branch and its norm out. Norms have a gain and no bias; linear maps have no bias.

    Raises:
        ValueError: when a size is out of range.
    """

    depth: int
    d_model: int
    d_ff: int
    n_heads: int
    head_dim: int
    vocab_size: int
    context: int
    gated: bool = False
    tied: bool = True
    positions: Positions = Positions.ROTARY

    def __post_init__(self) -> None:
        for name in ("depth", "d_model", "n_heads", "head_dim", "vocab_size", "context"):
            value = getattr(self, name)
            if value < 1:
                raise ValueError(f"`{name}` must be at least 1, got {value}")
        if self.d_ff < 0:
            raise ValueError(f"`d_ff` must be at least 0, got {self.d_ff}")
        if self.positions is Positions.ROTARY and self.head_dim % 2:
            raise ValueError(
                f"rotary positions turn pairs, so `head_dim` must be even, got {self.head_dim}; "
                f"use {self.head_dim + 1} or `positions: learned`"
            )

    @property
    def ff_ratio(self) -> float:
        """`d_ff / d_model`."""
        return self.d_ff / self.d_model

    @property
    def d_attention(self) -> int:
        """Width of all heads together."""
        return self.n_heads * self.head_dim

    @property
    def parameter_groups(self) -> dict[str, int]:
        """Parameters by structure; the parts sum to `params_total`. Tied weights count once."""
        matrices = 3 if self.gated else 2
        norms_per_block = 2 if self.d_ff else 1
        return {
            "embedding": self.vocab_size * self.d_model,
            "positions": self.context * self.d_model if self.positions is Positions.LEARNED else 0,
            "attention": self.depth * 4 * self.d_model * self.d_attention,
            "feed_forward": self.depth * matrices * self.d_model * self.d_ff,
            "norms": (self.depth * norms_per_block + 1) * self.d_model,
            "unembedding": 0 if self.tied else self.vocab_size * self.d_model,
        }

    @property
    def params_total(self) -> int:
        """Every trained parameter."""
        return sum(self.parameter_groups.values())

    @property
    def params_non_embedding(self) -> int:
        """All but token embedding, learned positions and unembedding (Kaplan et al. 2020)."""
        groups = self.parameter_groups
        return groups["attention"] + groups["feed_forward"] + groups["norms"]

    def params(self, count: Count) -> int:
        """Parameters under one of the two counts."""
        return self.params_total if count is Count.TOTAL else self.params_non_embedding

    @property
    def forward_flops_per_token(self) -> float:
        """Floating-point operations to predict one token, averaged over a full context.

        Two for every weight of a matrix product (the unembedding is one, tied or not; looking up
        an embedding is none), and in each layer two products with every earlier position, of which
        causal attention has (context + 1) / 2 on average.
        """
        groups = self.parameter_groups
        weights = groups["attention"] + groups["feed_forward"] + self.vocab_size * self.d_model
        attention = self.depth * 4 * self.d_attention * (self.context + 1) / 2
        return 2 * weights + attention

    @property
    def train_flops_per_token(self) -> float:
        """Forward and backward: the backward pass costs two forward passes."""
        return 3 * self.forward_flops_per_token
