"""Types of raw ids that nothing says, told by the ids themselves."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.tokens.doubts import TypeDoubtError, likely_type
from fathom.objectives.tokens.formats import find_tokens

RNG = np.random.default_rng(0)
Ids = NDArray[np.int64]


def words(vocabulary: int, number: int = 20_000) -> Ids:
    """Ids as text has them: the lower, the more frequent."""
    return np.minimum(RNG.zipf(1.2, number), vocabulary) - 1


def characters(number: int = 20_000) -> Ids:
    return RNG.integers(0, 27, number)


WRONG: dict[str, tuple[Ids, str, str]] = {
    "words in 4 bytes": (words(50_257), "<i4", "uint32"),
    "a large vocabulary in 4 bytes": (RNG.integers(0, 150_000, 9000), "<u4", "uint32"),
    "characters in 4 bytes": (characters(), "<i4", "uint32"),
    "few ids in 4 bytes": (words(50_257, 200), "<i4", "uint32"),
    "padding of -1 in 4 bytes": (np.where(characters() == 3, -1, words(9000)), "<i4", "uint32"),
    "words in 8 bytes": (words(50_257), "<i8", "int64"),
    "characters in 8 bytes": (characters(), "<i8", "int64"),
    "swapped words": (words(50_257), ">u2", ">u2"),
    "swapped uniform ids": (RNG.integers(0, 32_000, 90_000), ">u2", ">u2"),
    "swapped characters": (characters(), ">u2", ">u2"),
    "swapped words in 4 bytes": (words(50_257), ">u4", ">u4"),
    "characters in one byte": (characters(), "u1", "uint8"),
}
SOUND: dict[str, Ids] = {
    "words": words(50_257),
    "uniform ids": RNG.integers(0, 50_257, 90_000),
    "all of 65,536 ids": RNG.integers(0, 65_536, 90_000),
    "a small vocabulary": RNG.integers(0, 512, 5000),
    "characters": characters(),
    "four letters, and rarely a fifth": np.where(RNG.random(9000) < 2e-4, 4, characters(9000) % 4),
    "two ids": RNG.integers(0, 2, 5000),
    "few ids": words(50_257, 30),
    "padded rows": np.where(np.arange(9000) % 512 < 100, words(50_257, 9000), 0),
    "one sentence again and again": np.tile(words(50_257, 37), 300),
    "a single id": np.full(1000, 7),
    "60 words of 50,257": RNG.choice(RNG.integers(0, 50_257, 60), 9000),
    "pairs of a word and a flag of many": np.stack([words(9000, 900), words(900, 900)], 1).ravel(),
}


@pytest.mark.parametrize("what", sorted(WRONG))
def test_ids_of_another_type_are_refused_with_the_type_that_reads_them(
    what: str, tmp_path: Path
) -> None:
    ids, stored, dtype = WRONG[what]
    file = tmp_path / "ids.bin"
    ids.astype(stored).tofile(file)
    with pytest.raises(TypeDoubtError, match=r"must be stated for") as doubt:
        find_tokens(str(file), "train", column=None, dtype=None)
    assert doubt.value.dtype == dtype
    found = find_tokens(str(file), "train", column=None, dtype=dtype)
    assert found.tokens == len(ids)


@pytest.mark.parametrize("what", sorted(SOUND))
def test_ids_of_two_bytes_are_in_no_doubt(what: str, tmp_path: Path) -> None:
    SOUND[what].astype("<u2").tofile(tmp_path / "ids.bin")
    found = find_tokens(str(tmp_path), "train", column=None, dtype=None)
    assert found.tokens == len(SOUND[what])


def test_a_torn_last_id_is_named_with_the_command_that_drops_it(tmp_path: Path) -> None:
    file = tmp_path / "ids.bin"
    file.write_bytes(words(50_257).astype("<i4").tobytes()[:-2])
    with pytest.raises(ObjectiveError, match=r"`dtype: uint32` after `truncate -s 79996 "):
        find_tokens(str(file), "train", column=None, dtype=None)
    with pytest.raises(ObjectiveError, match=r"whole ids of 4 bytes .*truncate -s 79996 "):
        find_tokens(str(file), "train", column=None, dtype="uint32")


@pytest.mark.parametrize("kind", ["<f8", "<f4", "<f2"])
@pytest.mark.parametrize("dtype", [None, "int32"])
def test_fractions_are_refused_with_the_command_that_makes_them_whole(
    kind: str, dtype: str | None, tmp_path: Path
) -> None:
    ids = RNG.integers(0, 2000, 5000)
    ids.astype(kind).tofile(tmp_path / "ids.bin")
    with pytest.raises(ObjectiveError, match=r"must hold whole numbers.*`dtype: uint32`") as error:
        find_tokens(str(tmp_path / "ids.bin"), "train", column=None, dtype=dtype)
    command: Callable[..., Any] = exec
    command(str(error.value).partition('-c "')[2].partition('"')[0])
    assert (np.fromfile(tmp_path / "ids.u4.bin", "<u4") == ids).all()


def test_raw_files_of_two_types_are_refused_with_what_reads_them(tmp_path: Path) -> None:
    ids = words(50_257)
    ids.astype("<u2").tofile(tmp_path / "a.bin")
    ids.astype("<u4").tofile(tmp_path / "b.bin")
    with pytest.raises(
        ObjectiveError, match=r"one type, got .*b.bin, .* uint32, and .*a.bin"
    ) as error:
        find_tokens(str(tmp_path), "train", column=None, dtype=None)
    command: Callable[..., Any] = exec
    command(str(error.value).partition('-c "')[2].partition('"')[0])
    (tmp_path / "b.bin").unlink()
    found = find_tokens(str(tmp_path), "train", column=None, dtype=None)
    assert found.tokens == 2 * len(ids)


def test_a_few_bytes_say_nothing() -> None:
    assert not likely_type(b"")
    assert not likely_type(np.arange(5, dtype="<u4").tobytes())
