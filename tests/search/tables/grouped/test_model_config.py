"""Sizes by `config.json`: as transformers builds the models, or refused with the reason."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from fathom.models.shape import Count
from fathom.search.tables.errors import TableError
from fathom.search.tables.grouped.model_config import FAMILIES, config_rung

SIZES = {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 6, "vocab_size": 97}
GROUPED = {**SIZES, "intermediate_size": 100, "num_key_value_heads": 2, "pad_token_id": 0}
WIDE = {**GROUPED, "head_dim": 16}
OLD = {"n_embd": 48, "n_layer": 3, "n_head": 6, "vocab_size": 97}
NEOX = {**SIZES, "intermediate_size": 100}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("gpt2", {**OLD, "n_positions": 31}),
    ("gpt2", {**OLD, "n_positions": 31, "n_inner": 100}),
    ("gpt_bigcode", {**OLD, "n_positions": 31}),
    ("gpt_bigcode", {**OLD, "n_positions": 31, "multi_query": False}),
    ("gpt_neo", {
        "hidden_size": 48, "num_layers": 2, "num_heads": 6, "vocab_size": 97,
        "max_position_embeddings": 31, "attention_types": [[["global", "local"], 1]],
    }),
    ("gptj", {**OLD, "rotary_dim": 4}),
    ("codegen", {**OLD, "n_head": 8, "rotary_dim": 4}),
    ("gpt_neox", NEOX),
    ("gpt_neox", {**NEOX, "use_parallel_residual": False, "tie_word_embeddings": True}),
    ("opt", {
        **SIZES, "ffn_dim": 100, "max_position_embeddings": 31, "word_embed_proj_dim": 48,
        "pad_token_id": 1,
    }),
    ("bloom", {"hidden_size": 48, "n_layer": 3, "n_head": 6, "vocab_size": 97}),
    ("falcon", SIZES),
    ("falcon", {**SIZES, "new_decoder_architecture": True, "num_kv_heads": 2}),
    ("falcon", {**SIZES, "multi_query": False, "parallel_attn": False, "bias": True}),
    ("llama", GROUPED),
    ("llama", {**WIDE, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    ("smollm3", GROUPED),
    ("granite", {**GROUPED, "attention_bias": True}),
    ("mistral", WIDE),
    ("qwen2", GROUPED),
    ("qwen3", {**WIDE, "attention_bias": True}),
    ("phi", GROUPED),
    ("phi3", GROUPED),
    ("gemma", WIDE),
    ("gemma2", {**WIDE, "num_hidden_layers": 4}),
    ("gemma3_text", {**WIDE, "num_hidden_layers": 6}),
    ("olmo", GROUPED),
    ("olmo2", GROUPED),
    ("olmo3", GROUPED),
    ("starcoder2", {**GROUPED, "use_bias": True}),
    ("starcoder2", {**GROUPED, "use_bias": False}),
    ("stablelm", {**GROUPED, "use_qkv_bias": True}),
    ("cohere", GROUPED),
]  # fmt: skip
PUBLISHED = {"num_attention_heads": 32, "num_experts_per_tok": 2, "num_key_value_heads": 8}
MIXTURES: list[tuple[dict[str, Any], int, int]] = [
    ({"model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32,
      "intermediate_size": 14336, **PUBLISHED, "num_local_experts": 8, "vocab_size": 32000,
      "tie_word_embeddings": False}, 46_702_792_704, 12_879_925_248),
    ({"model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48,
      "intermediate_size": 6144, "moe_intermediate_size": 768, **PUBLISHED,
      "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8,
      "vocab_size": 151936, "tie_word_embeddings": False}, 30_532_122_624, 3_353_032_704),
    ({"model_type": "olmoe", "hidden_size": 2048, "num_hidden_layers": 16,
      "intermediate_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 16,
      "num_experts": 64, "num_experts_per_tok": 8, "vocab_size": 50304,
      "tie_word_embeddings": False}, 6_919_161_856, 1_282_017_280),
]  # fmt: skip
"""Published mixtures of experts, with their parameters in all and active."""
LLAMA = {"model_type": "llama", **GROUPED}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model_type": "mixtral", **GROUPED, "num_local_experts": 8}, "`num_local_experts: 8`"),
    ({**LLAMA, "n_routed_experts": 64}, "mixture of experts .`n_routed_experts: 64`"),
    ({"model_type": "nemotron_h", **SIZES, "hybrid_override_pattern": "M-M*"}, "hybrid_override"),
    ({"model_type": "mamba", **SIZES, "state_size": 16}, "attention and feed-forward .`state_size"),
    ({**LLAMA, "layers_block_type": ["mamba", "attention"]}, "`layers_block_type`"),
    ({**LLAMA, "layer_types": ["full_attention", "linear_attention"]}, "linear_attention"),
    ({"model_type": "t5", "is_encoder_decoder": True}, "it has an encoder beside it"),
    ({"model_type": "bert", **SIZES}, "`model_type` is 'bert'"),
    ({"model_type": "vit", **SIZES, "patch_size": 16}, "`model_type` is 'vit'"),
    ({**LLAMA, "vision_config": {"hidden_size": 9}}, "sizes of their own .vision_config"),
    ({**LLAMA, "architectures": ["LlamaForSequenceClassification"]}, "its architecture is Llama"),
    ({"hidden_size": 48, "num_hidden_layers": 3}, "`model_type` is 'None'"),
    ({"model_type": ["llama"], **SIZES}, "`model_type` is"),
    ({"model_type": "llama", **SIZES}, "must have `intermediate_size`, got none"),
    ({"model_type": "gemma", **GROUPED}, "must have `head_dim`, got none"),
    ({**LLAMA, "num_hidden_layers": "3"}, "`num_hidden_layers` must be a whole number"),
    ({**LLAMA, "n_layer": 4}, "num_hidden_layers and n_layer must be equal"),
    ({**LLAMA, "num_key_value_heads": 4}, "multiple of those of keys, got 4"),
    ({**LLAMA, "num_attention_heads": 7}, "multiple of the 7 heads, got 48"),
    ({"model_type": "phi", **GROUPED, "qk_layernorm": True}, "`qk_layernorm: True` is not counted"),
    ({"model_type": "gpt2", **OLD}, "must have `n_positions`"),
]


def written(folder: Path, values: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(values))
    return folder / "config.json"


@pytest.mark.parametrize(("kind", "sizes"), CASES)
def test_a_dense_causal_decoder_is_counted_to_the_unit(
    kind: str, sizes: dict[str, Any], tmp_path: Path
) -> None:
    config = AutoConfig.for_model(kind, **sizes)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    total = sum(parameter.numel() for parameter in {*model.parameters()})
    outer = {model.get_input_embeddings().weight, model.get_output_embeddings().weight}
    outer |= {
        part for name, part in model.named_parameters() if "wpe" in name or "positions" in name
    }
    for values in ({"model_type": kind, **sizes}, config.to_dict()):
        file = written(tmp_path / "model", json.loads(json.dumps(values, default=str)))
        rung = config_rung(file, Count.TOTAL)
        assert rung.params == total
        assert (rung.name, rung.depth, rung.d_model) == ("model", config.num_hidden_layers, 48)
        inner = total - sum(parameter.numel() for parameter in outer)
        assert config_rung(file, Count.NON_EMBEDDING).params == inner


def test_every_type_that_is_counted_is_compared() -> None:
    assert {kind for kind, _ in CASES} == set(FAMILIES)


@pytest.mark.parametrize(("values", "reason"), REFUSED)
def test_what_is_no_dense_causal_decoder_is_refused_with_the_reason(
    values: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(TableError, match=reason) as error:
        config_rung(written(tmp_path, values), Count.NON_EMBEDDING)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("values", "every", "active"), MIXTURES)
def test_a_mixture_of_experts_is_refused_with_its_sizes(
    tmp_path: Path, values: dict[str, Any], every: int, active: int
) -> None:
    with pytest.raises(TableError, match=f"of {every:,} parameters, {active:,} active") as error:
        config_rung(written(tmp_path, values), Count.TOTAL)
    assert len(str(error.value)) - len(str(tmp_path)) <= 300


def test_a_file_of_any_length_is_not_read_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    with file.open("wb") as sparse:
        sparse.truncate(1 << 40)
    with pytest.raises(TableError, match="must be the configuration of a model as JSON"):
        config_rung(file, Count.TOTAL, None)
