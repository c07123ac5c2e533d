"""Published models, counted to the unit: by the forms that are known, or as transformers builds
them."""

import json
from pathlib import Path
from typing import Any

import pytest

from fathom.models.shape import Count
from fathom.search.tables.errors import TableError
from fathom.search.tables.grouped.built_model import built_size
from fathom.search.tables.grouped.model_config import config_rung, decoder_size


def llama(
    kind: str, width: int, depth: int, d_ff: int, heads: int, keys: int, words: int, **more: Any
) -> dict[str, Any]:
    """A configuration with the keys of Llama, which most types share."""
    return {
        "model_type": kind, "hidden_size": width, "num_hidden_layers": depth,
        "intermediate_size": d_ff, "num_attention_heads": heads, "num_key_value_heads": keys,
        "vocab_size": words, **more,
    }  # fmt: skip


TIED, UNTIED = {"tie_word_embeddings": True}, {"tie_word_embeddings": False}
DENSE: dict[str, tuple[dict[str, Any], int]] = {
    "gpt2": ({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12,
              "n_positions": 1024, "vocab_size": 50257}, 124_439_808),
    "gpt2-xl": ({"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25,
                 "n_positions": 1024, "vocab_size": 50257}, 1_557_611_200),
    "pythia-160m": (llama("gpt_neox", 768, 12, 3072, 12, 12, 50304), 162_322_944),
    "pythia-6.9b": (llama("gpt_neox", 4096, 32, 16384, 32, 32, 50432), 6_857_302_016),
    "opt-125m": ({"model_type": "opt", "hidden_size": 768, "num_hidden_layers": 12,
                  "ffn_dim": 3072, "num_attention_heads": 12, "max_position_embeddings": 2048,
                  "vocab_size": 50272, "word_embed_proj_dim": 768}, 125_239_296),
    "bloom-560m": ({"model_type": "bloom", "hidden_size": 1024, "n_layer": 24, "n_head": 16,
                    "vocab_size": 250880}, 559_214_592),
    "falcon-7b": ({"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32,
                   "num_attention_heads": 71, "vocab_size": 65024, "multi_query": True,
                   "parallel_attn": True, "bias": False}, 6_921_720_704),
    "llama-7b": (llama("llama", 4096, 32, 11008, 32, 32, 32000), 6_738_415_616),
    "llama-3-8b": (llama("llama", 4096, 32, 14336, 32, 8, 128256), 8_030_261_248),
    "smollm2-135m": (llama("llama", 576, 30, 1536, 9, 3, 49152, **TIED), 134_515_008),
    "mistral-7b": (llama("mistral", 4096, 32, 14336, 32, 8, 32000), 7_241_732_096),
    "qwen2.5-7b": (llama("qwen2", 3584, 28, 18944, 28, 4, 152064), 7_615_616_512),
    "qwen3-8b": (llama("qwen3", 4096, 36, 12288, 32, 8, 151936, head_dim=128), 8_190_735_360),
    "phi-2": (llama("phi", 2560, 32, 10240, 32, 32, 51200), 2_779_683_840),
    "gemma-7b": (llama("gemma", 3072, 28, 24576, 16, 16, 256000, head_dim=256), 8_537_680_896),
    "gemma-2-2b": (llama("gemma2", 2304, 26, 9216, 8, 4, 256000, head_dim=256), 2_614_341_888),
    "gemma-3-1b": (llama("gemma3_text", 1152, 26, 6912, 4, 1, 262144, head_dim=256), 999_885_952),
    "olmo-2-7b": (llama("olmo2", 4096, 32, 11008, 32, 32, 100352), 7_298_617_344),
    "starcoder2-3b": (llama("starcoder2", 3072, 30, 12288, 24, 2, 49152, use_bias=True),
                      3_030_371_328),
}  # fmt: skip
"""Configurations of dense decoders of twelve families, with their published sizes."""
EXPERTS: dict[str, tuple[dict[str, Any], int, int]] = {
    "mixtral-8x7b": (
        llama("mixtral", 4096, 32, 14336, 32, 8, 32000, num_local_experts=8, num_experts_per_tok=2,
              **UNTIED), 46_702_792_704, 12_879_925_248),
    "qwen3-30b-a3b": (
        llama("qwen3_moe", 2048, 48, 6144, 32, 4, 151936, head_dim=128, num_experts=128,
              num_experts_per_tok=8, moe_intermediate_size=768, **UNTIED),
        30_532_122_624, 3_353_032_704),
    "olmoe-1b-7b": (
        llama("olmoe", 2048, 16, 1024, 16, 16, 50304, num_experts=64, num_experts_per_tok=8,
              **UNTIED), 6_919_161_856, 1_282_017_280),
    "qwen1.5-moe-a2.7b": (
        llama("qwen2_moe", 2048, 24, 5632, 16, 16, 151936, num_experts=60, num_experts_per_tok=4,
              moe_intermediate_size=1408, shared_expert_intermediate_size=5632, **UNTIED),
        14_315_784_192, 2_689_173_504),
    "deepseek-v2-lite": (
        llama("deepseek_v2", 2048, 27, 10944, 16, 16, 102400, n_routed_experts=64,
              num_experts_per_tok=6, n_shared_experts=2, moe_intermediate_size=1408,
              first_k_dense_replace=1, kv_lora_rank=512, q_lora_rank=None, qk_nope_head_dim=128,
              qk_rope_head_dim=64, v_head_dim=128, **UNTIED), 15_706_484_224, 2_661_150_208),
    "deepseek-v3": (
        llama("deepseek_v3", 7168, 61, 18432, 128, 128, 129280, n_routed_experts=256,
              num_experts_per_tok=8, n_shared_experts=1, moe_intermediate_size=2048,
              first_k_dense_replace=3, kv_lora_rank=512, q_lora_rank=1536, qk_nope_head_dim=128,
              qk_rope_head_dim=64, v_head_dim=128, **UNTIED), 671_026_404_352, 37_552_282_624),
    "gpt-oss-20b": (
        llama("gpt_oss", 2880, 24, 2880, 64, 8, 201088, head_dim=64, num_local_experts=32,
              num_experts_per_tok=4, attention_bias=True, **UNTIED),
        20_914_757_184, 4_187_440_704),
}  # fmt: skip
"""Those of mixtures of experts of six families, with the parameters that a token uses, embeddings
among them; the published 671,026,419,200 of deepseek-v3 count a bias that is not trained."""
MAMBA = {
    "model_type": "mamba", "hidden_size": 768, "num_hidden_layers": 24, "n_layer": 24,
    "state_size": 16, "expand": 2, "conv_kernel": 4, "time_step_rank": 48, "vocab_size": 50280,
    "use_bias": False, "use_conv_bias": True, "tie_word_embeddings": True,
}  # fmt: skip


