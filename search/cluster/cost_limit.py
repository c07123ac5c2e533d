"""Ends a search before its trials cost more than `--max-cost`, over all runs on its folder."""

import time
from collections.abc import Callable
from contextlib import suppress

import ray

from fathom.search.cluster.early_end import noted_seconds
from fathom.search.cluster.interrupt import Interrupt, seconds_to_save
from fathom.search.cluster.session.ray_session import concurrent_trials, gpus_per_trial
from fathom.search.run_folder import RunFolder, write_atomically
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.keys.groups import ResourcesConfig
from fathom.search.study.preflight import Cap

AHEAD_SECONDS = 20.0
"""Seconds of trial time that are written to the run folder in advance, so that the count of a
killed run includes the time until its trials have died."""
LOOK_SECONDS = 1.0
"""Seconds between two counts, each of which asks Ray what the cluster has."""
KEEP_SECONDS = 10.0
"""Seconds between two writes of the count; at most half of `AHEAD_SECONDS`."""


class CostLimit:
    """Counts the device hours of trials in the run folder, and asks the search to end before they
    cost more than the cap; without a cap it only counts. `resources` are for one trial."""

    def __init__(
        self,
        scheduler: Scheduler,
        resources: ResourcesConfig,
        cap: Cap | None,
        interrupt: Interrupt,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scheduler, self._folder = scheduler, scheduler.folder
        self._resources = resources
        self._cap, self._interrupt, self._say, self._clock = cap, interrupt, say, clock
        self._taken, self._idle = taken_device_seconds(self._folder), 0.0
        self._counted_to = self._kept = self._next = clock()
        self._running = self._kept_running = 0
        self._has_ended = scheduler.done
        self.over = self._would_pass()

    def tick(self) -> None:
        """Updates the count, writes it down with some time in advance, and asks the search to end
        when the cost of saving its trials would just fit under the cap."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + LOOK_SECONDS
        each, there = _devices(self._resources)
        held, passed = each * self._running, now - self._counted_to
        self._taken += held * passed
        self._idle += max(0.0, there - held) * passed
        self._counted_to = now
        self._running = sum(len(search.running) for search in self._scheduler.budgets.values())
        if now - self._kept >= KEEP_SECONDS or self._running > self._kept_running:
            self._write(AHEAD_SECONDS * each * self._running)
            self._kept, self._kept_running = now, self._running
        if self._cap and not self.over and self._would_pass():
            self.over = True
            if not self._interrupt.requested:
                self._say(f"Cost limit of {self._cap.cost:g} nearly reached: trials under way save")
                self._interrupt.request(self._folder.ending)

    def keep(self) -> None:
        """Writes down the device time that the trials took, when no trial runs any more."""
        self._write(0.0)

    def sentence(self) -> str:
        """Time and cost of the trials of all runs, and idle time of devices in this run; empty
        without a cap, and if Ray has not started because nothing was left to train."""
        if self._cap is None or self._has_ended:
            return ""
        unit = "GPU-hours" if gpus_per_trial(self._resources) else "core-hours"
        return (
            f"Trials took {self._taken / 3600:.3g} {unit} and cost "
            f"{self._cap.of(self._taken):.3g} of {self._cap.cost:g} at "
            f"{self._cap.price:g} an hour; another "
            f"{self._idle / 3600:.3g} {unit} of this run were idle"
        )

    def _write(self, ahead: float) -> None:
        with suppress(OSError):  # of a full disk, which ends no search
            write_atomically(self._folder.device_seconds, f"{self._taken + ahead:.1f}\n")

    def _would_pass(self) -> bool:
        """True if the cost so far, plus the cost of saving as many trials as may run, would reach
        the cap."""
        if self._cap is None or self._scheduler.done:
            return False
        each, _ = _devices(self._resources)
        saving = each * concurrent_trials(self._resources)
        saving *= seconds_to_save(self._scheduler.live.values())
        return self._cap.of(self._taken + saving) >= self._cap.cost


def _devices(resources: ResourcesConfig) -> tuple[float, float]:
    """Devices that each trial holds, and devices of the cluster: both in GPUs if trials have any,
    otherwise in cores."""
    there = ray.cluster_resources()
    if of_trial := gpus_per_trial(resources):
        return of_trial, there.get("GPU", 0.0)
    return resources.cpus_per_trial * resources.processes_per_trial, there.get("CPU", 0.0)


def taken_device_seconds(folder: RunFolder) -> float:
    """Device-seconds that the trials of earlier runs on a folder took; 0 if their count is missing
    or damaged."""
    return noted_seconds(folder.device_seconds)
