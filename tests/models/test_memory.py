"""The closed form of memory against what PyTorch keeps for backward, and at a step's peak."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from fathom.models.building import class_of
from fathom.models.layers.experts import Experts
from fathom.models.layers.state_space import StateSpace
from fathom.models.memory import Execution, saved_activations, step_memory
from fathom.models.options import Activation, Normalization, Positions, Residual
from fathom.models.parametrization import OptimizerName, Scheme
from fathom.models.shape import Shape
from fathom.objectives.contract import Batch
from fathom.objectives.keys import logit_tokens
from fathom.objectives.token_loss import mean_loss
from tests.support.live_bytes import LiveBytes
from tests.support.models import optimizer_of, scheme_of

SMALL = Shape(depth=3, d_model=48, d_ff=176, n_heads=2, head_dim=20, vocab_size=90, context=40)
SIZES = ((2, 128), (4, 256), (4, 512), (12, 768))
"""Depth and width of the four sizes; the last has 85M parameters beside its embedding."""
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"norm": Normalization.LAYER},
    {"gated": True},
    {"positions": Positions.LEARNED, "biases": True, "norm": Normalization.LAYER},
    {"positions": Positions.NONE, "smeared_keys": True},
    {"residual": Residual.DEEPNORM, "bidirectional": True},
    {"residual": Residual.ADMIN_CLOSED, "norm": Normalization.LAYER},
    {"embedding_rank": 16, "tied": False},
    {"d_ff": 0, "looped": True},
    {"activation": Activation.RELU2, "qk_norm": True},
    {"activation": Activation.RELU2, "biases": True, "queries_per_key": 2},
    {"qk_norm": True, "queries_per_key": 2, "positions": Positions.NONE},
    {"qk_norm": True, "queries_per_key": 2, "smeared_keys": True},
    {"experts": Experts(number=4, top_k=2), "d_ff": 40},
    {"experts": Experts(number=3, top_k=1, shared=1, every=2), "gated": True, "d_ff": 41},
    {"state_space": StateSpace(pattern="M", state=24), "d_ff": 0},
    {"state_space": StateSpace(pattern="MA", state=16, expand=1), "context": 150},
    {"groups": 4, "gated": True},
    {"groups": 2, "biases": True, "looped": True, "queries_per_key": 2},
    {"encoder_depth": 1},
    {"encoder_depth": 2, "norm": Normalization.LAYER, "gated": True, "source_vocab_size": 30},
    {"encoder_depth": 2, "residual": Residual.ADMIN_CLOSED, "positions": Positions.LEARNED},
    {"encoder_depth": 1, "qk_norm": True, "queries_per_key": 2, "embedding_rank": 16},
)


def built(shape: Shape) -> Any:
    scheme = Scheme.COMPLETEP if shape.residual is Residual.PRE else Scheme.STANDARD
    return class_of(shape)(shape, scheme_of(scheme, width=256, depth=2, head_dim=64))


def saved_by_pytorch(shape: Shape, sequences: int, how: Execution) -> int:
    """Bytes of the storages that a forward pass keeps for backward, beside weights and tokens."""
    model, tokens = built(shape), torch.ones(sequences, shape.context, dtype=torch.long)
    model.recomputes = how.recomputes
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage()._cdata] = tensor
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", dtype=torch.bfloat16, enabled=how.bfloat16):
        model(*([tokens, tokens] if shape.encoder_depth else [tokens]))
    for known in (tokens, *model.parameters(), *model.buffers()):
        kept.pop(known.untyped_storage()._cdata, None)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


def peak_of_a_step(shape: Shape, sequences: int, pieces: int, how: Execution) -> int:
    """Largest number of bytes alive during a training step after the first, with fake tensors."""
    with FakeTensorMode(), LiveBytes() as bytes_:
        model = built(shape)
        model.recomputes = how.recomputes
        optimizer = optimizer_of(model, OptimizerName.MUON if how.muon else OptimizerName.ADAMW)
        batch = torch.zeros(2, pieces, sequences, shape.context, dtype=torch.long)
        for _ in range(2):
            bytes_.restart()
            for inputs, targets in zip(*batch, strict=True):
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=how.bfloat16):
                    sources = inputs if shape.encoder_depth else None
                    loss = mean_loss(model, Batch(inputs, targets, sources))
                loss.backward()  # type: ignore[no-untyped-call]
            optimizer.clipped_step(1.0)
        peak: int = bytes_.peak
    return peak


@pytest.mark.parametrize("bfloat16", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_layer_keeps_what_pytorch_keeps(options: dict[str, Any], bfloat16: bool) -> None:
    shape, how = replace(SMALL, **options), Execution(bfloat16=bfloat16)
    predicted, found = saved_activations(shape, 3, how), saved_by_pytorch(shape, 3, how)
    assert predicted == pytest.approx(found, rel=0.02)


def test_layers_that_are_recomputed_keep_the_stream_alone() -> None:
    how = Execution(recomputes=True)
    assert saved_activations(SMALL, 3, how) == pytest.approx(
        saved_by_pytorch(SMALL, 3, how), rel=0.02
    )
    assert saved_activations(SMALL, 3, how) < 0.3 * saved_activations(SMALL, 3, Execution())


def sized(depth: int, d_model: int, vocab_size: int) -> Shape:
    return Shape(
        depth=depth, d_model=d_model, d_ff=4 * d_model, n_heads=d_model // 64, head_dim=64,
        vocab_size=vocab_size, context=1024,
    )  # fmt: skip


OF_MUON: tuple[dict[str, Any], ...] = ({}, {"gated": True, "queries_per_key": 4}, {"groups": 8})
SPLITS = [(6, 6), (11, 1), (1, 5)]
HOWS = (
    (1, Execution(bfloat16=True)),
    (2, Execution()),
    (2, Execution(recomputes=True)),
    (2, Execution(recomputes=True, bfloat16=True)),
)
STEPS = (
    *((sized(*s, v), n, 1, Execution()) for s in SIZES for v in (256, 32_768) for n in (1, 8)),
    *(
        (replace(sized(e + d, 512, 8192), encoder_depth=e), 2, pieces, Execution())
        for e, d in SPLITS
        for pieces in (1, 2)
    ),
    *((sized(6, 256, v), 4, pieces, how) for v in (256, 32_768) for pieces, how in HOWS),
    *(
        (replace(sized(4, 512, 256), context=128, **options), n, 1, Execution(muon=True))
        for options in OF_MUON
        for n in (1, 8)
    ),
    *(
        (replace(sized(6, 256, 256), d_ff=256, experts=Experts(number=8, top_k=2)), n, 1, how)
        for n, how in ((1, HOWS[0][1]), (8, HOWS[0][1]), (8, HOWS[-1][1]))
    ),
    *(
        (replace(sized(4, 256, 256), context=128, state_space=StateSpace(pattern=p)), n, 1, how)
        for p in ("M", "MMMA")
        for n, how in ((8, Execution()), (1, Execution(muon=True)), (8, HOWS[0][1]))
    ),
)
"""Shape, sequences and pieces of a step, and how it is computed."""


@pytest.mark.parametrize(("shape", "sequences", "pieces", "how"), STEPS)
def test_a_steps_peak_is_foretold(
    shape: Shape, sequences: int, pieces: int, how: Execution
) -> None:
    how = replace(how, logit_tokens=logit_tokens(shape.vocab_size))
    predicted = step_memory(shape, sequences=sequences, pieces=pieces, how=how).total
    assert 0.95 <= predicted / peak_of_a_step(shape, sequences, pieces, how) <= 1.10


def test_several_processes_keep_buckets_of_gradients_or_parts_of_everything() -> None:
    shape = sized(12, 768, 256)

    def total(pieces: int, **how: Any) -> int:
        return step_memory(shape, sequences=1, pieces=pieces, how=Execution(**how)).total

    gradients = 4 * shape.params_total
    assert total(1, ranks=2) - total(1) in range(gradients + 1)
    assert total(2, ranks=2) - total(2) == gradients
    assert total(2, ranks=8, shards=True) < 0.5 * total(2)


def test_a_sharded_model_has_room_for_all_of_its_weights_while_it_is_evaluated() -> None:
    shape = sized(48, 4608, 256)
    how = Execution(gpu=True, bfloat16=True, recomputes=True, ranks=4, shards=True)
    predicted = step_memory(shape, sequences=1, how=how).total
    own_part = (4 + 2 * 4) * shape.params_total // 4  # weights and the optimizer's two means
    assert predicted >= own_part + 4 * shape.params_total
