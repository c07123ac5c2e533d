"""The blocks of a transformer: their branches, and how each kind of residual joins them.

Pre-norm blocks keep the stream in units of the residual scale: the beginning of the stream is
scaled instead of every branch. That saves a pass over activations for each branch, and changes
nothing, since every branch begins with a norm, which depends on units only through its epsilon. The
other kinds have no such scale.

Shapes: B batch, T time, U time of the keys, N = B * T, D d_model, H heads, S heads of keys and as
many of values, J = H + S, G = H + 2 S, K head dimension, F d_ff.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fathom.models.network.attention import (
    apart,
    as_complex,
    attend,
    is_exact_on_cpu,
    mixed,
    rotated,
    smeared,
)
from fathom.models.network.decoding_cache import LayerCache
from fathom.models.network.experts import MixtureOfExperts
from fathom.models.network.feed_forward import FeedForward
from fathom.models.network.fused_block import fused_block
from fathom.models.network.grouped_linear import linear
from fathom.models.network.state_space import STATE_VECTORS, StateSpaceMixer, first_values
from fathom.models.options import Normalization, Residual
from fathom.models.parametrization import ForwardScales, Role
from fathom.models.shape import Shape

NORM_EPS = 1e-5


BLOCK_ROLES = {
    "attention_norm": Role.NORM,
    "attention_skip": Role.SKIP,
    "feed_forward_norm": Role.NORM,
    "feed_forward_skip": Role.SKIP,
    "cross_norm": Role.NORM,
    "cross_skip": Role.SKIP,
    "cross_attention.q_norm": Role.NORM,
    "cross_attention.k_norm": Role.NORM,
    "cross_attention.query": Role.CROSS_QUERY,
    "cross_attention.key_value": Role.CROSS_KEY_VALUE,
    "cross_attention.out": Role.ATTENTION_OUT,
    "attention.smear": Role.SMEAR,
    "attention.q_norm": Role.NORM,
    "attention.k_norm": Role.NORM,
    "attention.into": Role.ATTENTION_IN,
    "attention.out": Role.ATTENTION_OUT,
    "attention.state_in": Role.STATE_IN,
    "attention.state_out": Role.STATE_OUT,
    "attention.norm": Role.NORM,
    **dict.fromkeys((f"attention.{name}" for name in STATE_VECTORS), Role.STATE),
    "feed_forward.into": Role.FEED_FORWARD_IN,
    "feed_forward.out": Role.FEED_FORWARD_OUT,
    "feed_forward.router": Role.ROUTER,
    "feed_forward.shared.into": Role.FEED_FORWARD_IN,
    "feed_forward.shared.out": Role.FEED_FORWARD_OUT,
}
"""Role of each weight in a block, by its name without `.weight`, as in `ROLES` of
`transformer.py`."""
FIRST_VALUES = {Role.STATE: first_values}
"""Functions that make initial values from a weight's name and draws between 0 and 1, for the roles
whose weights start neither normal nor constant."""


class Norm(nn.Module):
    """Norm of a stream given in units of `scale`, with a gain and perhaps a bias."""

    def __init__(self, shape: Shape, scale: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape.d_model))
        self.bias = nn.Parameter(torch.zeros(shape.d_model)) if shape.norm_biases else None
        self.centres = shape.norm is Normalization.LAYER
        self.eps = NORM_EPS / scale**2

    def forward(self, x_ND: Tensor, times: float = 1.0) -> Tensor:
        gain_D = self.weight if times == 1.0 else self.weight * times
        if not self.centres:
            # Unlike layer norm's, its kernel wants the gain in the precision of what it scales.
            return F.rms_norm(x_ND, x_ND.shape[-1:], gain_D.to(x_ND.dtype), self.eps)
        bias_D = self.bias if self.bias is None or times == 1.0 else self.bias * times
        return F.layer_norm(x_ND, x_ND.shape[-1:], gain_D, bias_D, self.eps)


class HeadNorm(nn.Module):
    """RMS norm of each head's features, (..., K) to (..., K); all heads share the gain (K,)."""

    def __init__(self, head_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(head_dim))

    def forward(self, x_BTHK: Tensor) -> Tensor:
        return F.rms_norm(x_BTHK, x_BTHK.shape[-1:], self.weight.to(x_BTHK.dtype), NORM_EPS)


def head_norms(shape: Shape) -> tuple[HeadNorm | None, HeadNorm | None]:
    """Norms of each head's queries and of its keys; None without `qk_norm`."""
    return (HeadNorm(shape.head_dim), HeadNorm(shape.head_dim)) if shape.qk_norm else (None, None)


