"""Study files and run folders damaged as disks, editors, other versions and people damage them.

The same seed gives the same damage.
"""

import gzip
import json
import os
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SCALAR = re.compile(r"(?<=: )[^\s,{}\[\]#&*!][^,{}\[\]\n#]*")
"""A value of a block or flow mapping that is a single word or number."""
KEY = re.compile(r"\b[a-z_]+(?=: |:\n)")

VALUES = (
    *("", "~", "[]", "{}", "true", "-1", "0", "0.5", "1", "3", "-0.0", ".nan", ".inf", "-.inf"),
    *("1e308", "5e-324", "1e400", "9" * 30, "9" * 400, "9" * 5000, "bpe:" + "9" * 5000),
    *("2024-01-31", "2024-13-45", "1:30:00", "0x1F", "1_000", "1k", "300M", "900T", "=", "<<"),
    *("[1]", "[1, 9]", "[9, 1]", "[1, 999999999]", "[[[1]]]", "[1e308, 1e308]", "{a: {b: c}}"),
    *("yes please", "'two\n\n  lines'", '"\\0"', '"\\ud800"', '"\\e[2J"', "日本語", "x" * 30_000),
    *("../../x", "/etc/passwd", "a/b", "<script>alert(1)</script>", "bpe:0", "bpe:99999999999"),
    *("!!python/object/apply:os.mkdir [pwned]", "!!python/name:os.system", "!!binary aGk="),
    *("!!set {a, b}", "!!int x", "!!float []", "!ours 3", "&a [*a]", "&a {k: *a}", "*nowhere"),
)
LINES = (
    *("---", "...", "%YAML 9.9", "? [a, b]\n: 1", "<<: {study: other}", "\ttrials: 3", "- 1"),
    *("5: 6", "~: 1", "version: 2", "space: {depth: [1, 4]}"),
    "a: &a [x, x, x, x]\nb: &b [*a, *a, *a, *a]\nbudgets: [*b, *b, *b, *b]",
)
BYTES = (b"\0", b"\xff", b"\xfe\xff", b"\x80\x81", b"\r", b"\t", b"\x1b", b"\xed\xa0\x80", b"\x85")


def mutated_study(sources: Sequence[str], seed: int) -> bytes:
    """One of the study files after one to three mistakes."""
    rng = random.Random(seed)
    text = rng.choice(sources)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = rng.choice(TEXT_MISTAKES)(text, rng)
    content = text.encode("utf-8", "surrogatepass")
    return rng.choice(BYTE_MISTAKES)(content, rng) if rng.random() < 0.15 else content


def _another_value(text: str, rng: random.Random) -> str:
    if not (places := list(SCALAR.finditer(text))):
        return text
    place = rng.choice(places)
    return text[: place.start()] + rng.choice(VALUES) + text[place.end() :]


def _another_key(text: str, rng: random.Random) -> str:
    if not (places := list(KEY.finditer(text))):
        return text
    place = rng.choice(places)
    new = rng.choice((rng.choice(places)[0], place[0][:-1], "größe", "", "'a b'", "null", "true"))
    return text[: place.start()] + new + text[place.end() :]


def _other_lines(text: str, rng: random.Random) -> str:
    """One line that is missing, repeated, moved, indented, or foreign."""
    lines = text.split("\n")
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines.insert(to, lines[at])
        case 2:
            lines.insert(to, lines.pop(at))
        case 3:
            lines[at] = rng.choice(("\t", " ", "  - ")) + lines[at]
        case _:
            lines.insert(to, rng.choice(LINES))
    return "\n".join(lines)


def cut_short(content: bytes, rng: random.Random) -> bytes:
    """The file cut off after its beginning."""
    return content[: rng.randrange(len(content) + 1)]


def foreign_bytes(content: bytes, rng: random.Random) -> bytes:
    """A few bytes somewhere that do not belong there."""
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice(BYTES) * rng.randint(1, 3) + content[at:]


def zeroed(content: bytes, rng: random.Random) -> bytes:
    """A stretch of zeros, as file systems leave after a power cut."""
    begin = rng.randrange(len(content) + 1)
    length = min(rng.randint(1, 4096), len(content) - begin)
    return content[:begin] + bytes(length) + content[begin + length :]


def _encoded(content: bytes, rng: random.Random) -> bytes:
    text = content.decode("utf-8", "replace")
    return text.encode(rng.choice(("utf-16", "utf-32", "utf-8-sig", "cp037")), "replace")


def _compressed(content: bytes, rng: random.Random) -> bytes:
    return gzip.compress(content, mtime=0)


TEXT_MISTAKES: tuple[Callable[[str, random.Random], str], ...] = (
    *(_another_value, _another_value, _another_value, _another_key, _other_lines),
)
BYTE_MISTAKES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(cut_short, foreign_bytes, zeroed, _encoded, _compressed),
)

