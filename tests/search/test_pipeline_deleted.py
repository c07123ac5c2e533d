"""A run folder that is deleted while its search runs: `search/pipeline.py`."""

import errno
import shutil
from pathlib import Path

import pytest

from fathom.search.pipeline import _ends_when_deleted
from fathom.search.run_folder import RunFolder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "runs" / "demo")
    made.create()
    return made


def test_a_deleted_run_folder_ends_the_search_with_one_error_that_names_it(
    folder: RunFolder,
) -> None:
    shutil.rmtree(folder.path)
    gone = pytest.raises(OSError, match="was deleted while its search ran")
    with gone as ended, _ends_when_deleted(folder):
        folder.records.touch()
    assert (ended.value.errno, ended.value.filename) == (errno.ENOENT, str(folder.path))
    assert not folder.path.exists()


def test_another_file_that_is_missing_is_named_itself(folder: RunFolder) -> None:
    with pytest.raises(FileNotFoundError) as ended, _ends_when_deleted(folder):
        (folder.path / "nowhere").read_bytes()
    assert ended.value.filename == str(folder.path / "nowhere")
