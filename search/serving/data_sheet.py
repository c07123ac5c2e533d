"""Estimates inference times on a GPU from its data sheet.

The time of a small step is that to launch the kernels of its layers, whatever their width. Launch
times are from hbfreed/inference-pareto, which decodes one prompt on one large GPU by transformers,
without compiling, with 12 shapes of 0.32 to 0.49B parameters. The shape of 8 layers, 6.32 ms, and
that of 100 layers, 67.49 ms, give both constants; the other shapes show the error.
"""

from fathom.models.inference import prefill_flops, weight_bytes
from fathom.models.shape import Shape
from fathom.search.serving.values import Duration, Request, ShapeTimes
from fathom.search.study.hardware.gpus import REACHED_BANDWIDTH, REACHED_FLOPS, GpuType

LAYER_SECONDS = 0.665e-3
"""Seconds to launch the kernels of a layer: (67.49 - 6.32) ms / 92 layers."""
FIXED_SECONDS = 1.0e-3
"""Seconds of a step in addition to its layers: 6.32 ms minus the time of 8 layers."""
ERROR = 0.15
"""Relative standard error of an estimate: the worst of the published shapes is off by 10 %, and
other processors and programs launch at other rates."""
NUMBER = 2
"""Bytes of a number: bfloat16, or float16 on a GPU without it."""


def estimate(shape: Shape, request: Request, gpu: GpuType) -> ShapeTimes:
    """Returns the estimated times of a shape on one GPU."""
    return ShapeTimes(
        shape=shape,
        prefill=_duration(_prefill_seconds(shape, request, gpu)),
        token=_duration(_token_seconds(shape, request, gpu)),
        measured=False,
    )


def _duration(seconds: float) -> Duration:
    return Duration(seconds, ERROR * seconds)


def _token_seconds(shape: Shape, request: Request, gpu: GpuType) -> float:
    """Seconds for a token: the time to read all weights and the cache from memory, or to launch the
    layers, whichever is longer."""
    seen = request.prompt + request.tokens / 2
    cache = 2 * NUMBER * request.batch * shape.depth * shape.d_kv * seen
    weights = weight_bytes(shape, NUMBER) - NUMBER * shape.vocabulary_matrices * (not shape.tied)
    reading = (weights + cache) / (REACHED_BANDWIDTH * gpu.bandwidth)
    return FIXED_SECONDS + max(shape.depth * LAYER_SECONDS, reading)


def _prefill_seconds(shape: Shape, request: Request, gpu: GpuType) -> float:
    flops = prefill_flops(shape, sequences=request.batch, prompt=request.prompt)
    computing = flops / (REACHED_FLOPS * (gpu.bfloat16_flops or gpu.float32_flops))
    return FIXED_SECONDS + max(shape.depth * LAYER_SECONDS, computing)
