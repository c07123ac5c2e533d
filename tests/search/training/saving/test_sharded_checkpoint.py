"""A trial of which each of two processes keeps a part: saved in parts, and resumed from them."""

import errno
import importlib
import io
import os
import pickle
import shutil
import socket
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed

from benchmarks.gpu.processes import in_processes
from fathom.search.records import Outcome, Report
from fathom.search.run_folder import PARTS
from fathom.search.training import device
from fathom.search.training.assignment import Assignment
from fathom.search.training.ranks.data_parallel import SINGLE_PROCESS, Ranks
from fathom.search.training.saving import checkpoint
from fathom.search.training.saving.sharded_checkpoint import ShardedSaver, with_parts
from fathom.search.training.trial import RunningTrial
from tests.support.planted import PlantedPickle
from tests.support.toy import CPU, Successor
from tests.support.training import BUDGET, CONFIG, SPEC

pytestmark = pytest.mark.drill

PATIENT = CONFIG.model_copy(update={"train": CONFIG.train.model_copy(update={"patience": 100})})
"""So that the states have best weights as well."""


def trial(folder: Path, ranks: Ranks = SINGLE_PROCESS) -> RunningTrial:
    given = Assignment(PATIENT, BUDGET, SPEC, str(folder / "trial.pt"))
    return RunningTrial(given, Successor(), CPU, ranks=ranks)


def until_first_rung(running: RunningTrial) -> list[Report]:
    return list(takewhile(lambda report: not report.rung, running.reports()))


def _process(rank: int, folder: Path) -> None:
    ranks = Ranks(rank, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "usable_memory", lambda *_: 1.0)  # so that no whole model fits
        until_first_rung(trial(folder / "two", ranks))
        torch.distributed.barrier()
        if ranks.is_leader:
            for name in ("one", "damaged", "planted", "piped"):
                shutil.copytree(folder / "two", folder / name)
        torch.distributed.barrier()
        *_, last = trial(folder / "two", ranks).reports()
    torch.save([point.loss for point in last.points], folder / f"{rank}.losses")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sharded")
    (folder / "two").mkdir()
    in_processes(_process, folder, size=2, meeting=folder / "meeting")
    return folder


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    *_, last = trial(tmp_path_factory.mktemp("alone")).reports()
    assert last.outcome is Outcome.FINISHED
    return [point.loss for point in last.points]


class Saving:
    """A state of one sharded tensor that two ranks save."""

    def __init__(self, folder: Path, ranks: Ranks) -> None:
        self.path, self._ranks = folder / "state.pt", ranks
        library: Any = importlib.import_module("torch.distributed.tensor")
        meshes: Any = importlib.import_module("torch.distributed.device_mesh")
        mesh = meshes.init_device_mesh("cpu", (2,))
        whole = torch.arange(2**20, dtype=torch.float32)
        self.tensor = library.distribute_tensor(whole, mesh, [library.Shard(0)])
        self.sum = torch.zeros(1)
        self.saver = ShardedSaver(self.path, ranks)

    def start_then_change(self) -> None:
        """Begins to save, and changes the tensors at once."""
        self.saver.start({"weights": self.tensor, "sum": self.sum})
        self.tensor.to_local().fill_(-1.0)
        self.sum += 1

    def read(self) -> tuple[Any, Any]:
        """Both tensors as they are on disk."""
        torch.distributed.barrier()
        state = checkpoint.load(self.path, CPU)
        assert state is not None
        state = with_parts(state, self.path, lambda: {"weights": self.tensor.clone()})
        return state["weights"].full_tensor(), state["sum"]

    def folders(self) -> list[Path]:
        """The folders of parts that are there."""
        torch.distributed.barrier()
        return list(self.path.parent.glob(f"*{PARTS}"))


