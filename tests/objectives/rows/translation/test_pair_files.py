"""Pairs of sentences in files: what is read, and what is said of files that are wrong."""

import gzip
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from fathom.objectives.rows.translation.pair_files import SentencePair, read_pairs
from tests.support.objectives import refused


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_two_files_are_read_line_by_line(tmp_path: Path, ending: str, suffix: str) -> None:
    pack = gzip.compress if suffix else bytes
    for side, lines in (("en", ["Go  on.", "Hi!"]), ("fr", ["Continue\u00a0!", " Salut !"])):
        content = "".join(line + ending for line in lines).encode()
        (tmp_path / f"x.{side}{suffix}").write_bytes(pack(content))

    found, _ = read_pairs((f"{tmp_path}/x.en{suffix}", f"{tmp_path}/x.fr{suffix}"), (1, 2))

    assert found == [SentencePair("Go on.", "Continue !"), SentencePair("Hi!", "Salut !")]


def test_a_table_has_source_and_target_in_the_named_columns(tmp_path: Path) -> None:
    (tmp_path / "x.tsv.gz").write_bytes(gzip.compress(b"7\tGo.\t8\tVa !\n\n9\tHi.\t3\tSalut\n"))

    found, _ = read_pairs(str(tmp_path / "x.tsv.gz"), (4, 2))

    assert found == [SentencePair("Va !", "Go."), SentencePair("Salut", "Hi.")]


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        (b"a\nb\n", b"A\n", ("equally many lines", "got 2 and 1", "belong together")),
        (b"a\n\nc\n\n", b"A\nB\nC\nD\n", ("line 2 of", "x.en", "1 more line", "both sides")),
        (b"a\nb\n", b"A\n \n", ("line 2 of", "x.fr", "target is empty", "both sides")),
        (b"a\n", b"\xff\n", ("x.fr", "UTF-8", "0xff", "convert")),
        (b"\n", b"\n", ("at least one row", "none")),
        (b"a\n", None, ("x.fr must be a readable file",)),
    ],
)
def test_files_that_do_not_fit_are_refused_with_the_line_and_the_remedy(
    tmp_path: Path, source: bytes, target: bytes | None, words: tuple[str, ...]
) -> None:
    (tmp_path / "x.en").write_bytes(source)
    if target is not None:
        (tmp_path / "x.fr").write_bytes(target)
    with refused(*words):
        read_pairs((f"{tmp_path}/x.en", f"{tmp_path}/x.fr"), (1, 2))


@pytest.mark.parametrize(
    ("content", "columns", "words"),
    [
        (b"a\tA\nb\n", (1, 2), ("line 2 of", "2 columns", "got 1", "two files")),
        (b"a\tA\n", (1, 4), ("line 1 of", "4 columns", "got 2", "`columns`")),
        (b"a\tA\nb\t\n", (1, 2), ("line 2 of", "target is empty")),
        (b"a\tA\nb\tB\nc\tC\tx\n", (1, 2), ("line 3 of", "must have 2 columns", "got 3")),
        (b"a,A\nb,B\n", (1, 2), ("line 1 of", "CSV", "csv.reader(sys.stdin)")),
        (b'"a"\t"A"\n"b"\t"B"\n', (1, 2), ("CSV", 'csv.reader(sys.stdin, "excel-tab")')),
        (b"7\ta\t8\tA\n9\tb\t10\tB\n", (1, 2), ("column 1 of", "'9'", "`columns: [2, 4]`")),
        (
            b"id\tof\tx\n7\teng\tA\n9\teng\tB\n",
            (2, 3),
            ("column 2 of", "one repeated text", "'eng'"),
        ),
        ("a\té\n".encode("latin-1"), (1, 2), ("0xe9 in line 1", "iconv -f LATIN1 -t UTF-8")),
        ("a\tA\n".encode("utf-16"), (1, 2), ("is UTF-16", "iconv -f UTF-16")),
        ("a\tA\n".encode("utf-16-le"), (1, 2), ("is binary", "iconv -f UTF-16")),
        (b"a\tA\n" * 100 + b"b\0\tB\n", (1, 2), ("NUL characters", "line 101", "tr -d '\\000'")),
        (b"PK\x03\x04 and so on", (1, 2), ("is a zip file", "unpack")),
    ],
)
def test_a_table_of_the_wrong_form_or_columns_is_refused_with_the_remedy(
    tmp_path: Path, content: bytes, columns: tuple[int, int], words: tuple[str, ...]
) -> None:
    (tmp_path / "x.tsv").write_bytes(content)
    with refused(*words):
        read_pairs(str(tmp_path / "x.tsv"), columns)


def test_one_line_in_a_hundred_with_a_further_tab_is_dropped_and_counted(tmp_path: Path) -> None:
    rows = [f"s{n}\tt{n}" for n in range(200)]
    (tmp_path / "x.tsv").write_text("\n".join([*rows, "a\tb\tc"]))

    pairs, dropped = read_pairs(f"{tmp_path}/x.tsv", (1, 2))

    assert (len(pairs), dropped) == (200, 1)


@pytest.mark.parametrize(
    ("name", "pack"), [("x.tsv", gzip.compress), ("x.tsv.gz", bytes)], ids=["packed", "plain"]
)
def test_gzip_is_told_by_content(tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    (tmp_path / name).write_bytes(pack(b"Go.\tVa !\n"))

    assert read_pairs(f"{tmp_path}/{name}", (1, 2)) == ([SentencePair("Go.", "Va !")], 0)


def test_a_packed_archive_is_to_be_unpacked(tmp_path: Path) -> None:
    (tmp_path / "x.en").write_text("a\n")
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "x.en", "x.en")
    with refused("x.tar.gz must be text, but is a tar archive; unpack it first"):
        read_pairs(str(tmp_path / "x.tar.gz"), (1, 2))
