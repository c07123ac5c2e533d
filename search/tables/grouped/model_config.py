"""The size of a dense causal decoder by its `config.json`, counted as transformers builds it."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fathom.models.options import Positions
from fathom.models.shape import Count, Shape
from fathom.objectives.files.reading import open_regular
from fathom.search.analysis.spending.ladder_check import LadderRung
from fathom.search.formatting import printable
from fathom.search.tables.errors import TableError


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The form of one type of model. In `biases`, a string is the key of the configuration that
    states the value; without that key it is false."""

    gated: bool = True
    biases: tuple[bool | str, bool | str, bool | str] = (False, False, False)
    """True if there are biases in: queries, keys and values; attention's output; the feed-forward
    branch."""
    norms: int = 2
    """Norms in a layer; 0 if none of them is trained."""
    vectors: int = 1
    """Vectors of a norm: 1 for a gain, 2 for a gain and a bias."""
    head_norms: str = ""
    """Norms of queries and keys: `head` for each head, `all` for all heads together; empty without
    norms."""
    tied: bool = False
    """True if the embedding is the unembedding unless `tie_word_embeddings` says otherwise."""
    positions: str = ""
    """Key with the number of learned positions; empty without learned positions."""
    unsaid: int = 0
    """Number of further vectors as wide as the model, such as a norm behind the embedding."""
    head_bias: bool = False
    """True if the unembedding has a bias."""
    four_times: bool = False
    """True if the feed-forward branch is four times as wide as the model unless a key gives its
    width."""
    needs: tuple[str, ...] = ()
    """Keys that a configuration must have, as their defaults fit one size of model only."""
    without: Mapping[str, object] | None = None
    """Key -> value that it must have, if present, for the form to be right."""


ALL, QKV = (True, True, True), (True, False, False)
LARGEST_BYTES = 1 << 24
"""Most bytes of a configuration that are read."""
ATTENTION = ("attention_bias", "attention_bias", False)
KV, HEAD = "num_key_value_heads", "head_dim"
GPT = Family(
    gated=False, biases=ALL, vectors=2, tied=True, four_times=True, positions="n_positions"
)
GPT_J = Family(
    gated=False, biases=(False, False, True), norms=1, vectors=2, head_bias=True, four_times=True
)
GEMMA = Family(biases=ATTENTION, norms=4, tied=True, needs=(KV, HEAD))
OLMO = Family(biases=ATTENTION, head_norms="all")
LLAMA = Family(biases=("attention_bias", "attention_bias", "mlp_bias"))
FAMILIES: Mapping[str, Family] = {
    "gpt2": GPT,
    "gpt_bigcode": GPT,
    "gpt_neo": Family(
        gated=False, biases=(False, True, True), vectors=2, tied=True, four_times=True,
        positions="max_position_embeddings",
    ),
    "gptj": GPT_J,
    "codegen": GPT_J,
    "gpt_neox": Family(
        gated=False, biases=ALL, vectors=2, needs=("intermediate_size",),
        without={"attention_bias": True},
    ),
    "opt": Family(
        gated=False, biases=ALL, vectors=2, tied=True, positions="max_position_embeddings",
        needs=("ffn_dim",),
        without={"do_layer_norm_before": True, "enable_bias": True,
                 "layer_norm_elementwise_affine": True},
    ),
    "bloom": Family(gated=False, biases=ALL, vectors=2, tied=True, four_times=True, unsaid=2),
    "falcon": Family(
        gated=False, biases=("bias", "bias", "bias"), vectors=2, tied=True, four_times=True
    ),
    "llama": LLAMA,
    "smollm3": Family(biases=LLAMA.biases, tied=True),
    "granite": LLAMA,
    "mistral": Family(needs=(KV,)),
    "qwen2": Family(biases=QKV, needs=(KV,)),
    "qwen3": Family(biases=ATTENTION, head_norms="head", needs=(KV, HEAD)),
    "phi": Family(
        gated=False, biases=ALL, norms=1, vectors=2, head_bias=True, without={"qk_layernorm": False}
    ),
    "phi3": Family(),
    "gemma": Family(biases=ATTENTION, tied=True, needs=(KV, HEAD)),
    "gemma2": GEMMA,
    "gemma3_text": Family(
        biases=ATTENTION, norms=4, head_norms="head", tied=True, needs=(KV, HEAD)
    ),
    "olmo": Family(biases=ATTENTION, norms=0),
    "olmo2": OLMO,
    "olmo3": OLMO,
    "starcoder2": Family(
        gated=False, biases=("use_bias", "use_bias", "use_bias"), vectors=2, tied=True,
        needs=(KV, "use_bias"),
    ),
    "stablelm": Family(
        biases=("use_qkv_bias", False, False), vectors=2, needs=(KV,),
        without={"qk_layernorm": False, "use_parallel_residual": False},
    ),
    "cohere": Family(biases=ATTENTION, norms=1, tied=True, without={"use_qk_norm": False}),
}  # fmt: skip
"""`model_type` of transformers -> its form."""
EXPERTS = {
    "mixtral": ("mistral", "num_local_experts", "intermediate_size"),
    "qwen3_moe": ("qwen3", "num_experts", "moe_intermediate_size"),
    "olmoe": ("olmo2", "num_experts", "intermediate_size"),
}
"""`model_type` of a mixture of experts -> the dense type with the same other parts, the key of the
number of experts, and the key of an expert's width."""
NAMES = {
    "depth": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "d_model": ("hidden_size", "n_embd", "d_model", "n_embed"),
    "n_heads": ("num_attention_heads", "n_head", "num_heads"),
    "d_ff": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv"),
    "head_dim": ("head_dim",),
    "vocab_size": ("vocab_size",),
}
"""Name of a size -> keys of a configuration that may state it."""
ATTENTIONS = ("full_attention", "sliding_attention", "chunked_attention")
"""Values in `layer_types` of layers with attention and a feed-forward branch."""
OTHER_LAYERS = (
    *("hybrid", "mamba", "ssm", "state_size", "rwkv", "layers_block_type", "linear_attn"),
    *("conv_kernel", "attn_layer_period", "block_types"),
)
"""Texts in keys that show that some layers are not attention and a feed-forward branch."""


