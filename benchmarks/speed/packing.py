"""Many small trials on one device: one after another, or in several processes.

python -m benchmarks.speed.packing                  # a GPU where there is one, else one core
python -m benchmarks.speed.packing --depth 2 --d-model 64 --batch 8 --processes 4 8
"""

import argparse
import os
import platform
import statistics
from collections.abc import Sequence

import torch

from benchmarks.speed.packing_workers import Case, Workers
from fathom.models.shape import Shape
from fathom.objectives.text.language.keys import LanguageConfig
from fathom.objectives.text.language.objective import Language
from fathom.search.formatting import format_count

CPU_SIZES = ((2, 32), (2, 64), (5, 128))
"""Depth and width: about 25k, 100k and 1M parameters beside the embedding."""
GPU_SIZES = ((5, 128),)
# As search/cluster/session/local.py gives them to workers; glibc reads them when a process starts.
ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**33)}


def measure(
    workers: Workers, case: Case, counts: Sequence[int], *, rounds: int, seconds: float
) -> dict[int, float]:
    """Median tokens a second by number of processes; a round times every number once."""
    speeds: dict[int, list[float]] = {count: [] for count in (1, *counts)}
    for _ in range(rounds):
        for count, found in speeds.items():
            found.append(workers.speed(case, processes=count, seconds=seconds))
    return {count: statistics.median(found) for count, found in speeds.items()}


def show(case: Case, speeds: dict[int, float]) -> None:
    """Prints the table of a shape."""
    shape, alone = case.shape, speeds[1]
    print(f"\n{format_count(shape.params_non_embedding)} non-embedding parameters, ", end="")
    print(f"depth {shape.depth}, d_model {shape.d_model}, batch {case.batch_size} x ", end="")
    print(f"{shape.context}; one after another {alone:,.0f} tokens/s\n")
    print("| processes | tokens/s | ratio |")
    print("|---|---|---|")
    for count, packed in speeds.items():
        print(f"| {count} | {packed:,.0f} | {packed / alone:.2f} |")


def cases(options: argparse.Namespace, device: str) -> list[Case]:
    """Cases for the requested shape, or for the default shapes of the device."""
    gpu = device == "cuda"
    sizes = CPU_SIZES if not gpu else GPU_SIZES
    if options.depth and options.d_model:
        sizes = ((options.depth, options.d_model),)
    batches = options.batch or ([32] if gpu else [8, 1])
    return [
        Case(
            shape=Shape(
                depth=depth,
                d_model=width,
                d_ff=4 * width,
                n_heads=max(1, width // 32),
                head_dim=min(32, width),
                vocab_size=256,
                context=options.context or (256 if gpu else 128),
            ),
            batch_size=batch,
            device=device,
        )
        for batch in batches
        for depth, width in sizes
    ]


def parse() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--depth", type=int)
    parser.add_argument("--d-model", type=int)
    parser.add_argument("--batch", type=int, nargs="+", help="sequences a step")
    parser.add_argument("--context", type=int)
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4, 8, 16])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one timing, at least")
    parser.add_argument("--corpus", default="stdlib")
    return parser.parse_args()


def main() -> None:
    """Prints one table a shape and batch."""
    options = parse()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    os.environ.update(ENVIRONMENT)
    if device == "cpu" and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # the device is one core
    several = cases(options, device)
    context = several[0].shape.context
    objective = Language.prepare(
        LanguageConfig(
            name="language", corpus=options.corpus, context=context, eval_tokens=32 * context
        )
    )
    name = f"one core, {platform.machine()}, by its own time"
    if device == "cuda":
        name = torch.cuda.get_device_name()
    print(f"{name}; python {platform.python_version()}, torch {torch.__version__}; ", end="")
    print(f"{'bfloat16' if device == 'cuda' else 'float32'}, medians of {options.rounds} rounds")
    workers = Workers(max(options.processes), objective)
    for case in several:
        counts, rounds = sorted({*options.processes} - {1}), options.rounds
        speeds = measure(workers, case, counts, rounds=rounds, seconds=options.seconds)
        show(case, speeds)
    workers.dismiss()


if __name__ == "__main__":
    main()
