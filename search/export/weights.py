"""Writes trained weights into an exported folder, with scales folded in and under the framework's
names.

A parametrization multiplies in the forward pass: attention logits, residual branches, logits. Each
of these factors can instead be multiplied into a weight once, exactly.

Shapes: D d_model, A all heads, H heads, P pairs of features, F d_ff.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from fathom.models.building import class_of
from fathom.models.options import Positions
from fathom.models.parametrization import ForwardScales, Parametrization, forward_scales
from fathom.models.shape import Shape
from fathom.search.export import hugging_face
from fathom.search.export.architectures import Architecture
from fathom.search.export.model import ExportedModel
from fathom.search.export.nanogpt import sizes
from fathom.search.study.file.errors import ConfigError
from fathom.search.training.saving import checkpoint
from fathom.search.training.saving.weights_folder import WEIGHTS

Weights = dict[str, Tensor]
WRITERS = ("embedding", "positions")
"""Weights whose rows are added to the residual stream; of `attention_out` and `down`, columns
are."""


def write_weights(model: ExportedModel, name: str, source: Path, folder: Path) -> None:
    """Folds, renames and writes the weights of `fathom train`; `source` is the folder or the
    weights file in it.

    Raises:
        ConfigError: if the weights are missing or incomplete.
    """
    file = source / WEIGHTS if source.is_dir() else source
    state = checkpoint.load(file, torch.device("cpu"))
    shape, parametrization = model.best.shape, model.config.model.parametrization.build()
    with torch.device("meta"):
        wanted = class_of(shape)(shape, parametrization).state_dict()
    if state is None or _sizes(state) != _sizes(wanted) or any(v.is_meta for v in state.values()):
        raise ConfigError(
            f"{file} does not hold the weights that `fathom train` writes at its end; "
            "run the training to its end"
        )
    if model.architecture.encoder:
        weights = named_stacks(state, shape, parametrization, model.architecture)
    else:
        plain = folded(state, shape, parametrization, centred=model.centred)
        weights = named(plain, model.architecture)
    _save(weights, model, name, folder)


def named_stacks(
    state: Mapping[str, Tensor],
    shape: Shape,
    parametrization: Parametrization,
    architecture: Architecture,
) -> Weights:
    """Returns the weights of encoder and decoder, folded and under the framework's names."""
    prefix = "encoder."
    decoder = {name: weight for name, weight in state.items() if not name.startswith(prefix)}
    encoder = {name.removeprefix(prefix): state[name] for name in state if name not in decoder}
    assert architecture.encoder is not None
    weights: Weights = {}
    for unfolded, stack, names, of_encoder in (
        (decoder, shape, architecture, False),
        (encoder, shape.encoder, architecture.encoder, True),
    ):
        plain = folded(unfolded, stack, parametrization, centred=False, of_encoder=of_encoder)
        if not architecture.divides_logits:
            scale, queries = shape.head_dim**-0.5, (".q.weight", "cross_q.weight")
            plain |= {name: plain[name] * scale for name in plain if name.endswith(queries)}
        if "positions.weight" in plain:
            unused = (0, 0, architecture.unused_positions, 0)
            plain["positions.weight"] = F.pad(plain["positions.weight"], unused)
        weights |= named(plain, names)
    return weights


def folded(
    state: Mapping[str, Tensor],
    shape: Shape,
    parametrization: Parametrization,
    *,
    centred: bool,
    of_encoder: bool = False,
) -> Weights:
    """Returns a trained `state_dict` for a model whose only scale is head_dim**-0.5.

    Names are plain: `0.q.weight` belongs to a layer, `embedding.weight` to the model. Features of
    queries and keys are ordered for rotary positions that turn feature i with i + head_dim / 2. An
    encoder's state and shape are those of its stack alone, and no logits follow its norm. With
    `centred`, no weight adds a mean to the residual stream; layer norm would remove the mean.
    """
    scales = forward_scales(parametrization, shape)
    if of_encoder:
        scales = replace(scales, logits=1.0)
    rotary = shape.positions is Positions.ROTARY
    plain: Weights = {}
    for name, weight in state.items():
        module, kind = (name, "weight") if name == "positions" else name.rsplit(".", 1)
        layer = ""
        if module.startswith("blocks."):
            _, layer, module = module.split(".", 2)
        at = shape.of_layer(int(layer)) if layer else shape
        for part, value in _parts(module, weight.double(), at, scales).items():
            if rotary and part in ("q", "k", "q_norm", "k_norm"):
                value = _halves(value, shape)
            if centred:
                value = _centred(part, value)
            where = f"{layer}." if layer else ""
            plain[f"{where}{part}.{kind}"] = value.to(weight.dtype).contiguous()
    return plain


