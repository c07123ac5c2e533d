"""Batches of pairs of similar length, each pair once an epoch.

A batch has the tokens of `batch_size` sequences of the whole context: a batch has twice as many
pairs if these need half of the context, and so on. Batches of a bucket are padded to one width, so
that there are no more shapes of batches than buckets.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathom.objectives.arrays import Rows
from fathom.objectives.random_numbers import training_rows
from fathom.objectives.rows.translation.encoded import PARTS


@dataclass(frozen=True, slots=True, eq=False)
class Buckets:
    """The bucket of each pair, an index into `PARTS`."""

    bucket_R: NDArray[Any]

    def steps(self, batch_size: int) -> int:
        """Number of batches of an epoch."""
        return len(_cut(self, batch_size)[0])

    def batch(self, *, seed: int, step: int, batch_size: int) -> tuple[Rows, int]:
        """Indices (R,) of the pairs of a step and the number in `PARTS` of their bucket, a function
        of `seed` and `step` alone. R is at most `batch_size` times the parts.

        An epoch permutes all pairs, sorts them by bucket, cuts them into batches and permutes
        these. A batch across two buckets has the width of the longer one, and the last one of an
        epoch may have fewer pairs than it has room for.
        """
        starts, parts = _cut(self, batch_size)
        at = training_rows(len(starts), seed=seed, step=step, batch_size=1)[0]
        order = _sorted(self, seed, step // len(starts))
        room = batch_size * int(parts[at])
        return order[starts[at] : starts[at] + room], int(parts[at])


@lru_cache(maxsize=4)  # every step of an epoch takes a part of it
def _sorted(buckets: Buckets, seed: int, epoch: int) -> Rows:
    """All pairs as an epoch permutes them, sorted by bucket."""
    count = len(buckets.bucket_R)
    order = training_rows(count, seed=seed, step=epoch, batch_size=count)
    return order[np.argsort(buckets.bucket_R[order], kind="stable")]


@lru_cache(maxsize=4)
def _cut(buckets: Buckets, batch_size: int) -> tuple[Rows, Rows]:
    """The first place of each batch of an epoch, and its number in `PARTS`."""
    ends = np.bincount(buckets.bucket_R, minlength=len(PARTS)).cumsum()
    starts, parts, first = [], [], 0
    for parts_of_bucket, end in zip(PARTS, ends.tolist(), strict=True):
        found = np.arange(first, end, batch_size * parts_of_bucket)
        starts.append(found)
        parts.append(np.full(len(found), parts_of_bucket))
        first += len(found) * batch_size * parts_of_bucket
    return np.concatenate(starts), np.concatenate(parts)
