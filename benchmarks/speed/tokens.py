"""Measures what token files cost: a plan, a worker's first step and memory on 20 GB beside 1 MB of
ids, and the cutting of a gigabyte of text beside the `tokenizers` library alone.

python -m benchmarks.speed.tokens --folder /tmp/tokens
"""

import argparse
import os
import random
import resource
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

CONTEXT, BATCH, STEPS = 1024, 64, 200
STUDY = """study: files
objective: {{name: tokens, train: {train}, vocabulary: 50257, context: {context}}}
budgets: [10M]
count: non_embedding
tokens: 200M
"""
WORKER = """
import sys, time, psutil, torch
from fathom.objectives.prepare import prepare
from fathom.objectives.registry import OBJECTIVES
context, batch, steps = map(int, sys.argv[2:])
make_keys = OBJECTIVES["tokens"].keys
keys = make_keys(name="tokens", train=sys.argv[1], vocabulary=50257, context=context)
began = time.perf_counter()
task = prepare(keys).to(torch.device("cpu"))
task.batch(seed=0, step=0, batch_size=batch)
first = time.perf_counter() - began
began = time.perf_counter()
for step in range(1, steps):
    task.batch(seed=0, step=step, batch_size=batch)
each = (time.perf_counter() - began) / (steps - 1)
print(first, each, psutil.Process().memory_info().rss)
"""
ALONE = """
import sys
from itertools import islice
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file(sys.argv[2])
with open(sys.argv[1], encoding="utf-8", newline="") as file:
    while pieces := [piece for _ in range(32) if (piece := file.read(1 << 16))]:
        tokenizer.encode_batch_fast(pieces, add_special_tokens=False)
"""
SAMPLE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that ended well."""

    seconds: float
    cpu_seconds: float
    """Of it and its workers."""
    peak_bytes: int
    """Largest memory of it and its workers together, shared pages counted once."""
    output: str


def main() -> None:
    """Prints all measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="for the files; made")
    parser.add_argument("--megabytes", type=int, default=1000, help="of text to cut")
    parser.add_argument("--vocabulary", type=int, default=32_000)
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    print_files(folder)
    print_cutting(folder, arguments.megabytes, arguments.vocabulary)


def print_files(folder: Path) -> None:
    """Prints what a plan and a worker take on sparse files of 1 MB and of 20 GB."""
    print("| ids | plan, s (CPU s) | worker to first batch, s | each batch, ms | resident, MB |")
    print("|---|---|---|---|---|")
    for name, size in (("1 MB", 2**20), ("20 GB", 20 * 2**30)):
        file, study = folder / f"{size}.bin", folder / "study.yaml"
        with file.open("wb") as opened:
            opened.truncate(size)
        study.write_text(STUDY.format(train=file, context=CONTEXT))
        plan = run([sys.executable, "-P", "-m", "fathom", "plan", str(study)])
        sizes = map(str, (CONTEXT, BATCH, STEPS))
        first, each, rss = map(
            float, run([sys.executable, "-c", WORKER, str(file), *sizes]).output.split()
        )
        print(
            f"| {name} | {plan.seconds:.2f} ({plan.cpu_seconds:.2f}) | {first:.3f} "
            f"| {1000 * each:.1f} | {rss / 1e6:.0f} |"
        )


def print_cutting(folder: Path, megabytes: int, vocabulary: int) -> None:
    """Prints time and memory of cutting a text, of the same again, and of the library alone."""
    text, out = folder / "text.txt", folder / f"tokens-{time.time_ns()}"
    write_text(text, megabytes)
    program = [sys.executable, "-P", "-m", "fathom", "tokenize", str(text), "--out", str(out)]
    print(f"\n| {megabytes} MB of text, {vocabulary} ids | s | CPU s | peak memory, MB |")
    print("|---|---|---|---|")
    learned = [*program, "--tokenizer", f"bpe:{vocabulary}"]
    tokenizer = str(out / "tokenizer.json")
    given = [*program[:-1], f"{out}-given", "--tokenizer", tokenizer]
    alone = [sys.executable, "-c", ALONE, str(text), tokenizer]
    for name, command in (
        ("fathom tokenize, byte pairs learned", learned),
        ("the same command again", learned),
        ("fathom tokenize, with that tokenizer", given),
        ("tokenizers alone", alone),
    ):
        ran = run(command)
        print(
            f"| {name} | {ran.seconds:.1f} | {ran.cpu_seconds:.1f} | {ran.peak_bytes / 1e6:.0f} |",
            flush=True,
        )


def write_text(file: Path, megabytes: int) -> None:
    """Writes paragraphs of the standard library's source in random order."""
    if file.exists() and file.stat().st_size >= megabytes * 10**6:
        return
    draws = random.Random(0)
    sources = sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py"))
    texts = [path.read_text(errors="ignore") for path in sources]
    paragraphs = [
        paragraph for text in texts for paragraph in text.split("\n\n") if paragraph.strip()
    ]
    with file.open("w") as opened:
        while opened.tell() < megabytes * 10**6:
            opened.write("\n\n".join(draws.choices(paragraphs, k=1000)) + "\n")


def run(command: list[str]) -> Ran:
    """Runs a command to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began, peak = time.perf_counter(), 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "200"}
    ) as process:
        while process.poll() is None:
            peak = max(peak, _memory(psutil.Process(process.pid)))
            time.sleep(SAMPLE_SECONDS if peak else 0.01)
        output = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise SystemExit(f"{command} failed")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Ran(time.perf_counter() - began, cpu, peak, output)


def _memory(process: psutil.Process) -> int:
    """Memory of a process and of those it started, each page counted once."""
    try:
        every = [process, *process.children(recursive=True)]
        return sum(process.memory_full_info().pss for process in every)
    except (psutil.NoSuchProcess, psutil.AccessDenied, FileNotFoundError):
        return 0


if __name__ == "__main__":
    main()
