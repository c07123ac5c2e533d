"""Stage `resume`: a training that is saved and loaded ends like one that was not interrupted."""

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.gpu.finding import Cases, Setup, StageFinding, at_most, holds, measured
from benchmarks.gpu.subject import python_source, random_ids, shape_of, training_of
from fathom.search.training.device import use_deterministic
from fathom.search.training.loop import advance, train
from fathom.search.training.saving import checkpoint
from fathom.search.training.state import Training

SAME = 1e-3
"""Largest difference of losses in nats, where sums are not added in the same order twice."""


def cases(setup: Setup) -> Cases:
    """Yields the resumed training, and the time of a checkpoint of a large model."""
    yield "same end", partial(_same_end, deterministic=False)
    yield "deterministic", partial(_same_end, deterministic=True)
    yield "checkpoint", _checkpoint


def _same_end(setup: Setup, deterministic: bool) -> Iterator[StageFinding]:
    use_deterministic(deterministic)
    try:
        yield from _resumed(setup, same_bits=deterministic or not setup.on_gpu)
    finally:
        use_deterministic(False)


def _resumed(setup: Setup, same_bits: bool) -> Iterator[StageFinding]:
    objective = python_source(64).to(setup.device)
    shape = shape_of(2, 48) if setup.tiny else shape_of(6, 384)

    def ended(training: Training) -> tuple[float, Tensor]:
        *_, last = train(training, objective)
        return last.loss, torch.cat(
            [weight.detach().flatten() for weight in training.model.parameters()]
        )

    whole = ended(training_of(shape, setup.device))
    again = ended(training_of(shape, setup.device))
    half = training_of(shape, setup.device)
    advance(half, objective, goal=half.plan.steps // 2 + 1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "half.pt"
        checkpoint.save(half.state_dict(), file)
        resumed = training_of(shape, setup.device)
        state = checkpoint.load(file, setup.device)
        assert state is not None, "it was just saved"
        resumed.load_state_dict(state)
    loss, weights = ended(resumed)
    repeats = _differing(whole[1], again[1])
    yield measured("weights that differ between two equal trainings, share", repeats)
    yield at_most("resumed against uninterrupted, nats", abs(loss - whole[0]), SAME)
    if same_bits:
        yield holds("the same training again has the same bits", torch.equal(again[1], whole[1]))
        yield holds("the resumed one has the same bits", torch.equal(weights, whole[1]))
    yield measured("weights that differ after resuming, share", _differing(whole[1], weights))


def _differing(tensor: Tensor, other: Tensor) -> float:
    return float((tensor != other).double().mean())


def _checkpoint(setup: Setup) -> Iterator[StageFinding]:
    shape = shape_of(2, 64) if setup.tiny else shape_of(24, 1856, vocabulary=50_304, context=1024)
    training = training_of(shape, setup.device, batch_size=1)
    objective = random_ids(shape).to(setup.device)
    advance(training, objective, goal=1)  # AdamW's moments come with it
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "large.pt"
        began = time.monotonic()
        checkpoint.save(training.state_dict(), file)
        saved = time.monotonic()
        state = checkpoint.load(file, setup.device)
        loaded = time.monotonic()
        assert state is not None, "it was just saved"
        weights = training.model.state_dict()
        same = all(torch.equal(weights[name], state["model"][name]) for name in weights)
        began_again = time.monotonic()
        saver = checkpoint.BackgroundSaver(file)
        saver.start(training.state_dict())
        copied = time.monotonic()
        advance(training, objective, goal=2)
        stepped = time.monotonic()
        saver.finish()
        size = file.stat().st_size
    yield measured("size of a checkpoint, GB", size / 1e9)
    yield measured("bytes a parameter", size / shape.params_total)
    yield measured("seconds to save it", saved - began)
    yield measured("seconds to load it", loaded - saved)
    yield measured("seconds that a training waits while it is saved", copied - began_again)
    yield measured("seconds of the step beside which it is written", stepped - copied)
    yield holds("it holds the weights of the model", same)
