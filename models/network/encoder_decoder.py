"""A transformer with an encoder and a decoder (Vaswani et al. 2017), from the same blocks.

The encoder reads the whole source; each layer of the decoder attends to its own tokens so far, then
to the encoder's output.

Shapes: B batch, T time, U time of the source, N = B * T, D d_model, V vocabulary.
"""

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from fathom.models.network.attention import not_padding
from fathom.models.network.blocks import Block, Norm, skip_of
from fathom.models.network.chunked_loss import LossTerms
from fathom.models.network.cross_attention import CrossAttention, Memory
from fathom.models.network.decoding_cache import DecodingCache
from fathom.models.network.transformer import Transformer
from fathom.models.parametrization import ForwardScales, Parametrization, Role, Rule
from fathom.models.shape import Shape


class DecoderBlock(Block):
    """Self-attention, attention to the encoder's output, then feed-forward unless `d_ff` is 0."""

    def __init__(self, shape: Shape, scales: ForwardScales) -> None:
        super().__init__(shape, scales)
        self.cross_norm = Norm(shape, scales.residual)
        self.cross_attention = CrossAttention(shape, scales.attention)
        self.cross_skip = skip_of(shape, scales)

    def branches(self) -> list[tuple[nn.Module, float | Tensor]]:
        """Self-attention, attention to the encoder's output and feed-forward, each with the weight
        of its skip connection: a number or (D,)."""
        self_attention, *others = super().branches()
        return [self_attention, (self.cross_attention, self.cross_skip), *others]

    def compute(
        self, x_ND: Tensor, T: int, turns_2TJP2: Tensor | None, mask: Tensor | None,
        *others: Any,
    ) -> Tensor:  # fmt: skip
        """The stream (N, D) after the block; `others` are a `Memory` and, in decoding, a
        `LayerCache`."""
        memory, kept = (*others, None)[:2]
        x_ND = self._attended(x_ND, T, turns_2TJP2, mask, kept)
        x_ND = self._joined(
            *(x_ND, self.cross_norm, self.cross_skip, self.cross_attention), memory, kept
        )
        return self._fed_forward(x_ND)


class Encoder(Transformer):
    """Tokens (B, U) to a `Memory`; it has no head."""

    def forward(self, sources_BU: Tensor) -> Memory:  # type: ignore[override]
        x_ND = self._stream(sources_BU)
        if self.final_norm is not None:
            x_ND = self.final_norm(x_ND)
        return Memory(x_ND.view(*sources_BU.shape, -1), not_padding(sources_BU))


class EncoderDecoder(Transformer):
    """Tokens (B, T) and sources (B, U), padded with token 0, to logits (B, T, V).

    Each stack is built and scaled by its own depth. Without a source vocabulary of its own the
    encoder has the decoder's embedding.
    """

    _block_type = DecoderBlock

    def __init__(self, shape: Shape, parametrization: Parametrization) -> None:
        super().__init__(shape, parametrization)
        self.encoder = Encoder(shape.encoder, parametrization, read_by=shape.decoder_depth)
        if not shape.source_vocab_size:
            self.encoder.embedding = self.embedding
            self.encoder.embedding_projection = self.embedding_projection

    def forward(  # type: ignore[override]
        self, tokens_BT: Tensor, sources_BU: Tensor, loss: LossTerms | None = None
    ) -> Tensor:
        """Logits (B, T, V) or, with `loss`, the loss of the tokens without all of their logits."""
        x_ND = self._stream(tokens_BT, self.encode(sources_BU))
        return self._answer(x_ND, tokens_BT, loss)

    def named_blocks(self) -> Iterator[tuple[str, Block]]:
        """Yields each block with its name, those of the encoder first."""
        yield from ((f"encoder.{name}", block) for name, block in self.encoder.named_blocks())
        yield from super().named_blocks()

    def encode(self, sources_BU: Tensor) -> Memory:
        """The encoder's output (B, U, D) for sources (B, U), with the mask of their padding."""
        self.encoder.recomputes = self.recomputes
        memory: Memory = self.encoder(sources_BU)
        return memory

    def decode(  # type: ignore[override]
        self, tokens_BT: Tensor, memory: Memory, cache: DecodingCache | None = None
    ) -> Tensor:
        """Logits (B, T, V) of `tokens_BT`: all tokens so far or, with `cache`, the new ones alone.

        The cache then has the keys and values of the new ones as well.
        """
        if cache is None:
            return self._answer(self._stream(tokens_BT, memory), tokens_BT, None)
        return self._answer(self._cached_stream(tokens_BT, cache, memory), tokens_BT, None)

    def compile_blocks(self) -> None:
        """Compiles the blocks of both stacks for training, one block of each stack."""
        super().compile_blocks()
        self.encoder.compile_blocks()

    def reset_tables(self) -> None:
        """Fills the tables of both stacks that are computed rather than trained."""
        super().reset_tables()
        if hasattr(self, "encoder"):  # which is not there yet while the decoder is built
            self.encoder.reset_tables()

    def weights(self) -> Iterator[tuple[nn.Parameter, Role, Rule]]:
        """Yields each weight with its role and rule: the decoder's, then the encoder's."""
        shared = {parameter for _, parameter in self._own_parameters()}
        yield from super().weights()
        yield from (entry for entry in self.encoder.weights() if entry[0] not in shared)

    def initialise(self, generator: Any) -> None:
        """Draws every weight by the rule of its role, those of the encoder first."""
        self.encoder.initialise(generator)
        super().initialise(generator)

    def _own_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        named = self.named_parameters()
        return ((name, weight) for name, weight in named if not name.startswith("encoder."))
