"""A model of one's own: blocks whose attention and feed-forward branches read the same norm.

The study beside it, `parallel_blocks.yaml`, gives the weights their roles, so that the learning
rate of the base shape carries over to every shape; from the folder that holds `examples`:

    fathom run examples/parallel_blocks.yaml

Shapes: B batch, T time, D d_model, H heads.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from fathom.models.parametrization import ForwardScales


class ParallelBlock(nn.Module):
    """x + attention(norm(x)) + feed_forward(norm(x)), as in GPT-J."""

    def __init__(self, d_model: int, d_ff: int, n_heads: int, scales: ForwardScales) -> None:
        super().__init__()
        self.n_heads, self.scales = n_heads, scales
        self.norm = nn.RMSNorm(d_model)
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.attention_out = nn.Linear(d_model, d_model, bias=False)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """The stream behind the block."""
        normed_BTD = self.norm(x_BTD)
        q, k, v = self.qkv(normed_BTD).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scales.attention)
        attended_BTD: Tensor = self.attention_out(seen.transpose(1, 2).flatten(2))
        hidden_BTD: Tensor = self.down(F.gelu(self.up(normed_BTD)))
        return x_BTD + self.scales.residual * (attended_BTD + hidden_BTD)


class ParallelModel(nn.Module):
    """Tokens (B, T) to logits (B, T, vocabulary)."""

    def __init__(
        self, depth: int, d_model: int, d_ff: int, n_heads: int, vocab_size: int, context: int,
        scales: ForwardScales,
    ) -> None:  # fmt: skip
        super().__init__()
        self.scales = scales
        self.tokens = nn.Embedding(vocab_size, d_model)
        self.places = nn.Embedding(context, d_model)
        self.blocks = nn.Sequential(
            *(ParallelBlock(d_model, d_ff, n_heads, scales) for _ in range(depth))
        )
        self.final_norm = nn.RMSNorm(d_model)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """The logits; the unembedding is the embedding."""
        x_BTD = self.tokens(tokens_BT) + self.places.weight[: tokens_BT.shape[1]]
        x_BTD = self.final_norm(self.blocks(x_BTD)) * self.scales.logits
        return F.linear(x_BTD, self.tokens.weight)
