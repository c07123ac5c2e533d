"""The usual names of splits, and names that only look like one."""

from pathlib import Path

import pytest

from fathom.objectives.held_out.names import by_split, named_apart, split_of


@pytest.mark.parametrize(
    ("split", "names"),
    [
        ("train", "train.bin train-00000-of-00002.arrow wiki.train.tokens trainset.npy TRAIN.txt"),
        ("validation", "val.bin valid.txt validation.npy fineweb_val_000000.bin val1.bin"),
        ("validation", "dev dev.tsv held_out.txt held-out.txt heldout.bin valid_data.txt"),
        ("test", "test.bin ptb.test.txt testset.bin"),
        (None, "values.bin validity.txt development.txt testament.txt trains.txt latest.bin"),
        (None, "train_val.bin ids-0.npy text.txt"),
    ],
)
def test_a_split_is_told_by_a_word_of_its_name(split: str | None, names: str) -> None:
    assert {name: split_of(name) for name in names.split()} == dict.fromkeys(names.split(), split)


def test_files_are_apart_where_some_are_to_train_on_and_some_are_held_out() -> None:
    files = [Path(name) for name in ("a/train.bin", "a/val.bin", "a/more.bin")]
    assert by_split(files) == {"train": files[:1], "validation": files[1:2], None: files[2:]}
    assert named_apart(files)
    assert not named_apart(files[1:])
    assert not named_apart(Path(name) for name in ("train/a.txt", "val/b.txt"))
