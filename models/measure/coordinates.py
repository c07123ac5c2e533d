"""Coordinate check: how the change of activations in the first steps depends on the size of a
model.

A parametrization carries a learning rate over to other sizes if the changes neither grow nor vanish
with the size (Yang & Hu 2021; Dey et al. 2025). The changes are measured over steps of the real
optimizer.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from statistics import fmean, linear_regression
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from fathom.models.building import build_model
from fathom.models.methods import method
from fathom.models.network.transformer import Transformer
from fathom.models.optim import build_optimizer, set_learning_rate
from fathom.models.options import Residual
from fathom.models.parametrization import OptimizerName, Parametrization
from fathom.models.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinates:
    """Root mean square of an activation's elements, or of the elements of its change."""

    stream: float
    """Residual stream after the last block."""
    features: float
    """Residual stream after the final norm, or after the last block if there is no final norm."""
    logits: float

    @classmethod
    def mean(cls, several: Sequence[Self]) -> Self:
        """Mean of several `Coordinates`, field by field."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: fmean(getattr(each, name) for each in several) for name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerSettings:
    """The optimizer and its settings at the base shape."""

    learning_rate: float
    name: OptimizerName = OptimizerName.ADAMW
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-12


Activations = tuple[Tensor, Tensor, Tensor]


def coordinates(
    shape: Shape,
    parametrization: Parametrization,
    settings: OptimizerSettings,
    *,
    steps: int,
    seeds: Sequence[int],
    of_encoder: bool = False,
) -> tuple[Coordinates, ...]:
    """Sizes of the activations at the start, then of their changes after each step: (steps + 1,).

    Each is a mean over `seeds`; `settings` are those of the optimizer. With `of_encoder` stream and
    features are those of the encoder, which reads the target backwards. The text is generated.
    """
    runs = [_changes(shape, parametrization, settings, steps, seed, of_encoder) for seed in seeds]
    return tuple(Coordinates.mean(several) for several in zip(*runs, strict=True))


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Exponent of the power law of `values` in `sizes`; 0 if they do not depend on the size."""
    return linear_regression([*map(math.log, sizes)], [*map(math.log, values)]).slope


def _changes(
    shape: Shape,
    parametrization: Parametrization,
    settings: OptimizerSettings,
    steps: int,
    seed: int,
    of_encoder: bool,
) -> list[Coordinates]:
    model = build_model(shape, parametrization, seed=seed, device=torch.device("cpu"))
    assert isinstance(model, Transformer)
    stack: Any = model.encoder if of_encoder else model
    optimizer = build_optimizer(
        model,
        weight_decay=settings.weight_decay,
        betas=settings.betas,
        eps=settings.eps,
        name=settings.name,
    )
    set_learning_rate(optimizer, settings.learning_rate)
    tokens = _tokens(shape, torch.Generator().manual_seed(seed + 1))
    if shape.residual is Residual.ADMIN:
        method("profile")(model, *_read(shape, tokens))
    start = _activations(model, stack, tokens)
    changes = [_sizes(start)]
    for _ in range(steps):
        logits = model(*_read(shape, tokens))
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.clipped_step(math.inf)
        now = _activations(model, stack, tokens)
        changes.append(_sizes(tuple(a - b for a, b in zip(now, start, strict=True))))
    return changes


def _tokens(shape: Shape, generator: torch.Generator) -> Tensor:
    """Token ids (4, context + 1) in which four of five follow from the one before."""
    batch, length, vocab = 4, shape.context + 1, shape.vocab_size
    follower = torch.randperm(vocab, generator=generator)
    tokens = torch.randint(vocab, (batch, length), generator=generator)
    follows = torch.rand((batch, length), generator=generator) < 0.8
    for t in range(1, length):
        tokens[:, t] = torch.where(follows[:, t], follower[tokens[:, t - 1]], tokens[:, t])
    return tokens


def _read(shape: Shape, tokens: Tensor) -> tuple[Tensor, ...]:
    """The arguments of the model: the inputs, and for an encoder the targets backwards."""
    inputs = tokens[:, :-1]
    return (inputs, tokens[:, 1:].flip(1)) if shape.encoder_depth else (inputs,)


@torch.no_grad()
def _activations(model: Transformer, stack: Transformer, tokens: Tensor) -> Activations:
    seen: dict[str, Tensor] = {}

    def watch(module: nn.Module, name: str) -> RemovableHandle:
        return module.register_forward_hook(
            lambda _module, _inputs, output: seen.update({name: output})
        )

    # A looped block is seen as often as it is applied; the last time counts.
    handles = [watch(stack.blocks[-1], "stream")]
    if stack.final_norm is not None:
        handles.append(watch(stack.final_norm, "features"))
    logits = model(*_read(model.shape, tokens))
    for handle in handles:
        handle.remove()
    stream = seen["stream"] * stack.scales.residual
    if stack.final_norm is None:
        return stream, stream, logits
    # The norm behind an encoder does not have the scale of the logits.
    scale = model.scales.logits if stack is model else 1.0
    return stream, seen["features"] / scale, logits


def _sizes(activations: tuple[Tensor, ...]) -> Coordinates:
    stream, features, logits = (float(x.square().mean().sqrt()) for x in activations)
    return Coordinates(stream=stream, features=features, logits=logits)
