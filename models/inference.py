"""Bytes and operations of inference: weights, cache, prefill and decoding.

Prefill reads a prompt, and decoding adds a token at a time. Standard library only, as `shape.py`
is.
"""

from fathom.models.shape import Count, Shape

FLOAT32 = 4
"""Bytes of each number in the state of a state-space layer."""


def weight_bytes(shape: Shape, number: int) -> int:
    """Bytes of all weights; `number` is the bytes of one."""
    return number * shape.params_total


def cache_bytes(shape: Shape, *, sequences: int, tokens: int, number: int) -> int:
    """Bytes of the cached keys and values of `tokens` tokens in each of `sequences` sequences, in
    all layers, and of the states of state-space layers.

    A layer with smeared keys also keeps the last token's own key. Keys and values of an encoder's
    output are not counted. `number` is the bytes of a number.
    """
    in_layer = 2 * tokens + (1 if shape.smeared_keys else 0)
    keys = number * (shape.decoder_depth - shape.state_layers) * shape.d_kv * in_layer
    state, inputs = shape.state_space.cached(shape.d_attention) if shape.state_space else (0, 0)
    return sequences * (keys + shape.state_layers * (FLOAT32 * state + number * inputs))


def prompt_products(shape: Shape) -> int:
    """Number of weights that multiply every token: those of all layers, once for each pass of a
    loop, and those of an embedding's second factor."""
    factor = (shape.embedding_rank or 0) * shape.d_model
    return shape.depth // shape.blocks * shape.size(Count.MATRICES) + factor


def prefill_flops(shape: Shape, *, sequences: int, prompt: int) -> int:
    """Operations to read `prompt` tokens in each of `sequences` sequences and predict the next
    token."""
    attention = 2 * shape.decoder_depth * shape.d_attention * prompt * (prompt + 1)
    products = 2 * (prompt * prompt_products(shape) + shape.vocabulary_matrices)
    return sequences * (products + attention)
