"""A trial of which each of two processes keeps a part: saved in parts, and resumed from them."""

import os
import pickle
import shutil
from itertools import takewhile
from pathlib import Path

import pytest
import torch
import torch.distributed

from benchmarks.gpu.processes import in_processes
from fathom.search.records import Outcome, Report
from fathom.search.run_folder import PARTS
from fathom.search.training import device
from fathom.search.training.assignment import Assignment
from fathom.search.training.ranks.data_parallel import SINGLE_PROCESS, Ranks
from fathom.search.training.trial import RunningTrial
from tests.support.planted import PlantedPickle
from tests.support.toy import CPU, Successor
from tests.support.training import BUDGET, CONFIG, SPEC

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
