"""Measures what records that outlast a power cut cost: the driver's waits for the disk, a trial,
and the time in which many records are read with their checksums.

A simulated search in which every trial pauses or ends writes its files as a real one does.

python -m benchmarks.speed.records
"""

import argparse
import os
import statistics
import tempfile
import time
import timeit
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np

from benchmarks.printed_table import PrintedTable, add_json_option
from benchmarks.simulate.driver import PlantedLosses, SimulatedWorkers, new_scheduler
from benchmarks.simulate.study import TWO_BUDGETS
from benchmarks.worlds.planted import World, asymmetric
from fathom.search.json_lines import append_line
from fathom.search.record_json import to_json
from fathom.search.run_folder import RunFolder, read_records
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.file.study_file import parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import expand_budgets

RECORDS = 4000


class Waits:
    """The waits of this process for the disk while it is a context: seconds of each, by file."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def __enter__(self) -> Self:
        self._sync = os.fsync
        os.fsync = self._timed  # type: ignore[assignment]
        return self

    def __exit__(self, *_: object) -> None:
        os.fsync = self._sync

    def _timed(self, descriptor: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{descriptor}")).name
        began = time.perf_counter()
        self._sync(descriptor)
        self.seconds.setdefault(name, []).append(time.perf_counter() - began)


def simulated(config: StudyConfig, folder: Path) -> Scheduler:
    """Returns the scheduler of a whole search on planted losses."""
    worlds = {budget: World(curve=asymmetric(4)) for budget in expand_budgets(config)}
    scheduler = new_scheduler(config, folder)
    SimulatedWorkers(scheduler, PlantedLosses(config, worlds), workers=2).run()
    return scheduler


def reading_seconds(folder: Path | None) -> float:
    """Processor seconds in which records with some evaluations are read; the least of five."""
    world = World(curve=asymmetric(4))
    spec, draws = world.spec(world.shape(4), seed=0), np.random.default_rng(0)
    record = to_json(world.record(spec, draws))
    with tempfile.TemporaryDirectory(dir=folder) as path:
        file = RunFolder(Path(path)).records
        for number in range(RECORDS):
            append_line(file, record | {"trial": f"20k-explore-{number:04d}"}, wait=False)
        return min(
            timeit.repeat(partial(read_records, file), timer=time.process_time, number=1, repeat=5)
        )


def main() -> None:
    """Prints how often and how long a trial makes the driver wait for the disk, by file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="on the disk to measure")
    add_json_option(parser)
    arguments = parser.parse_args()
    table = PrintedTable({"file": "", "waits a trial": ".1f", "ms a trial": ".1f"}, arguments.json)
    config = parse(TWO_BUDGETS)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as path, Waits() as waits:
        folder = RunFolder(Path(path))
        trials = len(simulated(config, folder.path).records)
    costs = {}
    for file in (folder.records, folder.journal, folder.optuna):
        seconds = waits.seconds.get(file.name, [])
        number = len(seconds) / trials
        costs[file] = number, 1000 * number * statistics.median(seconds or [0.0])
        table.add(file.name, *costs[file])
    number, ms = (costs[folder.records][at] + costs[folder.journal][at] for at in (0, 1))
    table.figure("waits", number, "waits a trial", ".1f")
    table.figure("trial_ms", ms, "ms a trial", ".0f")
    table.figure("read", RECORDS, "records", ",")
    table.figure("read_seconds", reading_seconds(arguments.folder), "s of a processor", ".1f")


if __name__ == "__main__":
    main()
