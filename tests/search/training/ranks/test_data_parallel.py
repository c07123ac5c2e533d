"""Two and four real processes train what one does: gloo on the CPU where GPUs would use NCCL."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.distributed
from torch import Tensor
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.futures import Future

from benchmarks.gpu.processes import in_processes
from fathom.models.layers.state_space import StateSpace
from fathom.models.shape import Shape
from fathom.objectives.contract import IGNORED, Batch
from fathom.search.training.loop import train
from fathom.search.training.micro_batches import weighted_micro_batches
from fathom.search.training.ranks.data_parallel import SINGLE_PROCESS, Ranks
from fathom.search.training.state import Training, TrainPlan
from tests.support.reversal import Reversal
from tests.support.toy import CPU, Successor
from tests.support.training import PARAMETRIZATION, SHAPE
from tests.support.training import SHORT_PLAN as PLAN

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # PyTorch's own, in compiling
]


class HalfAsked(Successor):
    """Every sequence asks for another number of tokens, so that ranks have unequal shares."""

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        inputs, targets, _ = Successor.batch(self, seed=seed, step=step, batch_size=batch_size)
        asked = torch.arange(self.context) <= torch.arange(batch_size)[:, None] % self.context
        return Batch(inputs, targets.where(asked, IGNORED))

    def loss(self, model: torch.nn.Module, batch: Batch) -> Tensor:  # type: ignore[override]
        logits, targets = model(batch.inputs).flatten(0, 1).double(), batch.targets.flatten()
        return torch.nn.functional.cross_entropy(logits, targets, ignore_index=IGNORED)


STACKS: dict[str, Any] = {"encoder_depth": 1, "vocab_size": 10, "context": 8}
"""A shape for sources, which asks for unequal numbers of tokens."""

HYBRID = {"state_space": StateSpace(pattern="MA", state=4)}


class Case(NamedTuple):
    """A training and how it is spread over processes."""

    objective: Successor | Reversal
    shape: Shape
    alone: TrainPlan
    """The plan in one process."""
    plan: TrainPlan


def case(
    objective: Successor | Reversal | None = None, *, shape: dict[str, Any] | None = None,
    alone: TrainPlan = PLAN, **spread: Any,
) -> Case:  # fmt: skip
    shape_of_case = replace(SHAPE, **(shape or {}))
    return Case(objective or Successor(), shape_of_case, alone, replace(alone, **spread))


CASES = {
    "whole models": case(),
    "whole models, half asked": case(HalfAsked()),
    "whole models, two pieces": case(HalfAsked(), micro_batches=2),
    "whole models, compiled": case(compiled=True),
    "parts": case(shards=True),
    "parts, half asked, two pieces": case(HalfAsked(), shards=True, micro_batches=2),
    "parts, measured, layers again": case(
        alone=replace(PLAN, diagnostics=True), shards=True, recomputes=True
    ),
    "parts, best weights": case(alone=replace(PLAN, patience=1), shards=True),
    "parts, compiled": case(shards=True, compiled=True),
    "parts, looped": case(shape={"looped": True}, shards=True),
    "hybrid": case(shape=HYBRID),
    "hybrid, parts, layers again": case(shape=HYBRID, shards=True, recomputes=True),
    "grouped, compiled": case(shape={"groups": 2}, compiled=True),
    "grouped, parts, layers again": case(shape={"groups": 2}, shards=True, recomputes=True),
    "two stacks": case(Reversal(), shape=STACKS),
    "two stacks, two pieces": case(Reversal(), shape=STACKS, micro_batches=2),
    "two stacks, compiled": case(Reversal(), shape=STACKS, compiled=True),
    "two stacks, parts": case(
        Reversal(), shape=STACKS, alone=replace(PLAN, diagnostics=True), shards=True
    ),
    "two stacks, parts, layers again": case(
        Reversal(), shape=STACKS | {"source_vocab_size": 10}, shards=True, recomputes=True
    ),
    "parts, odd sizes": case(
        shape={"d_model": 15, "d_ff": 33, "tied": False, "embedding_rank": 3},
        shards=True,
    ),
}
FOUR_PIECES = {
    "whole models, four pieces": case(HalfAsked(), micro_batches=4),
    "parts, four pieces": case(HalfAsked(), shards=True, micro_batches=4),
}
"""A batch of eight in two processes has four sequences for each."""


class Trained(NamedTuple):
    """What a training measured, and its weights at the end."""

    losses: list[float]
    layers: list[float]
    weights: Tensor
    synchronised: int = 0
    """Number of all-reduces of gradients."""


def trained(case: Case, plan: TrainPlan, ranks: Ranks) -> Trained:
    training = Training(case.shape, PARAMETRIZATION, plan, seed=3, device=CPU, ranks=ranks)
    calls = 0

    def count(state: Any, bucket: GradBucket) -> Future[Tensor]:
        nonlocal calls
        calls += 1
        return allreduce_hook(state, bucket)

    if isinstance(training.network, torch.nn.parallel.DistributedDataParallel):
        training.network.register_comm_hook(None, count)
    measured = list(train(training, case.objective))
    with training.whole():
        weights = torch.cat([weight.detach().flatten() for weight in training.model.parameters()])
    losses = [value for point in measured for value in (point.loss, point.train_loss)]
    layers = [value for point in measured for row in point.layers.values() for value in row]
    return Trained(losses, layers, weights, calls)


def _process(rank: int, folder: Path, size: int, cases: dict[str, Case]) -> None:
    # Blocks are traced and derived as for any compiler; making kernels of them takes a minute.
    torch.compile = partial(torch.compile, backend="aot_eager")
    found = {
        name: tuple(trained(case, case.plan, Ranks(rank, size))) for name, case in cases.items()
    }
    torch.save(found, folder / f"{rank}.pt")


@pytest.mark.parametrize(
    "size",
    [pytest.param(2, marks=pytest.mark.drill), pytest.param(4, marks=pytest.mark.siege)],
)
def test_several_processes_train_the_same_model_as_one(tmp_path: Path, size: int) -> None:
    cases = CASES | (FOUR_PIECES if size == 2 else {})
    in_processes(_process, tmp_path, size, cases, size=size, meeting=tmp_path / "meeting")
    by_rank = [torch.load(tmp_path / f"{rank}.pt") for rank in range(size)]
    for name, case in cases.items():
        alone = trained(case, case.alone, SINGLE_PROCESS)
        slow = case.shape.encoder_depth  # to reverse a source takes longer to learn
        assert alone.losses[-2] < (0.95 if slow else 0.7) * alone.losses[0]
        for found in by_rank:
            result = Trained(*found[name])
            assert result.losses == pytest.approx(alone.losses, rel=1e-5), name
            assert result.layers == pytest.approx(alone.layers, rel=2e-3), name
            torch.testing.assert_close(
                result.weights, alone.weights, rtol=1e-4, atol=1e-6, msg=name
            )
            compiles_once = case.plan.compiled  # a step before the first, whose gradients are freed
            expected = 0 if case.plan.shards else case.plan.steps + compiles_once
            assert result.synchronised == expected, f"{name}: once a step, whatever its pieces"


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("count", [1, 2])
def test_the_parts_of_all_ranks_are_the_batch_and_weigh_one(count: int, size: int) -> None:
    batch = HalfAsked().batch(seed=0, step=0, batch_size=8)
    parts = [
        part
        for rank in range(size)
        for part in weighted_micro_batches(batch, Ranks(rank, size), count)
    ]
    assert torch.equal(torch.cat([part.inputs for part, _ in parts]), batch.inputs)
    assert torch.equal(torch.cat([part.targets for part, _ in parts]), batch.targets)
    weights = [1.0 if weight is None else float(weight) for _, weight in parts]
    assert sum(weights) == pytest.approx(1)


def test_sequences_that_cannot_be_shared_evenly_are_refused() -> None:
    with pytest.raises(ValueError, match="7 sequences can't be shared by 2 GPUs"):
        Ranks(0, 2).local_batch(Successor().batch(seed=0, step=0, batch_size=7))
