"""Replicas: each is the single model it was given, forwards and backwards; none sees another."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fathom.models.network.transformer import Transformer
from fathom.models.options import Activation, Normalization, Positions, Residual
from fathom.models.parametrization import Parametrization, Scheme
from fathom.models.replicas import Replicas
from fathom.models.shape import Shape

CPU = torch.device("cpu")
SHAPE = Shape(depth=2, d_model=16, d_ff=24, n_heads=2, head_dim=4, vocab_size=11, context=6)
VARIANTS = [
    replace(SHAPE, gated=gated, tied=tied, positions=positions, d_ff=d_ff)
    for gated in (False, True)
    for tied in (False, True)
    for positions in Positions
    for d_ff in (0, 24)
] + [
    *(replace(SHAPE, norm=Normalization.LAYER, gated=gated) for gated in (False, True)),
    replace(SHAPE, activation=Activation.RELU2),
    replace(SHAPE, queries_per_key=2),
    replace(SHAPE, qk_norm=True),
    replace(SHAPE, qk_norm=True, queries_per_key=2, positions=Positions.NONE, gated=True),
]
COUNT = 3


def parametrization(scheme: Scheme = Scheme.COMPLETEP) -> Parametrization:
    return Parametrization(scheme=scheme, base_width=8, base_depth=1, base_head_dim=2, init_std=0.1)


def singles(shape: Shape, scheme: Scheme = Scheme.COMPLETEP) -> list[Transformer]:
    """Models whose gains are not all 1, so that a gain in the wrong place shows."""
    models = []
    for seed in range(COUNT):
        generator = torch.Generator().manual_seed(seed)
        model = Transformer(shape, parametrization(scheme))
        model.initialise(generator)
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.data.uniform_(0.5, 2.0, generator=generator)
        models.append(model)
    return models


def stacked(models: list[Transformer]) -> Replicas:
    replicas = Replicas(models[0].shape, models[0].parametrization, len(models), CPU)
    for index, model in enumerate(models):
        replicas.load_state_of(index, model.state_dict())
    return replicas


def texts(shape: Shape, length: int | None = None) -> Tensor:
    """Four sequences for each replica, none like another's."""
    size = (COUNT * 4, length or shape.context)
    return torch.randint(shape.vocab_size, size, generator=torch.Generator().manual_seed(9))


def loss(logits: Tensor, tokens: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), tokens.roll(-1, 1).flatten())


@pytest.mark.parametrize(
    ("shape", "scheme"),
    [*((shape, Scheme.COMPLETEP) for shape in VARIANTS), *((SHAPE, scheme) for scheme in Scheme)],
    ids=str,
)
def test_logits_and_gradients_are_those_of_the_single_models(shape: Shape, scheme: Scheme) -> None:
    models, tokens = singles(shape, scheme), texts(shape)
    replicas = stacked(models)
    logits = replicas(tokens)
    total = torch.zeros(())
    for own, text in zip(logits.chunk(COUNT), tokens.chunk(COUNT), strict=True):
        total = total + loss(own, text)
    total.backward()  # type: ignore[no-untyped-call]
    gradients = {field: weight.grad for field, weight in replicas.stacked.items()}

    for index, (model, text) in enumerate(zip(models, tokens.chunk(COUNT), strict=True)):
        expected = model(text)
        torch.testing.assert_close(logits.chunk(COUNT)[index], expected, rtol=1e-5, atol=1e-6)
        loss(expected, text).backward()  # type: ignore[no-untyped-call]
        for name, weight in model.named_parameters():
            own = replicas.slots[name].of_replica(gradients, index)  # type: ignore[arg-type]
            torch.testing.assert_close(own, weight.grad, rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize("shape", VARIANTS, ids=str)
def test_a_replica_gives_back_the_state_of_a_single_model(shape: Shape) -> None:
    models = singles(shape)
    replicas = stacked(models)
    for index, model in enumerate(models):
        own, expected = replicas.state_of(index), model.state_dict()
        assert own.keys() == expected.keys()
        for name, weight in expected.items():
            assert torch.equal(own[name], weight), name
            assert own[name].is_contiguous(), "as it would be saved by the single model"


@pytest.mark.parametrize("shape", VARIANTS, ids=str)
def test_there_are_as_many_parameters_as_in_the_single_models(shape: Shape) -> None:
    replicas = Replicas(shape, parametrization(), COUNT, torch.device("meta"))
    assert sum(weight.numel() for weight in replicas.parameters()) == COUNT * shape.params_total


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("residual", Residual.POST),
        ("biases", True),
        ("embedding_rank", 3),
        ("smeared_keys", True),
        ("looped", True),
        ("bidirectional", True),
    ],
)
def test_an_option_of_single_models_alone_is_refused(option: str, value: Any) -> None:
    shape = replace(SHAPE, **{option: value})
    with pytest.raises(ValueError, match=f"replicas need `{option}: .*one by one$") as caught:
        Replicas(shape, parametrization(), COUNT, CPU)
    assert "\n" not in str(caught.value)


def test_sequences_shorter_than_the_context_give_the_same_logits() -> None:
    for positions in Positions:
        models = singles(replace(SHAPE, positions=positions))
        tokens = texts(SHAPE, length=4)
        logits = stacked(models)(tokens)
        expected = [model(text) for model, text in zip(models, tokens.chunk(COUNT), strict=True)]
        torch.testing.assert_close(logits, torch.cat(expected), rtol=1e-5, atol=1e-6)


def test_a_replica_with_nan_affects_no_other() -> None:
    models, tokens = singles(SHAPE), texts(SHAPE)
    untouched = stacked(models)(tokens)
    for weight in models[1].parameters():
        weight.data.fill_(torch.nan)
    replicas = stacked(models)
    logits = replicas(tokens)
    logits.square().sum().backward()

    first, second, third = logits.chunk(COUNT)
    assert second.isnan().all()
    for own, before in zip((first, third), untouched.chunk(COUNT)[::2], strict=True):
        assert torch.equal(own, before)
    for field, weight in replicas.stacked.items():
        assert weight.grad is not None
        assert weight.grad[::2].isfinite().all(), field


@torch.no_grad()
def test_in_bfloat16_it_is_as_near_to_the_exact_logits_as_a_single_model_is() -> None:
    shape = replace(SHAPE, d_model=32, d_ff=64)
    models, tokens = singles(shape), texts(shape)
    replicas = stacked(models)
    exact = replicas(tokens)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        together = replicas(tokens)
        alone = torch.cat([m(text) for m, text in zip(models, tokens.chunk(COUNT), strict=True)])
    assert together.dtype == alone.dtype == torch.bfloat16
    error, usual = (float((own - exact).square().mean().sqrt()) for own in (together, alone))
    assert 0 < error < 1.2 * usual
