"""Small models: their parametrization, initial weights and tokens."""

from typing import Any

import torch
import torch.nn.functional as F
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


def gradients(model: Any, tokens: Tensor) -> dict[str, Tensor]:
    """The gradient of each weight, by name, of the loss that predicts the tokens themselves."""
    model.zero_grad()
    F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()  # type: ignore[no-untyped-call]
    return {name: weight.grad.clone() for name, weight in model.named_parameters()}


def assert_every_weight_learns(model: Any, tokens: Tensor) -> None:
    """Asserts that every gradient is finite and not 0, and stays if layers are computed twice."""
    once = gradients(model, tokens)
    for name, gradient in once.items():
        assert gradient.isfinite().all(), name
        assert gradient.abs().sum() > 0, name
    model.recomputes = True
    for name, gradient in gradients(model, tokens).items():
        torch.testing.assert_close(gradient, once[name])
