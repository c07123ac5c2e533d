"""The encoding of text: UTF-8, UTF-16, UTF-32 by their byte order marks, others by their bytes."""

import codecs
import importlib
import shlex
from pathlib import Path

from fathom.objectives.files.reading import ARCHIVES

MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Encodings by the byte order mark at the beginning of a text; a longer mark comes before a mark
that begins it."""
COLUMNS = ("zstd", "parquet")
"""Kinds of files that `fathom tokenize` reads."""
WESTERN = frozenset(
    {*range(0x80), *range(0xC0, 0x100)} - {0xD0, 0xD7, 0xDD, 0xDE, 0xF0, 0xF7, 0xFD, 0xFE}
    | {0x80, 0x82, 0x84, 0x85, 0x8C, *range(0x91, 0x98), 0x99, 0x9C, 0xA0, 0xA1, 0xA3, 0xA7, 0xA9}
    | {0xAB, 0xAE, 0xB0, 0xB4, 0xB7, 0xBB, 0xBF}
)
"""Bytes that Western European text has in CP1252: letters, quotation marks, dashes and the like."""
MOST_WESTERN = 0.25
"""Largest share of these bytes in Western text; Cyrillic and Asian text has more."""
ENCODINGS = {
    "cp1250": "CP1250", "cp1251": "CP1251", "cp1253": "CP1253", "cp1255": "CP1255",
    "cp1256": "CP1256", "koi8_r": "KOI8-R", "iso8859_2": "ISO-8859-2", "mac_roman": "MACINTOSH",
    "cp850": "CP850", "cp932": "CP932", "euc_jp": "EUC-JP", "gb18030": "GB18030", "big5": "BIG5",
    "cp949": "CP949", "cp1252": "CP1252",
}  # fmt: skip
"""Names for iconv of the encodings that are tried."""
LOOKED_AT = 1 << 16
"""Number of bytes by which the encoding is judged."""
DAMAGE = 100
"""Fewest bytes beyond ASCII per invalid byte at which text counts as damaged UTF-8."""


def utf8_text(content: bytes, *, whole: bool = True) -> bytes | None:
    """The text as UTF-8 without a byte order mark and, unless `whole`, without a torn last
    character. None for content that is no text, or has another encoding."""
    encoding = next((name for mark, name in MARKS.items() if content.startswith(mark)), "utf-8")
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(content, final=whole)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text.encode()


def is_recoded(content: bytes) -> bool:
    """True for text whose mark shows that it is not UTF-8 on the disk."""
    return content.startswith(tuple(MARKS)[1:])


def defect_of(file: Path, content: bytes) -> str:
    """The reason why a file is not read as text, and the command that converts it."""
    if kind := next((kind for first, kind in ARCHIVES.items() if content.startswith(first)), ""):
        return f"is a {kind} file; {_unpacked(file, kind)}"
    at = content.find(0)
    reason = f"a zero byte at offset {at}"
    if at < 0:
        try:
            content.decode()
        except UnicodeDecodeError as error:
            at = error.start
        reason = f"the invalid byte 0x{content[at]:02x} at offset {at}"
    return f"has {reason}{_remedy(file, content)}"


def _unpacked(file: Path, kind: str) -> str:
    place = shlex.quote(str(file))
    if kind in COLUMNS:
        return f"fathom tokenize {place} --tokenizer bpe:8192 --out FOLDER reads it"
    return f"unpack it, or leave {place} out"


def _remedy(file: Path, content: bytes) -> str:
    """The likely encoding and the command that converts it; the command alone for damaged UTF-8."""
    place, new = (shlex.quote(str(path)) for path in (file, file.with_name(f"{file.name}.utf8")))
    moved = f"{new} && mv {new} {place}"
    encoding = "UTF-16" if is_recoded(content) else encoding_of(content)
    if not encoding:
        return " (binary); leave it out, or convert it to UTF-8"
    if encoding in ("UTF-8", "UTF-16"):
        drop = f"iconv -c -f {encoding} -t UTF-8 {place} > {moved}"
        return f" (damaged {encoding}); {drop} drops such bytes"
    if encoding == "NUL":
        return f"; tr -d '\\000' < {place} > {moved} drops such bytes"
    return f" (likely {encoding}); iconv -f {encoding} -t UTF-8 {place} > {moved} converts it"


def encoding_of(content: bytes) -> str:
    """The likely encoding of text without a mark, by iconv's name; `NUL` for UTF-8 with a few zero
    bytes, empty for anything but text."""
    sample = content[:LOOKED_AT]
    if (zeros := sample.count(0)) > len(sample) // 5:
        name = "UTF-16LE" if sample[1::2].count(0) > sample[::2].count(0) else "UTF-16BE"
        return name if _decodes(content, name) else ""
    high = sum(byte > 127 for byte in sample)
    if zeros:
        return "NUL" if _decodes(content.replace(b"\0", b""), "utf-8") else ""
    invalid = sample.decode("utf-8", "replace").count("\ufffd")
    if high > DAMAGE * (invalid - 1) and high > 2 * invalid:
        return "UTF-8"
    western = high <= MOST_WESTERN * len(sample) and {*sample} <= WESTERN
    if western and _decodes(content, "cp1252"):
        return "CP1252"  # Latin-1 too: text has no byte in which the two differ
    guesses = importlib.import_module("fathom.objectives.text.guesses")  # UTF-8 needs none
    name = guesses.likely_encoding(sample, list(ENCODINGS))
    return ENCODINGS.get(name, "") if name and _decodes(content, name) else ""


def _decodes(content: bytes, encoding: str) -> bool:
    """True if all of the content is text in an encoding, with hardly a control character."""
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        return False
    odd = sum(not (char.isprintable() or char.isspace()) for char in text[:LOOKED_AT])
    return "\0" not in text and DAMAGE * odd <= len(text)
