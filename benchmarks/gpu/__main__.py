"""Settles what only a GPU can: stages that resume, a JSON file and a table of pass marks.

python -m benchmarks.gpu --out gpu.json               again, until it says that nothing is left
python -m benchmarks.gpu --device cpu --tiny          every stage in minutes, without a GPU
python -m benchmarks.gpu --stage speed --case 10M     cases of a stage with this text in their names
python -m benchmarks.gpu --quarter                    for a quarter of an hour: what is not settled

A search comes first, and while it fails nothing else is measured. A case is begun only while fewer
than --minutes have passed, and the file keeps each that has ended;
one in which a command was ended comes last the next time. A checkout with PyTorch, numpy, PyYAML,
tokenizers and pydantic is enough; a search needs what `python -m benchmarks.gpu.kit` gathers.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import torch

from benchmarks.gpu import (
    agreement,
    attention,
    graphs,
    hours,
    memory,
    mfu,
    packed,
    ranks,
    resuming,
    searching,
    steps,
)
from benchmarks.gpu.finding import Case, Cases, Setup, StageFinding, StageFindings
from fathom.search.training.micro_batches import free_memory

STAGES: dict[str, Callable[[Setup], Cases]] = {
    "search": searching.cases,
    "steps": steps.cases,
    "attention": attention.cases,
    "memory": memory.cases,
    "agreement": agreement.cases,
    "resume": resuming.cases,
    "graphs": graphs.cases,
    "speed": mfu.cases,
    "packing": packed.cases,
    "ranks": ranks.cases,
    "hours": hours.cases,
    "rivals": mfu.rival_cases,
}
"""Name of each stage -> its cases, most valuable first."""
FIRST = "search/"
"""Start of the names of the cases that must pass before others are measured."""
QUARTER = (
    *("search/", "hours/", "ranks/", "resume/checkpoint", "memory/limited", "speed/9x512"),
    *("speed/1B V=50304 compiled", "speed/400M V=50304 compiled", "speed/100M V=50304 compiled"),
    *("packing/", "rivals/"),
)
"""Parts of the names of the cases that no GPU has settled, most valuable first."""


def main() -> None:
    """Runs what the file lacks, and prints all of it; exit status 1 if something fails."""
    args = arguments()
    if args.device == "cuda" and not torch.cuda.is_available():
        refuse("PyTorch finds no GPU here; try --device cpu --tiny")
    if not args.minutes > 0:
        refuse(f"--minutes must be above 0, got {args.minutes:g}; for example 8")
    if args.nanogpt and not (args.nanogpt / "model.py").is_file():
        refuse(f"--nanogpt must be a checkout with a model.py, got {args.nanogpt}")
    setup = Setup(device=torch.device(args.device), tiny=args.tiny, nanogpt=args.nanogpt)
    if not setup.on_gpu:
        torch.set_num_threads(1)  # small models gain nothing from more, and other work suffers
    texts = args.case or (QUARTER if args.quarter else [""])
    cases = chosen(setup, args.stage or list(STAGES), texts)
    if not cases:
        refuse(f"no case here has {' or '.join(args.case)} in its name")
    try:
        findings = StageFindings.open(args.out, setup)
    except ValueError as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"--out {args.out} can't be written: {error.strerror}; name another file")
    whole = run(setup, findings, cases, minutes=args.minutes)
    print(f"\n{setup.name}\n", *findings.table(), sep="\n")
    part = " of what was asked for" if args.stage or args.case or args.quarter else ""
    print(f"\nnothing is left{part}" if whole else "\nthe same command again measures what is left")
    sys.exit(1 if findings.failed else 0)


def refuse(why: str) -> NoReturn:
    """Ends with status 2 and a line."""
    print(f"benchmarks.gpu: {why}", file=sys.stderr)
    sys.exit(2)


def run(
    setup: Setup, findings: StageFindings, cases: Mapping[str, Case], *, minutes: float
) -> bool:
    """Measures the cases that the findings lack, those last in which a command was ended; False if
    the time ends before that, or a search fails, which is measured anew."""
    began = time.monotonic()
    for name in sorted(cases, key=lambda name: (not is_first(name), findings.begun.count(name))):
        if name in findings.by_case and not (is_first(name) and name in findings.failed):
            continue
        if not is_first(name) and (failed := [*filter(is_first, findings.failed)]):
            print(f"nothing else is measured while {' and '.join(failed)} fails", flush=True)
            return False
        if time.monotonic() - began > 60 * minutes:
            return False
        start = time.monotonic()
        findings.begin(name)
        findings.add(name, found_by(cases[name], setup))
        print(f"{name}: {time.monotonic() - start:.1f} s", flush=True)
        for finding in findings.by_case[name]:
            print("  ", " | ".join(filter(None, finding.cells)), flush=True)
    return True


def is_first(name: str) -> bool:
    """True for cases that must pass before others are measured."""
    return name.startswith(FIRST)


def chosen(setup: Setup, stages: Sequence[str], texts: Sequence[str] = ("",)) -> dict[str, Case]:
    """Full name of each case of these stages that has one of the texts, in the order of these ->
    what measures it."""
    cases = {f"{stage}/{name}": case for stage in stages for name, case in STAGES[stage](setup)}
    return {name: case for text in texts for name, case in cases.items() if text in name}


def found_by(case: Case, setup: Setup) -> list[StageFinding]:
    """The findings of a case; an error is one that fails."""
    try:
        return list(case(setup))
    except Exception as error:  # noqa: BLE001 - the other cases are worth their time all the same
        traceback.print_exc()
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return [StageFinding("it runs", None, reason[:200], passed=False)]
    finally:
        torch.compiler.reset()
        free_memory()


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"), help="file of the findings")
    parser.add_argument("--stage", action="append", choices=list(STAGES))
    parser.add_argument("--case", action="append", help="a part of a case's name")
    parser.add_argument("--quarter", action="store_true", help="what no GPU has settled")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--nanogpt", type=Path, help="a checkout of karpathy/nanoGPT")
    return parser.parse_args()


if __name__ == "__main__":
    main()
