"""Measures the driver's cost per trial as a study grows: a whole search without the training.

A simulated cluster trains on planted losses; sampler, stopping, confirmation, records, journal and
MLflow are those of a real run. Each size runs in a process of its own.

python -m benchmarks.speed.growth
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.simulate.driver import PlantedLosses, SimulatedWorkers, new_scheduler
from benchmarks.worlds.planted import World, asymmetric
from fathom.search.run_folder import RunFolder, write_atomically
from fathom.search.study.file.study_file import dump, parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.tracking.stores.messages import TrackedStudy
from fathom.search.tracking.writing.publishing import report_study
from fathom.search.tracking.writing.tracker import Tracker

SMALLEST, LARGEST = 1e6, 1e8
"""Parameters of the first and of the last budget."""
STUDY = """
study: growth
objective: {{name: language, context: 256}}
budgets: {budgets}
space: {{depth: [1, 48], head_dim: 32}}
trials: {exploring}
confirm: {{depths: 5, seeds: 3}}
"""
EXPLORING = 94
"""Trials a budget; with what confirming adds, 100 or a few more."""
MLFLOW_SECONDS = 3600.0
"""Longest time for the last writes to MLflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Size of one simulated search."""

    budgets: int
    exploring: int = EXPLORING
    workers: int = 1000
    tracking: bool = True
    report: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverCost:
    """Cost of one simulated search to its driver."""

    trials: int
    loop: float
    """CPU seconds of the thread that decides, from an empty folder to the last end."""
    threads: float
    """CPU seconds of the threads that pass changes to MLflow's process."""
    mlflow: float
    """CPU seconds of MLflow's process, including its start and its database."""
    before: int
    after: int
    """Resident memory after the search, bytes."""
    resume: float
    """CPU seconds of a new scheduler on the folder."""
    report: float
    """Seconds of `fathom report`, wall time; 0 when not asked for."""
    disk: int
    """Bytes of records and journal."""


def main() -> None:
    """Runs every size and prints the table."""
    arguments = _arguments()
    if arguments.size:
        print(json.dumps(asdict(_measure(Size(**json.loads(arguments.size))))))
        return
    sizes = [
        Size(budgets=2, workers=20),
        Size(budgets=10, workers=100),
        Size(budgets=arguments.budgets, workers=arguments.workers, report=True),
        Size(budgets=1, exploring=200, workers=20),
        Size(budgets=1, exploring=2000, workers=20, report=True),
    ]
    print("CPU milliseconds a trial: of the driver, of MLflow's process, and to resume; memory")
    print(
        "| budgets | workers | trials | driver | of it MLflow | MLflow's own | resuming | bytes |"
    )
    print("|---|---|---|---|---|---|---|---|")
    costs = []
    for size in sizes:
        costs.append(_apart(size))
        print(_row(size, costs[-1]), flush=True)
    _sum_up(sizes, costs)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budgets", type=int, default=100)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--size", help="one size as JSON, in this process")
    return parser.parse_args()


def _apart(size: Size) -> DriverCost:
    """Measures one size in a new process, so that its memory is its own."""
    command = [sys.executable, "-m", "benchmarks.speed.growth", "--size", json.dumps(asdict(size))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return DriverCost(**json.loads(done.stdout.splitlines()[-1]))


def _row(size: Size, cost: DriverCost) -> str:
    driver, threads, mlflow, resume = (
        f"{1000 * part / cost.trials:.2f}"
        for part in (cost.loop + cost.threads, cost.threads, cost.mlflow, cost.resume)
    )
    memory = (cost.after - cost.before) / cost.trials
    return (
        f"| {size.budgets} | {size.workers} | {cost.trials} | {driver} | {threads} | {mlflow} "
        f"| {resume} | {memory:,.0f} |"
    )


def _sum_up(sizes: list[Size], costs: list[DriverCost]) -> None:
    small, middle, large = costs[:3]
    small_each, large_each = ((cost.loop + cost.threads) / cost.trials for cost in (small, large))
    print(
        f"\ndriver CPU a trial, {large.trials} trials against {small.trials}: "
        f"{large_each / small_each:.2f} times"
    )
    slopes = [
        (many.after - few.after) / (many.trials - few.trials)
        for few, many in ((small, middle), (middle, large))
    ]
    print(f"bytes a trial: {slopes[0]:,.0f} up to {middle.trials} trials, {slopes[1]:,.0f} beyond")
    print(f"bytes a trial on disk: {large.disk / large.trials:,.0f}")
    for size, cost in zip(sizes, costs, strict=True):
        if size.report:
            print(f"`fathom report` on {cost.trials} trials: {cost.report:.1f} s")


def _measure(size: Size) -> DriverCost:
    with tempfile.TemporaryDirectory() as path:
        folder = RunFolder(Path(path) / "growth")
        folder.create()
        config = _study(size)
        write_atomically(folder.config, dump(config))
        before = _resident()
        tracker = _tracker(config, folder) if size.tracking else None
        began, process = time.thread_time(), time.process_time()
        listeners = [tracker.trial] if tracker else []
        scheduler = new_scheduler(config, folder.path, listeners)
        pace = random.Random(0)
        SimulatedWorkers(scheduler, _losses(config), size.workers, lambda: pace.uniform(1, 2)).run()
        loop = time.thread_time() - began
        if tracker:
            tracker.close(MLFLOW_SECONDS)
        others = time.process_time() - process - (time.thread_time() - began)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        after = _resident()
        resume = _cpu(lambda: new_scheduler(config, folder.path))
        return DriverCost(
            trials=len(scheduler.records),
            loop=loop,
            threads=others if tracker else 0.0,
            mlflow=children.ru_utime + children.ru_stime,
            before=before,
            after=after,
            resume=resume,
            report=_wall(lambda: report_study(folder.path)) if size.report else 0.0,
            disk=folder.records.stat().st_size + folder.journal.stat().st_size,
        )


def _study(size: Size) -> StudyConfig:
    sizes = np.geomspace(SMALLEST, LARGEST, size.budgets) if size.budgets > 1 else [10 * SMALLEST]
    budgets = [int(float(f"{params:.3g}")) for params in sizes]
    return parse(STUDY.format(budgets=budgets, exploring=size.exploring))


def _losses(config: StudyConfig) -> PlantedLosses:
    """Planted losses whose best depth grows with the budget."""
    worlds = {
        budget: World(
            curve=asymmetric(4.5 * (budget.params / 1e6) ** 0.3),
            budget=budget.params,
            horizon=budget.tokens,
        )
        for budget in expand_budgets(config)
    }
    return PlantedLosses(config, worlds)


def _tracker(config: StudyConfig, folder: RunFolder) -> Tracker:
    uri = f"sqlite:///{folder.path.parent / 'mlflow.db'}"
    text = dump(config)
    return Tracker(TrackedStudy(uri=uri, study=config.study, folder=folder.path, config_text=text))


def _cpu(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def _wall(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _resident() -> int:
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * resource.getpagesize()


if __name__ == "__main__":
    main()
