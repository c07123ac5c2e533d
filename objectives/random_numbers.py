"""Generators of random numbers for a training step or an evaluation, by seed."""

import numpy as np
import torch
from numpy.typing import NDArray

HELD_OUT = 1
"""Spawn key of the evaluations' numbers, which no seed and step can reach."""


def mixed(seed: int, step: int) -> int:
    """Combines two numbers into one seed; neighbouring numbers give unrelated streams."""
    return _state(np.random.SeedSequence((seed, step)))


def training_draws(*, seed: int, step: int) -> torch.Generator:
    """Random generator of a training step, a function of seed and step alone."""
    return torch.Generator().manual_seed(mixed(seed, step))


def training_rows(count: int, *, seed: int, step: int, batch_size: int) -> NDArray[np.int64]:
    """Indices (batch_size,) of the rows of a training step, drawn from all `count` on the host."""
    draws = np.random.Generator(np.random.PCG64(mixed(seed, step)))
    return draws.integers(count, size=batch_size)


def held_out_draws(number: int) -> torch.Generator:
    """Random generator of one part of an evaluation, unlike that of any training step."""
    sequence = np.random.SeedSequence(number, spawn_key=(HELD_OUT,))
    return torch.Generator().manual_seed(_state(sequence))


def _state(sequence: np.random.SeedSequence) -> int:
    return int(sequence.generate_state(1, np.uint64)[0])