def _saves_while_it_trains(rank: int, folder: Path, machines: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "gethostname", lambda: f"machine-{rank % machines}")
        saving = Saving(folder, Ranks(rank, 2))
    saving.start_then_change()
    assert machines == 1 or not saving.saver.is_writing(), "it waits on several machines"
    for _ in range(100):  # as training does meanwhile
        torch.distributed.all_reduce(torch.ones(100))
    saving.saver.finish()
    assert not saving.saver.is_writing()
    weights, total = saving.read()
    assert torch.equal(weights, torch.arange(2**20, dtype=torch.float32))
    assert total == 0


class FullDisk(io.BytesIO):
    """A file on a disk that has room for a megabyte."""

    def write(self, data: Any) -> int:
        if self.tell() > 2**20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


def _disk_is_full_on_one_rank(rank: int, folder: Path) -> None:
    saving = Saving(folder, Ranks(rank, 2))
    saving.start_then_change()
    saving.saver.finish()
    before = saving.folders()
    with pytest.MonkeyPatch.context() as patch:
        if rank == 1:
            files: Any = importlib.import_module("torch.distributed.checkpoint.filesystem")
            patch.setattr(files.FileSystem, "create_stream", lambda *_: FullDisk())
        saving.start_then_change()
        with pytest.raises(checkpoint.DiskFullError):
            saving.saver.finish()
    assert saving.folders() == before
    weights, total = saving.read()
    assert torch.equal(weights, torch.arange(2**20, dtype=torch.float32))
    assert total == 0


def _saves(rank: int, folder: Path) -> None:
    for machines in (1, 2):
        _saves_while_it_trains(rank, folder / f"{machines}", machines)
    _disk_is_full_on_one_rank(rank, folder / "full")


def test_what_changes_while_parts_are_written_is_not_saved_nor_what_a_full_disk_cuts(
    tmp_path: Path,
) -> None:
    """In one pair of processes, since each pair takes seconds to start."""
    for name in ("1", "2", "full"):
        (tmp_path / name).mkdir()
    in_processes(_saves, tmp_path, size=2, meeting=tmp_path / "meeting")


def test_two_processes_resume_from_their_parts_to_the_end_of_one_process(
    trained: Path, alone: list[float]
) -> None:
    for rank in range(2):
        losses = torch.load(trained / f"{rank}.losses")
        assert losses == pytest.approx(alone, rel=1e-4)


def test_one_process_resumes_from_the_parts_of_two(trained: Path, alone: list[float]) -> None:
    folder = trained / "one"
    (parts,) = folder.glob(f"trial.*{PARTS}")
    assert len(list(parts.glob("*.distcp"))) == 2
    first, *_, last = trial(folder).reports()
    assert first.rung
    assert [point.loss for point in last.points] == pytest.approx(alone, rel=1e-4)


def test_without_its_parts_a_trial_begins_anew(trained: Path, alone: list[float]) -> None:
    folder = trained / "damaged"
    for parts in folder.glob(f"trial.*{PARTS}"):
        shutil.rmtree(parts)
    with pytest.warns(UserWarning, match="damaged"):
        running = trial(folder)
    *_, last = running.reports()
    assert [point.loss for point in last.points] == pytest.approx(alone, rel=1e-6)


def test_metadata_that_another_user_has_planted_are_not_run(trained: Path, tmp_path: Path) -> None:
    folder, proof = trained / "planted", tmp_path / "proof"
    for parts in folder.glob(f"trial.*{PARTS}"):
        (parts / ".metadata").write_bytes(pickle.dumps(PlantedPickle(proof)))
    with pytest.warns(UserWarning, match=r"names pathlib\.Path\.touch, which no tensor needs"):
        next(trial(folder).reports())
    assert not proof.exists()


def test_a_pipe_in_the_place_of_metadata_is_not_waited_for(trained: Path) -> None:
    folder = trained / "piped"
    for parts in folder.glob(f"trial.*{PARTS}"):
        (parts / ".metadata").unlink()
        os.mkfifo(parts / ".metadata")
    with pytest.warns(UserWarning, match="it is not a regular file"):
        next(trial(folder).reports())
