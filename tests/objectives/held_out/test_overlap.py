"""The share of a split that another split has as well, at any place and of any size."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fathom.objectives.held_out import overlap
from fathom.objectives.held_out.overlap import InMemory, Overlap, fingerprints, overlap_of


def drawn(count: int, ids: int = 256) -> NDArray[np.uint16]:
    """Random ids, others for each number of them."""
    return np.random.default_rng(count).integers(0, ids, count).astype(np.uint16)


def found(train: NDArray[Any], held_out: NDArray[Any]) -> Overlap:
    result = overlap_of(InMemory(train), InMemory(held_out))
    assert result is not None
    return result


@pytest.mark.parametrize("ids", [4, 256, 50_000])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 1.0])
def test_it_is_the_share_of_the_held_out_ids_that_are_trained_on(ids: int, share: float) -> None:
    train, held_out = drawn(300_000, ids), drawn(40_000, ids)
    copied = int(share * 40_000)
    held_out[:copied] = train[123_457 : 123_457 + copied]
    result = found(train, held_out)
    assert result.share == pytest.approx(share, abs=0.03)
    assert result.contained is (share == 1)
    assert bool(result.note()) is (share > 0)


def test_a_training_split_within_the_held_out_one_is_said_to_be_it() -> None:
    held_out = drawn(30_000)
    result = found(held_out[777:9_000], held_out)
    assert result.contained
    assert result.of_training
    assert result.note().startswith("100% of the training tokens are among the held-out tokens")


def test_repeated_ids_count_once() -> None:
    """Padding that both splits have is no copied text."""
    train, held_out = drawn(50_000), drawn(20_000)
    train[10_000:30_000] = held_out[5_000:15_000] = 0
    assert found(train, held_out).share < 0.01


def test_the_ids_count_and_not_the_type_that_they_are_stored_in() -> None:
    ids = drawn(5_000)
    assert found(ids, ids[1_000:3_000].astype(np.int64)).contained


def test_splits_shorter_than_a_window_are_not_compared() -> None:
    assert overlap_of(InMemory(drawn(1_000)), InMemory(drawn(overlap.WINDOW - 1))) is None


def test_a_fingerprint_is_of_a_window_wherever_it_lies() -> None:
    ids = drawn(1_000)
    assert len(fingerprints(ids, 64)) == 937
    assert fingerprints(ids, 64)[500] == fingerprints(ids[500:564], 64)[0]
    assert len(np.unique(fingerprints(ids, 64))) == 937


class Counted(InMemory):
    """Ids that count how many of them are read."""

    read = 0

    def block(self, start: int, length: int) -> NDArray[Any]:
        Counted.read += length
        return super().block(start, length)


@pytest.fixture
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "MOST", 1 << 18)
    monkeypatch.setattr(overlap, "BLOCK", 1 << 9)


@pytest.mark.usefixtures("_small_limits")
def test_of_a_large_split_a_bounded_part_is_read_and_the_share_is_estimated() -> None:
    train = drawn(4_000_000)
    for copied in (train[1_500_001:1_900_001], train[3_000_000:3_100_000]):
        Counted.read = 0
        result = overlap_of(Counted(train), InMemory(copied.copy()))
        assert result is not None
        assert result.contained
        assert result.read == pytest.approx(0.0655, abs=0.001)
        assert Counted.read < 1.2 * overlap.MOST
    half = np.concatenate((drawn(200_000), train[2_000_000:2_200_000]))
    result = found(train, half)
    assert not result.contained
    assert result.share == pytest.approx(0.5, abs=0.15)
    assert "about" in result.note()
    assert "6.6% of the training tokens" in result.note()
