"""Stages `speed`, time of a step and MFU by size, and `rivals`, the step beside other libraries."""

import argparse
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch

from benchmarks.gpu.finding import Cases, Setup, StageFinding, at_least, left_out, measured
from benchmarks.gpu.subject import shape_of
from benchmarks.speed.rivals import Block, Task
from benchmarks.speed.step import contestants, fathom
from fathom.models.options import Positions
from fathom.search.study.hardware.gpus import recognised
from fathom.search.training.micro_batches import free_memory
from fathom.search.training.utilisation import matrix_rate

SIZES = {
    "10M": (6, 384, 0.20),
    "100M": (12, 832, 0.40),
    "400M": (24, 1152, 0.45),
    "1B": (24, 1856, 0.50),
    "1M": (5, 128, None),
}
"""Size -> depth, width, and the mark of the MFU when compiled."""
RECORDED = ("1M", "10M", "100M")
"""Sizes whose steps a search may record as a CUDA graph."""
VOCABULARIES = (50_304, 256)
GOLF, GOLF_VOCABULARY, GOLF_TOKENS = (9, 512), 1024, 1.5e6
"""Depth, width and vocabulary of OpenAI's Parameter Golf baseline, and the tokens a second that it
reaches on one of its eight H100s."""
CONTEXT, TOKENS = 1024, 16_384
"""Tokens of a sequence and of a step: with fewer, launches are measured."""
BESIDE, BESIDE_SMALL = 0.98, 1.2
"""Marks of our speed against the fastest rival's: at every size, and below 10M."""
ROUNDS, SECONDS = 3, 1.0


def cases(setup: Setup) -> Cases:
    """Yields our own steps: compiled and recorded, each and both, and eager."""
    if not setup.tiny:
        for way in ("compiled, recorded", "recorded"):
            task = _task(setup, *GOLF, GOLF_VOCABULARY, way)
            yield f"9x512 {way}", partial(_ours, task=task, tokens=GOLF_TOKENS)
    ways = (
        ("recorded", "eager")
        if setup.tiny
        else ("compiled, recorded", "compiled", "recorded", "eager")
    )
    for way in ways:
        for size, vocabulary, (depth, width, mark) in _sizes(setup):
            if "recorded" in way and size not in RECORDED:
                continue
            best = way == ("compiled, recorded" if size in RECORDED else "compiled")
            task = _task(setup, depth, width, vocabulary, way)
            yield (
                f"{size} V={vocabulary} {way}",
                partial(_ours, task=task, mark=mark if best else None),
            )


def rival_cases(setup: Setup) -> Cases:
    """Yields the same steps beside rivals, as fast as they are without a compiler and with it;
    whole models take minutes to compile."""
    for way in ("eager",) if setup.tiny else ("eager", "compiled"):
        for size, vocabulary, (depth, width, mark) in _sizes(setup):
            task = _task(setup, depth, width, vocabulary, way)
            learned = replace(task.shape, positions=Positions.LEARNED)  # as the rivals have them
            task = replace(task, shape=learned, recorded=size in RECORDED)
            yield f"{size} V={vocabulary} {way}", partial(_beside, task=task, small=mark is None)


def _sizes(setup: Setup) -> Iterator[tuple[str, int, tuple[int, int, float | None]]]:
    """Name, vocabulary, and depth, width and mark of each size, as people train first."""
    for vocabulary in (64,) if setup.tiny else VOCABULARIES:
        for size, given in ({"tiny": (2, 32, None)} if setup.tiny else SIZES).items():
            yield size, vocabulary, given


def _task(setup: Setup, depth: int, width: int, vocabulary: int, way: str) -> Task:
    context, tokens = (32, 64) if setup.tiny else (CONTEXT, TOKENS)
    return Task(
        shape=shape_of(depth, width, vocabulary=vocabulary, context=context),
        batch_size=tokens // context,
        device=setup.device,
        bfloat16=setup.on_gpu,
        compiled="compiled" in way,
        recorded="recorded" in way,
    )


def _ours(
    setup: Setup, task: Task, mark: float | None = None, tokens: float | None = None
) -> Iterator[StageFinding]:
    """Our step, against marks of the MFU and of the tokens a second where there are any."""
    if setup.on_gpu:
        torch.cuda.reset_peak_memory_stats()
    _, block = fathom(task)
    began = time.monotonic()
    block(3)
    yield measured("seconds of the first three steps", time.monotonic() - began)
    rate = tokens_per_second(setup, task, block)
    yield measured("step, ms", 1000 * task.tokens_per_step / rate)
    what = "tokens a second"
    yield at_least(what, rate, tokens) if tokens else measured(what, rate)
    share = rate * task.shape.train_flops_per_token / peak_flops(setup)
    yield at_least("MFU", share, mark) if mark else measured("MFU", share)
    if setup.on_gpu:
        yield measured("peak memory, GB", torch.cuda.max_memory_allocated() / 1e9)


def _beside(setup: Setup, task: Task, small: bool) -> Iterator[StageFinding]:
    """Our step divided by the rivals', one after another, since large ones do not fit together."""
    seconds = 0.05 if setup.tiny else SECONDS
    args = argparse.Namespace(clock="wall", nanogpt=setup.nanogpt, seconds=seconds)
    rates = {}
    for contestant in contestants(task, args):
        rates[contestant.name.split(",")[0].split(" (")[0]] = tokens_per_second(
            setup, task, contestant.block
        )
        contestant.block = _released
        free_memory()
    ours = rates.pop("Fathom")
    yield measured("our tokens a second", ours)
    for name, rate in rates.items():
        yield measured(f"ours / {name}", ours / rate)
    if not rates:
        yield left_out("rivals", "none is installed; benchmarks/speed/rivals.py says how")
        return
    ratio, what = ours / max(rates.values()), "ours / the fastest rival"
    bound = BESIDE_SMALL if small else BESIDE
    yield at_least(what, ratio, bound) if setup.on_gpu else measured(what, ratio)


def _released(steps: int) -> None:
    """Takes the place of a training that is over, which holds memory."""


def tokens_per_second(setup: Setup, task: Task, block: Block) -> float:
    """Median of some rounds of training steps, the device waited for before and behind each."""
    seconds = 0.05 if setup.tiny else SECONDS
    steps = max(1, round(seconds / _seconds(setup, block, 2) * 2))
    rounds = [_seconds(setup, block, steps) for _ in range(ROUNDS)]
    return steps * task.tokens_per_step / statistics.median(rounds)


def _seconds(setup: Setup, block: Block, steps: int) -> float:
    _wait(setup)
    began = time.perf_counter()
    block(steps)
    _wait(setup)
    return time.perf_counter() - began


def _wait(setup: Setup) -> None:
    if setup.on_gpu:
        torch.cuda.synchronize()


def peak_flops(setup: Setup) -> float:
    """The peak of the data sheet; of a CPU, or a GPU that is not known, what a product reaches."""
    known = recognised(torch.cuda.get_device_name()) if setup.on_gpu else None
    if known and known.bfloat16_flops:
        return known.bfloat16_flops
    return matrix_rate(setup.device, setup.on_gpu)