class Attention(nn.Module):
    """Self-attention, (N, D) to (N, D); queries, keys and values come from one product.

    `scale` multiplies the products of queries and keys.
    """

    def __init__(self, shape: Shape, scale: float) -> None:
        super().__init__()
        self.n_heads, self.kv_heads = shape.n_heads, shape.kv_heads
        self.head_dim, self.scale = shape.head_dim, scale
        width = shape.d_attention + 2 * shape.d_kv
        self.into = linear(shape, shape.d_model, width)
        self.out = linear(shape, shape.d_attention, shape.d_model)
        self.q_norm, self.k_norm = head_norms(shape)
        self.smear = nn.Parameter(torch.zeros(shape.kv_heads)) if shape.smeared_keys else None

    def forward(
        self, x_ND: Tensor, T: int, turns_2TJP2: Tensor | None, mask_B11T: Tensor | None
    ) -> Tensor:
        qkv_BTGK = self.heads(x_ND, T)
        y_BTHK = attend(qkv_BTGK, self.kv_heads, turns_2TJP2, self.scale, mask_B11T)
        out: Tensor = self.out(y_BTHK.reshape(len(x_ND), -1))
        return out

    def cached(
        self, x_ND: Tensor, T: int, turns_2TJP2: Tensor | None, mask_TU: Tensor | None,
        kept: LayerCache,
    ) -> Tensor:  # fmt: skip
        """Outputs (N, D) of T new tokens a sequence, whose keys and values are added to `kept`;
        `mask_TU` is the mask of `mixed`."""
        qkv_BTGK = self.heads(x_ND, T, kept)
        q_BTHK, k_BTSK, v_BTSK = rotated(qkv_BTGK, self.kv_heads, turns_2TJP2)
        k_BUSK, v_BUSK = kept.extended(k_BTSK, v_BTSK)
        y_BTHK = mixed(q_BTHK, k_BUSK, v_BUSK, self.scale, mask_TU)
        out: Tensor = self.out(y_BTHK.reshape(len(x_ND), -1))
        return out

    def heads(self, x_ND: Tensor, T: int, kept: LayerCache | None = None) -> Tensor:
        """Queries, keys and values, (B, T, G, K), before they are rotated; `kept` has the last key
        before these tokens, if there is one, and gets the last key of these tokens."""
        heads = self.n_heads + 2 * self.kv_heads
        qkv_BTGK: Tensor = self.into(x_ND).view(-1, T, heads, self.head_dim)
        if self.q_norm is not None and self.k_norm is not None:
            q_BTHK, k_BTSK, v_BTSK = apart(qkv_BTGK, self.kv_heads)
            qkv_BTGK = torch.cat((self.q_norm(q_BTHK), self.k_norm(k_BTSK), v_BTSK), dim=2)
        if self.smear is None:
            return qkv_BTGK
        if kept is None:
            return smeared(qkv_BTGK, self.smear)
        last_key_B1SK = kept.last_key
        kept.last_key = apart(qkv_BTGK[:, -1:], self.kv_heads)[1].clone()
        return smeared(qkv_BTGK, self.smear, last_key_B1SK)


def skip_of(shape: Shape, scales: ForwardScales) -> float | nn.Parameter:
    """The weight of a skip connection: the constant of `scales`, or a trained vector (D,)."""
    return nn.Parameter(torch.ones(shape.d_model)) if shape.trained_skips else scales.skip


