"""Reading what a user names: `objectives/files/reading.py`."""

import errno
from pathlib import Path

import pytest

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.files import reading as files
from fathom.objectives.files.reading import check_bounded, matches, open_regular, source_errors
from fathom.objectives.text.corpus import check_corpus
from fathom.objectives.tokens.making.sources import find_sources


@pytest.mark.parametrize("place", ["/**/*", "/*/**", "/", "//", "/tmp/../**/*.txt", "/*/x/**/y"])
def test_the_whole_disk_is_no_data(place: str) -> None:
    for refuse in (check_bounded, check_corpus, find_sources):
        with pytest.raises(ObjectiveError, match="which is the whole disk"):
            refuse(place)


@pytest.mark.parametrize("place", ["/proc/self/mem", "/proc/*/maps", "/sys"])
def test_a_system_file_is_no_data(place: str) -> None:
    for refuse in (check_bounded, check_corpus, find_sources):
        with pytest.raises(ObjectiveError, match="system file, which may never end"):
            refuse(place)


def test_what_the_system_can_not_read_is_one_line_and_a_full_disk_is_not_of_the_source() -> None:
    with (
        pytest.raises(ObjectiveError, match=r"^/none can't be read: No such.*; check the path"),
        source_errors("here"),
    ):
        open_regular(Path("/none"))
    with pytest.raises(OSError, match="No space left"), source_errors("here"):
        raise OSError(errno.ENOSPC, "No space left")


def test_a_link_to_the_whole_disk_is_the_whole_disk(tmp_path: Path) -> None:
    (tmp_path / "all").symlink_to("/")
    for place in (tmp_path / "all", tmp_path / "all" / "**" / "*"):
        with pytest.raises(ObjectiveError, match="which is the whole disk"):
            check_bounded(str(place))


def test_links_in_circles_are_entered_once(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").touch()
    for name in "bcdefghi":
        (tmp_path / name).symlink_to(".")
    outside = tmp_path / "in" / "linked"
    outside.symlink_to(tmp_path / "in")
    for pattern in ("**/*.txt", "in/**/*.txt", "**/in/**"):
        assert tmp_path / "in" / "a.txt" in matches(f"{tmp_path}/{pattern}")
    assert len(matches(f"{tmp_path}/**/*.txt")) == 1


def test_a_glob_matches_in_order_and_only_so_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["a.txt", "b.txt", "in/c.txt"]
    (tmp_path / "in").mkdir()
    for name in reversed(names):
        (tmp_path / name).touch()
    assert matches(f"{tmp_path}/**/*.txt") == [tmp_path / name for name in names]
    monkeypatch.setattr(files, "MOST_MATCHES", 2)
    assert len(matches(f"{tmp_path}/*.txt")) == 2
    with pytest.raises(ObjectiveError, match=r"at most 2 files, got more for .*folder"):
        matches(f"{tmp_path}/**/*.txt")
