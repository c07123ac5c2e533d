"""A folder for transformers: config.json of one of the architectures in transformers."""

import json
from dataclasses import replace
from typing import Any

from fathom.models.options import Activation, Normalization, Positions, Residual
from fathom.models.shape import Shape
from fathom.objectives.token_ids import PAD
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
"""Activations that config.json names in the same way as Fathom."""
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
BART_STACK = {
    "embedding_norm": "layernorm_embedding",
    "positions": "embed_positions",
}
BART_LAYER = {
    "attention_norm": "self_attn_layer_norm",
    **{part: f"self_attn.{part}_proj" for part in "qkv"},
    "attention_out": "self_attn.out_proj",
    "cross_norm": "encoder_attn_layer_norm",
    **{f"cross_{part}": f"encoder_attn.{part}_proj" for part in "qkv"},
    "cross_out": "encoder_attn.out_proj",
    "feed_forward_norm": "final_layer_norm",
    "up": "fc1",
    "down": "fc2",
}


def _bart_names(stack: str) -> dict[str, str]:
    return {part: f"model.{stack}.{name}" for part, name in BART_STACK.items()} | BART_LAYER


BART_DECODER = Architecture(
    name="Bart",
    residual=(Residual.POST,),
    norm=(Normalization.LAYER,),
    gated=(False,),
    activation=NAMED,
    positions=(Positions.LEARNED,),
    biases=(True,),
    tied=(True,),
    grouped=False,
    square=True,
    layers="model.decoder.layers.{}.",
    names=_bart_names("decoder") | {"embedding": "model.shared"},
    unused_positions=2,
)
BART = replace(
    BART_DECODER,
    encoder=replace(BART_DECODER, layers="model.encoder.layers.{}.", names=_bart_names("encoder")),
)
T5_BUCKETS = 32
T5_BIASES = tuple(
    f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    for stack in ("encoder", "decoder")
)
"""Names of T5's attention biases by distance, which T5 has in place of positions; the biases are 0
here."""


def _t5_names(stack: str, feed_forward: int) -> dict[str, str]:
    """Names of a stack's weights; `feed_forward` is the number of the feed-forward branch in a
    layer, and gates are the first matrix in it."""
    branch = f"layer.{feed_forward}.DenseReluDense"
    return {
        "final_norm": f"{stack}.final_layer_norm",
        "attention_norm": "layer.0.layer_norm",
        **{part: f"layer.0.SelfAttention.{part}" for part in "qkv"},
        "attention_out": "layer.0.SelfAttention.o",
        "cross_norm": "layer.1.layer_norm",
        **{f"cross_{part}": f"layer.1.EncDecAttention.{part}" for part in "qkv"},
        "cross_out": "layer.1.EncDecAttention.o",
        "feed_forward_norm": f"layer.{feed_forward}.layer_norm",
        "gate": f"{branch}.wi_0",
        "up": f"{branch}.wi_1",
        "down": f"{branch}.wo",
    }


