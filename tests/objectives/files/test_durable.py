"""A power cut leaves the old file or the new one: `objectives/files/durable.py`, all who rename."""

import ast
import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from fathom.objectives.files.durable import make_folder, put_all_in_place, put_in_place
from fathom.objectives.text.corpus import Corpus
from fathom.objectives.text.encode import Encoding
from fathom.objectives.text.language.cache import _keep
from fathom.search.json_lines import append_line
from fathom.search.run_folder import write_atomically
from fathom.search.scheduling.optuna.optuna_studies import open_file
from fathom.search.training.saving import checkpoint
from tests.support.disk import WatchedDisk
from tests.support.places import ROOT


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> WatchedDisk:
    return WatchedDisk(monkeypatch)


def optuna_put_aside(folder: Path) -> None:
    path = folder / "optuna.log"
    path.write_text('{"op_code": 99}\n')
    open_file(path)


def cached_tokens(folder: Path) -> None:
    ids = np.arange(10, dtype=np.uint8)
    text = Corpus(train=b"ten bytes.", validation=b"ten bytes.")
    _keep(folder / "entry", text, Encoding(train=ids, validation=ids, vocab_size=256))


WRITERS: dict[str, Callable[[Path], object]] = {
    "file.txt": lambda folder: write_atomically(folder / "file.txt", "text"),
    "trial.pt": lambda folder: checkpoint.save({"a": torch.zeros(3)}, folder / "trial.pt"),
    "optuna.log.damaged": optuna_put_aside,
    "entry": cached_tokens,
}


@pytest.mark.parametrize("name", WRITERS)
def test_what_is_renamed_is_on_the_disk_before_and_its_name_after(
    tmp_path: Path, disk: WatchedDisk, name: str
) -> None:
    WRITERS[name](tmp_path)
    assert disk.renamed[-1] == name
    assert (disk.unsafe, disk.unsynced) == ([], set())


def test_nothing_is_renamed_before_all_of_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "a.tmp").write_text("new")
    full = OSError(errno.EIO, "the disk is gone")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(full))
    with pytest.raises(OSError, match="the disk is gone"):
        put_all_in_place([(tmp_path / "a.tmp", tmp_path / "a")])
    assert (tmp_path / "a").read_text() == "old"


def test_a_file_system_that_syncs_no_folder_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sync(descriptor: int) -> None:
        if Path(os.readlink(f"/proc/self/fd/{descriptor}")).is_dir():
            raise OSError(errno.EINVAL, "no folders here")

    monkeypatch.setattr(os, "fsync", sync)
    (tmp_path / "draft").write_text("new")
    put_in_place(tmp_path / "draft", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "new"


def test_a_folder_that_is_made_has_its_name_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, sync = list[str](), os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    make_folder(tmp_path / "runs" / "mine")
    assert set(synced) == {str(tmp_path), str(tmp_path / "runs")}
    synced.clear()
    make_folder(tmp_path / "runs" / "mine")
    assert not synced
    append_line(tmp_path / "runs" / "mine" / "records.jsonl", {"a": 1})
    assert synced == [str(tmp_path / "runs/mine/records.jsonl"), str(tmp_path / "runs/mine")]


def test_one_function_renames_files() -> None:
    """A method `rename` or `replace` with one argument is a path's; those of text have two. A lock
    of Ray's folder need not survive a power cut: nothing in that folder does."""
    found = [
        (str(path.relative_to(ROOT)), ast.unparse(node.func))
        for folder in ("objectives", "search")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and _renames(node.func, len(node.args))
    ]
    lock = ("search/cluster/session/folder.py", "new.rename")
    assert sorted(found) == [("objectives/files/durable.py", "os.replace"), lock]


def _renames(function: ast.expr, arguments: int) -> bool:
    if not isinstance(function, ast.Attribute):
        return False
    owner = ast.unparse(function.value)
    if owner in ("os", "shutil"):
        return function.attr in ("replace", "rename", "renames", "move")
    is_path = arguments == 1 and owner not in ("dataclasses", "run")  # a run of MLflow has a name
    return is_path and function.attr in ("replace", "rename")
