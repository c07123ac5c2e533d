"""Measures what records that outlast a power cut cost: the driver's waits for the disk, a trial.

A simulated search in which every trial pauses or ends writes its files as a real one does.

python -m benchmarks.speed.records
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Self

from benchmarks.printed_table import PrintedTable, add_json_option
from benchmarks.simulate.driver import PlantedLosses, SimulatedWorkers, new_scheduler
from benchmarks.simulate.study import TWO_BUDGETS
from benchmarks.worlds.planted import World, asymmetric
from fathom.search.run_folder import RunFolder
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.keys.config import StudyConfig, parse
from fathom.search.study.planning.budget import expand_budgets


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
    for file in (folder.records, folder.journal, folder.optuna):
        seconds = waits.seconds[file.name]
        table.add(file.name, len(seconds) / trials, 1000 * sum(seconds) / trials)
    ours = waits.seconds[folder.records.name] + waits.seconds[folder.journal.name]
    table.figure("waits", len(ours) / trials, "waits a trial", ".1f")
    table.figure("trial_ms", 1000 * sum(ours) / trials, "ms a trial", ".0f")


if __name__ == "__main__":
    main()
