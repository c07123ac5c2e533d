"""A real `fathom tokenize` that is killed in the middle, and then run again."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fathom.objectives.tokens.making.writer import PROGRESS
from tests.support.places import ROOT

PROGRAM = """
from fathom.objectives.tokens.making import run
from fathom.search.cli import main
run.NOTE_SECONDS = 0.0  # a few megabytes are cut before the first note would be due
main()
"""


def tokenize(folder: Path, out: str) -> "subprocess.Popen[bytes]":
    options = ["--tokenizer", "bpe:400", "--validation", "0.2", "--out", out]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "tokenize", "text.txt", *options],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def made(folder: Path, out: str) -> dict[str, bytes]:
    """The files that the command leaves once it has come to its end."""
    with tokenize(folder, out) as process:
        _, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors.decode()
    return {path.name: path.read_bytes() for path in (folder / out).iterdir()}


def killed_after(folder: Path, out: str, blocks: int) -> int:
    """Kills the command once it has noted more than so many blocks, and returns how many."""
    note = folder / out / PROGRESS
    with tokenize(folder, out) as process:
        while not note.exists() or json.loads(note.read_bytes())["blocks"] <= blocks:
            assert process.poll() is None, "it ended before it was killed"
            time.sleep(0.01)
        process.kill()
    deadline = time.monotonic() + 30
    while is_alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not is_alive(process.pid), "its workers end with it"
    return int(json.loads(note.read_bytes())["blocks"])


def is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.drill
@pytest.mark.timeout(400)
def test_after_two_kills_every_file_is_the_same_to_the_byte(tmp_path: Path) -> None:
    lines = (f"line {n} of {n * n}, and {n % 97} more\n" for n in range(180_000))
    (tmp_path / "text.txt").write_text("".join(lines))
    megabytes = (tmp_path / "text.txt").stat().st_size >> 20
    whole = made(tmp_path, "whole")
    first = killed_after(tmp_path, "cut", 0)
    second = killed_after(tmp_path, "cut", first + 1)
    assert 0 < first < second < megabytes, "both kills were in the middle"
    assert made(tmp_path, "cut") == whole
    assert {"index.json", "tokenizer.json", "train-00000.bin", "validation-00000.bin"} < {*whole}
