"""A block as one node of autograd makes the same numbers as its parts."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from fathom.models.network.fused_block import fused_block
from fathom.models.network.transformer import Transformer
from fathom.models.options import Activation, Normalization, Positions, Residual
from fathom.models.parametrization import Parametrization, Scheme
from fathom.models.shape import Shape

PARAMETRIZATION = Parametrization(
    scheme=Scheme.COMPLETEP, base_width=16, base_depth=2, base_head_dim=8, init_std=0.1
)
SHAPE = Shape(depth=3, d_model=24, d_ff=40, n_heads=3, head_dim=6, vocab_size=13, context=40)
PLAIN = (
    SHAPE,
    replace(SHAPE, norm=Normalization.LAYER),
    replace(SHAPE, activation=Activation.RELU2),
    replace(SHAPE, positions=Positions.LEARNED),
    replace(SHAPE, looped=True, tied=False, embedding_rank=5),
)
OTHERS = (
    replace(SHAPE, biases=True),
    replace(SHAPE, gated=True),
    replace(SHAPE, d_ff=0),
    replace(SHAPE, smeared_keys=True),
    replace(SHAPE, queries_per_key=3),
    replace(SHAPE, qk_norm=True),
    replace(SHAPE, bidirectional=True),
    replace(SHAPE, residual=Residual.POST),
    replace(SHAPE, residual=Residual.NONE),
)


def model_of(shape: Shape) -> Transformer:
    scheme = Scheme.STANDARD if shape in OTHERS else Scheme.COMPLETEP
    model = Transformer(shape, replace(PARAMETRIZATION, scheme=scheme))
    generator = torch.Generator().manual_seed(0)
    model.initialise(generator)
    for weight in model.parameters():
        weight.data += torch.randn(weight.shape, generator=generator) / 10
    return model


def logits_of(model: nn.Module, length: int = 33) -> Tensor:
    tokens = torch.randint(1, 13, (2, length), generator=torch.Generator().manual_seed(1))
    logits: Tensor = model(tokens)
    return logits


def learned(model: nn.Module) -> list[Tensor]:
    """Logits, then every weight's gradient."""
    logits = logits_of(model)
    logits.square().mean().backward()  # type: ignore[no-untyped-call]
    grads = [weight.grad for weight in model.parameters()]
    model.zero_grad(set_to_none=True)
    return [logits.detach(), *(grad for grad in grads if grad is not None)]


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Records the arguments of every call of a fused block."""
    calls: list[object] = []

    def noted(*given: object) -> Tensor:
        calls.append(given)
        return fused_block(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("fathom.models.network.blocks.fused_block", noted)
    return calls


@pytest.mark.parametrize("shape", PLAIN)
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_outputs_and_gradients_are_those_of_the_parts(
    shape: Shape, dtype: torch.dtype, close: float, fused: list[object]
) -> None:
    model = model_of(shape).to(dtype)
    one = learned(model)
    assert len(fused) == shape.depth
    for block in model.blocks:
        block.__dict__["is_plain"] = False
    other = learned(model)
    assert len(fused) == shape.depth
    assert len(one) == len(other) == 1 + len(list(model.parameters()))
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=close * float(b.abs().max()))


@pytest.mark.parametrize("shape", OTHERS)
def test_blocks_with_options_are_not_fused(shape: Shape, fused: list[object]) -> None:
    learned(model_of(shape))
    assert not fused


def test_an_evaluation_and_bfloat16_go_through_the_parts(fused: list[object]) -> None:
    model = model_of(SHAPE)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits_of(model)
    logits_of(model.eval())
    assert not fused


def test_hooks_on_a_part_still_run(fused: list[object]) -> None:
    model, seen = model_of(SHAPE), []
    hidden = model.blocks[1].feed_forward.into  # type: ignore[union-attr]
    with hidden.register_forward_hook(lambda *given: seen.append(given)):  # type: ignore[union-attr]
        logits_of(model)
    assert (len(seen), len(fused)) == (1, SHAPE.depth - 1)
    logits_of(model)
    assert (len(seen), len(fused)) == (1, 2 * SHAPE.depth - 1)
