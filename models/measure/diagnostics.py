"""Diagnostics of the layers of a model on a few sequences; the model is not changed.

Shapes: B batch, T time, N = B * T, D d_model, H heads, K head dimension, L layers, P parameters.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from fathom.models.network.attention import apart, full_precision, of_each_query, pattern
from fathom.models.network.blocks import Attention
from fathom.models.network.grouped_linear import whole_matrix
from fathom.models.network.transformer import Transformer
from fathom.models.optim import Optimizer

BLOCK = 25
"""Tokens of the random block that is repeated (Olsson et al. 2022)."""
REPEATS = 4
FEWEST = 4
"""Fewest tokens of a repeated block from which induction is measured."""
SEQUENCES = 4

Measures = dict[str, Tensor]
"""Metrics of one layer by name, each a scalar or one number per head (H,)."""


@torch.no_grad()
def layers_on_text(model: Transformer, tokens_BT: Tensor, *sources_BU: Tensor) -> dict[str, Tensor]:
    """Metrics (L,) of the layers by name: differences between tokens, and patterns of
    self-attention, if every layer has it. With sources, layers of the encoder come first.

    `rank_ratio`: norm of the stream without its mean over tokens, divided by the norm of the whole
    stream; 0 when all tokens have become equal (Dong et al. 2021, with their composite norm).
    `attention_entropy`: nats, mean over heads and queries. `mass_self`, `mass_previous`: attention
    to a token itself and to the one before it, mean over heads (Clark et al. 2019).
    `previous_token`: attention to the token before, of the best head.
    """

    def of_heads(weights_BHTT: Tensor) -> Measures:
        previous_H = weights_BHTT.diagonal(-1, -2, -1).mean((0, 2))
        return {
            "attention_entropy": torch.special.entr(weights_BHTT).sum(-1).mean(),
            "mass_self": weights_BHTT.diagonal(0, -2, -1).mean(),
            "mass_previous": previous_H.mean(),
            "previous_token": previous_H.max(),
        }

    ratios: list[Tensor] = []

    def look(block: Any, inputs: Any, x_ND: Tensor) -> None:
        ratios.append(rank_ratio(x_ND.view(-1, inputs[1], x_ND.shape[-1])))

    with (
        _watching(model, of_heads) as rows,
        _hooks(block.register_forward_hook(look) for _, block in model.named_blocks()),
    ):
        model(tokens_BT, *sources_BU)
    return _stacked(rows) | {"rank_ratio": torch.stack(ratios)}


def rank_ratio(x_BTD: Tensor) -> Tensor:
    """Mean over sequences of |X - mean over tokens| / |X|, a scalar, of a stream (B, T, D).

    The norm is sqrt(|X|_1 |X|_inf), as in Dong et al. 2021.
    """
    rest_BTD = x_BTD - x_BTD.mean(1, keepdim=True)
    return (_composite_norm(rest_BTD) / _composite_norm(x_BTD)).mean()


def _composite_norm(x_BTD: Tensor) -> Tensor:
    sizes_BTD = x_BTD.float().abs()
    return (sizes_BTD.sum(1).amax(-1) * sizes_BTD.sum(2).amax(-1)).sqrt()


@torch.no_grad()
def layers_on_repeats(model: Transformer, seed: int) -> dict[str, Tensor]:
    """Metrics (L,) of the best head by name; empty if the context or the vocabulary is too small or
    a layer has no attention.

    `induction`: attention from a token to those right after its earlier copies, mean over the
    tokens that have one ("prefix matching" of Olsson et al. 2022). `copying`: when a head writes a
    token of the block, through the unembedding, the token's own share of all logits that rise above
    the mean of the vocabulary. By chance it is about one in 25 (the raw ratio of Olsson et al.).
    """
    tokens_BT, period = repeated_tokens(model, seed)
    if period < FEWEST or not _attentions(model):
        return {}
    T = tokens_BT.shape[1]

    def of_heads(weights_BHTT: Tensor) -> Measures:
        return {"induction": prefix_matching(weights_BHTT, period).max()}

    directions_BTD, mean_D = _directions(model, tokens_BT[:, :period])
    copying: list[Tensor] = []

    def look(attention: Attention, inputs: tuple[Any, ...]) -> None:
        _, _, v_BTSK = apart(attention.heads(inputs[0], T)[:, :period], attention.kv_heads)
        values_BTHK = of_each_query(v_BTSK.float(), attention.n_heads)
        heads = attention.n_heads, attention.head_dim
        out_DHK = whole_matrix(attention.out).float().view(-1, *heads)
        with full_precision(values_BTHK):
            written_BTHD = torch.einsum("bthk,dhk->bthd", values_BTHK, out_DHK)
            raised_BHTT = torch.einsum("bthd,bsd->bhts", written_BTHD, directions_BTD - mean_D)
        raised_BHTT = raised_BHTT.relu()
        shares_BHT = raised_BHTT.diagonal(0, -2, -1) / raised_BHTT.sum(-1).clamp(min=1e-30)
        copying.append(shares_BHT.mean((0, 2)).max())

    with (
        _watching(model, of_heads) as rows,
        _hooks(attention.register_forward_pre_hook(look) for attention in _attentions(model)),
    ):
        model(tokens_BT)
    return _stacked(rows) | {"copying": torch.stack(copying)}


def prefix_matching(weights_BHTT: Tensor, period: int) -> Tensor:
    """Mean attention of each head, (H,), from repeated tokens to those right after their earlier
    copies.

    A block of `period` tokens is repeated to the end.
    """
    T = weights_BHTT.shape[-1]
    sought_TT = torch.zeros(T, T, device=weights_BHTT.device)
    for back in range(period, T, period):
        rows = torch.arange(back, T)
        sought_TT[rows, rows - back + 1] = 1.0
    return (weights_BHTT * sought_TT).sum(-1)[..., period:].mean((0, 2))


def repeated_tokens(model: Transformer, seed: int) -> tuple[Tensor, int]:
    """Blocks of distinct random tokens, each repeated, (B, T), and the length of a block.

    Token 0, which is padding in some vocabularies, is left out.
    """
    shape = model.shape
    period = min(BLOCK, shape.vocab_size - 1, shape.context // 2)
    generator = torch.Generator().manual_seed(seed)
    order_BV = torch.rand(SEQUENCES, shape.vocab_size - 1, generator=generator).argsort(-1)
    blocks_BT = order_BV[:, :period] + 1
    times = min(REPEATS, shape.context // max(1, period))
    return blocks_BT.repeat(1, times).to(model.embedding.weight.device), period


def gradient_layers(model: Transformer, optimizer: Optimizer) -> Tensor:
    """Norm of the last step's gradient before clipping, of each block, (L,)."""
    assert optimizer.norms_P is not None, "before the first step there is no gradient"
    return block_norms(model, optimizer, optimizer.norms_P)


