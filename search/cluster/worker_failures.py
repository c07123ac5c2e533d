"""Workers that die under a trial, and whether the trial is resumed.

Ray could start them again by itself. Its Tune 2.60 fails a trial for good whose worker died idle,
though, before the trial came to it; and it ends the whole search when Ray's memory monitor has
killed a worker, since that error is none of the `RayActorError`s that it expects.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ray
from ray.air.execution._internal.event_manager import RayEventManager
from ray.exceptions import OutOfMemoryError, RayActorError

from fathom.search.cluster.connect import last_line
from fathom.search.cluster.ray_session import draining_nodes
from fathom.search.records import Outcome
from fathom.search.training.trial import MachineLeavesError

MAX_DEATHS = 4
"""Number of dead workers at which a trial fails."""
HOST = re.compile(r"\bip(?:: |=)([^\s,]+)")
"""Address of the worker's host, in Ray's message of its death."""
TRIALS_ALIKE = 3
"""Number of trials that, lost alike in a row and without a report of any other, end the search."""
NOT_STARTED = "in its creation task"
"""Part of Ray's message for a worker that failed before its first trial, which no trial has caused:
what it imports, or the data on its device."""
NUMBERS = re.compile("[0-9a-f]{8,}|[0-9]+")
"""Numbers of processes and actors in Ray's message of a death."""
PLACE = re.compile(r'File "([^"]+)", line (\d+)')
"""Places in a traceback."""
NODE_DIED = "node has died"
"""Part of Ray's message for a worker that was lost with its node, which no trial has caused."""
NEVER_RAN = "it was cancelled before it started running"
"""Part of Ray's message for a worker that it would not start, as on a node that it drains."""


class KilledForMemoryError(RayActorError):
    """The death of a worker whose node was running out of memory."""


class AllWorkersDieError(ValueError):
    """Every worker dies for the same reason, so that the search can't go on."""


class WorkerFailures:
    """Worker failures of each trial."""

    def __init__(self, needs: Mapping[str, float]) -> None:
        """`needs` are the resources of a trial by Ray's names, such as `CPU`."""
        self._needs = needs
        self._deaths: Counter[str] = Counter()
        self._hosts: defaultdict[str, set[str]] = defaultdict(set)
        self._in_a_row: Counter[str] = Counter()
        self._hosts_in_a_row: set[str] = set()
        self.out_of_memory: set[str] = set()
        """Trials of which a worker was killed for memory; they are resumed in micro-batches."""
        self.restricted: set[str] = set()
        """Trials that exclude some nodes, and have not reported since."""

    def reported(self, trial: str) -> None:
        """Notes that workers live, and that this trial has found a node."""
        self.restricted.discard(trial)
        self._in_a_row.clear()
        self._hosts_in_a_row.clear()

    def end_of(self, trial: str, error: BaseException) -> tuple[Outcome, str] | None:
        """Outcome and reason of a trial that this failure ends; None if it is to be resumed.

        Raises:
            AllWorkersDieError: when it is not this trial's alone.
        """
        self.restricted.discard(trial)
        reason = last_line(error)
        if isinstance(error, KilledForMemoryError):
            if trial in self.out_of_memory:
                return Outcome.OUT_OF_MEMORY, f"its worker was killed twice: {reason}"
            self.out_of_memory.add(trial)
            return None
        if _leaves(error):
            return None
        hosts = HOST.findall(str(error))
        self._hosts[trial].update(hosts)
        self._deaths[trial] += 1
        self._hosts_in_a_row.update(hosts)
        self._in_a_row[NUMBERS.sub("", reason)] += 1
        if self._all_die(starting=NOT_STARTED in str(error)):
            raise AllWorkersDieError(_line(error, self._in_a_row.total()))
        if self._deaths[trial] < MAX_DEATHS:
            return None
        return Outcome.FAILED, f"its worker died {MAX_DEATHS} times: {reason}"

    def _all_die(self, *, starting: bool) -> bool:
        """True if no worker lives: all die alike, and none has reported since the first of them.

        One that dies while it starts dies of no trial, so a few are enough, on every node.
        """
        deaths = self._in_a_row.total()
        if len(self._in_a_row) > 1 or deaths < MAX_DEATHS:
            return False
        if starting:
            return {node["NodeManagerAddress"] for node in self._able()} <= self._hosts_in_a_row
        return deaths >= MAX_DEATHS * TRIALS_ALIKE

    def _able(self) -> list[dict[str, Any]]:
        """The nodes that have the resources of a trial."""
        return [
            node
            for node in ray.nodes()
            if node["Alive"]
            and all(node["Resources"].get(kind, 0) >= need for kind, need in self._needs.items())
        ]

    def excluded_nodes(self, trial: str) -> tuple[str, ...]:
        """Ids of the nodes on which the trial has lost a worker; none if it can run on no other.

        Where a disk is full every worker dies that starts, and Ray starts the next one there too.
        """
        hosts = self._hosts[trial]
        if not hosts:
            return ()
        able = self._able()
        bad = tuple(node["NodeID"] for node in able if node["NodeManagerAddress"] in hosts)
        if not bad or len(bad) == len(able):
            return ()
        self.restricted.add(trial)
        return bad


def _leaves(error: BaseException) -> bool:
    """True if a worker was lost with its node, or since Ray drains the node."""
    if isinstance(getattr(error, "cause", None), MachineLeavesError) or NODE_DIED in str(error):
        return True
    return NEVER_RAN in str(error) and bool(draining_nodes())


def _line(error: BaseException, deaths: int) -> str:
    """The line for a search of which no worker lives."""
    places = PLACE.findall(str(error))
    place = f" at {places[-1][0]}, line {places[-1][1]}" if places else ""
    return (
        f"every worker must live to train, but all {deaths} so far died alike{place}: "
        f"{last_line(error)[:300]}; mend that (`fathom doctor` looks for it), and the same command "
        "goes on: nothing is lost"
    )


@contextmanager
def memory_kills_as_deaths() -> Iterator[None]:
    """Present a worker that the memory monitor has killed to Tune as one that has died."""
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
