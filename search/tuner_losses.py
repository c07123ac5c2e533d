"""Workers that die under a trial, and what that means for it.

Ray could start them again by itself. Its Tune 2.60 fails a trial for good whose worker died idle,
though, before the trial came to it; and it ends the whole search when Ray's memory monitor has
killed a worker, since that error is none of the `RayActorError`s that it expects.
"""

import re
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.air.execution._internal.event_manager import RayEventManager
from ray.exceptions import OutOfMemoryError, RayActorError

from search.records import Outcome

MAX_DEATHS = 4
"""Workers that a trial may lose; where there are several nodes, not all on the same one: on a node
whose disk is full, every worker dies that starts there."""
LONGEST_PAUSE_SECONDS = 300.0
"""Between two starts of a trial; each pause is twice the one before, the first is none."""
HOST = re.compile(r"^\s*ip: (\S+)", re.MULTILINE)
"""Where a worker has died, in what Ray says of it."""
NODE_DIED = "node has died"
"""In Ray's words for a worker that was lost with its node: that is nothing the trial has done."""


class KilledForMemoryError(RayActorError):
    """The death of a worker whose node was running out of memory."""


class Losses:
    """What the trials of a search have lost so far."""

    def __init__(self) -> None:
        self._hosts: defaultdict[str, list[str]] = defaultdict(list)
        self._due: dict[str, float] = {}
        self.short_of_memory: set[str] = set()
        """Trials that go on with less."""

    def end_of(self, trial: str, error: BaseException) -> tuple[Outcome, str] | None:
        """How a trial ends by this loss, and why; None when another worker is to go on with it."""
        reason = str(error).strip().splitlines()[-1]
        if isinstance(error, KilledForMemoryError):
            if trial in self.short_of_memory:
                return Outcome.OUT_OF_MEMORY, f"its worker was killed twice: {reason}"
            self.short_of_memory.add(trial)
            return None
        hosts = self._hosts[trial]
        if NODE_DIED not in str(error):
            hosts.extend(HOST.findall(str(error))[:1] or [""])
        if len(hosts) < MAX_DEATHS or (len(set(hosts)) == 1 and several_nodes()):
            return None
        return Outcome.FAILED, f"its worker died {len(hosts)} times: {reason}"

    def postpone(self, trial: str) -> None:
        """Leave a trial that keeps losing workers to itself for a while."""
        deaths = len(self._hosts[trial])
        pause = min(2.0 ** (deaths - 1), LONGEST_PAUSE_SECONDS) if deaths > 1 else 0.0
        self._due[trial] = time.monotonic() + pause

    def due(self) -> list[str]:
        """Trials whose pause is over; each is named once."""
        now = time.monotonic()
        over = [trial for trial, moment in self._due.items() if moment <= now]
        for trial in over:
            del self._due[trial]
        return over


def several_nodes() -> bool:
    """Whether a trial could have gone to another node than the one it was on."""
    return len([node for node in ray.nodes() if node["Alive"]]) > 1


@contextmanager
def memory_kills_as_deaths() -> Iterator[None]:
    """Let Tune take a worker that the memory monitor has killed for one that has died."""
    manager: Any = RayEventManager
    track = manager.track_future

    def translating(self: Any, future: Any, on_result: Any = None, on_error: Any = None) -> None:
        track(self, future, on_result, on_error and (lambda error: on_error(_translated(error))))

    manager.track_future = translating
    try:
        yield
    finally:
        manager.track_future = track


def _translated(error: Exception) -> Exception:
    if isinstance(error, OutOfMemoryError):
        return KilledForMemoryError(error_msg=str(error).partition("\n")[0])
    return error
