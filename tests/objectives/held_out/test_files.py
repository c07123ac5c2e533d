"""Splits of token files: what is held out is trained on by nobody who was not told so."""

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fathom.objectives.tokens.splits import TokenSplits
from tests.support.objectives import keys_of, prepared, refused


@pytest.fixture
def bins(tmp_path: Path) -> Path:
    """A folder as nanoGPT's `prepare.py` leaves it."""
    ids = np.random.default_rng(1).integers(0, 200, 60_000).astype(np.uint16)
    ids[:50_000].tofile(tmp_path / "train.bin")
    ids[50_000:].tofile(tmp_path / "val.bin")
    return tmp_path


KEYS = {"vocabulary": 200, "context": 16, "eval_tokens": 160}


def splits(train: Path, validation: Path | None = None) -> TokenSplits:
    given: dict[str, Any] = dict(KEYS)
    if validation is not None:
        given["validation"] = str(validation)
    config: Any = keys_of("tokens", train=str(train), **given)
    found: TokenSplits = config.splits()
    return found


def names(found: TokenSplits) -> tuple[list[str], list[str]]:
    train, validation = (
        [Path(segment.path).name for segment in split.segments]
        for split in (found.train, found.validation)
    )
    return train, validation


def test_a_folder_is_trained_on_without_the_files_that_its_names_hold_out(bins: Path) -> None:
    for validation in (None, bins / "val.bin", bins):
        assert names(splits(bins, validation)) == (["train.bin"], ["val.bin"])


def test_files_for_a_test_are_left_alone(bins: Path) -> None:
    shutil.copy(bins / "val.bin", bins / "test.bin")
    assert names(splits(bins)) == (["train.bin"], ["val.bin"])
    (bins / "val.bin").unlink()
    assert names(splits(bins)) == (["train.bin"], ["train.bin"])
    assert names(splits(bins, bins / "test.bin")) == (["train.bin"], ["test.bin"])


def test_a_folder_of_held_out_files_alone_is_nothing_to_train_on(bins: Path) -> None:
    (bins / "train.bin").unlink()
    with refused("`train` must have files to train on", "val.bin", "held out by their names"):
        splits(bins)
    assert names(splits(bins / "val.bin")) == (["val.bin"], ["val.bin"])


@pytest.mark.parametrize("train", ["val.bin", "*.bin"])
@pytest.mark.parametrize("validation", ["val.bin", "link.bin", "hard.bin"])
def test_one_file_for_both_is_refused_by_any_name(train: str, validation: str, bins: Path) -> None:
    (bins / "link.bin").symlink_to(bins / "val.bin")
    (bins / "hard.bin").hardlink_to(bins / "val.bin")
    with refused("`validation` must not be trained on, got", "is also among", "name other files"):
        splits(bins / train, bins / validation)


def test_a_copy_or_a_part_is_refused_by_its_content(bins: Path) -> None:
    ids = np.fromfile(bins / "train.bin", np.uint16)
    np.save(bins / "copy.npy", ids)
    with refused("`validation` must not be trained on", "100%", "the training tokens"):
        splits(bins / "train.bin", bins / "copy.npy")
    np.save(bins / "part.npy", ids[20_001:29_000])
    with refused("got held-out tokens of which 100% are among the training tokens"):
        splits(bins / "train.bin", bins / "part.npy")
    with refused("got training tokens of which 100% are among the held-out tokens"):
        splits(bins / "part.npy", bins / "train.bin")


def test_a_smaller_overlap_is_told_with_its_share(
    bins: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ids = np.fromfile(bins / "val.bin", np.uint16)
    ids[:3_000] = np.fromfile(bins / "train.bin", np.uint16)[:3_000]
    ids.tofile(bins / "val.bin")
    note = keys_of("tokens", train=str(bins), **KEYS).data_note()
    assert re.match("(2[7-9]|3[0-3])% of the held-out tokens are among the training tokens", note)
    prepared("tokens", train=str(bins), **KEYS)
    assert note in caplog.text


def test_splits_apart_are_told_nothing(bins: Path) -> None:
    assert not keys_of("tokens", train=str(bins), **KEYS).data_note()
    assert not keys_of("tokens", train=str(bins / "train.bin"), **KEYS).data_note()
