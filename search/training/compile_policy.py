"""Decides whether a trial is long enough for `torch.compile` to pay."""

import os
import shutil
import sysconfig
from pathlib import Path

from fathom.models.shape import Shape

COMPILE_SECONDS = 20.0
"""Time to compile a block, once for all of them; an estimate for a GPU. On one CPU core with an
empty cache the process takes 6.5 s of CPU time for it, at 4 layers and at 16."""
GRAPH_SECONDS_PER_LAYER = 2.5
"""Further time for each layer where the whole loss is compiled, for a CUDA graph; on a CPU it takes
15 s at 4 layers and 43 s at 16."""
GRAPH_PARAMS = 10_000_000
"""Size below which launches take most of a step, so that it is replayed as a CUDA graph."""
EAGER_SECONDS_PER_LAYER = 0.4e-3
"""Least time of a layer's step on a GPU, some sixty launches; an estimate, not yet measured."""
EAGER_FLOPS = 150e12
"""Operations per second of large eager bfloat16 steps on a GPU; an estimate as well."""
SAVED = 0.25
"""Least fraction of a step that compiling saves on a GPU; an estimate as well."""


def pays(shape: Shape, *, steps: int, tokens_per_step: int, device_type: str) -> bool:
    """True if compiling is estimated to save more time over the trial than it takes.

    On a CPU it seldom does: at 8x32 (depth by width) it saves a tenth of a step and takes at least
    as long as 5,000 steps, at 2x64 a twentieth and as long as 5,000
    (python -m benchmarks.speed.step --compile both).
    """
    if device_type != "cuda":
        return False
    flops = tokens_per_step * shape.train_flops_per_token
    step_seconds = max(shape.depth * EAGER_SECONDS_PER_LAYER, flops / EAGER_FLOPS)
    cost = COMPILE_SECONDS
    if uses_cuda_graphs(shape, device_type):
        cost += GRAPH_SECONDS_PER_LAYER * shape.depth
    return steps * step_seconds * SAVED > cost


def uses_cuda_graphs(shape: Shape, device_type: str) -> bool:
    """True if the launches of a compiled step of one process are to be replayed as a CUDA graph."""
    return device_type == "cuda" and shape.params_total < GRAPH_PARAMS


def possible() -> bool:
    """True if this machine has what compiling for a CPU or a GPU calls: a C compiler, and the
    headers of Python, which are a package of their own on Debian (`python3-dev`)."""
    header = Path(sysconfig.get_path("include"), "Python.h")
    compilers = (os.environ.get("CC", "cc"), "gcc", "clang")
    return header.exists() and any(shutil.which(name) for name in compilers)
