"""A block as one node of autograd makes the same numbers as its parts."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fathom.models.network.fused_block import fused_block
from fathom.models.network.transformer import Transformer
from fathom.models.options import Activation, Normalization, Positions, Residual
from fathom.models.parametrization import Scheme
from fathom.models.shape import DEFAULTS, FUSED, Shape
from tests.support.models import model_of, scheme_of

SHAPE = Shape(depth=3, d_model=24, d_ff=40, n_heads=3, head_dim=6, vocab_size=13, context=40)
PLAIN: tuple[dict[str, Any], ...] = (
    {},
    {"norm": Normalization.LAYER},
    {"activation": Activation.RELU2},
    {"positions": Positions.LEARNED},
    {"looped": True, "tied": False, "embedding_rank": 5},
)
OTHERS: tuple[dict[str, Any], ...] = (
    *({name: True} for name in ("biases", "gated", "smeared_keys", "qk_norm", "bidirectional")),
    *({"residual": residual} for residual in (Residual.POST, Residual.NONE)),
    {"d_ff": 0},
    {"queries_per_key": 3},
)


def built(**options: Any) -> Transformer:
    scheme = Scheme.STANDARD if "residual" in options else Scheme.COMPLETEP
    shape = replace(SHAPE, **options)
    model: Transformer = model_of(shape, scheme_of(scheme, depth=2, head_dim=8, init_std=0.1))
    generator = torch.Generator().manual_seed(0)
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


@pytest.mark.parametrize("options", PLAIN)
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_outputs_and_gradients_are_those_of_the_parts(
    options: dict[str, Any], dtype: torch.dtype, close: float, fused: list[object]
) -> None:
    model = built(**options).to(dtype)
    whole = learned(model)
    assert len(fused) == SHAPE.depth
    for block in model.blocks:
        block.__dict__["is_plain"] = False
    parts = learned(model)
    assert len(fused) == SHAPE.depth
    assert len(whole) == len(parts) == 1 + len(list(model.parameters()))
    for a, b in zip(whole, parts, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=close * float(b.abs().max()))


def test_an_option_that_the_fused_block_is_not_said_to_have_is_not_fused() -> None:
    assert {*FUSED} < {*DEFAULTS}
    assert {name for options in OTHERS for name in options} - {"d_ff"} <= {*DEFAULTS} - FUSED


@pytest.mark.parametrize("options", OTHERS)
def test_blocks_with_options_are_not_fused(options: dict[str, Any], fused: list[object]) -> None:
    learned(built(**options))
    assert not fused


def test_an_evaluation_and_bfloat16_go_through_the_parts(fused: list[object]) -> None:
    model = built()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits_of(model)
    logits_of(model.eval())
    assert not fused


def test_hooks_on_a_part_still_run(fused: list[object]) -> None:
    model, seen = built(), []
    hidden = model.blocks[1].feed_forward.into  # type: ignore[union-attr]
    with hidden.register_forward_hook(lambda *given: seen.append(given)):  # type: ignore[union-attr]
        logits_of(model)
    assert (len(seen), len(fused)) == (1, SHAPE.depth - 1)
    logits_of(model)
    assert (len(seen), len(fused)) == (1, 2 * SHAPE.depth - 1)
