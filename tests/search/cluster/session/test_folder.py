"""The private folder of Ray on this machine: `search/cluster/session/folder.py`."""

import errno
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fathom.search.cluster.session.folder import RAY, base_folder, private_folder
from tests.support.command_line import run
from tests.support.places import ROOT

MAKES = "from fathom.search.cluster.session.folder import private_folder; print(private_folder())"
KILLED = f"{MAKES}; import os, signal; os.sys.stdout.flush(); os.kill(os.getpid(), signal.SIGKILL)"


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with TemporaryDirectory(dir="/tmp") as folder:  # sockets need a short path
        monkeypatch.setenv("RAY_TMPDIR", folder)
        yield Path(folder)


def in_process(code: str) -> Path:
    """The folder that a process has printed, which has ended."""
    there = os.environ | {"PYTHONPATH": str(ROOT)}
    done = run(sys.executable, "-c", code, env=there, timeout=300)
    return Path(done.stdout.strip())


def test_it_lies_in_a_folder_that_only_this_user_can_enter(base: Path) -> None:
    folder = private_folder()
    assert folder.name == RAY
    assert folder.parent.parent == base
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700


def test_each_has_a_new_name_which_nobody_can_have_taken(base: Path) -> None:
    first, second = private_folder(), private_folder()
    assert first != second
    assert first.parent.exists(), "the folder of a living process stays"


def test_it_is_deleted_with_its_process(base: Path) -> None:
    made = in_process(MAKES)
    assert made.parent.parent == base
    assert not made.parent.exists()


def test_what_a_killed_process_has_left_is_deleted_by_the_next(base: Path) -> None:
    left = in_process(KILLED)
    assert left.parent.exists()
    private_folder()
    assert not left.parent.exists()


def test_a_folder_that_others_can_enter_or_that_has_no_lock_is_left_alone(base: Path) -> None:
    open_to_others, without_lock = base / "fathom-aaaaaaaa", base / "fathom-bbbbbbbb"
    for folder, mode in ((open_to_others, 0o777), (without_lock, 0o700)):
        folder.mkdir()
        folder.chmod(mode)
    (open_to_others / "lock").touch()
    private_folder()
    assert open_to_others.exists()
    assert without_lock.exists()


def test_a_link_in_the_place_of_an_abandoned_folder_is_not_followed(
    base: Path, tmp_path: Path
) -> None:
    (tmp_path / "lock").touch()
    tmp_path.chmod(0o700)
    (base / "fathom-aaaaaaaa").symlink_to(tmp_path)
    private_folder()
    assert (tmp_path / "lock").exists()


def test_a_place_in_which_others_can_rename_folders_is_refused(base: Path) -> None:
    base.chmod(0o777)
    with pytest.raises(OSError, match="others can rename its files") as refused:
        private_folder()
    assert refused.value.filename == str(base)
    base.chmod(0o1777)
    assert private_folder().parent.parent == base


@pytest.mark.parametrize("unusable", ["/proc", "/tmp/" + "x" * 60, "/nowhere"])
def test_a_temporary_folder_that_cannot_be_used_gives_way_to_tmp(
    monkeypatch: pytest.MonkeyPatch, unusable: str
) -> None:
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    monkeypatch.setenv("TMPDIR", unusable)
    assert base_folder() == Path("/tmp")
    monkeypatch.setenv("RAY_TMPDIR", unusable)
    with pytest.raises(OSError) as refused:  # noqa: PT011 - its number depends on the folder
        base_folder()
    assert refused.value.errno in {errno.ENOENT, errno.ENOSPC, errno.EACCES}
