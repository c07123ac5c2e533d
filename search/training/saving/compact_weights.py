"""The compact model of an auto-sized training, on disk beside its weights."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
import yaml

from fathom.models.network.transformer import Transformer
from fathom.models.sizing.compaction import compact_model, compacted, sizes_left
from fathom.models.sizing.layer_sizes import LayerSizes, params_left
from fathom.search.run_folder import write_atomically
from fathom.search.study.file.errors import ConfigError
from fathom.search.training.saving import checkpoint
from fathom.search.training.saving.weights_folder import COMPACT, SIZES, read_note, read_sizes


def write_compact(model: Transformer, out: Path) -> list[str]:
    """Writes the compact model of a training and its sizes; returns the lines to print."""
    small, sizes = compacted(model), sizes_left(model)
    checkpoint.save(small.state_dict(), out / COMPACT)
    total = sum(weight.numel() for weight in small.parameters())
    content = {"parameters": total, "layers": [asdict(layer) for layer in sizes]}
    write_atomically(out / SIZES, yaml.safe_dump(content, sort_keys=False))
    return [*sizes_in_words(model, sizes), f"the smaller model in {out / COMPACT}"]


def sizes_in_words(model: Transformer, sizes: Sequence[LayerSizes]) -> list[str]:
    """Lines that say what auto-sizing has left of a model."""
    shape = model.shape
    layers = sum(layer.branches > 0 for layer in sizes)
    heads, neurons = ([getattr(layer, name) for layer in sizes] for name in ("n_heads", "d_ff"))
    return [
        f"auto-sizing left {params_left(shape, sizes):,} of {shape.params_total:,} parameters, "
        f"{layers} of {len(sizes)} layers",
        f"heads by layer, of {shape.n_heads}: {' '.join(map(str, heads))}",
        f"neurons by layer, of {shape.d_ff}: {' '.join(map(str, neurons))}",
    ]


def read_compact(folder: Path) -> Transformer:
    """The compact model that `fathom train` left in a folder, on the CPU.

    Raises:
        ConfigError: when there is none.
    """
    note, sizes = read_note(folder), read_sizes(folder)
    state = checkpoint.load(folder / COMPACT, torch.device("cpu"))
    small = compact_model(note.shape, note.config.model.parametrization.build(), sizes)
    wanted = {name: weight.shape for name, weight in small.state_dict().items()}
    if state is None or {name: weight.shape for name, weight in state.items()} != wanted:
        raise ConfigError(
            f"{folder / COMPACT} does not hold the weights that `fathom train` writes at its end; "
            "run the training to its end"
        )
    small.load_state_dict(state)
    return small
