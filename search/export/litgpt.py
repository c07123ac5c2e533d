"""A folder for litgpt: model_config.yaml."""

import yaml

from models.shape import Normalization, Positions
from search.export.architectures import Architecture
from search.export.model import NORM_EPS, ROTARY_BASE, Files, Model
from search.export.tokens import token_files

NAMES = {
    "embedding": "transformer.wte",
    "final_norm": "transformer.ln_f",
    "unembedding": "lm_head",
    "attention_norm": "norm_1",
    "q": "attn.qkv",
    "k": "attn.qkv",
    "v": "attn.qkv",
    "attention_out": "attn.proj",
    "feed_forward_norm": "norm_2",
}
PLAIN = NAMES | {"up": "mlp.fc", "down": "mlp.proj"}
GATED = NAMES | {"gate": "mlp.fc_1", "up": "mlp.fc_2", "down": "mlp.proj"}
NORMS = {Normalization.LAYER: (True,), Normalization.RMS: (False, True)}
"""Each norm with the `biases` it goes with: its layer norm always has them."""

ARCHITECTURES = tuple(
    Architecture(
        name="GPT",
        norm=(norm,),
        gated=(gated,),
        positions=(Positions.ROTARY, Positions.NONE),
        biases=biases,
        layers="transformer.h.{}.",
        names=GATED if gated else PLAIN,
    )
    for norm, biases in NORMS.items()
    for gated in (False, True)
)


def files(model: Model) -> Files:
    """model_config.yaml and the tokenizer."""
    shape = model.shape
    config = {
        "name": model.name,
        "block_size": shape.context,
        "n_layer": shape.depth,
        "n_embd": shape.d_model,
        "vocab_size": shape.vocab_size,
        "padded_vocab_size": shape.vocab_size,
        "n_head": shape.n_heads,
        "head_size": shape.head_dim,
        "intermediate_size": shape.d_ff,
        "mlp_class_name": "LLaMAMLP" if shape.gated else "GptNeoxMLP",
        "gelu_approximate": "none",
        "norm_class_name": "RMSNorm" if shape.norm is Normalization.RMS else "LayerNorm",
        "norm_eps": NORM_EPS,
        "bias": shape.biases,
        "lm_head_bias": False,
        "parallel_residual": False,
        "rotary_percentage": 1.0 if shape.positions is Positions.ROTARY else 0.0,
        "rope_base": int(ROTARY_BASE),
    }
    return {"model_config.yaml": yaml.safe_dump(config, sort_keys=False)} | token_files(
        model.config
    )


def how_to_load(model: Model, folder: str) -> list[str]:
    """Its own command; whether both embeddings are one is its training's setting."""
    command = f"litgpt pretrain {model.name} --model_config {folder}/model_config.yaml"
    command += f" --tokenizer_dir {folder}"
    if model.shape.tied:
        command += " --train.tie_embeddings true"
    if model.with_weights:
        command += f" --initial_checkpoint_dir {folder}"
    return [command]
