"""torchtitan as the trainer of a study: `examples/torchtitan.yaml` names this file.

torchrun ... torchtitan_trainer.py CHECKOUT DEPTH D_MODEL D_FF HEADS RATE --key=value ...

The checkout is used as it is. torchtitan takes sizes from a function in Python only, so this file
adds one, `--config=study`; every other setting is a flag of its own.
"""

import os
import re
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

EVALUATION = re.compile(r"validate step:\s*(\d+)\s+loss:\s*([\d.]+|nan|inf)")
SIZE = re.compile(r"size: ([\d,]+) total parameters")


def parse(line: str) -> Mapping[str, float] | None:
    """The values of a line of torchtitan's log."""
    if found := SIZE.search(line):
        return {"parameters": int(found[1].replace(",", ""))}
    if found := EVALUATION.search(line):
        return {"step": int(found[1]), "loss": float(found[2])}
    return None


def sized(depth: int, d_model: int, d_ff: int, heads: int, attention: str, vocabulary: int) -> Any:
    """torchtitan's Llama 3 of these sizes."""
    from torch import nn
    from torchtitan.models.common import ComplexRoPE, Embedding, Linear, RMSNorm
    from torchtitan.models.common.config_utils import (
        get_attention_config,
        make_ffn_config,
        make_gqa_config,
    )
    from torchtitan.models.llama3.model import Llama3Model, Llama3TransformerBlock

    small = {"weight": partial(nn.init.trunc_normal_, std=0.02), "bias": nn.init.zeros_}
    norm = RMSNorm.Config(normalized_shape=d_model, param_init={"weight": nn.init.ones_})
    rope = ComplexRoPE.Config(dim=d_model // heads, max_context_length=8192, theta=10_000)

    def layer() -> Any:
        return Llama3TransformerBlock.Config(
            attention_norm=norm, ffn_norm=norm,
            attention=make_gqa_config(
                dim=d_model, n_heads=heads, wqkv_param_init=small, wo_param_init=small, rope=rope,
                inner_attention=get_attention_config(attention),
            ),
            feed_forward=make_ffn_config(
                dim=d_model, hidden_dim=d_ff, w1_param_init=small, w2w3_param_init=small
            ),
        )  # fmt: skip

    return Llama3Model.Config(
        dim=d_model, vocab_size=vocabulary, norm=norm, layers=[layer() for _ in range(depth)],
        tok_embeddings=Embedding.Config(
            num_embeddings=vocabulary, embedding_dim=d_model, param_init={"weight": small["weight"]}
        ),
        lm_head=Linear.Config(in_features=d_model, out_features=vocabulary, param_init=small),
    )  # fmt: skip


def main() -> None:
    """Runs torchtitan.train of a checkout in this process."""
    checkout, *sizes, rate = sys.argv[1:7]
    sys.argv = ["train", "--module=llama3", "--config=study", *sys.argv[7:]]
    checkout = os.path.abspath(checkout)
    sys.path.insert(0, checkout)
    os.chdir(checkout)
    from torchtitan import train
    from torchtitan.components.optimizer import default_adamw
    from torchtitan.models import llama3
    from torchtitan.models.llama3 import config_registry

    def model(attn_backend: str, tp_gemm_backend: str = "default") -> Any:
        depth, d_model, d_ff, heads = map(int, sizes)
        return sized(depth, d_model, d_ff, heads, attn_backend, vocabulary=2048)

    def study() -> Any:
        config = config_registry.llama3_debugmodel()  # its tokenizer and its sample of C4, too
        config.model_spec = llama3.model_registry("study")
        config.optimizer = default_adamw(lr=float(rate))
        return config

    llama3.llama3_configs["study"] = model
    config_registry.study = study
    train.main()


if __name__ == "__main__":
    main()