class Built(NamedTuple):
    """A causal model that was built from a configuration: its parameters and attention layers."""

    params: Mapping[Count, int]
    attentions: int
    """Number of its layers in which every token attends to those before it."""


Build = Callable[[Mapping[str, Any]], Built]
"""Function that builds a configuration's causal model; raises ValueError if there is none."""
MOST = 10**9
REMEDY = "leave the model out, or give a table with name, depth, params_non_embedding, params_total"


def config_rung(file: Path, count: Count, build: Build | None = None) -> LadderRung:
    """The model that a configuration describes, named by the file or, if that is config.json, by
    its folder; `build` counts models of types that `FAMILIES` lacks.

    Raises:
        TableError: when it is no configuration of a dense causal decoder of a known type.
    """
    try:
        depth, width, params = decoder_size(_read(file), build)
    except ValueError as error:
        raise TableError(f"{printable(str(file))}: {printable(str(error))}") from error
    stem = file.stem if file.stem != "config" else file.resolve().parent.name
    return LadderRung(
        name=printable(stem), params=params[count], depth=depth, d_model=width, tokens=None
    )


def decoder_size(
    values: Mapping[str, Any], build: Build | None = None
) -> tuple[int, int, Mapping[Count, int]]:
    """Depth, width and parameters of the dense causal decoder that a configuration describes.

    Raises:
        ValueError: when it describes another model, or one of an unknown type.
    """
    if reason := _reason(values, build):
        size = _size_text(values, build)
        raise ValueError(f"no dense causal decoder of a known type: {reason}{size}; {REMEDY}")
    family = FAMILIES.get(str(values.get("model_type")))
    if family is None and build is not None:
        depth, built = _size(values, "depth"), build(values)
        if built.attentions != depth or not depth:
            of_all = (
                f"{built.attentions} of its {f'{depth} ' if depth else ''}layers have attention"
            )
            total = f"of {built.params[Count.TOTAL]:,} parameters"
            raise ValueError(
                f"no dense causal decoder of a known type: {of_all}, {total}; {REMEDY}"
            )
        return depth, _size(values, "d_model"), built.params
    assert family, "the type is known, or built"
    shape, params = _counted(values, family)
    return shape.depth, shape.d_model, params


