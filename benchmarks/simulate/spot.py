"""A simulated day of trials on spot machines, which are taken away with a notice or without one.

python -m benchmarks.simulate.spot

When a trial is saved is decided by the code of a real one, on a clock that is moved by each step.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
from numpy.random import Generator

from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.search.cluster.worker import DRAIN_POLL_SECONDS
from fathom.search.study.file.study_file import parse
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.space.shapes import feasible_shapes
from fathom.search.training.assignment import best_assignment
from fathom.search.training.saving import trial_log
from fathom.search.training.saving.trial_log import ReportSchedule

DAY = 86_400.0
"""Seconds of the simulated time."""
NOTICE = 30.0
"""Seconds between the notice and the end of a machine."""
STEP_SECONDS, SAVE_SECONDS = 0.5, 5.0
"""Time of a step, and of writing a state, for which a training waits only at an interrupt."""
STUDY = "study: spot\nobjective: {name: language, context: 64}\nbudgets: [1M]\ntokens: 1B\n"
COLUMNS = {
    "notice": "",
    "saved by": "",
    "machines taken away": ",d",
    "steps lost each time": ".1f",
    "at most": ",d",
    "share of the steps lost": ".2%",
}


@dataclass
class TrialOnSpot:
    """A trial on machines that come one after another, and its clock."""

    now: float = 0.0
    step: int = 0
    saved: int = 0
    """Step of the last state on the disk."""
    lost: list[int] = field(default_factory=list)
    """Steps lost at each end of a machine."""

    def live(self, life: float, schedule: ReportSchedule, notice_at: float) -> None:
        """Trains until the machine ends, or until the trial has saved after a notice."""
        end, writing, state = self.now + life, 0.0, self.saved
        schedule.start()
        while self.now + STEP_SECONDS <= end:
            self.now += STEP_SECONDS
            self.step += 1
            if writing and self.now >= writing:
                self.saved, writing = state, 0.0
            if self.now >= notice_at:
                trial_log.LEAVING.set()
            look = schedule.look(self.step, saving=bool(writing))
            if look.save:
                state, writing = self.step, self.now + SAVE_SECONDS
            if look.ends:
                if self.now + SAVE_SECONDS <= end:
                    self.saved = self.step
                break
        self.lost.append(self.step - self.saved)
        self.now, self.step = end, self.saved


def a_day(
    generator: Generator,
    schedule: ReportSchedule,
    machine: TrialOnSpot,
    mean_life: float,
    notice: float,
) -> None:
    """Lets machines with a notice of so many seconds, or none, come and go for a day."""
    while machine.now < DAY:
        life = generator.exponential(mean_life)
        asked = generator.uniform(0, DRAIN_POLL_SECONDS)
        told = machine.now + max(0.0, life - notice) + asked if notice else float("inf")
        trial_log.LEAVING.clear()
        machine.live(life, schedule, told)
    trial_log.LEAVING.clear()


def days(slots: int, mean_life: float, notice: float) -> Iterator[TrialOnSpot]:
    """Yields the trials of so many slots after a day, on machines with exponential lives of so many
    seconds in the mean."""
    config = parse(STUDY)
    (budget,) = expand_budgets(config)
    shape = feasible_shapes(config, budget, 256)[0]
    given = best_assignment(config, budget, shape, checkpoint=str(Path("nowhere") / "trial.pt"))
    for seed in range(slots):
        machine = TrialOnSpot()
        clock = SimpleNamespace(monotonic=lambda machine=machine: machine.now)
        with patch.object(trial_log, "time", clock):
            a_day(np.random.default_rng(seed), ReportSchedule(given), machine, mean_life, notice)
        yield machine


def main() -> None:
    """Prints a row for each notice."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slots", type=int, default=16, help="trials at a time")
    parser.add_argument("--minutes", type=float, default=20.0, help="mean life of a machine")
    add_json_option(parser)
    args = parser.parse_args()
    table = PrintedTable(COLUMNS, args.json)
    for notice, how in ((NOTICE, "the notice and the clock"), (0.0, "the clock alone")):
        machines = list(days(args.slots, 60 * args.minutes, notice))
        lost = [steps for machine in machines for steps in machine.lost]
        taken = sum(machine.step for machine in machines)
        table.add(
            f"{notice:.0f} s" if notice else "none",
            how,
            len(lost),
            sum(lost) / len(lost),
            max(lost),
            sum(lost) / (taken + sum(lost)),
        )


if __name__ == "__main__":
    main()
