"""Folders of text whose names say what is held out."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from fathom.objectives.held_out import overlap
from fathom.objectives.text.corpus import read_corpus
from fathom.objectives.text.folders import named_files
from tests.support.objectives import keys_of, prepared, refused


def prose(seed: int, words: int = 3_000) -> str:
    """Words drawn at random, so that no two texts share a sentence."""
    random = Random(seed)
    return " ".join("".join(random.choices("abcdefgh", k=5)) for _ in range(words)) + "\n"


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    for seed, name in enumerate(("wiki.train.txt", "wiki.valid.txt", "wiki.test.txt", "more.txt")):
        (tmp_path / name).write_text(prose(seed))
    return tmp_path


def language(corpus: Path, **keys: Any) -> Any:
    return keys_of("language", corpus=str(corpus), context=16, eval_tokens=64, **keys)


def test_files_named_as_held_out_are_not_trained_on_and_those_of_a_test_are_left_out(
    texts: Path,
) -> None:
    split = read_corpus(str(texts), validation_fraction=0.1)
    assert split.validation.decode() == prose(1)
    assert split.train.decode() == f"{prose(3)}\n{prose(0)}"


def test_folders_of_splits_are_known_by_their_names(texts: Path) -> None:
    for split in ("train", "valid", "test"):
        (texts / split).mkdir()
        (texts / f"wiki.{split}.txt").rename(texts / split / "00.txt")
    found = read_corpus(str(texts), validation_fraction=0.1)
    assert found.validation.decode() == prose(1)


def test_one_name_alone_says_nothing(texts: Path) -> None:
    (texts / "wiki.train.txt").unlink()
    assert named_files(texts) is None
    assert len(read_corpus(str(texts), validation_fraction=0.1).train) > 2.5 * len(prose(1))


def test_a_text_that_is_in_both_ends_a_plan(texts: Path) -> None:
    assert language(texts).vocab_size() == 256
    (texts / "more.txt").write_text(f"{prose(7)}{prose(1)}{prose(8)}")
    with refused("held-out text must not be trained on", "held-out bytes of which 100%"):
        language(texts).vocab_size()
    with refused("held-out text must not be trained on", "held-out tokens of which 100%"):
        prepared("language", corpus=str(texts), context=16, eval_tokens=64)


def test_text_that_was_cut_here_and_repeats_itself_is_told(
    texts: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (texts / "all.txt").write_text(2 * prose(1, 30_000))
    prepared("language", corpus=str(texts / "all.txt"), context=16, eval_tokens=64)
    assert "100% of the held-out tokens are among the training tokens as well" in caplog.text
    assert f"windows of {overlap.TEXT_WINDOW} tokens" in caplog.text


def test_tokens_that_are_kept_are_cut_anew_where_names_change_the_splits(
    texts: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from fathom.objectives.prepare import prepare

    kept = tmp_path_factory.mktemp("kept")
    keys = language(texts, tokenizer="bpe:300")
    apart: Any = prepare(keys, kept)
    (texts / "wiki.valid.txt").rename(texts / "last.txt")
    (texts / "wiki.test.txt").unlink()
    (texts / "wiki.train.txt").rename(texts / "other.txt")
    assert len(prepare(keys, kept).train) != len(apart.train)  # type: ignore[attr-defined]