T5_DECODER = Architecture(
    name="T5",
    norm=(Normalization.RMS,),
    gated=(True,),
    positions=(Positions.NONE,),
    biases=(False,),
    tied=(True,),  # transformers ties them whatever the config says
    grouped=False,
    layers="decoder.block.{}.",
    names=_t5_names("decoder", 2) | {"embedding": "shared"},
    divides_logits=False,
)
T5_ENCODER = replace(T5_DECODER, layers="encoder.block.{}.", names=_t5_names("encoder", 1))
T5 = replace(T5_DECODER, encoder=T5_ENCODER)
PLAIN_T5 = replace(
    T5,
    gated=(False,),
    activation=NAMED,
    names={**T5.names, "up": "layer.2.DenseReluDense.wi"},
    encoder=replace(T5_ENCODER, names={**T5_ENCODER.names, "up": "layer.1.DenseReluDense.wi"}),
)
MIXTRAL = replace(
    LLAMA,
    name="Mixtral",
    biases=(False,),
    divides=False,
    experts=True,
    names=LLAMA_NAMES
    | {"router": "block_sparse_moe.gate"}
    | {
        f"expert_{part}": f"block_sparse_moe.experts.{{}}.{name}"
        for part, name in (("gate", "w1"), ("up", "w3"), ("down", "w2"))
    },
)
QWEN2_MOE = replace(
    MIXTRAL,
    name="Qwen2Moe",
    shared_experts=True,
    names=LLAMA_NAMES
    | {"router": "mlp.gate", "shared_choice": "mlp.shared_expert_gate"}
    | {
        f"{kind}_{part}": f"mlp.{module}.{part}_proj"
        for kind, module in (("expert", "experts.{}"), ("shared", "shared_expert"))
        for part in ("gate", "up", "down")
    },
)
STATE_NAMES = {
    "state_in": "mamba.in_proj",
    "state_conv": "mamba.conv1d",
    "attention": "mamba",  # vectors that are no weights of a module
    "state_norm": "mamba.norm",
    "state_out": "mamba.out_proj",
}
GRANITE = replace(
    LLAMA,
    name="GraniteMoeHybrid",
    biases=(False,),
    positions=(Positions.ROTARY, Positions.NONE),
    square=True,
    state_spaces="MA",
    names=LLAMA_NAMES
    | STATE_NAMES
    | dict.fromkeys(("gate", "up"), "shared_mlp.input_linear")
    | {"down": "shared_mlp.output_linear"},
)
MAMBA2 = replace(
    GRANITE,
    name="Mamba2",
    gated=(False, True),
    positions=(Positions.ROTARY, Positions.NONE),
    state_spaces="M",
    feed_forward=False,
    layers="backbone.layers.{}.",
    names={
        "embedding": "backbone.embeddings",
        "final_norm": "backbone.norm_f",
        "unembedding": "lm_head",
        "attention_norm": "norm",
    }
    | {part: name.replace("mamba", "mixer") for part, name in STATE_NAMES.items()},
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
    MIXTRAL,
    QWEN2_MOE,
    GRANITE,
    MAMBA2,
    BART,
    T5,
    PLAIN_T5,
)
"""Models in transformers that are sequential and causal, and have no parts that Fathom's models
lack.

None of them has layer norms without biases. Models with an encoder come last.
"""
CLASSES = {
    "GPT2": "GPT2LMHeadModel",
    "Bart": "BartForConditionalGeneration",
    "T5": "T5ForConditionalGeneration",
}
"""Architecture -> its class in transformers, if the class is not NAME + `ForCausalLM`."""


def files(model: ExportedModel) -> Files:
    """Returns config.json and the tokenizer."""
    text = json.dumps(config_of(model), indent=2) + "\n"
    return {"config.json": text} | token_files(model.config.objective)


def how_to_load(model: ExportedModel, folder: str) -> list[str]:
    """Returns lines of Python that build the model from the folder."""
    kind = "AutoModelForSeq2SeqLM" if model.shape.encoder_depth else "AutoModelForCausalLM"
    load = f"from_pretrained({json.dumps(folder)})"
    if model.with_weights:
        return [f"from transformers import {kind}", f"model = {kind}.{load}"]
    built = f"model = {kind}.from_config(AutoConfig.{load})"
    return [f"from transformers import AutoConfig, {kind}", built]


def config_of(model: ExportedModel) -> dict[str, Any]:
    """Returns the content of config.json."""
    shape, name = model.shape, model.architecture.name
    common = {
        "architectures": [CLASSES.get(name, f"{name}ForCausalLM")],
        "model_type": "qwen2_moe" if name == "Qwen2Moe" else name.lower(),
        "vocab_size": shape.vocab_size,
        "tie_word_embeddings": shape.tied,
        "initializer_range": model.config.model.parametrization.init_std,
        # No id means begin, end or padding.
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id")),
        "dtype": "float32",
    }
    of_model = OF_MODEL.get(name, _llama_like)
    return common | of_model(model)


