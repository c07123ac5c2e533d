"""Decides whether a trial whose worker dies or never starts is resumed, and ends a search whose
trials all fail alike.

Ray could restart workers by itself, but Ray Tune 2.60 fails a trial for good if an idle worker dies
before the trial is given to it.
"""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set
from typing import Any

import ray
from ray.exceptions import RayActorError

from fathom.search.cluster.ray_internals import ActorDeath, death_of_actor, draining_nodes
from fathom.search.cluster.session.connect import last_line
from fathom.search.cluster.tune_internals import KilledForMemoryError
from fathom.search.records import Outcome, Report, TrialRecord
from fathom.search.run_folder import RunFolder
from fathom.search.study.hardware.memory import kernel_kills
from fathom.search.training.trial import (
    GpuFaultError,
    MachineLeavesError,
    MachineMemoryError,
    WorkerLostError,
)

MAX_DEATHS = 4
"""Number of dead workers at which a trial fails."""
HOST = re.compile(r"\bip(?:: |=)([^\s,]+)")
"""Pattern of the address of the worker's host, in Ray's message of a death."""
TRIALS_IN_A_ROW = 3
"""Number of trials lost for one reason in a row, with no report in between, at which the search
ends."""
NUMBERS = re.compile("[0-9a-f]{8,}|[0-9]+")
"""Pattern of the ids of processes and actors in Ray's message of a death."""
KILLED = "the kernel killed it for lack of memory"
PLACE = re.compile(r'File "([^"]+)", line (\d+)')
"""Pattern of a place in a traceback."""
MAX_CANCELLED = 10
"""Number of pauses after cancelled starts, without a report between them, above which the search
ends: about two minutes."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds of the first pause, and the most seconds of a pause; each is twice as long as the one
before."""


class AllWorkersDieError(ValueError):
    """Every worker dies for the same reason, so the search can't go on."""


class WorkerFailures:
    """Failures of workers, counted for each trial and in a row."""

    def __init__(self, needs: Mapping[str, float]) -> None:
        """`needs` are the resources of a trial by Ray's names, such as `CPU`."""
        self._needs = needs
        self._deaths: Counter[str] = Counter()
        self._hosts: defaultdict[str, set[str]] = defaultdict(set)
        self._in_a_row: Counter[str] = Counter()
        self._hosts_in_a_row: set[str] = set()
        self.out_of_memory: set[str] = set()
        """Trials with a worker that was killed for memory; they are resumed in micro-batches."""
        self.alone: set[str] = set()
        """Trials that had a shared GPU fail twice: each now gets a whole GPU, so that the trial
        that causes the failures harms no other."""
        self._under_a_fault: set[str] = set()
        self.restricted: set[str] = set()
        """Trials that exclude some nodes or need a whole GPU, until they report again."""
        self._starts = CancelledStarts()
        self._counted = kernel_kills()

    @property
    def pauses(self) -> bool:
        """True if no worker should start yet, since Ray has just cancelled starts."""
        return self._starts.pauses

    @property
    def on_gpu(self) -> bool:
        """True if trials are granted GPUs."""
        return self._needs.get("GPU", 0) > 0

    def reported(self, trial: str) -> None:
        """Records that a worker of this trial lives."""
        self.restricted.discard(trial)
        self._in_a_row.clear()
        self._hosts_in_a_row.clear()
        self._starts = CancelledStarts()

    def end_of(self, trial: str, error: BaseException) -> tuple[Outcome, str] | None:
        """Returns the outcome and the reason if this failure ends the trial; None if the trial is
        to be resumed.

        Raises:
            AllWorkersDieError: when every worker fails in this way.
        """
        self.restricted.discard(trial)
        reason = last_line(error)
        if isinstance(error, KilledForMemoryError):
            if trial in self.out_of_memory:
                return Outcome.OUT_OF_MEMORY, f"its worker was killed twice: {reason}"
            self.out_of_memory.add(trial)
            return None
        death = death_of_actor(error)
        if death.never_started:  # a start that Ray has cancelled is no death of a worker
            if self._starts.add() and not draining_nodes():
                raise AllWorkersDieError(_cancelled_line(death))
            return None
        if death.with_node or isinstance(_cause(error), MachineLeavesError):
            return None
        if self._kernel_killed(error):
            reason = KILLED
        if reason == KILLED or isinstance(_cause(error), MachineMemoryError):
            self.out_of_memory.add(trial)
        hosts = HOST.findall(str(error))
        if self._may_be_a_neighbours(trial, error):
            return None
        self._hosts[trial].update(hosts)
        self._deaths[trial] += 1
        self._hosts_in_a_row.update(hosts)
        self._in_a_row[NUMBERS.sub("", reason)] += 1
        if self._all_die(starting=getattr(error, "actor_init_failed", False)):
            raise AllWorkersDieError(_line(error, self._in_a_row.total()))
        if self._deaths[trial] < MAX_DEATHS:
            return None
        outcome = Outcome.OUT_OF_MEMORY if trial in self.out_of_memory else Outcome.FAILED
        return outcome, f"its worker died {MAX_DEATHS} times: {reason}"

    def _may_be_a_neighbours(self, trial: str, error: BaseException) -> bool:
        """True if the GPU that this trial shares has failed, perhaps because of another trial."""
        shares = 0 < self._needs.get("GPU", 0) < 1 and trial not in self.alone
        if not (shares and isinstance(_cause(error), GpuFaultError)):
            return False
        if trial in self._under_a_fault:
            self.alone.add(trial)
            self.restricted.add(trial)
        self._under_a_fault.add(trial)
        return True

    def _kernel_killed(self, error: BaseException) -> bool:
        """True if a worker, or its command, died because the kernel killed a process of this
        machine for lack of memory; each kill explains one death."""
        cause = _cause(error)
        died = isinstance(error, RayActorError) and cause is None
        killed = (died or type(cause) is WorkerLostError) and kernel_kills() > self._counted
        self._counted += killed
        return killed

    def _all_die(self, *, starting: bool) -> bool:
        """Returns True if no worker lives: all died for one reason, and none has reported since the
        first.

        If workers die as they start, no trial is the cause, so a few deaths are enough, if every
        node had one.
        """
        deaths = self._in_a_row.total()
        if len(self._in_a_row) > 1 or deaths < MAX_DEATHS:
            return False
        if starting:
            return self.able_hosts() <= self._hosts_in_a_row
        return deaths >= MAX_DEATHS * TRIALS_IN_A_ROW

    def _able(self) -> list[dict[str, Any]]:
        """The nodes that have the resources of a trial."""
        return [
            node
            for node in ray.nodes()
            if node["Alive"]
            and all(node["Resources"].get(kind, 0) >= need for kind, need in self._needs.items())
        ]

    def able_hosts(self) -> set[str]:
        """Addresses of the machines that have the resources of a trial."""
        return {node["NodeManagerAddress"] for node in self._able()}

    def excluded_nodes(self, trial: str) -> tuple[str, ...]:
        """Ids of the nodes that the trial avoids, since it has lost a worker there; none if no
        other node could run it.

        On a node with a full disk every worker dies as it starts, and Ray would start the next one
        there too.
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


class CancelledStarts:
    """Starts of workers that Ray has cancelled since the last report, with a pause after each.

    Ray cancels starts on a node that it drains, or when its head does not reach this process.
    """

    def __init__(self) -> None:
        self._pauses, self._until = 0, 0.0

    @property
    def pauses(self) -> bool:
        """True during the pause."""
        return time.monotonic() < self._until

    def add(self) -> bool:
        """Records a cancelled start; returns True once there were too many. Starts cancelled during
        a pause are not counted, as they were requested before it."""
        if not self.pauses:
            self._pauses += 1
            seconds = SHORTEST_PAUSE * 2 ** min(self._pauses - 1, 10)
            self._until = time.monotonic() + min(seconds, LONGEST_PAUSE)
        return self._pauses > MAX_CANCELLED


def _cause(error: BaseException) -> object:
    """Returns the exception that the worker raised; None if the worker has died."""
    return getattr(error, "cause", None)


def _line(error: BaseException, deaths: int) -> str:
    """Returns the message that ends a search in which every worker dies."""
    places = PLACE.findall(str(error))
    place = f" at {places[-1][0]}, line {places[-1][1]}" if places else ""
    return (
        f"every worker must live to train, but all {deaths} so far died for one reason{place}: "
        f"{last_line(error)[:300]}; nothing is lost: fix that (`fathom doctor` looks for it), and "
        "run the same command again"
    )


def _cancelled_line(death: ActorDeath) -> str:
    """Returns the message that ends a search in which Ray starts no worker."""
    return (
        f"Ray must start workers, but has cancelled every start in {MAX_CANCELLED} attempts: "
        f"{death.reason[:300]} `fathom doctor` looks for the reason; nothing is lost: once it is "
        "fixed, run the same command again"
    )


class AllTrialsFailError(ValueError):
    """Every trial fails for the same reason, so the search can't go on."""


