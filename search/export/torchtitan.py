"""A module for torchtitan: its Llama 3 at the sizes of the best shape."""

from fathom.models.options import Normalization, Positions
from fathom.search.export.architectures import Architecture
from fathom.search.export.model import NORM_EPS, ROTARY_BASE, ExportedModel, Files
from fathom.search.export.tokens import token_files
from fathom.search.formatting import shell_command

MODULE = "fathom_llama3"
ARCHITECTURES = (
    Architecture(
        name="Llama 3",
        norm=(Normalization.RMS,),
        gated=(True,),
        positions=(Positions.ROTARY,),
        biases=(False,),
    ),
)
"""Llama 3, without names for weights: torchtitan reads the weights that the format `hf` writes."""

SOURCE = '''\
"""{name}: {shape.params_total:,} parameters, found by Fathom; for torchtitan 0.3."""

from functools import partial

from torch import nn
from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss
from torchtitan.config import TrainingConfig
from torchtitan.distributed.pipeline_parallel import pipeline_llm
from torchtitan.hf_datasets.text_datasets import HuggingFaceTextDataLoader
from torchtitan.models.common import ComplexRoPE, Embedding, Linear, RMSNorm
from torchtitan.models.common.config_utils import (
    get_attention_config,
    make_ffn_config,
    make_gqa_config,
)
from torchtitan.models.common.param_init import skip_param_init
from torchtitan.models.llama3 import Llama3Model, parallelize_llama
from torchtitan.models.llama3.model import Llama3TransformerBlock
from torchtitan.models.llama3.state_dict_adapter import Llama3StateDictAdapter
from torchtitan.protocols.model_spec import ModelSpec
from torchtitan.trainer import Trainer

DEPTH, D_MODEL, D_FF = {shape.depth}, {shape.d_model}, {shape.d_ff}
N_HEADS, N_KV_HEADS, HEAD_DIM = {shape.n_heads}, {shape.kv_heads}, {shape.head_dim}
VOCAB_SIZE, CONTEXT, TIED = {shape.vocab_size}, {shape.context}, {shape.tied}
BATCH_SIZE, STEPS = {budget.batch_size}, {budget.steps}

SMALL = {{"weight": partial(nn.init.trunc_normal_, std={init_std})}}
ONES = {{"weight": nn.init.ones_}}
SKIP = {{"weight": skip_param_init}}


def norm() -> RMSNorm.Config:
    return RMSNorm.Config(normalized_shape=D_MODEL, eps={eps}, param_init=ONES)


def layer(attention: str) -> Llama3TransformerBlock.Config:
    return Llama3TransformerBlock.Config(
        attention_norm=norm(),
        ffn_norm=norm(),
        attention=make_gqa_config(
            dim=D_MODEL,
            n_heads=N_HEADS,
            n_kv_heads=N_KV_HEADS,
            head_dim=HEAD_DIM,
            wqkv_param_init=SMALL,
            wo_param_init=SMALL,
            inner_attention=get_attention_config(attention),
            rope=ComplexRoPE.Config(dim=HEAD_DIM, max_seq_len=CONTEXT, theta={rotary_base}),
        ),
        feed_forward=make_ffn_config(
            dim=D_MODEL, hidden_dim=D_FF, w1_param_init=SMALL, w2w3_param_init=SMALL
        ),
    )


def model_config(attention: str = "flex") -> Llama3Model.Config:
    """The model; `attention` is one of torchtitan's kinds."""
    return Llama3Model.Config(
        dim=D_MODEL,
        vocab_size=VOCAB_SIZE,
        enable_weight_tying=TIED,
        tok_embeddings=Embedding.Config(
            num_embeddings=VOCAB_SIZE, embedding_dim=D_MODEL, param_init=SKIP if TIED else SMALL
        ),
        norm=norm(),
        lm_head=Linear.Config(in_features=D_MODEL, out_features=VOCAB_SIZE, param_init=SMALL),
        layers=[layer(attention) for _ in range(DEPTH)],
    )


def fathom() -> Trainer.Config:
    """What `--config fathom` trains; every value can be overridden on the command line."""
    spec = ModelSpec(
        name="llama3",
        flavor="fathom",
        model=model_config(),
        parallelize_fn=parallelize_llama,
        pipelining_fn=pipeline_llm,
        post_optimizer_build_fn=None,
        state_dict_adapter=Llama3StateDictAdapter,
    )
    loss = CrossEntropyLoss.Config(global_vocab_size=VOCAB_SIZE)
    return Trainer.Config(
        model_spec=spec,
        loss=ChunkedLossWrapper.Config(loss_fn=loss),
        training=TrainingConfig(local_batch_size=BATCH_SIZE, seq_len=CONTEXT, steps=STEPS),
        dataloader=HuggingFaceTextDataLoader.Config(dataset="c4"),
    )
'''


def files(model: ExportedModel) -> Files:
    """Returns the module and the tokenizer."""
    source = SOURCE.format(
        name=model.name,
        shape=model.shape,
        budget=model.budget,
        init_std=model.config.model.parametrization.init_std,
        eps=NORM_EPS,
        rotary_base=ROTARY_BASE,
    )
    return {f"{MODULE}.py": source} | token_files(model.config.objective)


def how_to_load(model: ExportedModel, folder: str) -> list[str]:
    """Returns torchtitan's command for the module."""
    return [
        f"PYTHONPATH={shell_command(folder)} torchrun --nproc_per_node 1 -m torchtitan.train "
        f"--module {MODULE} --config fathom --hf_assets_path {shell_command(folder)}",
    ]