def _bart(model: ExportedModel) -> dict[str, Any]:
    shape = model.shape
    return {
        "d_model": shape.d_model,
        "encoder_layers": shape.encoder_depth,
        "decoder_layers": shape.decoder_depth,
        **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), shape.d_ff),
        **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), shape.n_heads),
        "max_position_embeddings": shape.context,
        "activation_function": shape.activation.value,
        "init_std": model.config.model.parametrization.init_std,
        **dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), 0.0),
        "pad_token_id": PAD,
    }


def _t5(model: ExportedModel) -> dict[str, Any]:
    shape = model.shape
    return {
        "d_model": shape.d_model,
        "d_kv": shape.head_dim,
        "d_ff": shape.d_ff,
        "num_layers": shape.encoder_depth,
        "num_decoder_layers": shape.decoder_depth,
        "num_heads": shape.n_heads,
        "feed_forward_proj": "gated-silu" if shape.gated else shape.activation.value,
        "relative_attention_num_buckets": T5_BUCKETS,
        "layer_norm_epsilon": NORM_EPS,
        "scale_decoder_outputs": False,
        "dropout_rate": 0.0,
        "pad_token_id": PAD,
    }


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


def _experts(shape: Shape) -> dict[str, Any]:
    """Returns the keys of the two models with experts; each model ignores the keys of the other."""
    experts = shape.experts
    assert experts is not None
    coefficient = 0.0 if experts.balance == "bias" else experts.balance
    return {
        **dict.fromkeys(("num_local_experts", "num_experts"), experts.number),
        "num_experts_per_tok": experts.top_k,
        "router_aux_loss_coef": coefficient,
        "moe_intermediate_size": shape.d_ff,
        "shared_expert_intermediate_size": experts.shared * shape.d_ff,
        "decoder_sparse_step": experts.every,
        "norm_topk_prob": experts.top_k > 1,
        "qkv_bias": False,
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
    if shape.experts:
        return config | {"rms_norm_eps": NORM_EPS} | _experts(shape)
    biases = {"attention_bias": shape.biases, "mlp_bias": shape.biases}
    return config | {"rms_norm_eps": NORM_EPS} | biases


def _granite(model: ExportedModel) -> dict[str, Any]:
    shape, space = model.shape, model.shape.state_space
    assert space is not None
    kinds = {True: "linear_attention", False: "full_attention"}
    return _llama_like(model) | {
        "shared_intermediate_size": shape.d_ff,
        "num_local_experts": 0,
        "num_experts_per_tok": 0,
        "attention_multiplier": shape.head_dim**-0.5,
        "position_embedding_type": "rope" if shape.positions is Positions.ROTARY else None,
        "layer_types": [kinds[space.at(index)] for index in range(shape.depth)],
        "mamba_n_heads": space.expand * shape.n_heads,
        "mamba_d_head": shape.head_dim,
        "mamba_d_state": space.state,
        "mamba_d_conv": space.conv,
        "mamba_expand": space.expand,
        "mamba_n_groups": 1,
    }


def _mamba2(model: ExportedModel) -> dict[str, Any]:
    shape, space = model.shape, model.shape.state_space
    assert space is not None
    return {
        "hidden_size": shape.d_model,
        "num_hidden_layers": shape.depth,
        "num_heads": space.expand * shape.n_heads,
        "head_dim": shape.head_dim,
        "state_size": space.state,
        "conv_kernel": space.conv,
        "expand": space.expand,
        "n_groups": 1,
        "layer_norm_epsilon": NORM_EPS,
        "residual_in_fp32": False,
    }


OF_MODEL = {
    "GPT2": _gpt2,
    "Bart": _bart,
    "T5": _t5,
    "GraniteMoeHybrid": _granite,
    "Mamba2": _mamba2,
}
"""Architecture -> function that makes its part of config.json, if that part is not like Llama's."""
