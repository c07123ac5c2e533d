"""Text in other encodings than UTF-8: read by its mark, or named with the command for it."""

import re
import subprocess
from pathlib import Path

import pytest

from fathom.objectives.text.encodings import defect_of, encoding_of, utf8_text

FRENCH = "L'\xe9t\xe9 dernier, \xe0 Gen\xe8ve, les \xe9l\xe8ves ont \xe9cout\xe9 la for\xeat. "
ENGLISH = "He said \u201cnever mind\u201d \u2013 and the caf\xe9 owner\u2019s daughter smiled. "
POLISH = "Zażółć gęślą jaźń. Wszyscy ludzie rodzą się wolni i równi. "
RUSSIAN = (
    "\u0412\u0441\u0435 \u0441\u0447\u0430\u0441\u0442\u043b\u0438\u0432\u044b\u0435"
    " \u0441\u0435\u043c\u044c\u0438 \u043f\u043e\u0445\u043e\u0436\u0438 "
    "\u0434\u0440\u0443\u0433 \u043d\u0430 \u0434\u0440\u0443\u0433\u0430."
    " "
)
JAPANESE = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。"
CHINESE = "人人生而自由在尊严和权利上一律平等。"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_text_is_read_by_its_mark(encoding: str) -> None:
    assert utf8_text((FRENCH + JAPANESE).encode(encoding)) == (FRENCH + JAPANESE).encode()
    assert utf8_text("\ufeff".encode("utf-16-be") + FRENCH.encode("utf-16-be")) == FRENCH.encode()


def test_the_head_of_a_text_may_end_inside_a_character() -> None:
    content = CHINESE.encode()[:-1]
    assert utf8_text(content) is None
    assert utf8_text(content, whole=False) == CHINESE[:-1].encode()


@pytest.mark.parametrize(
    ("text", "encoding", "name"),
    [
        (FRENCH, "latin-1", "CP1252"),
        (ENGLISH, "cp1252", "CP1252"),
        (POLISH, "cp1250", "CP1250"),
        (POLISH, "iso8859-2", "ISO-8859-2"),
        (RUSSIAN, "cp1251", "CP1251"),
        (RUSSIAN, "koi8-r", "KOI8-R"),
        (JAPANESE, "shift_jis", "CP932"),
        (JAPANESE, "euc-jp", "EUC-JP"),
        (CHINESE, "gbk", "GB18030"),
        (FRENCH, "utf-16-le", "UTF-16LE"),
        (FRENCH, "utf-16-be", "UTF-16BE"),
        (FRENCH, "mac-roman", "MACINTOSH"),
    ],
)
def test_other_text_is_named_with_the_command_that_converts_it(
    text: str, encoding: str, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "a b.txt"
    file.write_bytes((text * 20).encode(encoding))
    words = defect_of(file, file.read_bytes())
    assert f"(likely {name})" in words
    convert(words)
    assert file.read_text(encoding="utf-8") == text * 20


def convert(words: str) -> None:
    """Runs the command that a message names."""
    command = re.sub(r" (converts it|drops such bytes)$", "", words.partition("; ")[2])
    subprocess.run(command, shell=True, check=True)


@pytest.mark.parametrize(
    ("content", "reason", "left"),
    [
        ((FRENCH * 9).encode()[:-40] + b"\xff" + (FRENCH * 3).encode(), "(damaged UTF-8)", None),
        (
            b"some \0text, and more of it" * 9,
            "a zero byte at offset 5",
            b"some text, and more of it" * 9,
        ),
        ((FRENCH * 9).encode("utf-16")[:-1], "(damaged UTF-16)", None),
    ],
)
def test_damaged_text_is_named_with_the_command_that_drops_the_damage(
    content: bytes, reason: str, left: bytes | None, tmp_path: Path
) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(content)
    words = defect_of(file, content)
    assert reason in words
    if "16" not in reason:  # iconv ends with 1 after it has dropped some bytes
        convert(words)
        found = utf8_text(file.read_bytes())
        assert found is not None
        assert left is None or found == left


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (bytes(range(256)) * 9, "(binary)"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 3, "(binary)"),
        (b"(\xb5/\xfd" + bytes(99), "is a zstd file; fathom tokenize a.txt "),
        (b"PAR1" + bytes(99), "is a parquet file; fathom tokenize a.txt "),
        (b"%PDF-1.7" + bytes(99), "is a PDF file; unpack it"),
    ],
)
def test_what_is_no_text_is_named_for_what_it_is(content: bytes, words: str) -> None:
    assert utf8_text(content) is None
    assert words in defect_of(Path("a.txt"), content)


def test_nothing_is_said_of_nothing() -> None:
    assert utf8_text(b"") == b""
    assert encoding_of(b"\x00\x01\x02\x00") == ""