JSON_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 0.5, 10**30, 1e308, float("nan"), "", "x", "../../x", [], {}, [1]),
)
FOREIGN_LINES = (b"{}", b"[]", b"5", b'{"trial": "a"}', b"[" * 5000, b"\xff\xfe", b"{'a': 1}", b"")


def damage_run(run: Path, outside: Path, seed: int) -> str:
    """Damage one file of a run folder; which, and how."""
    rng = random.Random(seed)
    path = run / rng.choice(RUN_FILES)
    how = rng.choice(FILE_DAMAGES if path.suffix == ".jsonl" else FILE_DAMAGES[LINE_DAMAGES:])
    if how in BYTE_MISTAKES[:3]:
        path.write_bytes(how(path.read_bytes(), rng))
    else:
        how(path, outside, rng)
    return f"{path.relative_to(run)}: {how.__name__}"


def _edited_line(path: Path, outside: Path, rng: random.Random) -> None:
    """One line with a field that is missing, of another type, or of a newer version."""
    lines = path.read_bytes().splitlines()
    at = rng.randrange(len(lines))
    line = json.loads(lines[at])
    part = line
    while True:
        inner = [value for value in part.values() if isinstance(value, dict) and value]
        inner += [value[-1] for value in part.values() if value and _is_list_of_groups(value)]
        if not inner or rng.random() < 0.5:
            break
        part = rng.choice(inner)
    match rng.randrange(3):
        case 0:
            del part[rng.choice(list(part))]
        case 1:
            part["of_version_9"] = rng.choice(JSON_VALUES)
        case _:
            part[rng.choice(list(part))] = rng.choice(JSON_VALUES)
    lines[at] = json.dumps(line).encode()
    path.write_bytes(b"\n".join(lines) + b"\n")


def _is_list_of_groups(value: object) -> bool:
    return isinstance(value, list) and isinstance(value[-1], dict) and bool(value[-1])


def _moved_lines(path: Path, outside: Path, rng: random.Random) -> None:
    """One line that is missing, repeated, or elsewhere."""
    lines = path.read_bytes().splitlines(keepends=True)
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    line = lines[at] if rng.random() < 0.3 else lines.pop(at)
    if rng.random() < 0.7:
        lines.insert(to, line)
    path.write_bytes(b"".join(lines))


def _foreign_line(path: Path, outside: Path, rng: random.Random) -> None:
    lines = path.read_bytes().splitlines()
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(FOREIGN_LINES))
    path.write_bytes(b"\n".join(lines) + b"\n")


def _other_line_ends(path: Path, outside: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes().replace(b"\n", rng.choice((b"\r\n", b"\r", b""))))


def _emptied(path: Path, outside: Path, rng: random.Random) -> None:
    path.write_bytes(b"")


def _deleted(path: Path, outside: Path, rng: random.Random) -> None:
    path.unlink()


def _folder_in_its_place(path: Path, outside: Path, rng: random.Random) -> None:
    path.unlink()
    path.mkdir()


def _pipe_in_its_place(path: Path, outside: Path, rng: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def _link_to_another(path: Path, outside: Path, rng: random.Random) -> None:
    other = outside / path.name
    path.replace(other)
    path.symlink_to(rng.choice((other, other, outside, path)))


def _its_folder_elsewhere(path: Path, outside: Path, rng: random.Random) -> None:
    """A link in the place of `state` or of `figures`."""
    folder = path.parent if path.parent.name == "state" else path.parent / "figures"
    folder.rename(outside / folder.name)
    folder.symlink_to(outside / folder.name)


def _file_in_its_folders_place(path: Path, outside: Path, rng: random.Random) -> None:
    folder = path.parent / ("checkpoints" if path.parent.name == "state" else "tables")
    folder.rename(outside / folder.name)
    folder.write_text("no folder")


def _binary(path: Path, outside: Path, rng: random.Random) -> None:
    path.write_bytes(rng.randbytes(rng.randint(1, 5000)))


RUN_FILES = (
    *("records.jsonl", "records.jsonl", "records.jsonl", "state/journal.jsonl"),
    *("state/journal.jsonl", "config.yaml", "best.yaml", "state/optuna.log"),
    *("fingerprint.json", "state/seconds"),
)
FILE_DAMAGES: tuple[Callable[..., Any], ...] = (
    *(_edited_line, _edited_line, _edited_line, _moved_lines, _foreign_line),
    *(cut_short, foreign_bytes, zeroed, _other_line_ends, _emptied, _deleted, _binary),
    *(_folder_in_its_place, _pipe_in_its_place, _link_to_another),
    *(_its_folder_elsewhere, _file_in_its_folders_place),
)
LINE_DAMAGES = 5
"""The first of them suit files of JSON lines only."""
