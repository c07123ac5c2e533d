"""Ids beside their vocabulary, before anything is trained."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.tokens.ranges import proposed_keys
from tests.support.objectives import keys_of

IDS = np.random.default_rng(0).integers(0, 50_257, 20_000)
"""Ids of which neighbours say nothing of each other."""


def keys(file: Path, **more: Any) -> Any:
    return keys_of("tokens", train=str(file), context=16, eval_tokens=64, **more)


def written(folder: Path, ids: Any, kind: str) -> Path:
    ids.astype(kind).tofile(folder / "ids.bin")
    return folder / "ids.bin"


@pytest.mark.parametrize(
    ("stored", "given", "remedy"),
    [
        (
            "<u2",
            {"vocabulary": 256},
            r"got 502\d\d .*`vocabulary: 502\d\d` or more",
        ),
        (
            ">u2",
            {"vocabulary": 50_257, "dtype": "uint16"},
            r'`dtype: ">u2"` reads ids that',
        ),
        ("<u2", {"vocabulary": 50_257, "dtype": "uint32"}, r"uint32; `dtype: uint16` reads"),
        ("<i4", {"vocabulary": 50_257, "dtype": "int64"}, r"int64; `dtype: uint32` reads"),
    ],
)
def test_ids_beyond_the_vocabulary_are_refused_with_what_suits_them(
    stored: str, given: dict[str, Any], remedy: str, tmp_path: Path
) -> None:
    file = written(tmp_path, IDS, stored)
    with pytest.raises(ObjectiveError, match=remedy):
        keys(file, **given).vocab_size()


def test_a_single_id_beyond_the_vocabulary_is_found_before_it_is_trained_on(tmp_path: Path) -> None:
    ids = IDS.copy()
    ids[12_345] = 60_000
    with pytest.raises(ObjectiveError, match=r"got 60000 in .*`vocabulary: 60001`"):
        keys(written(tmp_path, ids, "<u2"), vocabulary=50_257).vocab_size()


def test_a_vocabulary_far_larger_than_the_ids_in_use_has_a_note(tmp_path: Path) -> None:
    file = written(tmp_path, IDS % 27, "<u2")
    note = keys(file, vocabulary=50_257).data_note()
    assert "largest token id seen" in note
    assert "is 26, of a vocabulary of 50,257" in note
    assert "`vocabulary: 27`" in note
    assert "largest" not in keys(file, vocabulary=30).data_note()


def test_a_type_that_is_named_but_does_not_look_so_has_a_note(tmp_path: Path) -> None:
    file = written(tmp_path, IDS, "<i4")
    assert (
        "look as if they were `dtype: uint32`"
        in keys(file, vocabulary=50_257, dtype="uint16").data_note()
    )
    for dtype in ("uint32", "int32"):
        assert "look" not in keys(file, vocabulary=50_257, dtype=dtype).data_note()


@pytest.mark.parametrize(
    ("stored", "dtype", "likely"),
    [("<u2", "uint8", "uint16"), ("<i8", "uint32", "int64"), (">u2", "uint16", '">u2"')],
)
def test_characters_of_another_width_than_is_named_have_a_note(
    stored: str, dtype: str, likely: str, tmp_path: Path
) -> None:
    file = written(tmp_path, IDS % 27, stored)
    note = keys(file, vocabulary=65_536, dtype=dtype).data_note()
    assert f"look as if they were `dtype: {likely}`" in note
    right = likely.strip('"')
    assert "look" not in keys(file, vocabulary=65_536, dtype=right).data_note()


def test_ids_in_a_folder_that_are_not_read_are_named(tmp_path: Path) -> None:
    written(tmp_path, IDS, "<u2")
    given = {"vocabulary": 50_257}
    assert "not read" not in keys(tmp_path, **given).data_note()
    for name in ("b.BIN", "c.bin.gz", "d.idx", "e/f.bin", "g.bin"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    note = keys(tmp_path, **given).data_note()
    for words in ("b.BIN does not end in .bin", "c.bin.gz is packed", "d.idx has no .bin",
                  "e is a folder", "g.bin is empty", "5 in all"):  # fmt: skip
        assert words in note


def test_a_missing_vocabulary_is_asked_for_with_the_largest_id(tmp_path: Path) -> None:
    with pytest.raises(ObjectiveError, match=r"largest id seen is 26: `vocabulary: 27`"):
        keys(written(tmp_path, IDS % 27, "<u2")).vocab_size()


@pytest.mark.parametrize(
    ("stored", "proposed"), [("<u2", {}), ("<i4", {"dtype": "uint32"}), (">u2", {"dtype": ">u2"})]
)
def test_a_study_is_proposed_with_the_type_and_the_vocabulary(
    stored: str, proposed: dict[str, str], tmp_path: Path
) -> None:
    ids = np.sort(IDS)[:15_000] if stored == ">u2" else IDS
    written(tmp_path, ids, stored)
    (tmp_path / "meta.pkl").write_bytes(b"never opened")
    assert proposed_keys(str(tmp_path)) == {**proposed, "vocabulary": int(ids.max()) + 1}
