"""A folder for litgpt: model_config.yaml, and pretrain.yaml for litgpt's pretraining command."""

from typing import Any

import yaml

from fathom.models.options import Normalization, Positions
from fathom.search.export.architectures import Architecture
from fathom.search.export.model import NORM_EPS, ROTARY_BASE, ExportedModel, Files
from fathom.search.export.tokens import token_files
from fathom.search.formatting import shell_command
from fathom.search.study.planning.budget import warmup_steps

NAMES = {
    "embedding": "transformer.wte",
    "final_norm": "transformer.ln_f",
    "unembedding": "lm_head",
    "attention_norm": "norm_1",
    **dict.fromkeys("qkv", "attn.qkv"),
    "attention_out": "attn.proj",
    "q_norm": "attn.norm_q",
    "k_norm": "attn.norm_k",
    "feed_forward_norm": "norm_2",
}
PLAIN = NAMES | {"up": "mlp.fc", "down": "mlp.proj"}
GATED = NAMES | {"gate": "mlp.fc_1", "up": "mlp.fc_2", "down": "mlp.proj"}
NORMS = {Normalization.LAYER: (True,), Normalization.RMS: (False, True)}
"""Norm -> the values of `biases` with which litgpt can have it: its layer norm always has
biases."""

ARCHITECTURES = tuple(
    Architecture(
        name="GPT",
        norm=(norm,),
        qk_norm=(False, True) if norm is Normalization.RMS else (False,),
        gated=(gated,),
        positions=(Positions.ROTARY, Positions.NONE),
        biases=biases,
        layers="transformer.h.{}.",
        names=GATED if gated else PLAIN,
    )
    for norm, biases in NORMS.items()
    for gated in (False, True)
)


def files(model: ExportedModel) -> Files:
    """Returns both configuration files and the tokenizer."""
    config, budget = config_of(model), model.budget
    training = {
        "model_name": model.name,
        "model_config": config,
        "train": {
            # litgpt's models have two embeddings, which its training can tie.
            "tie_embeddings": model.shape.tied,
            "global_batch_size": budget.batch_size,
            "micro_batch_size": budget.batch_size,
            "max_tokens": budget.tokens,
            "lr_warmup_steps": warmup_steps(model.config, budget),
        },
    }
    texts = {
        "model_config.yaml": yaml.safe_dump(config, sort_keys=False),
        "pretrain.yaml": yaml.safe_dump(training, sort_keys=False),
    }
    return texts | token_files(model.config.objective)


def config_of(model: ExportedModel) -> dict[str, Any]:
    """Returns the arguments of litgpt's `Config`."""
    shape = model.shape
    return {
        "name": model.name,
        "block_size": shape.context,
        "n_layer": shape.depth,
        "n_embd": shape.d_model,
        "vocab_size": shape.vocab_size,
        "padded_vocab_size": shape.vocab_size,
        "n_head": shape.n_heads,
        "head_size": shape.head_dim,
        "n_query_groups": shape.kv_heads,
        "norm_qk": shape.qk_norm,
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


def how_to_load(model: ExportedModel, folder: str) -> list[str]:
    """Returns litgpt's command that trains the model on a folder of text files."""
    where = ("--config", f"{folder}/pretrain.yaml", "--tokenizer_dir", folder)
    weights = ("--initial_checkpoint_dir", folder) if model.with_weights else ()
    return [
        f"{shell_command('litgpt', 'pretrain', *where, *weights)} \\",
        "  --data TextFiles --data.train_data_path TEXTS",
    ]
