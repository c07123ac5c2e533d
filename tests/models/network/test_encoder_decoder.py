"""Two stacks: what each token may see, exact counts, the cache, and dropout."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fathom.models.network.decoding_cache import DecodingCache
from fathom.models.network.encoder_decoder import EncoderDecoder
from fathom.models.options import Activation, Normalization, Positions, Residual
from fathom.models.parametrization import MATRICES
from fathom.models.shape import Count, Shape
from tests.support.models import model_of

SHAPE = Shape(
    depth=5, encoder_depth=2, d_model=24, d_ff=40, n_heads=3, head_dim=8, vocab_size=13, context=10
)
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"positions": Positions.LEARNED, "biases": True, "norm": Normalization.LAYER},
    {"residual": Residual.POST, "source_vocab_size": 17, "positions": Positions.NONE},
    {"residual": Residual.ADMIN_CLOSED, "embedding_rank": 7, "tied": False},
    {"residual": Residual.DEEPNORM, "gated": True, "n_heads": 4, "queries_per_key": 2},
    {"qk_norm": True, "d_ff": 0, "source_vocab_size": 11, "embedding_rank": 5},
)


def built(**options: Any) -> EncoderDecoder:
    model: EncoderDecoder = model_of(replace(SHAPE, **options))
    return model


def drawn(high: int, *size: int, seed: int = 1) -> Tensor:
    return torch.randint(1, high, size, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("options", OPTIONS)
def test_later_targets_change_no_earlier_logit_and_sources_all(options: dict[str, Any]) -> None:
    model = built(**options)
    inputs, sources = drawn(13, 2, 8), drawn(11, 2, 6, seed=2)
    before = model(inputs, sources)
    padded = model(F.pad(inputs, (0, 2)), F.pad(sources, (0, 4)))
    assert torch.allclose(padded[:, :8], before, atol=1e-5), "padding changes nothing"
    for changed in range(8):
        other = inputs.clone()
        other[:, changed] = other[:, changed] % 12 + 1
        after = model(other, sources)
        assert torch.allclose(before[:, :changed], after[:, :changed], atol=1e-6)
        assert not torch.allclose(before[:, changed], after[:, changed], atol=1e-3)
    for changed in range(6):
        read = sources.clone()
        read[:, changed] = read[:, changed] % 10 + 1
        assert (model(inputs, read) - before).abs().amax(-1).min() > 1e-7


@pytest.mark.parametrize("options", OPTIONS)
def test_decoding_with_a_cache_equals_decoding_without(options: dict[str, Any]) -> None:
    model = built(**options).eval()
    inputs, sources = drawn(13, 3, 7), F.pad(drawn(11, 3, 6, seed=2), (0, 2))
    memory, cache = model.encode(sources), DecodingCache()
    whole = model.decode(inputs, memory)
    assert torch.allclose(whole, model(inputs, sources), atol=1e-6)
    for start, end in ((0, 3), (3, 4), (4, 6)):
        part = model.decode(inputs[:, start:end], memory, cache)
        assert torch.allclose(part, whole[:, start:end], atol=1e-5)
    rows = torch.tensor([2, 0, 0])
    cache.select(rows)
    last = model.decode(inputs[rows, 6:], memory.select(rows), cache)
    assert torch.allclose(last, whole[rows, 6:], atol=1e-5)
    assert cache.length == 7


@settings(max_examples=60, deadline=None)
@given(
    depths=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    sizes=st.tuples(st.integers(1, 9), st.integers(0, 9), st.integers(1, 3), st.integers(1, 3)),
    vocabularies=st.tuples(st.integers(1, 20), st.integers(0, 20)),
    queries_per_key=st.integers(1, 2),
    options=st.fixed_dictionaries(
        {
            **dict.fromkeys(("qk_norm", "gated", "tied", "biases"), st.booleans()),
            "positions": st.sampled_from(Positions),
            "residual": st.sampled_from(Residual),
            "norm": st.sampled_from(Normalization),
            "embedding_rank": st.sampled_from([None, 1, 3]),
        }
    ),
)
def test_the_closed_form_counts_every_weight(
    depths: tuple[int, int], sizes: tuple[int, int, int, int], vocabularies: tuple[int, int],
    queries_per_key: int, options: dict[str, Any],
) -> None:  # fmt: skip
    (encoder, decoder), (d_model, d_ff, groups, pairs) = depths, sizes
    shape = Shape(
        depth=encoder + decoder, encoder_depth=encoder, d_model=d_model, d_ff=d_ff, context=5,
        n_heads=groups * queries_per_key, head_dim=2 * pairs, queries_per_key=queries_per_key,
        vocab_size=vocabularies[0], source_vocab_size=vocabularies[1], **options,
    )  # fmt: skip
    model = model_of(shape)
    sizes_of_roles = [(weight.numel(), role) for weight, role, _ in model.weights()]
    assert shape.params_total == sum(weight.numel() for weight in model.parameters())
    assert sum(size for size, _ in sizes_of_roles) == shape.params_total
    matrices = sum(size for size, role in sizes_of_roles if role in MATRICES)
    assert shape.size(Count.MATRICES) == matrices


@pytest.mark.parametrize("options", OPTIONS)
def test_every_weight_has_a_gradient(options: dict[str, Any]) -> None:
    model = built(**options)
    logits = model(drawn(13, 4, 10), drawn(11, 4, 10, seed=2))
    F.cross_entropy(logits.flatten(0, 1), drawn(13, 40, seed=3)).backward()  # type: ignore[no-untyped-call]
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"looped": True}, "`model.looped` does not go with an encoder"),
        ({"smeared_keys": True}, "`model.smeared_keys` does not go"),
        ({"bidirectional": True}, "`model.bidirectional` does not go"),
        ({"encoder_depth": 5}, "below `depth`"),
        ({"encoder_depth": 0, "source_vocab_size": 3}, "for a shape with an encoder"),
    ],
)
def test_what_does_not_go_with_an_encoder_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(SHAPE, **options)


def test_options_of_the_blocks_hold_in_both_stacks() -> None:
    inputs, sources = drawn(13, 2, 8), drawn(11, 2, 6, seed=2)
    before = built()(inputs, sources)
    for options in ({"activation": Activation.RELU2}, {"encoder_depth": 3}, {"tied": False}):
        after = built(**options)(inputs, sources)
        assert not torch.allclose(before, after, atol=1e-3)


def test_dropout_is_in_training_alone_and_the_same_with_layers_computed_again() -> None:
    inputs, sources = drawn(13, 2, 8), drawn(11, 2, 6, seed=2)
    model = built()
    plain = model(inputs, sources)
    model.regularise(dropout=0.3, label_smoothing=0.0)
    gradients = []
    for recomputes in (False, True):
        model.recomputes = recomputes
        torch.manual_seed(5)
        loss = model(inputs, sources).square().mean()
        loss.backward()
        gradients.append([w.grad.clone() for w in model.parameters() if w.grad is not None])
        model.zero_grad()
    assert all(torch.allclose(a, b) for a, b in zip(*gradients, strict=True))
    assert not torch.allclose(model(inputs, sources), plain, atol=1e-3)
    assert torch.allclose(model.eval()(inputs, sources), plain)
