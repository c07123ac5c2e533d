"""One decoder-only transformer, whole: pre-norm, causal, every size taken from a `Shape`.

Shapes: B batch, T time, D d_model, H heads, K head dimension, F d_ff, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.parametrization import ForwardScales, Parametrization, Role, forward_scales, rules
from models.shape import Positions, Shape

ROTARY_BASE = 10_000.0


class Norm(nn.Module):
    """Layer norm with a gain and no bias."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x_BTD: Tensor) -> Tensor:
        return F.layer_norm(x_BTD, x_BTD.shape[-1:], self.weight)


class Attention(nn.Module):
    """Causal self-attention; queries, keys and values come from one product."""

    def __init__(self, shape: Shape, scale: float) -> None:
        super().__init__()
        self.n_heads, self.head_dim, self.scale = shape.n_heads, shape.head_dim, scale
        self.into = nn.Linear(shape.d_model, 3 * shape.d_attention, bias=False)
        self.out = nn.Linear(shape.d_attention, shape.d_model, bias=False)

    def forward(self, x_BTD: Tensor, rotary_2TK: Tensor | None) -> Tensor:
        B, T, _ = x_BTD.shape
        qkv_BTNK = self.into(x_BTD).view(B, T, 3 * self.n_heads, self.head_dim)
        qk_BTNK, v_BTHK = qkv_BTNK.split((2 * self.n_heads, self.n_heads), dim=2)
        if rotary_2TK is not None:
            qk_BTNK = rotate(qk_BTNK, rotary_2TK)
        q_BTHK, k_BTHK = qk_BTNK.chunk(2, dim=2)
        y_BHTK = F.scaled_dot_product_attention(
            q_BTHK.transpose(1, 2),
            k_BTHK.transpose(1, 2),
            v_BTHK.transpose(1, 2),
            is_causal=True,
            scale=self.scale,
        )
        out: Tensor = self.out(y_BHTK.transpose(1, 2).reshape(B, T, -1))
        return out


class FeedForward(nn.Module):
    """GELU, or gated: SiLU(gate) * value (Shazeer 2020)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gated = shape.gated
        self.into = nn.Linear(shape.d_model, shape.d_ff * (2 if shape.gated else 1), bias=False)
        self.out = nn.Linear(shape.d_ff, shape.d_model, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        hidden = self.into(x_BTD)
        if self.gated:
            gate_BTF, value_BTF = hidden.chunk(2, dim=-1)
            hidden = F.silu(gate_BTF) * value_BTF
        else:
            hidden = F.gelu(hidden)
        out: Tensor = self.out(hidden)
        return out


class Block(nn.Module):
    """Attention, then feed-forward unless `d_ff` is 0; each branch is scaled before it is added."""

    def __init__(self, shape: Shape, scales: ForwardScales) -> None:
        super().__init__()
        self.residual_scale = scales.residual
        self.attention_norm = Norm(shape.d_model)
        self.attention = Attention(shape, scales.attention)
        self.feed_forward_norm = Norm(shape.d_model) if shape.d_ff else None
        self.feed_forward = FeedForward(shape) if shape.d_ff else None

    def forward(self, x_BTD: Tensor, rotary_2TK: Tensor | None) -> Tensor:
        branch_BTD = self.attention(self.attention_norm(x_BTD), rotary_2TK)
        x_BTD = torch.add(x_BTD, branch_BTD, alpha=self.residual_scale)
        if self.feed_forward is None or self.feed_forward_norm is None:
            return x_BTD
        branch_BTD = self.feed_forward(self.feed_forward_norm(x_BTD))
        return torch.add(x_BTD, branch_BTD, alpha=self.residual_scale)


class Transformer(nn.Module):
    """Tokens (B, T) to logits (B, T, V)."""

    def __init__(self, shape: Shape, parametrization: Parametrization) -> None:
        super().__init__()
        scales = forward_scales(parametrization, shape)
        self.shape, self.parametrization, self.logit_scale = shape, parametrization, scales.logits
        self.embedding = nn.Embedding(shape.vocab_size, shape.d_model)
        self.positions = None
        if shape.positions is Positions.LEARNED:
            self.positions = nn.Parameter(torch.empty(shape.context, shape.d_model))
        self.rotary: Tensor | None
        self.register_buffer("rotary", None, persistent=False)
        self.reset_tables()
        self.blocks = nn.ModuleList(Block(shape, scales) for _ in range(shape.depth))
        self.final_norm = Norm(shape.d_model)
        self.unembedding = None
        if not shape.tied:
            self.unembedding = nn.Linear(shape.d_model, shape.vocab_size, bias=False)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        T = tokens_BT.shape[1]
        x_BTD = self.embedding(tokens_BT)
        if self.positions is not None:
            x_BTD = x_BTD + self.positions[:T]
        rotary_2TK = None if self.rotary is None else self.rotary[:, :T]
        for block in self.blocks:
            x_BTD = block(x_BTD, rotary_2TK)
        x_BTD = self.final_norm(x_BTD) * self.logit_scale
        head = self.embedding.weight if self.unembedding is None else self.unembedding.weight
        logits_BTV: Tensor = F.linear(x_BTD, head)
        return logits_BTV

    def reset_tables(self) -> None:
        """Fill what is computed, not trained, on the device of the weights."""
        if self.shape.positions is Positions.ROTARY:
            self.rotary = rotary_table(self.shape, self.embedding.weight.device)

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Draw every weight by the rule of its role; gains start at 1."""
        by_role = rules(self.parametrization, self.shape)
        for name, parameter in self.named_parameters():
            role = role_of(name)
            if role in (Role.NORM, Role.FINAL_NORM):
                parameter.fill_(1.0)
            else:
                parameter.normal_(0.0, by_role[role].init_std, generator=generator)


