"""Metrics of each layer of a training, and the layer in which a divergence began. Torch only."""

import itertools
import math
import statistics
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fathom.models.measure.diagnostics import (
    block_norms,
    gradient_layers,
    layers_on_repeats,
    layers_on_text,
)
from fathom.models.network.transformer import Transformer
from fathom.models.optim import Optimizer
from fathom.objectives.contract import Objective

Layers = dict[str, tuple[float, ...]]
"""Layer metrics: name of a metric -> one number for each layer, from the first to the last."""

SEED = 2**31
"""Seed of the sequences on which layers are measured; trials have smaller seeds."""
SEQUENCES = 4
MAX_ATTENTION_WEIGHTS = 2**22
"""Most attention weights of a layer that are measured at once; longer contexts use fewer sequences.
"""
DIAGNOSTICS_INTERVAL = 50
"""Fewest steps between two measurements of the layers, each of which takes as long as a step or
two. When every evaluation had one, a trial of one second spent 7 % of its time on them
(benchmarks/RESULTS.md)."""
MIN_GRADIENT_GROWTH = 3.0
"""Least factor by which a layer's gradient norm has grown if a divergence is ascribed to the
layer."""
DIGITS = 4
"""Significant digits of a layer metric: few, since records have every layer of every trial."""


def diagnostics_steps(evaluation_steps: Sequence[int]) -> tuple[int, ...]:
    """Steps of the evaluations that also measure the layers, ascending: one in each interval, and
    the last."""
    chosen = [0]
    for step in evaluation_steps:
        if step - chosen[-1] >= DIAGNOSTICS_INTERVAL or step == evaluation_steps[-1]:
            chosen.append(step)
    return tuple(chosen[1:])


def diagnose(model: Transformer, optimizer: Optimizer, objective: Objective) -> Layers:
    """Layer metrics of the model; metrics that are not finite are left out. With an encoder, the
    encoder's layers come first, and nothing is measured on blocks of repeated tokens, which have no
    source."""
    shape = model.shape
    weights = shape.n_heads * shape.context**2
    sequences = max(1, min(SEQUENCES, MAX_ATTENTION_WEIGHTS // weights))
    batch = objective.batch(seed=SEED, step=0, batch_size=sequences)
    if batch.sources is None:
        seen = layers_on_text(model, batch.inputs) | layers_on_repeats(model, SEED)
    else:
        seen = layers_on_text(model, batch.inputs, batch.sources)
    seen["gradient_norm"] = gradient_layers(model, optimizer)
    sizes = [len(values_L) for values_L in seen.values()]
    values = iter(torch.cat(list(seen.values())).tolist())  # one wait for the device
    layers = {
        name: tuple(float(f"{value:.{DIGITS}g}") for value in itertools.islice(values, size))
        for name, size in zip(seen, sizes, strict=True)
    }
    return {name: values for name, values in layers.items() if all(map(math.isfinite, values))}


def summary(layers: Layers) -> dict[str, float]:
    """One number for each layer metric, for a trial's curve: the last layer's, the best layer's, or
    the mean or norm over layers."""
    summarised_by: dict[str, Callable[[tuple[float, ...]], float]] = {
        "rank_ratio": lambda values: values[-1],
        "previous_token": max,
        "induction": max,
        "copying": max,
        "attention_entropy": statistics.fmean,
        "gradient_norm": lambda values: math.hypot(*values),
    }
    return {name: by(layers[name]) for name, by in summarised_by.items() if name in layers}


def divergence_origin(
    model: Transformer, optimizer: Optimizer, losses_S: Tensor, norms_SP: Tensor, *,
    first: int, limit: float,
) -> str:  # fmt: skip
    """Text on where a divergence began: the step at which the training loss first exceeded the
    limit or was not a number, and the layer whose gradient norm was then largest relative to its
    median in the steps before.

    Takes the losses, and the norms of P gradients, of S steps that are numbered from `first`. Empty
    if no loss exceeded the limit.
    """
    wrong_S = ~(losses_S <= limit)
    if not wrong_S.any():
        return ""
    at = int(wrong_S.nonzero()[0])
    text = f"it began at step {first + at}"
    norms_SL = block_norms(model, optimizer, norms_SP)[: at + 1]
    finite_SL = norms_SL[norms_SL.isfinite().all(1)]
    if len(finite_SL) < 2:
        return text
    growth_L = finite_SL[-1] / finite_SL[:-1].median(0).values
    layer = int(growth_L.argmax())
    if not float(growth_L[layer]) >= MIN_GRADIENT_GROWTH:
        return text
    return f"{text}, in layer {layer + 1}, whose gradient had grown {float(growth_L[layer]):.0f}x"
