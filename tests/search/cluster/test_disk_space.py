"""A disk that fills up pauses a search: `search/cluster/disk_space.py`."""

import errno
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from fathom.search.cluster import disk_space
from fathom.search.cluster.disk_space import DiskSpace
from fathom.search.cluster.interrupt import Interrupt
from fathom.search.records import TrialRecord
from fathom.search.run_folder import RunFolder
from fathom.search.study.hardware.disk import RESERVE, checkpoint_bytes
from tests.support.training import SHAPE, SPEC

LIVE = [
    TrialRecord(
        spec=SPEC, outcome=None, reason="", curve=(), rungs={}, started=0.0, ended=None,
        setup_seconds=0.0, peak_memory_bytes=None,
    )
] * 3  # fmt: skip
ENOUGH = RESERVE + 3 * checkpoint_bytes(SHAPE)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path)
    made.create()
    return made


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes free on the disk, as a list of one number."""
    left = [ENOUGH]
    monkeypatch.setattr(disk_space, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=left[0]))
    return left


def test_a_search_pauses_with_one_line_while_all_trials_can_still_save(
    folder: RunFolder, free: list[int]
) -> None:
    interrupt, said = Interrupt(), list[str]()
    space = DiskSpace(folder, interrupt)
    space.tick(LIVE, said.append)
    assert (said, interrupt.requested) == ([], False)
    free[0] -= 1
    space.tick(LIVE, said.append)
    space.tick(LIVE, said.append)
    assert len(said) == 1
    assert said[0].startswith("The disk is nearly full, 100 MB free, and saving takes up to 100 MB")
    assert folder.ending.exists(), "the trials see it"
    error = interrupt.error
    assert error
    assert error.errno == errno.ENOSPC
    assert error.filename == str(folder.marker.parent)


def test_a_checkpoint_that_is_being_written_takes_no_room_from_others(
    folder: RunFolder, free: list[int]
) -> None:
    (folder.marker.parent / "4k-explore-000.host-1.tmp").write_bytes(bytes(1000))
    free[0] -= 1000
    interrupt = Interrupt()
    DiskSpace(folder, interrupt).tick(LIVE, print)
    assert not interrupt.requested


def test_a_users_request_stays_one(folder: RunFolder, free: list[int]) -> None:
    interrupt, said = Interrupt(), list[str]()
    interrupt.request(folder.ending)
    free[0] = 0
    DiskSpace(folder, interrupt).tick(LIVE, said.append)
    assert (said, interrupt.error) == ([], None)