ROLES = {
    "embedding.weight": Role.EMBEDDING,
    "positions": Role.POSITIONS,
    "final_norm.weight": Role.FINAL_NORM,
    "unembedding.weight": Role.UNEMBEDDING,
    "attention_norm.weight": Role.NORM,
    "feed_forward_norm.weight": Role.NORM,
    "attention.into.weight": Role.ATTENTION_IN,
    "attention.out.weight": Role.ATTENTION_OUT,
    "feed_forward.into.weight": Role.FEED_FORWARD_IN,
    "feed_forward.out.weight": Role.FEED_FORWARD_OUT,
}


def role_of(name: str) -> Role:
    """The role of a parameter by its name in `named_parameters`."""
    if name.startswith("blocks."):
        name = name.split(".", 2)[2]
    return ROLES[name]


def rotary_table(shape: Shape, device: torch.device) -> Tensor:
    """Cosine and signed sine for every position and feature, (2, T, K) (Su et al. 2021)."""
    half = shape.head_dim // 2
    frequency_k = ROTARY_BASE ** (-torch.arange(half, device=device) / half)
    angle_Tk = torch.outer(torch.arange(shape.context, device=device), frequency_k)
    sin_Tk = angle_Tk.sin()
    cos_TK = torch.cat((angle_Tk.cos(), angle_Tk.cos()), dim=-1)
    return torch.stack((cos_TK, torch.cat((-sin_Tk, sin_Tk), dim=-1)))


def rotate(x_BTNK: Tensor, rotary_2TK: Tensor) -> Tensor:
    """Turn each pair (i, i + K/2) by its position's angle."""
    cos_T1K, sin_T1K = rotary_2TK.to(x_BTNK.dtype)[:, :, None]
    swapped_BTNK = x_BTNK.roll(x_BTNK.shape[-1] // 2, dims=-1)
    turned_BTNK: Tensor = x_BTNK * cos_T1K + swapped_BTNK * sin_T1K
    return turned_BTNK
