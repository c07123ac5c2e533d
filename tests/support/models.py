"""Small models: their parametrization, initial weights and tokens."""

from typing import Any

import torch
from torch import Tensor

from fathom.models.building import class_of
from fathom.models.optim import build_optimizer
from fathom.models.parametrization import OptimizerName, Parametrization, Scheme
from fathom.models.shape import Shape


def scheme_of(
    scheme: Scheme = Scheme.STANDARD, width: int = 16, depth: int = 1, head_dim: int = 4,
    init_std: float = 0.2,
) -> Parametrization:  # fmt: skip
    """A parametrization with this base shape."""
    return Parametrization(
        scheme=scheme, base_width=width, base_depth=depth, base_head_dim=head_dim, init_std=init_std
    )


STANDARD = scheme_of()
COMPLETEP = scheme_of(Scheme.COMPLETEP)
SMALL = Shape(depth=2, d_model=16, d_ff=12, n_heads=4, head_dim=4, vocab_size=11, context=6)


def model_of(
    shape: Shape, parametrization: Parametrization = STANDARD, *, seed: int = 0, noise: float = 0.0
) -> Any:
    """A model of one or two stacks; `noise` moves vectors off their constant initial values."""
    model = class_of(shape)(shape, parametrization)
    generator = torch.Generator().manual_seed(seed)
    model.initialise(generator)
    for weight in model.parameters():
        if noise and weight.dim() == 1:
            weight.data += noise * torch.randn(weight.shape, generator=generator)
    return model


def some_tokens(
    shape: Shape, rows: int = 2, length: int | None = None, *, seed: int = 1, low: int = 1
) -> Tensor:
    """Random token ids (rows, length) from `low` on, by default as long as the context."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(
        low, shape.vocab_size, (rows, length or shape.context), generator=generator
    )


def optimizer_of(model: Any, name: OptimizerName = OptimizerName.ADAMW, **changes: Any) -> Any:
    """The optimizer of a model, by default of AdamW's usual settings."""
    usual: dict[str, Any] = {"weight_decay": 0.1, "betas": (0.9, 0.95), "eps": 1e-12}
    return build_optimizer(model, name=name, **usual | changes)
