"""Workers that die under a trial, and what that means for it.

Ray could start them again by itself. Its Tune 2.60 fails a trial for good whose worker died idle,
though, before the trial came to it; and it ends the whole search when Ray's memory monitor has
killed a worker, since that error is none of the `RayActorError`s that it expects.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import ray
from ray.air.execution._internal.event_manager import RayEventManager
from ray.exceptions import OutOfMemoryError, RayActorError

from fathom.search.records import Outcome

MAX_DEATHS = 4
"""Workers that a trial may lose, one after the other."""
HOST = re.compile(r"^\s*ip: (\S+)", re.MULTILINE)
"""Where a worker has died, in what Ray says of it."""
NODE_DIED = "node has died"
"""In Ray's words for a worker that was lost with its node: that is nothing the trial has done."""


class KilledForMemoryError(RayActorError):
    """The death of a worker whose node was running out of memory."""


class WorkerFailures:
    """What the trials of a search have lost so far."""

    def __init__(self, needs: Mapping[str, float]) -> None:
        self._needs = needs
        self._deaths: Counter[str] = Counter()
        self._hosts: defaultdict[str, set[str]] = defaultdict(set)
        self.short_of_memory: set[str] = set()
        """Trials that go on with less."""
        self.waiting: set[str] = set()
        """Trials that may not start everywhere, and have not reported since."""
        self.parted: dict[str, str] = {}
        """Trials that have lost the worker in which they trained as one model with others, and go
        on alone; and how."""

    def end_of(self, trial: str, error: BaseException) -> tuple[Outcome, str] | None:
        """How a trial ends by this loss, and why; None when another worker is to go on with it."""
        self.waiting.discard(trial)
        reason = str(error).strip().splitlines()[-1]
        if isinstance(error, KilledForMemoryError):
            if trial in self.short_of_memory:
                return Outcome.OUT_OF_MEMORY, f"its worker was killed twice: {reason}"
            self.short_of_memory.add(trial)
            return None
        if NODE_DIED in str(error):
            return None
        self._hosts[trial].update(HOST.findall(str(error)))
        self._deaths[trial] += 1
        if self._deaths[trial] < MAX_DEATHS:
            return None
        return Outcome.FAILED, f"its worker died {MAX_DEATHS} times: {reason}"

    def part(self, trials: Sequence[str], error: BaseException) -> None:
        """Several have lost the worker in which they trained as one model.

        That is held against none of them: one model of several needs more than each alone.
        """
        cause = getattr(error, "cause", None) or error
        reason = str(cause).strip().splitlines()[-1].partition(". ")[0]
        self.parted |= dict.fromkeys(trials, reason)

    def nodes_to_avoid(self, trial: str) -> tuple[str, ...]:
        """Nodes on which it has lost a worker, unless it can run on no other.

        Where a disk is full every worker dies that starts, and Ray starts the next one there too.
        """
        hosts = self._hosts[trial]
        if not hosts:
            return ()
        able = [
            node
            for node in ray.nodes()
            if node["Alive"]
            and all(node["Resources"].get(kind, 0) >= need for kind, need in self._needs.items())
        ]
        bad = tuple(node["NodeID"] for node in able if node["NodeManagerAddress"] in hosts)
        if not bad or len(bad) == len(able):
            return ()
        self.waiting.add(trial)
        return bad


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
