"""Tokens, trainers and models of the user's own that can't be right: one line and exit status 2."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fathom.search.cli import main

TOKENS = {"name": "tokens", "train": "ids.bin", "vocabulary": 9, "context": 32}
COMMAND = ["python", "train.py", "{depth}", "{d_model}", "{folder}"]
EXTERNAL = {"name": "external", "vocabulary": 256, "context": 32}
MODELS = "tests.support.own_models"


def tokens(ids: bytes = bytes(80_000), name: str = "ids.bin", **keys: Any) -> list[str]:
    Path(name).write_bytes(ids)
    return study(objective=TOKENS | {"train": name} | keys)


def header(*numbers: int) -> bytes:
    return np.array([*numbers, *[0] * (256 - len(numbers))], "<i4").tobytes()


def shards(*, tokens: int, length: int) -> list[str]:
    shard = {"file": "train-00000.bin", "tokens": tokens, "sha256": "0" * 64}
    split = {"tokens": 9000, "documents": 1, "bytes": 9000, "shards": [shard]}
    index = {"format": "fathom-tokens-1", "dtype": "uint16", "vocabulary": 9, "end": None}
    Path("shards").mkdir()
    Path("shards/index.json").write_text(json.dumps({**index, "splits": {"train": split}}))
    Path("shards/train-00000.bin").write_bytes(bytes(length))
    return study(objective=TOKENS | {"train": "shards"})


def trainer(command: object = COMMAND, objective: object = EXTERNAL, **train: Any) -> list[str]:
    return study(objective=objective, train={"command": command, "batch_size": 4} | train)


def model(function: str, **keys: Any) -> list[str]:
    objective = {"name": "tokens", "train": "ids.bin", "vocabulary": 9, "context": 12}
    Path("ids.bin").write_bytes(bytes(80_000))
    return study(objective=objective, model={"build": f"{MODELS}:{function}"} | keys)


def study(verb: str = "plan", **keys: object) -> list[str]:
    content = {"study": "s", "budgets": ["20k"], "tokens": "64k", **keys}
    Path("study.yaml").write_text(json.dumps(content))
    return [verb, "study.yaml"]


def text(content: str, name: str, *options: str) -> list[str]:
    Path(name).write_text(content)
    return ["tokenize", name, "--out", "made", *options]


CASES: dict[str, tuple[Callable[[], list[str]], str]] = {
    "a cut shard": (lambda: shards(tokens=9000, length=17_998), "file of 18000 bytes"),
    "an index that does not add up": (lambda: shards(tokens=8999, length=18_000), "not their sum"),
    "half an id": (lambda: tokens(bytes(80_001)), "whole ids of 2 bytes"),
    "another version": (lambda: tokens(header(20240520, 9, 4)), "version 1 in its header"),
    "more than the header says": (
        lambda: tokens(header(20240520, 1, 4) + bytes(99)),
        "1032 bytes for the 4 tokens",
    ),
    "ids above the vocabulary": (
        lambda: tokens(np.full(40_000, 9, "<u2").tobytes()),
        "below the size of the vocabulary, 9, got 9 in",
    ),
    "no vocabulary": (lambda: tokens(vocabulary=None), "`tokenizer` must name"),
    "no file": (lambda: study(objective=TOKENS), "a file, a folder or a glob"),
    "a text": (lambda: tokens(b"some text", "text.txt"), "`fathom tokenize`"),
    "parquet": (lambda: tokens(b"PAR1", "ids.parquet"), "--tokenizer ids"),
    "fewer than a sequence": (lambda: tokens(bytes(60)), "longer than `context`"),
    "a check of a command": (
        lambda: ["check", trainer()[1]],
        "`train.command` trains this study's shapes",
    ),
    "a count that is off": (lambda: model("quadratic"), "must be affine in depth"),
    "no text": (lambda: ["tokenize", "none", "--tokenizer", "bytes", "--out", "o"], "SOURCE must"),
    "another key": (
        lambda: text('{"body": "a"}\n', "a.jsonl", "--tokenizer", "bytes"),
        "name another --field",
    ),
    "no tokenizer": (lambda: text("a", "a.txt", "--tokenizer", "x.json"), "a tokenizer.json"),
    "ids of how many": (lambda: text("a", "a.txt", "--tokenizer", "ids"), "`--vocabulary`"),
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_what_can_not_be_right_is_one_line_with_exit_status_2(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, words = CASES[case][0](), CASES[case][1]
    monkeypatch.setattr("sys.argv", ["fathom", *arguments])
    with pytest.raises(SystemExit) as exited:
        main()
    error = capsys.readouterr().err
    assert exited.value.code == 2
    assert words in error
    assert error.startswith("fathom: ")
    assert not [line for line in error.splitlines()[1:] if line.strip()], "one line"
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "made" / "index.json").exists()