class SharedFailures:
    """Failures that are not recorded yet, since a single reason may have made every trial so far
    fail.

    Once a trial reports a loss or fails for another reason, these failures are released to be
    recorded. If all trials fail for one reason, none is recorded: they run again once it is fixed.
    """

    def __init__(self, folder: RunFolder, records: Iterable[TrialRecord]) -> None:
        """`records` are the trials of earlier runs."""
        self._folder = folder
        self._over = any(record.curve for record in records)
        self._reports: dict[str, Report] = {}

    @property
    def held(self) -> Set[str]:
        """Names of the trials whose failures are not recorded yet."""
        return self._reports.keys()

    @property
    def many(self) -> bool:
        """True if no further trial should start before the running ones show whether they fail
        too."""
        return len(self._reports) >= TRIALS_IN_A_ROW

    def holds(self, trial: str, report: Report) -> bool:
        """Returns True if the report is of a failure that every trial may share; such a report is
        kept here, unrecorded."""
        failed = report.outcome is Outcome.FAILED
        reasons = {NUMBERS.sub("", held.reason) for held in (*self._reports.values(), report)}
        if report.points or (failed and len(reasons) > 1):
            self._over = True
        if self._over or not failed:
            return False
        self._reports[trial] = report
        return True

    def released(self) -> Mapping[str, Report]:
        """Returns the kept failures by trial, once another trial has shown that not all fail for
        the same reason."""
        if not self._over:
            return {}
        released, self._reports = self._reports, {}
        return released

    def check(self, live: Iterable[str]) -> None:
        """Checks that not all trials under way have failed for one reason.

        Raises:
            AllTrialsFailError: when they have.
        """
        if not self._reports or set(live) - self.held:
            return
        for trial in self._reports:  # what is left of a failed start is no state to resume from
            self._folder.forget_checkpoint(trial)
        trial, report = next(iter(self._reports.items()))
        log = self._folder.checkpoint(trial).with_suffix(".log")
        where = f" ({log} has all it printed)" if log.exists() else ""
        raise AllTrialsFailError(
            f"some trial must train, but all {len(self._reports)} so far failed for one reason: "
            f"{report.reason}{where}; nothing is lost: fix that, and run the same command again"
        )