def block_norms(model: Transformer, optimizer: Optimizer, norms_XP: Tensor) -> Tensor:
    """Norms (..., L) of blocks, from the norms of parameters (..., P) in the order of
    `optimizer`."""
    blocks = [
        [place for place, name in enumerate(optimizer.names_P) if name.startswith(f"{block}.")]
        for block, _ in model.named_blocks()
    ]
    return torch.stack([norms_XP[..., places].square().sum(-1).sqrt() for places in blocks], dim=-1)


def _directions(model: Transformer, tokens_BT: Tensor) -> tuple[Tensor, Tensor]:
    """Directions of the stream that raise the logit of each token, (B, T, D), and all logits, (D,).

    The final norm divides all features alike, so only its gain counts.
    """
    head_VR, projection_RD = model.head()
    rows = (head_VR[tokens_BT].float(), head_VR.float().mean(0))
    if projection_RD is not None:
        with full_precision(projection_RD):
            rows = (rows[0] @ projection_RD, rows[1] @ projection_RD)
    if model.final_norm is not None:
        rows = (rows[0] * model.final_norm.weight, rows[1] * model.final_norm.weight)
    return rows


@contextmanager
def _watching(
    model: Transformer, measure: Callable[[Tensor], Measures]
) -> Iterator[list[Measures]]:
    """Yields a list that fills with the measures of each layer's attention weights (B, H, T, T)."""
    rows: list[Measures] = []

    def look(attention: Attention, inputs: tuple[Any, ...]) -> None:
        x_ND, T, turns_2TJP2, mask_B11T = inputs
        qkv_BTGK = attention.heads(x_ND, T)
        how = (attention.kv_heads, turns_2TJP2, attention.scale, mask_B11T)
        rows.append(measure(pattern(qkv_BTGK, *how)))

    with _hooks(attention.register_forward_pre_hook(look) for attention in _attentions(model)):
        yield rows


def _attentions(model: Transformer) -> list[Attention]:
    """The attention of each layer; empty unless every layer has it."""
    mixers = [block.attention for _, block in model.named_blocks()]
    return mixers if all(isinstance(mixer, Attention) for mixer in mixers) else []


def _hooks(handles: Iterable[RemovableHandle]) -> ExitStack:
    """A context that removes the hooks of all handles at its end."""
    stack = ExitStack()
    for handle in handles:
        stack.enter_context(handle)
    return stack


def _stacked(rows: list[Measures]) -> dict[str, Tensor]:
    return {name: torch.stack([row[name] for row in rows]) for row in rows[:1] for name in row}
