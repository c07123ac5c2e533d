"""A training step of a hybrid on one thread of a CPU, beside transformers' Granite 4 of its sizes.

python -m benchmarks.speed.mixers
python -m benchmarks.speed.mixers --pattern M    # state spaces alone

Forward, backward and AdamW, without the data. Both scan in chunks of as many tokens, in PyTorch.
"""

import argparse
import importlib
from dataclasses import replace
from typing import Any

import torch

from benchmarks.answers.trained.experts import DENSE, STEPS, our_step, rounds, their_step
from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.models.layers.state_space import CHUNK, StateSpace
from fathom.models.shape import Shape


def main() -> None:
    """Prints a row for each shape."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pattern", default="MA")
    add_json_option(parser)
    told = parser.parse_args()
    torch.set_num_threads(1)
    columns = {"depth x width, d_ff": "", "ours (ms)": ".1f", "Granite (ms)": ".1f", "ratio": ".2f"}
    table = PrintedTable(columns, told.json)
    for depth, d_model, d_ff in STEPS:
        sizes: Any = {"depth": depth, "d_model": d_model, "d_ff": d_ff, "n_heads": d_model // 32}
        shape = replace(DENSE, **sizes, gated=True, state_space=StateSpace(pattern=told.pattern))
        model = granite(shape)
        assert sum(weight.numel() for weight in model.parameters()) == shape.params_total
        ours, theirs = rounds(our_step(shape), their_step(model, shape))
        table.add(f"{depth} x {d_model}, {d_ff}", 1e3 * ours, 1e3 * theirs, theirs / ours)


def granite(shape: Shape) -> Any:
    """transformers' Granite 4 of a shape, without experts."""
    library, space = importlib.import_module("transformers"), shape.state_space
    assert space is not None
    kinds = {True: "linear_attention", False: "full_attention"}
    return library.GraniteMoeHybridForCausalLM(
        library.GraniteMoeHybridConfig(
            vocab_size=shape.vocab_size, hidden_size=shape.d_model, num_local_experts=0,
            shared_intermediate_size=shape.d_ff, num_hidden_layers=shape.depth,
            num_attention_heads=shape.n_heads, position_embedding_type="rope", use_cache=False,
            layer_types=[kinds[space.at(index)] for index in range(shape.depth)],
            mamba_n_heads=space.expand * shape.n_heads, mamba_d_head=shape.head_dim,
            mamba_d_state=space.state, mamba_d_conv=space.conv, mamba_expand=space.expand,
            mamba_chunk_size=CHUNK, tie_word_embeddings=True, bos_token_id=None, eos_token_id=None,
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
