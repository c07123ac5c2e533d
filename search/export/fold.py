"""Weights with the scales of a parametrization multiplied in, so that they compute the same alone.

A parametrization multiplies in the forward pass: attention logits, residual branches, logits. Each
of these products can be done once in a weight instead, exactly.

Shapes: D d_model, A all heads, H heads, P pairs of features, F d_ff.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from fathom.models.options import Positions
from fathom.models.parametrization import ForwardScales, Parametrization, forward_scales
from fathom.models.shape import Shape

WRITERS = ("embedding", "positions")
"""Weights whose rows are added to the stream; of `attention_out` and `down`, the columns are."""


def folded(
    state: Mapping[str, Tensor],
    shape: Shape,
    parametrization: Parametrization,
    *,
    centred: bool,
    of_encoder: bool = False,
) -> dict[str, Tensor]:
    """Returns a trained `state_dict` for a model whose only scale is head_dim**-0.5.

    Names are plain: `0.q.weight` belongs to a layer, `embedding.weight` to the model. Features of
    queries and keys are ordered for rotary positions that turn feature i with i + head_dim / 2.
    The state and the shape of an encoder are those of its stack alone; no logits follow its norm.
    With `centred`, nothing adds a mean to the residual stream, which layer norm would remove.
    """
    scales = forward_scales(parametrization, shape)
    if of_encoder:
        scales = replace(scales, logits=1.0)
    rotary = shape.positions is Positions.ROTARY
    plain: dict[str, Tensor] = {}
    for name, weight in state.items():
        module, kind = (name, "weight") if name == "positions" else name.rsplit(".", 1)
        layer = ""
        if module.startswith("blocks."):
            _, layer, module = module.split(".", 2)
        for part, value in _parts(module, weight.double(), shape, scales).items():
            if rotary and part in ("q", "k", "q_norm", "k_norm"):
                value = _halves(value, shape)
            if centred:
                value = _centred(part, value)
            where = f"{layer}." if layer else ""
            plain[f"{where}{part}.{kind}"] = value.to(weight.dtype).contiguous()
    return plain


def _parts(module: str, weight: Tensor, shape: Shape, scales: ForwardScales) -> dict[str, Tensor]:
    """Returns a module's weight, or bias, under plain names, multiplied by the module's scale.

    Fathom keeps the stream in units of the residual scale (`models/network/blocks.py`); here it
    has none.
    """
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


def _halves(weight: Tensor, shape: Shape) -> Tensor:
    """Returns the features of each head in the order 0, 2, 4, ..., 1, 3, 5, ..."""
    pairs_HP2 = torch.arange(len(weight)).view(-1, shape.head_dim // 2, 2)
    return weight[pairs_HP2.mT.flatten()]


def _centred(part: str, weight: Tensor) -> Tensor:
    if part in WRITERS:
        return weight - weight.mean(-1, keepdim=True)
    if part in ("attention_out", "down"):
        return weight - weight.mean(0, keepdim=True)
    return weight
