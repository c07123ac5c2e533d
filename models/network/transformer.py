"""A transformer from embedding to logits or loss, with every size and option of a `Shape`.

Shapes: B batch, T time, N = B * T, D d_model, R embedding rank, V vocabulary.
"""

import warnings
from collections.abc import Iterator
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from fathom.models.network.attention import not_padding
from fathom.models.network.blocks import BLOCK_ROLES, FIRST_VALUES, Block, Norm
from fathom.models.network.chunked_loss import LossOfChunk, LossTerms, chunked_loss, loss_of_chunk
from fathom.models.network.decoding_cache import DecodingCache
from fathom.models.options import Positions, Residual
from fathom.models.parametrization import (
    Parametrization,
    Role,
    Rule,
    deepnorm_gain,
    first_skip,
    forward_scales,
    rules,
)
from fathom.models.shape import Shape

ROTARY_BASE = 10_000.0
HAVE_VALUES = (Role.ATTENTION_IN, Role.CROSS_KEY_VALUE)
"""Roles of the matrices whose last rows give the values of attention."""


class OverRows(Protocol):
    """Computes a function of a model and of a batch in several processes, each for some rows."""

    processes: int

    def __call__(self, compute: Any, batch: Any) -> Tensor:
        """The tensor that the function returns for all rows, in their order."""


