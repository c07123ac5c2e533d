"""A search ends when its hours are over or its disk fills up: `search/cluster/early_end.py`."""

import errno
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from fathom.search.cluster import early_end
from fathom.search.cluster.early_end import DiskSpace, TimeLimit, taken_seconds
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
    monkeypatch.setattr(early_end, "LOOK_SECONDS", 0.0)
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
    assert isinstance(error, OSError)
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


def test_hours_of_earlier_runs_count_and_the_search_is_asked_to_end(folder: RunFolder) -> None:
    now, said = [1000.0], list[str]()
    first = TimeLimit(folder, 1.0, now[0], Interrupt(), lambda: now[0])
    now[0] += 3000
    first.tick(said.append)  # killed after this

    interrupt = Interrupt()
    now[0] = 90_000.0
    second = TimeLimit(folder, 1.0, now[0], interrupt, lambda: now[0])
    second.tick(said.append)
    assert said == []
    now[0] += 601
    second.tick(said.append)
    second.tick(said.append)

    assert (second.over, interrupt.requested, folder.ending.exists()) == (True, True, True)
    assert said == ["1 hours are over: trials under way save"]
    assert taken_seconds(folder) == 3601.0
    assert TimeLimit(folder, 1.0, now[0], Interrupt(), lambda: now[0]).over
    assert not TimeLimit(folder, 2.0, now[0], Interrupt(), lambda: now[0]).over
    assert not TimeLimit(folder, None, now[0], Interrupt(), lambda: now[0]).over


def test_a_clock_that_is_set_a_day_ahead_ends_no_search(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = TimeLimit(folder, 1.0, time.monotonic(), Interrupt())
    tomorrow = time.time() + 86_400
    monkeypatch.setattr("time.time", lambda: tomorrow)
    limit.tick(print)
    assert not limit.over


@pytest.mark.parametrize("damage", ["", "soon", "-3", "nan", "inf", "\0"])
def test_a_damaged_note_of_the_time_counts_as_none(folder: RunFolder, damage: str) -> None:
    folder.seconds.write_text(damage)

    assert taken_seconds(folder) == 0.0
