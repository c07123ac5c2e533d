"""A text that was cut before is not cut again, and gives the same tokens."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fathom.objectives.next_token import NextToken
from fathom.objectives.prepare import prepare
from fathom.objectives.text.encode import encode
from fathom.objectives.text.language import cache
from fathom.objectives.tokens.stream import TokenFiles
from tests.support.objectives import CPU, keys_of

LINES = [f"line {n} of {n * n}, which is {n % 7}\n" for n in range(3000)]


def text(folder: Path, name: str = "text.txt", lines: list[str] = LINES) -> Path:
    (folder / name).write_text("".join(lines))
    return folder / name


def language(corpus: Path, folder: Path | None, **keys: Any) -> NextToken:
    keys = {"tokenizer": "bpe:300", "context": 16, "eval_tokens": 512} | keys
    found = prepare(keys_of("language", corpus=str(corpus), **keys), folder)
    assert isinstance(found, NextToken)
    return found


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One item for each text that was cut."""
    found = list[int]()

    def counted(corpus: Any, **keys: Any) -> Any:
        found.append(len(corpus.train))
        return encode(corpus, **keys)

    monkeypatch.setattr(cache, "encode", counted)
    return found


def test_a_second_start_cuts_nothing_and_trains_alike(tmp_path: Path, cuts: list[int]) -> None:
    corpus, folder = text(tmp_path), tmp_path / "runs" / ".tokens"
    plain, first, second = (language(corpus, place) for place in (None, folder, folder))
    assert len(cuts) == 2
    table = torch.nn.Embedding(300, 300)
    for task in (first, second):
        assert task.data_digest == plain.data_digest
        assert task.to(CPU).evaluate(table) == plain.to(CPU).evaluate(table)
        ours, wanted = (t.to(CPU).batch(seed=1, step=2, batch_size=4) for t in (task, plain))
        assert ours.inputs.equal(wanted.inputs)
        assert type(task.train) is type(plain.train)


def test_large_tokens_stay_in_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, folder = text(tmp_path), tmp_path / "tokens"
    plain = language(corpus, None).to(CPU)
    monkeypatch.setattr(cache, "IN_MEMORY", 1000)
    task = language(corpus, folder)
    assert isinstance(task.train, TokenFiles)
    for step in (0, 9):
        found, wanted = (
            text.batch(seed=1, step=step, batch_size=7) for text in (task.to(CPU), plain)
        )
        assert found.targets.equal(wanted.targets)
    table = torch.nn.Embedding(300, 300)
    assert task.to(CPU).evaluate(table) == plain.evaluate(table)


CHANGES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "other text": lambda f: {"corpus": text(f, "other.txt", LINES[::-1])},
    "another tokenizer": lambda f: {"tokenizer": "bpe:301"},
    "another fraction": lambda f: {"validation_fraction": 0.2},
}


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_another_text_or_split_is_cut_anew(change: str, tmp_path: Path, cuts: list[int]) -> None:
    corpus, folder = text(tmp_path), tmp_path / "tokens"
    language(corpus, folder)
    language(**{"corpus": corpus, "folder": folder} | CHANGES[change](tmp_path))
    assert len(cuts) == 2


def test_the_same_content_elsewhere_is_known(tmp_path: Path, cuts: list[int]) -> None:
    folder = tmp_path / "tokens"
    language(text(tmp_path), folder)
    language(text(tmp_path, "moved.txt"), folder, context=32)
    assert len(cuts) == 1


def test_two_searches_leave_one_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, folder = text(tmp_path), tmp_path / "tokens"

    def overtaken(*args: Any, **keys: Any) -> Any:
        monkeypatch.setattr(cache, "encode", encode)
        language(corpus, folder)
        return encode(*args, **keys)

    monkeypatch.setattr(cache, "encode", overtaken)
    language(corpus, folder)
    assert [path.name for path in folder.iterdir() if path.suffix] == []
    assert len(list(folder.iterdir())) == 1


def test_bytes_of_a_short_text_are_not_kept(tmp_path: Path) -> None:
    language(text(tmp_path), tmp_path / "tokens", tokenizer="bytes")
    assert not (tmp_path / "tokens").exists()
