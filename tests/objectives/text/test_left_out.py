"""Text of a corpus that is not read is named before anything is spent."""

import gzip
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fathom.objectives.text import left_out
from fathom.objectives.text.left_out import left_out_note
from fathom.search.study.planning.draft import look
from tests.support.objectives import keys_of, prepared

TEXT = "the caf\xe9 at the corner is open until late in the evening\n" * 40
SOUND = {"a.txt": TEXT.encode(), "b.md": TEXT.upper().encode(), "sub/c": b"plain\n" * 99}


def write(folder: Path, files: Mapping[str, bytes]) -> str:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return str(folder)


def keys(corpus: str) -> Any:
    return keys_of("language", corpus=corpus, context=16, eval_tokens=64)


def test_nothing_is_said_where_everything_is_read(tmp_path: Path) -> None:
    corpus = write(tmp_path, SOUND | {".DS_Store": b"\0", ".git/a.txt": b"x", "d.txt.gz": GZIPPED})
    assert left_out_note(corpus) == ""
    assert left_out_note(f"{corpus}/*.txt") == ""
    assert left_out_note("stdlib") == ""


GZIPPED = gzip.compress(TEXT.encode())


def test_files_of_other_encodings_are_named_in_plan_run_and_init(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = {"x.txt": TEXT.encode("latin-1"), "y.txt": TEXT.encode("utf-16-le")}
    marked = {"z.txt": TEXT.encode("utf-16")}
    corpus = write(tmp_path, SOUND | wrong | marked)
    note = keys(corpus).data_note()
    assert "left out 2 of 6 files, 41% of the bytes" in note
    assert f"{corpus}/x.txt has the invalid byte 0xe9 at offset 7 (likely CP1252); iconv" in note
    assert "y.txt has a zero byte at offset 1 (likely UTF-16LE)" in note
    assert "z.txt" not in note
    assert look(corpus, "bytes").left_out == note
    with caplog.at_level(logging.WARNING):
        task = prepared("language", corpus=corpus, context=16, eval_tokens=64)
    assert note in caplog.text
    assert "caf\xe9".encode() in bytes(task.train)


def test_epochs_count_the_text_that_is_read(tmp_path: Path) -> None:
    corpus = write(tmp_path, {"a.txt": TEXT.encode()})
    before = keys(corpus).most_train_tokens()
    write(tmp_path, {"b.txt": TEXT.encode("latin-1") * 9})
    assert keys(corpus).most_train_tokens() == before
    write(tmp_path, {"c.txt": TEXT.encode("utf-16")})
    assert keys(corpus).most_train_tokens() == 0


def test_of_many_files_the_first_are_named_and_all_are_counted(tmp_path: Path) -> None:
    many = {f"{number:03}.txt": TEXT.encode("latin-1") for number in range(300)}
    note = left_out_note(write(tmp_path, SOUND | many))
    assert "left out 300 of 303 files, 99% of the bytes" in note
    assert "004.txt" in note
    assert "005.txt" not in note
    assert note.endswith("and 295 more")


def test_of_a_large_corpus_only_heads_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_out, "WHOLE_BYTES", 1000)
    monkeypatch.setattr(left_out, "HEAD_BYTES", 65)  # inside a character beyond ASCII
    wrong = {"w.txt": b"\xff" + TEXT.encode()}
    note = left_out_note(write(tmp_path, SOUND | wrong | {"d.gz": GZIPPED}))
    assert "left out 1 of 5 files" in note


@pytest.mark.parametrize(
    ("files", "pattern", "words"),
    [
        ({"e.txt": b""}, "", "e.txt is empty"),
        ({".h.txt": b"text"}, "", ".h.txt is hidden (rename it)"),
        ({".h/i.txt": b"text"}, "", "i.txt is hidden (rename it)"),
        ({"a.txt.gz": GZIPPED}, "", "a.txt.gz (the same as a.txt?)"),
        ({"B.TXT": b"text"}, "*.txt", "B.TXT differs from the pattern in upper and lower case"),
        ({"d/e.txt": b"text"}, "*", "d is a folder (use ** in the pattern"),
        ({"p.txt": bytes(range(256))}, "*.txt", "p.txt has a zero byte at offset 0 (binary)"),
    ],
)
def test_text_that_is_passed_over_is_named(
    files: dict[str, bytes], pattern: str, words: str, tmp_path: Path
) -> None:
    corpus = write(tmp_path, SOUND | files)
    assert words in left_out_note(f"{corpus}/{pattern}" if pattern else corpus)


def test_links_to_text_elsewhere_are_named_and_loops_are_not(tmp_path: Path) -> None:
    write(tmp_path / "far", {"a.txt": b"text"})
    corpus = write(tmp_path / "texts", SOUND)
    (tmp_path / "texts" / "loop").symlink_to(tmp_path / "texts")
    assert left_out_note(corpus) == ""
    (tmp_path / "texts" / "far").symlink_to(tmp_path / "far")
    (tmp_path / "texts" / "gone.txt").symlink_to(tmp_path / "nothing")
    note = left_out_note(corpus)
    assert "far is a link to a folder, which is not followed" in note
    assert "gone.txt is a link to nothing" in note
    assert "loop" not in note
