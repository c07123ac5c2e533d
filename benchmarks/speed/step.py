"""Tokens a second of a whole training step: Fathom beside other libraries, same sizes, same run.

python -m benchmarks.speed.step --nanogpt PATH                     one CPU thread, float32
python -m benchmarks.speed.step --device cuda --nanogpt PATH       bfloat16, eager and compiled
python -m benchmarks.speed.step --shape 12x96 --shape 3x200        any other shape, DEPTHxWIDTH
"""

import argparse
import contextlib
import platform
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from benchmarks.speed.rivals import DIFFERENCES, Block, Missing, Task, rival, text
from fathom.models.options import Positions
from fathom.models.parametrization import Parametrization, Scheme
from fathom.models.shape import Shape
from fathom.search.training.loop import advance, record_step
from fathom.search.training.state import Training, TrainPlan

CPU_SHAPES = ("8x32", "2x64", "20x64", "3x160", "24x128", "4x320", "24x256", "6x512")
"""Depth by width: deep and wide at 0.1M, 1M, 5M and 20M parameters."""
GPU_SHAPES = ("20x64", "3x160", "48x128", "6x384", "48x416", "8x1024", "48x832", "12x1664")
"""Depth by width on a GPU: deep and wide at 1M, 10M, 100M and 400M parameters."""
RIVALS = ("transformers", "litgpt", "x-transformers", "nanoGPT")
PARAMETRIZATION = Parametrization(
    scheme=Scheme.COMPLETEP, base_width=256, base_depth=2, base_head_dim=64, init_std=0.02
)
NEVER = 10**9


@dataclass(slots=True)
class Contestant:
    """A way to train, and its tokens a second in each round."""

    name: str
    params: int
    block: Block
    steps: int
    speeds: list[float]


def fathom(task: Task) -> tuple[int, Block]:
    """Fathom's own training loop: parameters, and a function that trains steps."""
    plan = TrainPlan(
        steps=NEVER,
        batch_size=task.batch_size,
        learning_rate=1e-3,
        warmup_steps=1,
        cooldown_steps=1,
        weight_decay=0.1,
        betas=(0.9, 0.95),
        eps=1e-12,
        grad_clip=1.0,
        evaluation_steps=(NEVER,),
        bfloat16=task.bfloat16,
        compiled=task.compiled,
    )
    objective = text(task).to(task.device)
    training = Training(task.shape, PARAMETRIZATION, plan, seed=0, device=task.device)
    if task.recorded:
        record_step(training, objective)  # which compiles first

    def block(steps: int) -> None:
        advance(training, objective, goal=training.step + steps)

    return task.shape.params_total, block


def shape_of(label: str, args: argparse.Namespace) -> Shape:
    """`DEPTHxWIDTH` with heads of 64 features, or of the most that leave two heads."""
    depth, width = map(int, label.split("x"))
    head_dim = max(d for d in (2, 4, 8, 16, 32, 64) if width % d == 0 and width >= min(2 * d, 128))
    return Shape(
        depth=depth,
        d_model=width,
        d_ff=4 * width,
        n_heads=width // head_dim,
        head_dim=head_dim,
        vocab_size=args.vocabulary,
        context=args.context,
        gated=args.gated,
        positions=Positions(args.positions),
    )


def contestants(task: Task, args: argparse.Namespace) -> Iterator[Contestant]:
    """Yields the installed contestants, warmed up; prints a line for each missing one."""
    makers = {"Fathom": lambda: fathom(task)} | {
        name: lambda name=name: rival(name, task, args.nanogpt) for name in RIVALS
    }
    for name, make in makers.items():
        try:
            params, block = make()
        except Missing as missing:
            print(missing)
            continue
        label = f"{name}, compiled" if task.compiled else name
        label += f" ({DIFFERENCES[name]})" if name in DIFFERENCES else ""
        contestant = Contestant(label, params, block, 1, [])
        block(3)
        seconds = measure(contestant, task, args.clock, steps=2) / 2
        contestant.steps = max(1, round(args.seconds / seconds))
        yield contestant


def measure(contestant: Contestant, task: Task, clock: str, *, steps: int) -> float:
    """Seconds of a number of training steps."""
    now = time.thread_time if clock == "thread" else time.perf_counter
    began = now()
    contestant.block(steps)
    if task.device.type == "cuda":
        torch.cuda.synchronize()
    return now() - began


