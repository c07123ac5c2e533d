"""Measures how long shapes take to read a prompt and to add a token, on the device of this process.

Shapes take turns, round after round, so that other load on the machine slows all of them alike. The
time of a token at its position is the shortest of the rounds: other work only ever adds to it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fathom.models.building import build_model
from fathom.models.network.transformer import Transformer
from fathom.models.parametrization import Parametrization
from fathom.models.shape import Shape
from fathom.search.serving.values import Duration, Request, ShapeTimes

Array = NDArray[np.float64]
FEWEST_ROUNDS, MOST_ROUNDS = 5, 40
SECONDS = 20.0
"""Seconds after which no further round begins, once there are `FEWEST_ROUNDS`."""
RESAMPLES = 200
"""Number of bootstrap draws of the rounds for the standard error of a time."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Device, precision and threads with which models are timed."""

    device: torch.device
    dtype: torch.dtype
    threads: int
    """Threads of PyTorch on a CPU."""

    @property
    def counts_own_time(self) -> bool:
        """True if the clock counts the processor time of this thread, which no other process
        lengthens; otherwise it is wall-clock time."""
        return self.device.type == "cpu" and self.threads == 1

    def now(self) -> float:
        """Seconds of the clock, read after the device has finished all its work."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.thread_time() if self.counts_own_time else time.perf_counter()


def measure(
    shapes: Sequence[Shape], parametrization: Parametrization, request: Request, place: Bench, *,
    seconds: float = SECONDS,
) -> list[ShapeTimes]:  # fmt: skip
    """Returns the times of each shape, with untrained weights, which take as long as trained
    ones."""
    torch.set_num_threads(place.threads)
    models = [_model(shape, parametrization, place) for shape in shapes]
    rounds: list[list[Array]] = [[] for _ in shapes]
    for model in models:
        _answer(model, request, place)  # the first pass takes memory and chooses kernels
    began = time.perf_counter()
    while _goes_on(len(rounds[0]), time.perf_counter() - began, seconds):
        for model, kept in zip(models, rounds, strict=True):
            kept.append(_answer(model, request, place))
    return [_times(shape, np.array(kept)) for shape, kept in zip(shapes, rounds, strict=True)]


def _goes_on(rounds: int, spent: float, seconds: float) -> bool:
    return rounds < FEWEST_ROUNDS or (rounds < MOST_ROUNDS and spent < seconds)


def _model(shape: Shape, parametrization: Parametrization, place: Bench) -> Transformer:
    model = build_model(shape, parametrization, seed=0, device=place.device)
    assert isinstance(model, Transformer)
    return model.to(place.dtype).eval()


@torch.inference_mode()
def _answer(model: Transformer, request: Request, place: Bench) -> Array:
    """Seconds of the prefill and of each further token of one greedy answer, (tokens,)."""
    size = (request.batch, request.prompt)
    tokens_BT: Tensor = torch.randint(1, model.shape.vocab_size, size, device=place.device)
    cache, clock = model.new_cache(request.length), [place.now()]
    for _ in range(request.tokens):
        tokens_BT = model.decode(tokens_BT, cache, last=True).argmax(-1)
        clock.append(place.now())
    return np.diff(clock)


def _times(shape: Shape, rounds: Array) -> ShapeTimes:
    """Times of a shape from all of its rounds, (rounds, tokens)."""
    return ShapeTimes(
        shape=shape,
        prefill=_duration(rounds, lambda fastest: float(fastest[0])),
        token=_duration(rounds, lambda fastest: float(fastest[1:].mean())),
        measured=True,
    )


def _duration(rounds: Array, read: Callable[[Array], float]) -> Duration:
    """The time that `read` computes from the fastest round of each position, (tokens,), and its
    standard error by bootstrap over rounds."""
    generator = np.random.default_rng(0)
    draws = generator.integers(len(rounds), size=(RESAMPLES, len(rounds)))
    again = [read(rounds[draw].min(axis=0)) for draw in draws]
    return Duration(read(rounds.min(axis=0)), float(np.std(again)))