def _read(file: Path) -> dict[str, Any]:
    try:
        with open_regular(file) as opened:
            values = json.loads(opened.read(LARGEST_BYTES))
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        label = printable(str(file))
        raise TableError(f"{label} must be the configuration of a model as JSON, got other text")
    return values


def _reason(values: Mapping[str, Any], build: Build | None) -> str:
    """The reason why a model can't be counted as a dense causal decoder; empty if it can."""
    if values.get("is_encoder_decoder") or values.get("add_cross_attention"):
        return "it has an encoder beside it (`is_encoder_decoder` or `add_cross_attention`)"
    if parts := [key for key, value in values.items() if _has_layers(key, value)]:
        return f"it has parts with sizes of their own ({', '.join(parts[:3])})"
    for key, value in values.items():
        if "expert" in key and isinstance(value, int | float) and value > 1:
            return f"it is a mixture of experts (`{key}: {value}`)"
        if value and any(part in key for part in OTHER_LAYERS):
            return f"its layers are not all attention and feed-forward (`{key}`)"
    kinds, names = (_names(values.get(key)) for key in ("layer_types", "architectures"))
    if others := sorted({*kinds} - {*ATTENTIONS}):
        return f"its layers are not all attention and feed-forward (`layer_types`: {others[0]})"
    is_causal = any("CausalLM" in name or "LMHead" in name for name in names)
    if str(values.get("model_type")) not in FAMILIES and not (build and is_causal):
        return f"its `model_type` is {str(values.get('model_type'))[:60]!r}"
    return f"its architecture is {names[0][:60]}" if names and not is_causal else ""


def _size_text(values: Mapping[str, Any], build: Build | None) -> str:
    """The parameters, in words, of a model that is no dense decoder; empty if they can't be
    counted."""
    params = _with_experts(values)
    if build and not params:
        with suppress(ValueError):
            params = build(values).params
    if not params:
        return ""
    total, active = params[Count.TOTAL], params[Count.ACTIVE]
    return f" of {total:,} parameters" + f", {active:,} active" * (active < total)


def _with_experts(values: Mapping[str, Any]) -> Mapping[Count, int]:
    """The parameters of a mixture of experts, in total and active for a token; empty if its type is
    unknown, or some of its layers have no experts."""
    known = EXPERTS.get(str(values.get("model_type")))
    if known is None or values.get("decoder_sparse_step", 1) != 1 or values.get("mlp_only_layers"):
        return {}
    base, number, width = known
    if not all(isinstance(values.get(key), int) for key in (number, "num_experts_per_tok")):
        return {}
    expert_values = {**values, "intermediate_size": values.get(width)}
    shape, dense = _counted(expert_values, FAMILIES[base])
    expert, router = 3 * shape.d_model * shape.d_ff, shape.d_model * int(values[number])
    keys = {Count.TOTAL: number, Count.ACTIVE: "num_experts_per_tok"}
    return {
        count: dense[Count.TOTAL] + shape.depth * (router + (int(values[key]) - 1) * expert)
        for count, key in keys.items()
    }


def _has_layers(key: str, value: object) -> bool:
    """True for the configuration of a part, such as `vision_config`."""
    return key.endswith("_config") and isinstance(value, dict) and any("hid" in k for k in value)


def _names(values: object) -> list[str]:
    return [str(value) for value in values] if isinstance(values, list) else []


def _counted(values: Mapping[str, Any], family: Family) -> tuple[Shape, Mapping[Count, int]]:
    """The shape of a decoder, and its parameters by each count."""
    _check_form(values, family)
    shape, biases = _shape(values, family), [_flag(values, part) for part in family.biases]
    width, heads, keys = shape.d_model, shape.d_attention, shape.d_kv
    vectors = biases[0] * (heads + 2 * keys) + biases[1] * width
    vectors += biases[2] * (shape.d_ff * (2 if shape.gated else 1) + width)
    vectors += {"": 0, "head": 2 * shape.head_dim, "all": heads + keys}[family.head_norms]
    norms = _norms(values, family)
    last = family.vectors * bool(family.norms) + family.unsaid
    layers = shape.size(Count.MATRICES) + shape.depth * (vectors + norms * family.vectors * width)
    head = shape.vocab_size * family.head_bias
    non_embedding = layers + last * width + head
    matrices = shape.vocab_size * width * (1 if shape.tied else 2)
    positions = _positions(values, family) * width
    return shape, {
        Count.NON_EMBEDDING: non_embedding,
        Count.TOTAL: non_embedding + matrices + positions,
    }