def race(task: Task, args: argparse.Namespace) -> list[Contestant]:
    """Times every contestant in turn, round after round."""
    tasks = [replace(task, compiled=compiled) for compiled in args.compiled]
    field = [(task, each) for task in tasks for each in contestants(task, args)]
    for _ in range(args.rounds):
        for task, each in field:
            seconds = measure(each, task, args.clock, steps=each.steps)
            each.speeds.append(each.steps * task.tokens_per_step / seconds)
    return [each for _, each in field]


def main() -> None:
    """Prints the table, a row for each contestant and shape."""
    args = arguments()
    torch.set_num_threads(args.threads)
    on_gpu = args.device == "cuda"
    print(f"machine: {platform.machine()}, {args.threads} thread, {args.device}, {versions()}")
    rate = matrix_rate(torch.device(args.device)) if on_gpu else None
    if rate:
        print(f"matrix rate, bfloat16: {rate:.3g} FLOP/s")
    print(f"{args.batch} x {args.context} tokens a step; medians of {args.rounds} rounds\n")
    print("| shape | trained by | parameters | tokens/s | ours / its | of matrix rate |")
    print("|---|---|---|---|---|---|", flush=True)
    for label in args.shape or (GPU_SHAPES if on_gpu else CPU_SHAPES):
        task = Task(
            shape=shape_of(label, args),
            batch_size=args.batch,
            device=torch.device(args.device),
            bfloat16=on_gpu,
            compiled=False,
        )
        print(*rows_of(label, task, race(task, args), rate), sep="\n", flush=True)


def rows_of(label: str, task: Task, field: list[Contestant], rate: float | None) -> list[str]:
    """Table rows of one shape: our fastest, and each rival with our speed divided by its speed."""
    speeds = {each.name: statistics.median(each.speeds) for each in field}
    ours = max(speed for name, speed in speeds.items() if name.startswith("Fathom"))
    rivals = {name: speed for name, speed in speeds.items() if not name.startswith("Fathom")}
    fastest = max(rivals, key=lambda name: rivals[name], default="")
    rows = []
    for each in field:
        speed = speeds[each.name]
        ratio = f"{ours / speed:.3f}" if each.name in rivals else "-"
        ratio = f"**{ratio}**" if each.name == fastest else ratio
        share = f"{speed * task.shape.train_flops_per_token / rate:.1%}" if rate else "-"
        rows.append(
            f"| {label} | {each.name} | {each.params:,} | {speed:,.0f} | {ratio} | {share} |"
        )
    return rows


def matrix_rate(device: torch.device, size: int = 8192) -> float:
    """FLOP/s of one large bfloat16 product, the best of a few."""
    matrix = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    seconds = []
    for _ in range(12):
        torch.cuda.synchronize()
        began = time.perf_counter()
        matrix @ matrix
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return 2 * size**3 / min(seconds)


def versions() -> str:
    """Returns the versions of torch and of each rival from PyPI."""
    found = [f"torch {torch.__version__}"]
    for name in RIVALS:
        with contextlib.suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return ", ".join(found)


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", action="append", metavar="DEPTHxWIDTH")
    parser.add_argument("--nanogpt", type=Path, help="a checkout of karpathy/nanoGPT")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--context", type=int, help="128 tokens, on a GPU 1024")
    parser.add_argument("--batch", type=int, help="sequences a step: 8, on a GPU 16")
    parser.add_argument("--vocabulary", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a block, about")
    parser.add_argument("--clock", default="wall", choices=("wall", "thread"))
    parser.add_argument("--gated", action="store_true")
    parser.add_argument(
        "--positions",
        default="learned",
        choices=[p.value for p in Positions],
        help="of our model: learned like the fastest rivals', or rotary as in a search by default",
    )
    parser.add_argument("--compile", default="off", choices=("off", "on", "both"))
    args = parser.parse_args()
    gpu = args.device == "cuda"  # a GPU waits for launches with fewer tokens a step than 16k
    args.context = args.context or (1024 if gpu else 128)
    args.batch = args.batch or (16 if gpu else 8)
    args.compiled = {"off": (False,), "on": (True,), "both": (False, True)}[args.compile]
    return args


if __name__ == "__main__":
    main()
