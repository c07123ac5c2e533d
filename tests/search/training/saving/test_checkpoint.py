"""Checkpoints that are written while the training goes on."""

import errno
import threading
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import torch

from fathom.search.training.saving import checkpoint
from fathom.search.training.saving.checkpoint import (
    BackgroundSaver,
    DiskFullError,
    GivenUpError,
    forget_unfinished,
)
from tests.support.toy import CPU


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """An event until which nothing is written."""
    save, writes = torch.save, threading.Event()

    def waits(state: object, file: BinaryIO) -> None:
        assert writes.wait(timeout=60)
        save(state, file)

    monkeypatch.setattr(torch, "save", waits)
    return writes


def full_disk(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(state: object, file: BinaryIO) -> None:
        file.write(b"half of a check")
        raise OSError(number, "No space left on device")

    monkeypatch.setattr(torch, "save", full)


def state(value: float) -> dict[str, Any]:
    return {"weights": {"a": torch.full((3,), value)}, "sums": [torch.tensor(value)], "step": value}


def kept(path: Path) -> float | None:
    """The value of the state in a file, which is the same everywhere in it."""
    found = checkpoint.load(path, CPU)
    if found is None:
        return None
    values = {*found["weights"]["a"].tolist(), *map(float, found["sums"]), found["step"]}
    (value,) = values
    return float(value)


def test_what_is_written_is_the_state_of_the_start_though_the_training_goes_on(
    tmp_path: Path, slow_disk: threading.Event
) -> None:
    saver, path, training = BackgroundSaver(tmp_path / "a.pt"), tmp_path / "a.pt", state(1.0)
    saver.start(training)
    training["weights"]["a"] += 1
    training["sums"][0] += 1
    training["step"] = 2.0
    assert saver.is_writing()
    assert kept(path) is None, "a checkpoint is whole or not there"
    slow_disk.set()
    saver.finish()
    assert kept(path) == 1.0
    assert not saver.is_writing()


def test_states_are_written_one_after_the_other(tmp_path: Path) -> None:
    saver, path = BackgroundSaver(tmp_path / "a.pt"), tmp_path / "a.pt"
    for value in range(20):
        saver.start(state(float(value)))
    saver.finish()
    assert kept(path) == 19.0
    assert list(tmp_path.iterdir()) == [path]


def test_a_state_that_is_being_written_is_given_up_for_a_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, begun = torch.save, threading.Event()
    path, saver = tmp_path / "a.pt", BackgroundSaver(tmp_path / "a.pt")

    def halts(state: Any, file: BinaryIO) -> None:
        if state["step"] == 1.0:
            file.write(b"half of a check")
            begun.set()
            assert saver._newer.wait(timeout=60), "a rung waited for the disk"
        save(state, file)

    saver.start(state(0.0))
    saver.finish()
    monkeypatch.setattr(torch, "save", halts)
    saver.start(state(1.0))
    assert begun.wait(timeout=60)
    saver.start(state(2.0))
    saver.finish()
    assert kept(path) == 2.0
    assert list(tmp_path.iterdir()) == [path], "half a file would fill the disk"


def test_a_state_that_is_given_up_leaves_the_one_before(tmp_path: Path) -> None:
    path, stop = tmp_path / "a.pt", threading.Event()
    checkpoint.save(state(1.0), path, stop)
    stop.set()
    with pytest.raises(GivenUpError):
        checkpoint.save(state(2.0), path, stop)
    assert kept(path) == 1.0
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_leaves_the_state_before_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    saver, path = BackgroundSaver(tmp_path / "a.pt"), tmp_path / "a.pt"
    saver.start(state(1.0))
    saver.finish()
    with monkeypatch.context() as patch:
        full_disk(number, patch)
        saver.start(state(2.0))
        with pytest.raises(DiskFullError, match=r"No space left on device: .*a\.pt"):
            saver.finish()
    assert kept(path) == 1.0
    assert list(tmp_path.iterdir()) == [path], "half a file would fill the disk for others"
    saver.start(state(3.0))
    saver.finish()
    assert kept(path) == 3.0


def test_another_error_of_the_disk_costs_one_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = BackgroundSaver(tmp_path / "a.pt")
    full_disk(errno.EIO, monkeypatch)
    saver.start(state(1.0))
    with pytest.warns(UserWarning, match="no checkpoint: "):
        saver.finish()
    assert list(tmp_path.iterdir()) == []


def test_halves_of_killed_workers_are_deleted_and_those_of_other_trials_are_not(
    tmp_path: Path,
) -> None:
    for name in ("8k-1.pt", "8k-1.host.org-7.tmp", "8k-10.host-7.tmp", "18k-1.host-7.tmp"):
        (tmp_path / name).touch()
    forget_unfinished(tmp_path / "8k-1.pt")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"8k-1.pt", "8k-10.host-7.tmp", "18k-1.host-7.tmp"}


def test_a_packed_checkpoint_is_not_used_since_it_could_unpack_to_any_size(tmp_path: Path) -> None:
    path = tmp_path / "trial.pt"
    checkpoint.save(state(1.0), path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data/9", bytes(9))
    with pytest.warns(UserWarning, match="damaged and is not used: it is packed"):
        assert kept(path) is None