def _check_form(values: Mapping[str, Any], family: Family) -> None:
    """Raises `ValueError` if the configuration lacks a key, or has a value that the form does not
    cover."""
    for key in family.needs:
        if key not in values:
            raise ValueError(f"its configuration must have `{key}`, got none; {REMEDY}")
    odd = {key: value for key, value in (family.without or {}).items() if key in values}
    for key, value in odd.items():
        if values[key] != value:
            raise ValueError(f"a model with `{key}: {values[key]}` is not counted; {REMEDY}")
    if values.get("word_embed_proj_dim", width := _size(values, "d_model")) != width:
        raise ValueError(f"a model with a `word_embed_proj_dim` is not counted; {REMEDY}")


def _shape(values: Mapping[str, Any], family: Family) -> Shape:
    sizes = {name: _size(values, name) for name in NAMES}
    width, heads = sizes["d_model"], sizes["n_heads"]
    if not (sizes["depth"] and width and heads and sizes["vocab_size"]):
        lacking = next(name for name in ("depth", "d_model", "n_heads", "vocab_size")
                       if not sizes[name])  # fmt: skip
        raise ValueError(f"its configuration must have `{NAMES[lacking][0]}`, got none; {REMEDY}")
    d_ff = sizes["d_ff"] or (4 * width if family.four_times else 0)
    if not d_ff:
        raise ValueError(f"its configuration must have `intermediate_size`, got none; {REMEDY}")
    if not sizes["head_dim"] and width % heads:
        raise ValueError(f"`hidden_size` must be a multiple of the {heads} heads, got {width}")
    keys = sizes["kv_heads"] or heads
    if values.get("model_type") in ("falcon", "gpt_bigcode"):
        grouped = bool(values.get("new_decoder_architecture"))
        keys = keys if grouped else 1 if values.get("multi_query", True) else heads
    if heads % keys:
        raise ValueError(f"the {heads} heads must be a multiple of those of keys, got {keys}")
    return Shape(
        depth=sizes["depth"], d_model=width, d_ff=d_ff, n_heads=heads,
        head_dim=sizes["head_dim"] or width // heads, queries_per_key=heads // keys,
        vocab_size=sizes["vocab_size"], context=1, gated=family.gated,
        tied=bool(values.get("tie_word_embeddings", family.tied)), positions=Positions.LEARNED,
    )  # fmt: skip


def _size(values: Mapping[str, Any], name: str) -> int:
    """The value of a size by the key that states it; 0 if no key does."""
    found = {key: values[key] for key in NAMES[name] if values.get(key) is not None}
    for key, value in found.items():
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST:
            raise ValueError(
                f"`{key}` must be a whole number from 1 to {MOST:,}, got {value!r:.40}"
            )
    if len(set(found.values())) > 1:
        raise ValueError(f"{' and '.join(found)} must be equal, got {[*found.values()]}")
    return next(iter(found.values()), 0)


def _flag(values: Mapping[str, Any], part: bool | str) -> int:
    return int(bool(values.get(part)) if isinstance(part, str) else part)


def _norms(values: Mapping[str, Any], family: Family) -> int:
    """Number of norms in a layer; Falcon's depends on whether its branches are parallel."""
    if values.get("model_type") != "falcon":
        return family.norms
    if values.get("new_decoder_architecture"):
        return int(values.get("num_ln_in_parallel_attn") or 2)
    return 1 if values.get("parallel_attn", True) else 2


def _positions(values: Mapping[str, Any], family: Family) -> int:
    """Number of learned positions; OPT has two more than its configuration states."""
    if not family.positions:
        return 0
    found = values.get(family.positions, values.get("n_ctx"))
    if not isinstance(found, int):
        raise ValueError(f"its configuration must have `{family.positions}`, got none; {REMEDY}")
    return found + 2 * (values.get("model_type") == "opt")
