"""Files of folders and patterns."""

from pathlib import Path, PurePosixPath

import pytest

from fathom.search.tables.errors import TableError
from fathom.search.tables.folders import finding
from fathom.search.tables.folders.finding import find_files, is_pattern, stem


def made(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")


def test_a_folder_has_logs_event_files_and_others(tmp_path: Path) -> None:
    made(tmp_path, "a/train.log", "b/log.txt.gz", "a/events.out.tfevents.1.h", "runs.csv")
    made(tmp_path, ".git/a.log", "a/.b.log")
    (tmp_path / "latest.log").symlink_to(tmp_path / "a/train.log")
    found = find_files(str(tmp_path))

    assert [found.name(path) for path in found.logs] == ["a/train.log", "b/log.txt.gz"]
    assert [found.name(path) for path in found.events] == ["a/events.out.tfevents.1.h"]
    assert [found.name(path) for path in found.tables] == ["runs.csv"]


def test_a_pattern_may_name_files_of_any_kind_and_folders(tmp_path: Path) -> None:
    made(tmp_path, "runs/d4/stdout", "runs/d8/stdout", "runs/d8/x.log", "runs/e/x.log")
    found = find_files(str(tmp_path / "runs/*/stdout"))
    assert found.root == tmp_path / "runs"
    assert [found.name(path) for path in found.logs] == ["d4/stdout", "d8/stdout"]
    found = find_files(str(tmp_path / "runs/[de]*"))
    assert [found.name(path) for path in found.logs] == ["d8/x.log", "e/x.log"]
    assert not find_files(str(tmp_path / "none*")).logs
    found = find_files(str(tmp_path / "runs/e/x.log"))
    assert [found.name(path) for path in found.logs] == ["x.log"]


def test_a_name_that_is_there_is_no_pattern(tmp_path: Path) -> None:
    made(tmp_path, "a[1].log")
    assert not is_pattern(str(tmp_path / "a[1].log"))
    assert is_pattern(str(tmp_path / "b[1].log"))
    assert not is_pattern("sqlite:///a.db?mode=ro")


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "MOST_FILES", 2)
    made(tmp_path, "a.log", "b.log", "c.log")
    with pytest.raises(TableError, match="at most 2 files, got more; name the logs by a pattern"):
        find_files(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "plain"), [("lr=0.01.log", "lr=0.01"), ("d8.txt.gz", "d8"), ("lr=0.01", "lr=0.01")]
)
def test_a_stem_keeps_the_points_of_numbers(name: str, plain: str) -> None:
    assert stem(PurePosixPath("a") / name) == plain