class Block(nn.Module):
    """Attention, then feed-forward unless `d_ff` is 0, each joined by the shape's residual. In a
    state-space layer, a state-space mixer takes the place of attention.

    Maps the stream (N, D) to (N, D).

    Pre-norm blocks keep the stream in residual-scale units. The weights of the skip connections of
    post-norm blocks are one constant or trained vectors.
    """

    def __init__(self, shape: Shape, scales: ForwardScales) -> None:
        super().__init__()
        self.post_norm, self.has_skips = shape.post_norm, shape.residual is not Residual.NONE
        self.attention_norm = Norm(shape, scales.residual)
        self.attention: Any = (
            StateSpaceMixer(shape, NORM_EPS)
            if shape.state_space
            else Attention(shape, scales.attention)
        )
        self.feed_forward_norm = Norm(shape, scales.residual) if shape.d_ff else None
        feed_forward = MixtureOfExperts if shape.experts else FeedForward
        self.feed_forward = feed_forward(shape) if shape.d_ff else None
        self.is_plain, self.parts = shape.has_plain_blocks, tuple(self.modules())[1:]

        self.dropout = 0.0
        """Probability that training sets an output of a branch to 0 (Srivastava et al. 2014)."""
        self.compiled: Callable[..., Tensor] | None = None
        """`compute`, compiled for training; None if it is not compiled."""
        self.attention_skip = skip_of(shape, scales)
        self.feed_forward_skip = skip_of(shape, scales) if shape.d_ff else 1.0

    def forward(
        self,
        x_ND: Tensor,
        T: int,
        turns_2TJP2: Tensor | None,
        mask_B11T: Tensor | None,
        *others: Any,
    ) -> Tensor:
        if self.compiled is None or not self.training or torch.compiler.is_compiling():
            return self.compute(x_ND, T, turns_2TJP2, mask_B11T, *others)
        return self.compiled(self, x_ND, T, turns_2TJP2, mask_B11T, *others)

    def branches(self) -> list[tuple[nn.Module, float | Tensor]]:
        """Each residual branch in order, with the weight of its skip: a number or (D,)."""
        both = (self.attention, self.attention_skip), (self.feed_forward, self.feed_forward_skip)
        return [(branch, skip) for branch, skip in both if branch is not None]

    def compute(
        self, x_ND: Tensor, T: int, turns_2TJP2: Tensor | None, mask: Tensor | None,
        kept: LayerCache | None = None,
    ) -> Tensor:  # fmt: skip
        """The stream (N, D) after the block; in decoding, `kept` is the cache of earlier tokens."""
        if kept is None and self._may_be_fused(x_ND):
            return self._fused(x_ND, T, turns_2TJP2)
        return self._fed_forward(self._attended(x_ND, T, turns_2TJP2, mask, kept))

    def _attended(
        self, x_ND: Tensor, T: int, turns_2TJP2: Tensor | None, mask: Tensor | None,
        kept: LayerCache | None,
    ) -> Tensor:  # fmt: skip
        """The stream (N, D) after self-attention."""
        attention: Any = self.attention if kept is None else self.attention.cached
        others = () if kept is None else (kept,)
        return self._joined(
            *(x_ND, self.attention_norm, self.attention_skip, attention),
            *(T, turns_2TJP2, mask, *others),
        )

    def _fed_forward(self, x_ND: Tensor) -> Tensor:
        """The stream (N, D) after the feed-forward branch, if there is one."""
        if self.feed_forward is None or self.feed_forward_norm is None:
            return x_ND
        return self._joined(x_ND, self.feed_forward_norm, self.feed_forward_skip, self.feed_forward)

    def _joined(
        self, x_ND: Tensor, norm: Norm, skip: float | Tensor, branch: nn.Module, *others: Any
    ) -> Tensor:
        """The stream (N, D) after a branch, which gets `others` besides its input."""
        if not self.post_norm:
            branch_ND: Tensor = self._dropped(branch(norm(x_ND), *others))
            return x_ND.add(branch_ND) if self.has_skips else branch_ND
        # The branch comes first: Admin's profile sets the weight of the skip once it has seen it.
        branch_ND = self._dropped(branch(x_ND, *others))
        normed_ND: Tensor = norm(x_ND * skip + branch_ND)
        return normed_ND

    def _dropped(self, branch_ND: Tensor) -> Tensor:
        """The output of a branch with dropout, in training."""
        return F.dropout(branch_ND, self.dropout, self.training) if self.dropout else branch_ND

    def _may_be_fused(self, x_ND: Tensor) -> bool:
        """True if the block trains on a CPU without autocast and no hook watches its parts."""
        if self.dropout or not (self.is_plain and self.training and is_exact_on_cpu(x_ND)):
            return False
        watched = any(part._forward_hooks or part._forward_pre_hooks for part in self.parts)
        return not (watched or torch.is_autocast_enabled("cpu"))

    def _fused(self, x_ND: Tensor, T: int, turns_2TJP2: Tensor | None) -> Tensor:
        norm, attention, feed_forward = self.attention_norm, self.attention, self.feed_forward
        assert isinstance(feed_forward, FeedForward)
        assert self.feed_forward_norm is not None
        turns = None if turns_2TJP2 is None else as_complex(turns_2TJP2, x_ND.dtype)
        return fused_block(
            (T, attention.n_heads, attention.scale, norm.eps, norm.centres, feed_forward.squares),
            turns, x_ND, norm.weight, attention.into.weight, attention.out.weight,
            self.feed_forward_norm.weight, feed_forward.into.weight, feed_forward.out.weight,
        )  # fmt: skip
