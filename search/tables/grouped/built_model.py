"""Sizes of models as transformers builds them from a configuration, without memory for weights."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging

from fathom.models.shape import Count
from fathom.search.tables.grouped.model_config import Built

UNSAFE = re.compile(r"^_|implementation|auto_map|quantization|dtype")
"""Pattern of keys that could load code or kernels; no such key states a size."""
NUMBERS = re.compile(r"(layer|expert|block)s?$")
"""Keys with a number of layers, experts or blocks, each of which takes time and memory to build."""
LAYER = re.compile(r"\.(\d+)\.")
"""Pattern of the number of a layer in the name of a module."""
RECURRENT = re.compile("Linear|Lightning|Rwkv")
"""Pattern of the names of modules that are called attention but keep a state of fixed size."""
MOST = 4096
"""Largest number of layers, experts or blocks that is built."""


def built_size(values: Mapping[str, Any]) -> Built:
    """The causal language model that a configuration describes: its parameters in total, without
    embeddings, and active for one token, and its layers with attention.

    Raises:
        ValueError: when transformers builds no causal language model from it.
    """
    for key, value in values.items():
        if NUMBERS.search(key) and isinstance(value, int) and value > MOST:
            raise ValueError(f"`{key}` must be at most {MOST}, got {value}")
    plain = {key: value for key, value in values.items() if not UNSAFE.search(key)}
    logging.set_verbosity_error()
    try:
        config = AutoConfig.for_model(**plain)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        total = model.num_parameters()
        outer = {id(weight): weight.numel() for weight in _outer_weights(model)}
        idle = sum(_idle_weights(model))
    except Exception as error:
        raise ValueError(f"transformers builds no causal model from it: {error}") from error
    params = {
        Count.TOTAL: total,
        Count.NON_EMBEDDING: total - sum(outer.values()),
        Count.ACTIVE: total - idle,
    }
    return Built(params, len(set(_attentions(model))))


def _attentions(model: PreTrainedModel) -> Iterator[str]:
    """Yields the number of a layer for each of its modules that is an attention."""
    for name, part in model.named_modules():
        kind, layer = type(part).__name__, LAYER.search(name)
        if layer and kind.endswith("Attention") and not RECURRENT.search(kind):
            yield layer[1]


def _outer_weights(model: PreTrainedModel) -> Iterator[torch.Tensor]:
    """Yields the weights of the embeddings, including learned positions, and of the unembedding."""
    yield from (part.weight for part in model.modules() if isinstance(part, torch.nn.Embedding))
    yield model.get_output_embeddings().weight


def _idle_weights(model: PreTrainedModel) -> Iterator[int]:
    """Yields, for each layer with experts, the number of weights in experts that a token doesn't
    use."""
    for name, part in model.named_modules():
        if name.endswith(".experts") and (number := getattr(part, "num_experts", 0)):
            weights = sum(weight.numel() for weight in part.parameters())
            chosen = model.config.get_text_config().num_experts_per_tok
            yield weights // number * (number - chosen)