class Transformer(nn.Module):
    """Tokens (B, T) to logits (B, T, V).

    A norm follows the last block. If norms follow the residual sums, the last block already ends in
    a norm, and the extra norm follows the embedding instead, so that every branch reads a stream of
    unit variance.

    Raises:
        ValueError: when the parametrization has no rules for the shape's kind of residual.
    """

    computes_loss = True
    """True: a call can return the loss of its tokens instead of their logits."""

    _block_type: type[Block] = Block

    def __init__(self, shape: Shape, parametrization: Parametrization, *, read_by: int = 0) -> None:
        super().__init__()
        self.recomputes = False
        """True to compute a block's activations again in the backward pass, to save memory."""
        self.shape, self.parametrization = shape, parametrization
        self.read_by = read_by
        """Number of decoder layers that read this stack's output, if it is an encoder."""
        self.dropout = 0.0
        self.label_smoothing = 0.0
        """Share of each target that training spreads over the vocabulary (Szegedy et al. 2016)."""
        self.compiled_chunk: LossOfChunk | None = None
        """`loss_of_chunk`, compiled for training; None if it is not compiled."""
        self.over_rows: OverRows | None = None
        """Processes that evaluate this model together; None if one process does it alone."""
        self.scales = scales = forward_scales(parametrization, shape, read_by=read_by)
        self.embedding = nn.Embedding(shape.vocab_size, shape.embedding_rank or shape.d_model)
        self.embedding_projection = _projection(shape)
        self.positions = None
        if shape.positions is Positions.LEARNED:
            self.positions = nn.Parameter(torch.empty(shape.context, shape.d_model))
        self.rotary: Tensor | None
        self.register_buffer("rotary", None, persistent=False)
        self.reset_tables()
        self.embedding_norm = Norm(shape, 1.0) if shape.post_norm else None
        own_blocks = shape.blocks - shape.encoder_depth
        self.blocks = nn.ModuleList(
            self._block_type(shape.of_layer(index), scales) for index in range(own_blocks)
        )
        self.final_norm = None if shape.post_norm else Norm(shape, scales.residual)
        self.unembedding, self.unembedding_projection = None, None
        if not shape.tied:
            width = shape.embedding_rank or shape.d_model
            self.unembedding = nn.Linear(width, shape.vocab_size, bias=False)
            self.unembedding_projection = _projection(shape)

    def named_blocks(self) -> Iterator[tuple[str, Block]]:
        """Yields each block with its name, those of an encoder first."""
        for index, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            yield f"blocks.{index}", block

    def forward(self, tokens_BT: Tensor, loss: LossTerms | None = None) -> Tensor:
        """Logits (B, T, V) or, with `loss`, the loss of the tokens without all of their logits."""
        return self._answer(self._stream(tokens_BT), tokens_BT, loss)

    def _stream(self, tokens_BT: Tensor, *others: Any) -> Tensor:
        """The last block's stream (N, D); blocks get `others` as well."""
        T = tokens_BT.shape[1]
        turns_2TJP2 = None if self.rotary is None else self.rotary[:, :T]
        mask_B11T = not_padding(tokens_BT) if self.shape.bidirectional else None
        x_ND = self._embed(tokens_BT)
        for block in self._layers():
            x_ND = self._through(block, x_ND, T, turns_2TJP2, mask_B11T, *others)
        return x_ND

    def _layers(self) -> list[nn.Module]:
        """The block of each layer, in order; looped layers share one."""
        return [*self.blocks] * (self.shape.depth // self.shape.blocks)

    def new_cache(self, room: int = 0) -> DecodingCache:
        """An empty cache for `decode`, with memory for `room` tokens to begin with."""
        return DecodingCache(room=room)

    def decode(self, tokens_BT: Tensor, cache: DecodingCache, *, last: bool = False) -> Tensor:
        """Logits (B, T, V) of tokens that follow the cached ones and are added to the cache; with
        `last` only the logits of the last token, (B, 1, V).

        Raises:
            ValueError: when the model attends in both directions.
        """
        if self.shape.bidirectional:
            raise ValueError("a `bidirectional` model does not decode token by token")
        x_ND = self._cached_stream(tokens_BT, cache)
        if last:
            x_ND, tokens_BT = x_ND.view(*tokens_BT.shape, -1)[:, -1], tokens_BT[:, -1:]
        return self._answer(x_ND, tokens_BT, None)

    def _cached_stream(self, tokens_BT: Tensor, cache: DecodingCache, *others: Any) -> Tensor:
        """The last block's stream (N, D) of tokens that follow those in the cache."""
        start, T, layers = cache.length, tokens_BT.shape[1], self._layers()
        turns_2TJP2 = None if self.rotary is None else self.rotary[:, start : start + T]
        mask_TU = None
        if start and T > 1:
            mask_TU = torch.ones(T, start + T, dtype=torch.bool, device=tokens_BT.device).tril(
                start
            )
        x_ND = self._embed(tokens_BT, start)
        for block, kept in zip(layers, cache.of_layers(len(layers)), strict=True):
            x_ND = block(x_ND, T, turns_2TJP2, mask_TU, *others, kept)
        cache.length += T
        return x_ND

    def _answer(self, x_ND: Tensor, tokens_BT: Tensor, loss: LossTerms | None) -> Tensor:
        """Logits (B, T, V) or the loss, from the last block's stream."""
        x_ND, head_VD = self._before_head(x_ND)
        if loss is not None:
            of_chunk = self.compiled_chunk if self.training else None
            return chunked_loss(x_ND, head_VD, *loss, of_chunk=of_chunk)
        return F.linear(x_ND, head_VD).view(*tokens_BT.shape, -1)

    def regularise(self, *, dropout: float, label_smoothing: float) -> None:
        """Sets the probability `dropout` of embeddings and branches, and the share
        `label_smoothing` of each target that the loss spreads over the vocabulary."""
        self.label_smoothing = label_smoothing
        for module in self.modules():
            if isinstance(module, Transformer | Block):
                module.dropout = dropout

    def compile_blocks(self) -> None:
        """Compiles one block for training; its code serves all blocks, as only their weights
        differ. The loss of a chunk of tokens is compiled as well.

        Compiling takes the same time for any depth.
        """
        # The compiler looks at gradients of a block's input, which is no leaf but for the first.
        warnings.filterwarnings("ignore", r"The \.grad attribute of a Tensor", UserWarning)
        compiled = torch.compile(self._block_type.compute, dynamic=False)
        for block in self.blocks:
            assert isinstance(block, Block)
            block.compiled = compiled
        self.compiled_chunk = torch.compile(loss_of_chunk, dynamic=False)

    def uncompile_blocks(self) -> None:
        """Undoes `compile_blocks`."""
        self.compiled_chunk = None
        for module in self.modules():
            if isinstance(module, Block):
                module.compiled = None

    def _through(self, block: nn.Module, *inputs: Any) -> Tensor:
        """Output (N, D) of a block."""
        recomputes = self.recomputes and torch.is_grad_enabled()
        out_ND: Tensor = (
            checkpoint(block, *inputs, use_reentrant=False, preserve_rng_state=self.dropout > 0)
            if recomputes
            else block(*inputs)
        )
        return out_ND

    def _embed(self, tokens_BT: Tensor, start: int = 0) -> Tensor:
        """Input of the first block, (N, D), in units of the residual scale."""
        x_BTD: Tensor = self.embedding(tokens_BT)
        if self.embedding_projection is not None:
            x_BTD = x_BTD @ self.embedding_projection
        if self.positions is not None:
            x_BTD = x_BTD + self.positions[start : start + tokens_BT.shape[1]]
        if self.embedding_norm is not None:
            x_BTD = self.embedding_norm(x_BTD)
        if self.dropout:
            x_BTD = F.dropout(x_BTD, self.dropout, self.training)
        if self.scales.residual != 1.0:
            x_BTD = x_BTD / self.scales.residual
        return x_BTD.flatten(0, 1)

    def _before_head(self, x_ND: Tensor) -> tuple[Tensor, Tensor]:
        """The two factors of the logits, (N, R) and (V, R), from the last block's stream (N, D)."""
        if self.final_norm is not None:
            x_ND = self.final_norm(x_ND, self.scales.logits)
        elif self.scales.logits != 1.0:
            x_ND = x_ND * self.scales.logits
        head_VR, projection_RD = self.head()
        if projection_RD is not None:
            x_ND = x_ND @ projection_RD.mT
        return x_ND, head_VR

    def head(self) -> tuple[Tensor, Tensor | None]:
        """The unembedding: factors (V, R) and (R, D), or (V, D) and None."""
        if self.unembedding is None:
            return self.embedding.weight, self.embedding_projection
        return self.unembedding.weight, self.unembedding_projection

    def weights(self) -> Iterator[tuple[nn.Parameter, Role, Rule]]:
        """Yields each weight, its role and its rule."""
        by_role = self._rules()
        for name, parameter in self._own_parameters():
            role = role_of(name)
            yield parameter, role, by_role[role]

    def reset_tables(self) -> None:
        """Fills the tables that are computed rather than trained, on the device of the weights."""
        if self.shape.positions is Positions.ROTARY:
            self.rotary = rotary_table(self.shape, self.embedding.weight.device)

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Draws every weight with `generator` by the rule of its role; gains start at 1, biases and
        smears at 0, and roles in the table `FIRST_VALUES` as it says. A generator of the CPU gives
        the same weights on every device."""
        by_role = self._rules()
        starts = {Role.NORM: 1.0, Role.OUTER_NORM: 1.0, Role.SMEAR: 0.0}
        starts[Role.SKIP] = first_skip(self.shape)
        for name, parameter in self._own_parameters():
            role = role_of(name)
            if name.endswith(".bias"):
                parameter.zero_()
            elif role in starts:
                parameter.fill_(starts[role])
            elif role in FIRST_VALUES:
                drawn = torch.rand(parameter.shape, generator=generator, device=generator.device)
                parameter.copy_(FIRST_VALUES[role](name, drawn))
            else:
                drawn = torch.empty(parameter.shape, device=generator.device)
                parameter.copy_(drawn.normal_(0.0, by_role[role].init_std, generator=generator))
            if role in HAVE_VALUES and self.shape.residual is Residual.DEEPNORM:
                groups = self.shape.groups
                blocks = parameter.view(groups, -1, parameter.shape[1])
                values = blocks[:, -self.shape.d_kv // groups :]
                values.mul_(deepnorm_gain(self.shape, self.read_by))

    def _own_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yields the weights to which this stack's rules apply, with their names."""
        return self.named_parameters()

    def _rules(self) -> dict[Role, Rule]:
        return rules(self.parametrization, self.shape, read_by=self.read_by)


def _projection(shape: Shape) -> nn.Parameter | None:
    """The factor (R, D) of an embedding that maps its rank to the stream's width; None without
    one."""
    if shape.embedding_rank is None:
        return None
    return nn.Parameter(torch.empty(shape.embedding_rank, shape.d_model))


ROLES = {
    "embedding": Role.EMBEDDING,
    "embedding_projection": Role.PROJECTION,
    "positions": Role.POSITIONS,
    "embedding_norm": Role.OUTER_NORM,
    "final_norm": Role.OUTER_NORM,
    "unembedding": Role.UNEMBEDDING,
    "unembedding_projection": Role.PROJECTION,
}
"""Role of each weight outside the blocks, by the weight's name without `.weight`; the bias of a
norm has the role of its weight."""


def role_of(name: str) -> Role:
    """The role of a parameter by its name in `named_parameters`."""
    if name.startswith("blocks."):
        name = name.split(".", 2)[2]
    if name.endswith((".into.bias", ".out.bias", ".query.bias", ".key_value.bias")):
        return Role.BIAS
    return (ROLES | BLOCK_ROLES)[name.removesuffix(".weight").removesuffix(".bias")]


def rotary_table(shape: Shape, device: torch.device) -> Tensor:
    """Rotations (2, T, J, P, 2) of each position and pair of features (Su et al. 2021).

    The first dimension is forward and backward, the last is cosine and sine. Rotations are repeated
    for each of the J heads of queries and keys, so that one product rotates a whole position.
    """
    pairs = shape.head_dim // 2
    frequency_P = ROTARY_BASE ** (-torch.arange(pairs, device=device) / pairs)
    angle_TP = torch.outer(torch.arange(shape.context, device=device), frequency_P)
    angle_2TP = torch.stack((angle_TP, -angle_TP))
    turns_2TP2 = torch.stack((angle_2TP.cos(), angle_2TP.sin()), dim=-1)
    return turns_2TP2[:, :, None].repeat(1, 1, shape.n_heads + shape.kv_heads, 1, 1)