def _parts(module: str, weight: Tensor, shape: Shape, scales: ForwardScales) -> Weights:
    """Returns a module's weight or bias under plain names, multiplied by the module's scale.

    Fathom keeps the stream in units of the residual scale (`models/network/blocks.py`); in the
    result it has none.
    """
    if shape.experts and module.startswith("feed_forward."):
        return _parts_of_experts(module, weight, shape, scales)
    sharpness = scales.attention * shape.head_dim**0.5
    match module:
        case "attention.into":
            q, k, v = weight.split_with_sizes([shape.d_attention, shape.d_kv, shape.d_kv])
            return {"q": q if shape.qk_norm else q * sharpness, "k": k, "v": v}
        case "cross_attention.query":
            return {"cross_q": weight * sharpness}
        case "cross_attention.key_value":
            k, v = weight.chunk(2)
            return {"cross_k": k, "cross_v": v}
        case "cross_attention.out":
            return {"cross_out": weight * scales.residual}
        case "attention.q_norm":
            return {"q_norm": weight * sharpness}
        case "attention.k_norm":
            return {"k_norm": weight}
        case "attention.out":
            return {"attention_out": weight * scales.residual}
        case "attention.state_in":
            return {"state_in": weight}
        case "attention.state_out":
            return {"state_out": weight * scales.residual}
        case "attention.conv" | "attention.norm":
            return {module.replace("attention.", "state_"): weight}
        case "feed_forward.into" if shape.gated:
            gate, up = weight.chunk(2)
            return {"gate": gate, "up": up}
        case "feed_forward.into":
            return {"up": weight}
        case "feed_forward.out":
            return {"down": weight * scales.residual}
        case "final_norm":
            return {"final_norm": weight * scales.logits}
    return {module: weight}


def _parts_of_experts(module: str, weight: Tensor, shape: Shape, scales: ForwardScales) -> Weights:
    """Returns weights of a mixture of experts under plain names: of each expert with `@` and its
    number, of all shared experts as one, and of the router."""
    if module == "feed_forward.router":
        return {"router": weight}
    assert shape.experts is not None
    dense = replace(shape, experts=None)
    if not module.startswith("feed_forward.shared."):
        return {
            f"expert_{part}@{number}": value
            for number, of_one in enumerate(weight.chunk(shape.experts.number))
            for part, value in _parts(module, of_one, dense, scales).items()
        }
    parts = _parts(module.replace("shared.", ""), weight, dense, scales)
    if "down" in parts:  # behind a gate, whose weights of 0 make it a half
        return {"shared_down": 2 * parts["down"], "shared_choice": weight.new_zeros(1, len(weight))}
    return {f"shared_{part}": value for part, value in parts.items()}


def _halves(weight: Tensor, shape: Shape) -> Tensor:
    """Returns a weight with the features of each head in the order 0, 2, 4, ..., 1, 3, 5, ..."""
    pairs_HP2 = torch.arange(len(weight)).view(-1, shape.head_dim // 2, 2)
    return weight[pairs_HP2.mT.flatten()]


def _centred(part: str, weight: Tensor) -> Tensor:
    if part in WRITERS:
        return weight - weight.mean(-1, keepdim=True)
    if part in ("attention_out", "state_out", "down"):
        return weight - weight.mean(0, keepdim=True)
    return weight


def named(plain: Weights, architecture: Architecture) -> Weights:
    """Returns folded weights under the framework's names; those that share a name are stacked."""
    parts: dict[str, list[Tensor]] = {}
    for ours, theirs in architecture.names.items():
        for name, weight in plain.items():
            *layer, module, kind = name.split(".")
            part, _, expert = module.partition("@")
            if part == ours:
                prefix = architecture.layers.format(*layer) if layer else ""
                name_there = f"{prefix}{theirs.format(expert)}.{kind}"
                parts.setdefault(name_there, []).append(weight)
    whole = {name: torch.cat(several) for name, several in parts.items()}
    if not architecture.transposed:
        return whole
    inside = architecture.layers.split("{}")[0]
    return {
        name: weight.mT.contiguous() if name.startswith(inside) and weight.dim() == 2 else weight
        for name, weight in whole.items()
    }


def _sizes(state: Mapping[str, object]) -> dict[str, torch.Size | None]:
    """Sizes of weights; None for what no weight can be."""
    return {
        name: weight.shape
        if isinstance(weight, Tensor) and weight.is_floating_point() and not weight.is_sparse
        else None
        for name, weight in state.items()
    }


def _save(weights: Weights, model: ExportedModel, name: str, folder: Path) -> None:
    """Writes the weights to the file that the format's framework loads."""
    match name:
        case "hf":
            if model.architecture.name == "T5":  # its positions are biases of attention, 0 here
                biases = torch.zeros(hugging_face.T5_BUCKETS, model.shape.n_heads)
                weights |= {place: biases.clone() for place in hugging_face.T5_BIASES}
            save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        case "litgpt":
            weights.setdefault("lm_head.weight", weights["transformer.wte.weight"])
            torch.save(weights, folder / "lit_model.pth")
        case "nanogpt":
            weights["lm_head.weight"] = weights["transformer.wte.weight"]
            state = {"model": weights, "model_args": sizes(model), "config": {"dataset": "fathom"}}
            torch.save(state, folder / "ckpt.pt")
