"""Writes trained weights into an exported folder, under the framework's names."""

from collections.abc import Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from fathom.models.building import class_of
from fathom.models.parametrization import Parametrization
from fathom.models.shape import Shape
from fathom.models.sizing.compaction import padded
from fathom.search.export import hugging_face
from fathom.search.export.architectures import Architecture
from fathom.search.export.fold import folded
from fathom.search.export.model import ExportedModel
from fathom.search.export.nanogpt import sizes
from fathom.search.study.file.errors import ConfigError
from fathom.search.training.saving import checkpoint
from fathom.search.training.saving.compact_weights import read_compact
from fathom.search.training.saving.weights_folder import WEIGHTS, read_sizes

Weights = dict[str, Tensor]


def write_weights(model: ExportedModel, name: str, source: Path, folder: Path) -> None:
    """Folds, renames and writes the weights of `fathom train`; `source` is its folder or file.

    Raises:
        ConfigError: if the weights are missing or incomplete.
    """
    file = source / WEIGHTS if source.is_dir() else source
    if model.config.train.auto_sizing.penalty:
        left = read_sizes(file.parent)
        state: Weights | None = padded(read_compact(file.parent), left).state_dict()
    else:
        state = checkpoint.load(file, torch.device("cpu"))
    shape, parametrization = model.best.shape, model.config.model.parametrization.build()
    with torch.device("meta"):
        wanted = class_of(shape)(shape, parametrization).state_dict()
    if state is None or {k: v.shape for k, v in state.items()} != _sizes(wanted):
        raise ConfigError(
            f"{file} must be the weights that `fathom train` leaves at its end, and is not; "
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


def named(plain: Weights, architecture: Architecture) -> Weights:
    """Returns folded weights under the framework's names; those that share one are stacked."""
    parts: dict[str, list[Tensor]] = {}
    for ours, theirs in architecture.names.items():
        for name, weight in plain.items():
            *layer, module, kind = name.split(".")
            if module == ours:
                prefix = architecture.layers.format(*layer) if layer else ""
                parts.setdefault(f"{prefix}{theirs}.{kind}", []).append(weight)
    whole = {name: torch.cat(several) for name, several in parts.items()}
    if not architecture.transposed:
        return whole
    inside = architecture.layers.split("{}")[0]
    return {
        name: weight.mT.contiguous() if name.startswith(inside) and weight.dim() == 2 else weight
        for name, weight in whole.items()
    }


def _sizes(state: Weights) -> dict[str, torch.Size]:
    return {name: weight.shape for name, weight in state.items()}


def _save(weights: Weights, model: ExportedModel, name: str, folder: Path) -> None:
    """Writes the file that a format's framework loads."""
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
