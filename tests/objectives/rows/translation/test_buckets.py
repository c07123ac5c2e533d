"""Batches by tokens: each pair once an epoch, a function of seed and step alone."""

import numpy as np
import pytest

from fathom.objectives.rows.translation.buckets import Buckets
from fathom.objectives.rows.translation.encoded import PARTS, buckets_of

CONTEXT = 48
LENGTHS = np.random.default_rng(0).integers(2, CONTEXT + 1, 1000)
BUCKETS = Buckets(buckets_of(LENGTHS, CONTEXT))


def epoch_of(batch_size: int, seed: int = 0, epoch: int = 0) -> list[tuple[list[int], int]]:
    """Rows and parts of each batch of an epoch."""
    steps = BUCKETS.steps(batch_size)
    numbers = range(epoch * steps, (epoch + 1) * steps)
    drawn = (BUCKETS.batch(seed=seed, step=step, batch_size=batch_size) for step in numbers)
    return [(rows.tolist(), parts) for rows, parts in drawn]


@pytest.mark.parametrize("batch_size", [1, 7, 64])
@pytest.mark.parametrize("epoch", [0, 3])
def test_an_epoch_holds_each_pair_once_in_batches_of_a_size(batch_size: int, epoch: int) -> None:
    batches = epoch_of(batch_size, seed=5, epoch=epoch)

    assert sorted(row for rows, _ in batches for row in rows) == [*range(1000)]
    for rows, parts in batches:
        assert LENGTHS[rows].max() <= CONTEXT // parts
        assert 1 <= len(rows) <= batch_size * parts
    assert sum(len(rows) < batch_size * parts for rows, parts in batches) <= 1, "one has room left"


def test_a_pair_is_in_the_narrowest_bucket_that_holds_it() -> None:
    lengths = np.array([2, 3, 4, 6, 7, 16, 17, 24, 25, 48])

    found = [PARTS[bucket] for bucket in buckets_of(lengths, CONTEXT)]

    assert found == [16, 16, 12, 8, 6, 3, 2, 2, 1, 1]


def test_one_pair_alone_is_every_batch() -> None:
    alone = Buckets(buckets_of(np.array([5]), CONTEXT))

    assert [alone.batch(seed=0, step=at, batch_size=3)[0].tolist() for at in range(3)] == [[0]] * 3
