"""Trials that share a GPU in which only Ray believes, and its faults: `search/cluster`."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from fathom.objectives.contract import Batch
from fathom.search.cluster.tune import run_trials
from fathom.search.records import TrialRecord
from fathom.search.study.file.study_file import parse
from fathom.search.study.hardware.mps import PIPES
from fathom.search.study.keys.groups import ResourcesConfig
from tests.support.ray_folder import ray_with_gpus
from tests.support.searches import new_search
from tests.support.toy import Successor
from tests.support.whole_records import differences, whole_records

STUDY = parse("""
study: shared
objective: {name: language, context: 6}
budgets: [8k]
count: non_embedding
tokens: 3k
space: {depth: [1, 4], n_heads: 2}
sampler: ladder
confirm: {depths: 2, seeds: 1, rates: [1]}
train: {batch_size: 4, evaluations: 4, learning_rate: 1e-2, diagnostics: false}
resources: {cpus_per_trial: 0.5}
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class OnOneGpu(Successor):
    """Steps that are noted with the folder of CUDA's MPS; the GPU fails so many of them at step
    40."""

    notes: Path
    faults: int = 0

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        (self.notes / "pipes").write_text(os.environ.get(PIPES, "none"))
        had = len(list(self.notes.glob("fault-*")))
        if step == 40 and had < self.faults:
            (self.notes / f"fault-{had}").touch()
            raise torch.AcceleratorError("CUDA error: unspecified launch failure\nmore of it")
        return Successor.batch(self, seed=seed, step=step, batch_size=batch_size)


@pytest.fixture(scope="module")
def _one_gpu() -> Iterator[None]:
    with ray_with_gpus(1):
        yield


def searched(folder: Path, gpus: float, pipes: Path | None, faults: int) -> dict[str, TrialRecord]:
    """The whole records of a search with so many GPUs a trial and faults of the GPU."""
    folder.mkdir()
    search = new_search(folder / "run", STUDY, 8)
    resources = ResourcesConfig(gpus_per_trial=gpus, cpus_per_trial=0.5)
    objective = OnOneGpu(notes=folder, faults=faults)
    run_trials(search, objective, resources=resources, pipes=pipes)
    assert search.done
    assert len(list(folder.glob("fault-*"))) == faults
    assert (folder / "pipes").read_text() == str(pipes or "none")
    return whole_records(search.folder)


@pytest.mark.siege
@pytest.mark.usefixtures("_one_gpu")
def test_four_trials_on_a_gpu_that_fails_six_times_give_the_records_of_one_on_a_sound_gpu(
    tmp_path: Path,
) -> None:
    shared = searched(tmp_path / "shared", 0.25, tmp_path / "pipes", faults=6)
    alone = searched(tmp_path / "alone", 1, None, faults=0)

    assert differences(shared, alone) == []
