"""What the layers of a training do, and where it went wrong when it diverged. Torch only."""

import itertools
import math
import statistics
from collections.abc import Sequence

import torch
from torch import Tensor

from fathom.models.diagnostics import (
    block_norms,
    gradient_layers,
    layers_on_repeats,
    layers_on_text,
)
from fathom.models.optim import ClippedAdamW
from fathom.models.transformer import Transformer
from fathom.objectives.contract import Objective

Layers = dict[str, tuple[float, ...]]
"""What was measured -> one number a layer, from the first to the last."""

SEED = 2**31
"""Of the sequences that are looked at: those of no trial, whose seeds are smaller."""
SEQUENCES = 4
WEIGHTS = 2**22
"""Attention weights looked at together; longer contexts are looked at in fewer sequences."""
STEPS_BETWEEN_LOOKS = 50
"""A look takes as long as a step or two, and in a trial of a second those of every evaluation took
7 % of it (benchmarks/RESULTS.md)."""
GREW = 3.0
"""A gradient that grew less in its layer than this is not said to have begun a divergence."""
DIGITS = 4


def looks(evaluation_steps: Sequence[int]) -> tuple[int, ...]:
    """The evaluations, ascending, at which the layers are looked into: some, and the end."""
    chosen = [0]
    for step in evaluation_steps:
        if step - chosen[-1] >= STEPS_BETWEEN_LOOKS or step == evaluation_steps[-1]:
            chosen.append(step)
    return tuple(chosen[1:])


def diagnose(model: Transformer, optimizer: ClippedAdamW, objective: Objective) -> Layers:
    """Look into the model once; what is no number is left out."""
    shape = model.shape
    weights = shape.n_heads * shape.context**2
    sequences = max(1, min(SEQUENCES, WEIGHTS // weights))
    text = objective.batch(seed=SEED, step=0, batch_size=sequences).inputs
    seen = layers_on_text(model, text) | layers_on_repeats(model, SEED)
    seen["gradient_norm"] = gradient_layers(model, optimizer)
    sizes = [len(values_L) for values_L in seen.values()]
    values = iter(torch.cat(list(seen.values())).tolist())  # one wait for the device
    layers = {
        name: _rounded(list(itertools.islice(values, size)))
        for name, size in zip(seen, sizes, strict=True)
    }
    return {name: values for name, values in layers.items() if all(map(math.isfinite, values))}


def in_short(layers: Layers) -> dict[str, float]:
    """One number of each for the curve of a trial: of the last layer, of the best, or the mean."""
    of_the_last = ("rank_ratio",)
    of_the_best = ("previous_token", "induction", "copying")
    short = {name: layers[name][-1] for name in of_the_last if name in layers}
    short |= {name: max(layers[name]) for name in of_the_best if name in layers}
    if "attention_entropy" in layers:
        short["attention_entropy"] = statistics.fmean(layers["attention_entropy"])
    if "gradient_norm" in layers:
        short["gradient_norm"] = math.hypot(*layers["gradient_norm"])
    return short


def where_it_began(
    model: Transformer, optimizer: ClippedAdamW, losses_S: Tensor, norms_SP: Tensor, *,
    first: int, limit: float,
) -> str:  # fmt: skip
    """The step at which a training loss was first above the limit, or no number, in words.

    Also the layer whose gradient had grown most by then, against its median in the steps before.
    `first` is the number of the first of the steps given; empty where no step is at fault.
    """
    wrong_S = ~(losses_S <= limit)
    if not wrong_S.any():
        return ""
    at = int(wrong_S.nonzero()[0])
    words = f"it began at step {first + at}"
    norms_SL = block_norms(model, optimizer, norms_SP)[: at + 1]
    finite_SL = norms_SL[norms_SL.isfinite().all(1)]
    if len(finite_SL) < 2:
        return words
    growth_L = finite_SL[-1] / finite_SL[:-1].median(0).values
    layer = int(growth_L.argmax())
    if not float(growth_L[layer]) >= GREW:
        return words
    return f"{words}, in layer {layer + 1}, whose gradient had grown {float(growth_L[layer]):.0f}x"


def _rounded(values: list[float]) -> tuple[float, ...]:
    """Four digits: records hold these for every layer of every trial."""
    return tuple(float(f"{value:.{DIGITS}g}") for value in values)
