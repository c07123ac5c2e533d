"""Generators of random numbers for a training step or an evaluation, by seed."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

HELD_OUT = 1
"""Spawn key of the evaluations' numbers, which no seed and step can reach."""
LISTED = 1 << 20
"""Largest count whose order is kept as a list; for larger counts, places in the order are computed.
"""
ROUNDS = 6
"""Rounds of the Feistel network that computes a place; four make it look random (Luby, Rackoff)."""
MIXERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
"""Multipliers of SplitMix64, whose bits are well mixed."""


def mixed(seed: int, step: int) -> int:
    """A seed from two numbers; neighbouring numbers give unrelated streams."""
    return _state(np.random.SeedSequence((seed, step)))


def training_draws(*, seed: int, step: int) -> torch.Generator:
    """Random generator of a training step, a function of seed and step alone."""
    return torch.Generator().manual_seed(mixed(seed, step))


def training_rows(count: int, *, seed: int, step: int, batch_size: int) -> NDArray[np.int64]:
    """Indices (batch_size,) of the rows of a training step, which depend on seed and step alone.

    Every epoch is a new permutation of all `count` rows: each is trained on once an epoch.
    """
    rows = np.empty(batch_size, np.int64)
    for epoch, places, rows_of_epoch in _epochs(count, step=step, batch_size=batch_size):
        rows[rows_of_epoch] = _shuffled(count, seed, epoch, places)
    return rows


def training_windows(
    tokens: int, context: int, *, seed: int, step: int, batch_size: int
) -> NDArray[np.int64]:
    """First tokens (batch_size,) of the windows of a training step, in a text of `tokens` tokens.

    Every epoch cuts the text into windows at other places and permutes them: each token is trained
    on once an epoch, except fewer than two windows at the ends of the text.
    """
    count = max(1, tokens // context - 1)
    spare = tokens - 1 - count * context
    starts = np.empty(batch_size, np.int64)
    for epoch, places, rows_of_epoch in _epochs(count, step=step, batch_size=batch_size):
        first = mixed(seed, epoch) % (spare + 1)
        starts[rows_of_epoch] = _shuffled(count, seed, epoch, places) * np.int64(context) + first
    return starts


def _epochs(count: int, *, step: int, batch_size: int) -> Iterator[tuple[int, slice, slice]]:
    """Yields the epochs that the rows of a step come from, each with the places of these rows in
    the epoch's order and in the batch."""
    begin, end = step * batch_size, (step + 1) * batch_size
    for epoch in range(begin // count, (end - 1) // count + 1):
        low, high = max(begin, epoch * count), min(end, (epoch + 1) * count)
        places = slice(low - epoch * count, high - epoch * count)
        yield epoch, places, slice(low - begin, high - begin)


def _shuffled(count: int, seed: int, epoch: int, places: slice) -> NDArray[np.int64]:
    """The numbers at some places of a random order of 0, 1, ..., `count` - 1."""
    if count <= LISTED:
        return _order(count, seed, epoch)[places].astype(np.int64)
    return _permuted(np.arange(places.start, places.stop, dtype=np.uint64), count, seed, epoch)


def _permuted(numbers: NDArray[np.uint64], count: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """The numbers below `count`, each replaced by another: a permutation without its list.

    A Feistel network permutes all numbers of an even number of bits. A number that it maps to
    `count` or beyond goes through the network again until it is below `count` (Black, Rogaway
    2002).
    """
    half = np.uint64(((count - 1).bit_length() + 1) // 2)
    sequence = np.random.SeedSequence((seed, epoch))
    keys = sequence.generate_state(ROUNDS, np.uint64).astype(np.uint64)
    found, waiting = numbers.copy(), np.arange(len(numbers))
    while len(waiting):
        moved = _feistel(found[waiting], half, keys)
        found[waiting] = moved
        waiting = waiting[moved >= np.uint64(count)]
    return found.astype(np.int64)


def _feistel(
    numbers: NDArray[np.uint64], half: np.uint64, keys: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = numbers >> half, numbers & mask
    for key in keys:
        mixed_in = right ^ key
        for multiplier, shift in zip(MIXERS, (30, 27), strict=True):
            mixed_in = (mixed_in ^ (mixed_in >> np.uint64(shift))) * multiplier
        left, right = right, left ^ ((mixed_in ^ (mixed_in >> np.uint64(31))) & mask)
    return (left << half) | right


@lru_cache(maxsize=16)
def _order(count: int, seed: int, epoch: int) -> NDArray[np.uint32]:
    """The numbers 0, 1, ..., `count` - 1 in the order of an epoch, (count,)."""
    draws = np.random.Generator(np.random.PCG64(mixed(seed, epoch)))
    return draws.permutation(np.arange(count, dtype=np.uint32))


def held_out_draws(number: int) -> torch.Generator:
    """Random generator of one part of an evaluation, independent of those of training steps."""
    sequence = np.random.SeedSequence(number, spawn_key=(HELD_OUT,))
    return torch.Generator().manual_seed(_state(sequence))


def _state(sequence: np.random.SeedSequence) -> int:
    return int(sequence.generate_state(1, np.uint64)[0])
