"""Decides whether a trial's steps are compiled, and whether they are recorded as a CUDA graph;
prepares for compiling."""

import importlib
import os
import shutil
import sysconfig
from pathlib import Path
from typing import Any

import torch

from fathom.models.shape import Shape

COMPILE_SECONDS = 10.0
"""Seconds to compile a block, which serves all blocks, and to take the first three steps of a
process: on an H100 with a slow host (python -m benchmarks.gpu --stage speed), where each further
shape took 4 to 5 s. On one CPU core with an empty cache this takes 6.5 s of CPU time, at 4 layers
and at 16."""
EAGER_SECONDS_PER_LAYER = 0.4e-3
"""Least seconds per layer in a step on a GPU, for some sixty launches by a fast host: an
estimate."""
SLOW_LAUNCHES_PER_LAYER = 4e-3
"""Seconds per layer for the same launches by a slow host: 5 layers of width 128 took 19.5 ms a step
on a rented H100 (python -m benchmarks.gpu --stage graphs)."""
EAGER_FLOPS = 250e12
"""Operations per second of large bfloat16 steps on a GPU: measured at 12x832 on the same H100."""
SAVED = 0.3
"""Least fraction of a step's operations that compiling saved on that H100: 0.33 at 5x128, 0.32 at
6x384 and 9x512, and more with a vocabulary of 50,304."""
MOST_KERNELS = 64
"""Most kinds of batch for which a block is compiled: rows give batches of eight widths, and each
width may come in micro-batches of several sizes. PyTorch's own limit is 8, beyond which it would
run new kinds eagerly."""


MOST_SHAPES = 4
"""Most shapes for which a process keeps compiled kernels: each may have sixteen kernels, and all of
them count towards PyTorch's limit."""
_kept: set[Shape] = set()


def begin_compiling(shape: Shape) -> None:
    """Prepares to compile the blocks of a shape, and raises PyTorch's limit of kernels.

    A second training of a shape in this process needs no compiling. Once there would be more shapes
    than `MOST_SHAPES`, the kernels of all shapes are forgotten.
    """
    if shape not in _kept and len(_kept) == MOST_SHAPES:
        torch.compiler.reset()
        _kept.clear()
    _kept.add(shape)
    dynamo: Any = importlib.import_module("torch._dynamo.config")  # takes a second
    dynamo.recompile_limit = MOST_KERNELS


def pays(
    shape: Shape, *, steps: float, tokens_per_step: int, device_type: str, recorded: bool = False
) -> bool:
    """True if compiling a block once is estimated to save more time than it takes over these
    `steps`; in `recorded` steps it saves operations, but no launches.

    On a CPU compiling seldom pays: at 8x32 (depth by width) it saves a tenth of a step, and at 2x64
    a twentieth; at both it takes at least as long as 5,000 steps (python -m benchmarks.speed.step
    --compile both).
    """
    if device_type != "cuda":
        return False
    flops = tokens_per_step * shape.train_flops_per_token
    launches = 0.0 if recorded else shape.depth * EAGER_SECONDS_PER_LAYER
    step_seconds = max(launches, flops / EAGER_FLOPS)
    return steps * step_seconds * SAVED > COMPILE_SECONDS


def pays_in(seconds: float, device_type: str) -> bool:
    """True if compiling is estimated to save more time than it takes, in a training that spends
    this many seconds on each kind of batch."""
    return device_type == "cuda" and seconds * SAVED > COMPILE_SECONDS


def launches_may_dominate(shape: Shape, *, tokens_per_step: int, device_type: str) -> bool:
    """True if a slow host may need longer to launch a step than a GPU to compute it, in which case
    the step should be recorded as a CUDA graph.

    On an H100 whose host was slow, recorded steps were 9.2 times as fast at 5x128 and 20x64 (depth
    by width), 3.0 times at 64x112 and 1.4 times at 6x384; at 12x832, 1.01 times.
    """
    operations = tokens_per_step * shape.train_flops_per_token
    launches = shape.depth * SLOW_LAUNCHES_PER_LAYER
    return device_type == "cuda" and launches > operations / EAGER_FLOPS


def possible() -> bool:
    """True if this machine has what compiling needs: a C compiler, and Python's headers, which are
    a separate package on Debian (`python3-dev`)."""
    header = Path(sysconfig.get_path("include"), "Python.h")
    compilers = (os.environ.get("CC", "cc"), "gcc", "clang")
    return header.exists() and any(shutil.which(name) for name in compilers)
