"""Random numbers as a function of what they are for: a seed and a step, or an evaluation."""

import numpy as np
import torch
from numpy.typing import NDArray

HELD_OUT = 1
"""The branch of the evaluations' numbers, which no seed and step lead to."""


def mixed(seed: int, step: int) -> int:
    """One seed out of two numbers, so that neighbours share no stream."""
    return _state(np.random.SeedSequence((seed, step)))


def training_draws(device: torch.device, *, seed: int, step: int) -> torch.Generator:
    """The numbers of a training step."""
    return torch.Generator(device).manual_seed(mixed(seed, step))


def training_rows(count: int, *, seed: int, step: int, batch_size: int) -> NDArray[np.int64]:
    """Which of `count` rows a training step sees, each drawn from all; drawn on the host."""
    draws = np.random.Generator(np.random.PCG64(mixed(seed, step)))
    return draws.integers(count, size=batch_size)


def held_out_draws(device: torch.device, number: int) -> torch.Generator:
    """The numbers of an evaluation's part, the same every time and apart from every step's."""
    sequence = np.random.SeedSequence(number, spawn_key=(HELD_OUT,))
    return torch.Generator(device).manual_seed(_state(sequence))


def _state(sequence: np.random.SeedSequence) -> int:
    return int(sequence.generate_state(1, np.uint64)[0])