@pytest.mark.parametrize("name", DENSE)
def test_a_published_dense_model_has_its_size_by_the_form_of_its_type(name: str) -> None:
    values, total = DENSE[name]

    assert decoder_size(values)[-1][Count.TOTAL] == total


@pytest.mark.parametrize("name", ["gpt2", "falcon-7b", "gemma-3-1b"])
def test_transformers_builds_the_same_size(name: str) -> None:
    values, total = DENSE[name]

    built, known = built_size(values).params, decoder_size(values)[-1]
    assert built[Count.TOTAL] == built[Count.ACTIVE] == total
    assert built[Count.NON_EMBEDDING] == known[Count.NON_EMBEDDING]


@pytest.mark.parametrize("name", EXPERTS)
def test_a_published_mixture_of_experts_has_its_sizes_in_all_and_in_use(name: str) -> None:
    values, total, active = EXPERTS[name]

    built = built_size(values).params
    assert (built[Count.TOTAL], built[Count.ACTIVE]) == (total, active)
    with pytest.raises(ValueError, match=f"of {total:,} parameters, {active:,} active; leave the"):
        decoder_size(values, built_size)


def test_a_model_without_attention_is_refused_with_its_size() -> None:
    assert built_size(MAMBA).params[Count.NON_EMBEDDING] == 90_520_320
    with pytest.raises(ValueError, match=r"`state_size`. of 129,135,360 parameters; leave the"):
        decoder_size(MAMBA, built_size)


OTHER_MIXERS: dict[str, tuple[str, dict[str, Any], int]] = {
    "lfm2": ("Lfm2ForCausalLM", {"full_attn_idxs": [1], "layer_types": None}, 1),
    "qwen3_next": ("Qwen3NextForCausalLM", {"full_attention_interval": 3, "num_experts": 0}, 1),
    "rwkv": ("RwkvForCausalLM", {"attention_hidden_size": 64}, 0),
    "xlstm": ("xLSTMForCausalLM", {"num_heads": 4}, 0),
}
"""`model_type` -> architecture, further keys, and number of the three layers with attention."""


@pytest.mark.parametrize("kind", OTHER_MIXERS)
def test_a_model_some_of_whose_layers_have_no_attention_is_refused_with_its_size(kind: str) -> None:
    architecture, more, attentions = OTHER_MIXERS[kind]
    values = llama(kind, 64, 3, 100, 4, 4, 97, head_dim=16, architectures=[architecture], **more)

    built = built_size(values)
    assert built.attentions == attentions
    reason = rf"{attentions} of its 3 layers have attention, of {built.params[Count.TOTAL]:,} param"
    with pytest.raises(ValueError, match=reason):
        decoder_size(values, built_size)


def test_a_dense_decoder_without_a_form_is_a_rung_where_transformers_builds_it(
    tmp_path: Path,
) -> None:
    values = llama("helium", 64, 3, 100, 4, 4, 97, head_dim=16, architectures=["HeliumForCausalLM"])
    file = tmp_path / "config.json"
    file.write_text(json.dumps(values))

    rung = config_rung(file, Count.TOTAL, built_size)
    assert (rung.depth, rung.d_model) == (3, 64)
    assert rung.params == built_size(values).params[Count.TOTAL]
    with pytest.raises(TableError, match="its `model_type` is 'helium'"):
        config_rung(file, Count.TOTAL)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"model_type": "vit", "hidden_size": 8}, "builds no causal model from it"),
        ({"hidden_size": 8}, "builds no causal model from it"),
        ({"model_type": "llama", "num_hidden_layers": 10**7}, "at most 4096, got 10000000"),
        ({"model_type": "llama", "hidden_size": "wide"}, "builds no causal model from it"),
    ],
)
def test_what_can_not_be_built_is_an_error(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        built_size(values)
