"""Two real processes train what one does: gloo on the CPU where GPUs would use NCCL."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed
from torch import Tensor
from torch.multiprocessing.spawn import spawn

from fathom.objectives.contract import IGNORED, Batch
from fathom.search.training.data_parallel import SINGLE_PROCESS, Ranks
from fathom.search.training.loop import train
from fathom.search.training.micro_batches import weighted_micro_batches
from fathom.search.training.state import Measurement, Training, TrainPlan
from tests.support.toy import CPU, Successor
from tests.support.training import PARAMETRIZATION, SHAPE
from tests.support.training import SHORT_PLAN as PLAN

RANKS = 2


class HalfAsked(Successor):
    """Every sequence asks for another number of tokens, so that ranks have unequal shares."""

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        inputs, targets = Successor.batch(self, seed=seed, step=step, batch_size=batch_size)
        asked = torch.arange(self.context) <= torch.arange(batch_size)[:, None] % self.context
        return Batch(inputs, targets.where(asked, IGNORED))

    def loss(self, model: torch.nn.Module, batch: Batch) -> Tensor:  # type: ignore[override]
        logits, targets = model(batch.inputs).flatten(0, 1).double(), batch.targets.flatten()
        return torch.nn.functional.cross_entropy(logits, targets, ignore_index=IGNORED)


def trained(
    objective: Successor, plan: TrainPlan, ranks: Ranks
) -> tuple[list[Measurement], Tensor]:
    training = Training(SHAPE, PARAMETRIZATION, plan, seed=3, device=CPU, ranks=ranks)
    measurements = list(train(training, objective))
    return measurements, torch.cat([one.flatten() for one in training.model.parameters()]).detach()


def _process(rank: int, folder: Path, objective: Successor, plan: TrainPlan) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=RANKS
    )
    measurements, weights = trained(objective, plan, Ranks(rank, RANKS))
    torch.save(([one.loss for one in measurements], weights), folder / f"{rank}.pt")
    torch.save([one.train_loss for one in measurements], folder / f"{rank}-train.pt")
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("objective", [Successor(), HalfAsked()], ids=["all asked", "half asked"])
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_two_processes_train_the_same_model_as_one(
    tmp_path: Path, objective: Successor, micro_batches: int
) -> None:
    alone, weights = trained(objective, PLAN, SINGLE_PROCESS)
    plan = replace(PLAN, micro_batches=micro_batches)
    spawn(_process, (tmp_path, objective, plan), nprocs=RANKS)  # type: ignore[no-untyped-call]
    for rank in range(RANKS):
        losses, own = torch.load(tmp_path / f"{rank}.pt")
        assert losses == pytest.approx([one.loss for one in alone], rel=1e-5)
        torch.testing.assert_close(own, weights, rtol=1e-4, atol=1e-6)
        train_losses = torch.load(tmp_path / f"{rank}-train.pt")
        assert train_losses == pytest.approx([one.train_loss for one in alone], rel=1e-5)
    assert alone[-1].loss < 0.7 * alone[0].loss


@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_parts_of_all_ranks_are_the_batch_and_weigh_one(count: int) -> None:
    batch = HalfAsked().batch(seed=0, step=0, batch_size=8)
    parts = [
        part
        for rank in range(RANKS)
        for part in weighted_micro_batches(batch, Ranks(rank, RANKS), count)
    ]
    assert torch.equal(torch.cat([part.inputs for part, _ in parts]), batch.inputs)
    assert torch.equal(torch.cat([part.targets for part, _ in parts]), batch.targets)
    weights = [1.0 if weight is None else float(weight) for _, weight in parts]
    assert sum(weights) == pytest.approx(1)


def test_sequences_that_cannot_be_shared_evenly_are_refused() -> None:
    with pytest.raises(ValueError, match="7 sequences can't be shared by 2 GPUs"):
        Ranks(0, RANKS).local_batch(Successor().batch(seed=0, step=0, batch_size=7))
