"""One decoder-only transformer, whole: pre-norm, causal, every size taken from a `Shape`.

Between the blocks a sequence lies in units of the residual scale: instead of every branch, its
beginning is scaled. A norm, which comes first in every branch, sees no units but through its
epsilon. That saves a pass over activations for each branch.

Shapes: B batch, T time, N = B * T, D d_model, H heads, K head dimension, F d_ff, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.attention import attend
from models.parametrization import ForwardScales, Parametrization, Role, forward_scales, rules
from models.shape import Positions, Shape

ROTARY_BASE = 10_000.0
NORM_EPS = 1e-5


class Norm(nn.Module):
    """Layer norm with a gain and no bias, of what is given in units of `scale`."""

    def __init__(self, width: int, scale: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = NORM_EPS / scale**2

    def forward(self, x_ND: Tensor, times: float = 1.0) -> Tensor:
        gain_D = self.weight if times == 1.0 else self.weight * times
        return F.layer_norm(x_ND, x_ND.shape[-1:], gain_D, eps=self.eps)


class Attention(nn.Module):
    """Causal self-attention; queries, keys and values come from one product."""

    def __init__(self, shape: Shape, scale: float) -> None:
        super().__init__()
        self.n_heads, self.head_dim, self.scale = shape.n_heads, shape.head_dim, scale
        self.into = nn.Linear(shape.d_model, 3 * shape.d_attention, bias=False)
        self.out = nn.Linear(shape.d_attention, shape.d_model, bias=False)

    def forward(self, x_ND: Tensor, T: int, turns_2T2HP2: Tensor | None) -> Tensor:
        qkv_BT3HK = self.into(x_ND).view(-1, T, 3, self.n_heads, self.head_dim)
        y_BTHK = attend(qkv_BT3HK, turns_2T2HP2, self.scale)
        out: Tensor = self.out(y_BTHK.reshape(len(x_ND), -1))
        return out


class FeedForward(nn.Module):
    """GELU, or gated: SiLU(gate) * value (Shazeer 2020)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gated = shape.gated
        self.into = nn.Linear(shape.d_model, shape.d_ff * (2 if shape.gated else 1), bias=False)
        self.out = nn.Linear(shape.d_ff, shape.d_model, bias=False)

    def forward(self, x_ND: Tensor) -> Tensor:
        hidden = self.into(x_ND)
        if self.gated:
            gate_NF, value_NF = hidden.chunk(2, dim=-1)
            hidden = F.silu(gate_NF) * value_NF
        else:
            hidden = F.gelu(hidden)
        out: Tensor = self.out(hidden)
        return out


class Block(nn.Module):
    """Attention, then feed-forward unless `d_ff` is 0; units of the residual scale."""

    def __init__(self, shape: Shape, scales: ForwardScales) -> None:
        super().__init__()
        self.attention_norm = Norm(shape.d_model, scales.residual)
        self.attention = Attention(shape, scales.attention)
        self.feed_forward_norm = Norm(shape.d_model, scales.residual) if shape.d_ff else None
        self.feed_forward = FeedForward(shape) if shape.d_ff else None

    def forward(self, x_ND: Tensor, T: int, turns_2T2HP2: Tensor | None) -> Tensor:
        x_ND = x_ND.add(self.attention(self.attention_norm(x_ND), T, turns_2T2HP2))
        if self.feed_forward is None or self.feed_forward_norm is None:
            return x_ND
        return x_ND.add(self.feed_forward(self.feed_forward_norm(x_ND)))


class Transformer(nn.Module):
    """Tokens (B, T) to logits (B, T, V)."""

    def __init__(self, shape: Shape, parametrization: Parametrization) -> None:
        super().__init__()
        self.shape, self.parametrization = shape, parametrization
        self.scales = scales = forward_scales(parametrization, shape)
        self.embedding = nn.Embedding(shape.vocab_size, shape.d_model)
        self.positions = None
        if shape.positions is Positions.LEARNED:
            self.positions = nn.Parameter(torch.empty(shape.context, shape.d_model))
        self.rotary: Tensor | None
        self.register_buffer("rotary", None, persistent=False)
        self.reset_tables()
        self.blocks = nn.ModuleList(Block(shape, scales) for _ in range(shape.depth))
        self.final_norm = Norm(shape.d_model, scales.residual)
        self.unembedding = None
        if not shape.tied:
            self.unembedding = nn.Linear(shape.d_model, shape.vocab_size, bias=False)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        T = tokens_BT.shape[1]
        turns_2T2HP2 = None if self.rotary is None else self.rotary[:, :T]
        x_ND = self._embed(tokens_BT)
        for block in self.blocks:
            x_ND = block(x_ND, T, turns_2T2HP2)
        x_ND = self.final_norm(x_ND, self.scales.logits)
        head = self.embedding.weight if self.unembedding is None else self.unembedding.weight
        logits_NV: Tensor = F.linear(x_ND, head)
        return logits_NV.view(*tokens_BT.shape, -1)

    def _embed(self, tokens_BT: Tensor) -> Tensor:
        """What the first block reads, in units of the residual scale."""
        x_BTD: Tensor = self.embedding(tokens_BT)
        if self.positions is not None:
            x_BTD = x_BTD + self.positions[: tokens_BT.shape[1]]
        if self.scales.residual != 1.0:
            x_BTD = x_BTD / self.scales.residual
        return x_BTD.flatten(0, 1)

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
    """Turns of every position and pair of features, there and back (Su et al. 2021).

    Each is a cosine and a sine. They are written out for queries, keys and every head, so that one
    product runs over whole positions: (2, T, 2, H, P, 2).
    """
    pairs = shape.head_dim // 2
    frequency_P = ROTARY_BASE ** (-torch.arange(pairs, device=device) / pairs)
    angle_TP = torch.outer(torch.arange(shape.context, device=device), frequency_P)
    angle_2TP = torch.stack((angle_TP, -angle_TP))
    turns_2TP2 = torch.stack((angle_2TP.cos(), angle_2TP.sin()), dim=-1)
    return turns_2TP2[:, :, None, None].repeat(1, 1, 2, shape.n_heads, 1, 1)
