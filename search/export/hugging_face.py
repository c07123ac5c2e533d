"""A folder for transformers: config.json of one of its own architectures."""

import json
from dataclasses import replace
from typing import Any

from fathom.models.shape import Activation, Normalization, Positions
from fathom.search.export.architectures import Architecture
from fathom.search.export.model import NORM_EPS, ROTARY_BASE, ExportedModel, Files
from fathom.search.export.tokens import token_files

LLAMA_NAMES = {
    "embedding": "model.embed_tokens",
    "final_norm": "model.norm",
    "unembedding": "lm_head",
    "attention_norm": "input_layernorm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "attention_out": "self_attn.o_proj",
    "feed_forward_norm": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
HEAD_NORMS = {"q_norm": "self_attn.q_norm", "k_norm": "self_attn.k_norm"}
GPT2_NAMES = {
    "embedding": "transformer.wte",
    "positions": "transformer.wpe",
    "final_norm": "transformer.ln_f",
    "unembedding": "lm_head",
    "attention_norm": "ln_1",
    **dict.fromkeys("qkv", "attn.c_attn"),
    "attention_out": "attn.c_proj",
    "feed_forward_norm": "ln_2",
    "up": "mlp.c_fc",
    "down": "mlp.c_proj",
}
NAMED = (Activation.GELU, Activation.RELU2)
"""Activations that config.json names, as Fathom does."""
LLAMA = Architecture(
    name="Llama",
    norm=(Normalization.RMS,),
    gated=(True,),
    positions=(Positions.ROTARY,),
    divides=True,
    layers="model.layers.{}.",
    names=LLAMA_NAMES,
)
QWEN3 = replace(
    LLAMA,
    name="Qwen3",
    qk_norm=(True,),
    biases=(False,),
    divides=False,
    names=LLAMA_NAMES | HEAD_NORMS,
)
GPT2 = Architecture(
    name="GPT2",
    norm=(Normalization.LAYER,),
    gated=(False,),
    activation=NAMED,
    positions=(Positions.LEARNED,),
    biases=(True,),
    grouped=False,
    square=True,
    layers="transformer.h.{}.",
    names=GPT2_NAMES,
    transposed=True,
)
ARCHITECTURES = (
    LLAMA,
    replace(LLAMA, name="Arcee", gated=(False,), activation=NAMED),
    QWEN3,
    replace(
        QWEN3,
        name="Apertus",
        gated=(False,),
        activation=NAMED,
        divides=True,
        names=LLAMA_NAMES
        | HEAD_NORMS
        | {
            "attention_norm": "attention_layernorm",
            "feed_forward_norm": "feedforward_layernorm",
        },
    ),
    replace(LLAMA, name="SmolLM3", positions=(Positions.ROTARY, Positions.NONE), divides=False),
    replace(
        LLAMA,
        name="Starcoder2",
        norm=(Normalization.LAYER,),
        gated=(False,),
        activation=NAMED,
        biases=(True,),
        divides=False,
        names=LLAMA_NAMES | {"up": "mlp.c_fc", "down": "mlp.c_proj"},
    ),
    GPT2,
)
"""Models of transformers that are sequential and causal and have no parts that Fathom's lack.

None of them has layer norms without biases.
"""
CLASSES = {"GPT2": "GPT2LMHeadModel"}
"""Architecture -> its class in transformers, where that is not NAME + `ForCausalLM`."""


def files(model: ExportedModel) -> Files:
    """Returns config.json and the tokenizer."""
    text = json.dumps(config_of(model), indent=2) + "\n"
    return {"config.json": text} | token_files(model.config)


def how_to_load(model: ExportedModel, folder: str) -> list[str]:
    """Returns lines of Python that build the model from the folder."""
    if model.with_weights:
        return [
            "from transformers import AutoModelForCausalLM",
            f'model = AutoModelForCausalLM.from_pretrained("{folder}")',
        ]
    return [
        "from transformers import AutoConfig, AutoModelForCausalLM",
        f'model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained("{folder}"))',
    ]


def config_of(model: ExportedModel) -> dict[str, Any]:
    """Returns the content of config.json."""
    shape, name = model.shape, model.architecture.name
    common = {
        "architectures": [CLASSES.get(name, f"{name}ForCausalLM")],
        "model_type": name.lower(),
        "vocab_size": shape.vocab_size,
        "tie_word_embeddings": shape.tied,
        "initializer_range": model.config.model.parametrization.init_std,
        # No id means begin, end or padding.
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id")),
        "dtype": "float32",
    }
    return common | (_gpt2(model) if name == "GPT2" else _llama_like(model))


def _gpt2(model: ExportedModel) -> dict[str, Any]:
    shape = model.shape
    return {
        "n_positions": shape.context,
        "n_embd": shape.d_model,
        "n_layer": shape.depth,
        "n_head": shape.n_heads,
        "n_inner": shape.d_ff,
        "activation_function": shape.activation.value,
        "layer_norm_epsilon": NORM_EPS,
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0),
    }


def _llama_like(model: ExportedModel) -> dict[str, Any]:
    shape = model.shape
    config: dict[str, Any] = {
        "hidden_size": shape.d_model,
        "intermediate_size": shape.d_ff,
        "num_hidden_layers": shape.depth,
        "num_attention_heads": shape.n_heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu" if shape.gated else shape.activation.value,
        "max_position_embeddings": shape.context,
        "rope_parameters": {"rope_type": "default", "rope_theta": ROTARY_BASE},
        "attention_dropout": 0.0,
    }
    if model.architecture.name == "Starcoder2":
        dropouts = {"residual_dropout": 0.0, "embedding_dropout": 0.0}
        return config | {"norm_epsilon": NORM_EPS, "use_bias": shape.biases} | dropouts
    if model.architecture.name == "SmolLM3":
        # 1 is a layer with rotary positions, 0 one without.
        rotary = int(shape.positions is Positions.ROTARY)
        config["no_rope_layers"] = [rotary] * shape.depth
    biases = {"attention_bias": shape.biases, "mlp_bias": shape.biases}
    return config | {"rms_norm_eps": NORM_EPS} | biases
