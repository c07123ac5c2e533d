"""What becomes of trials whose workers die or never start: `worker_failures.py`."""

import errno
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.exceptions import RayActorError
from ray.tune.search import Searcher

from fathom.search.cluster import worker_failures
from fathom.search.cluster.equal_failures import EqualFailures
from fathom.search.cluster.interrupt import Interrupt
from fathom.search.cluster.ray_internals import ActorDeath
from fathom.search.cluster.session.ray_session import all_nodes_but
from fathom.search.cluster.tune import SchedulerAdapter, SearcherAdapter
from fathom.search.cluster.tune_internals import KilledForMemoryError
from fathom.search.cluster.worker_failures import (
    AllTrialsFailError,
    AllWorkersDieError,
    SharedFailures,
    WorkerFailures,
)
from fathom.search.records import CurvePoint, Outcome, Report
from fathom.search.run_folder import RunFolder
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.hardware import fit
from fathom.search.training.assignment import Assignment
from fathom.search.training.trial import (
    GpuFaultError,
    HorizonError,
    MachineMemoryError,
    WorkerLostError,
)
from tests.support.searches import new_search

POINT = CurvePoint(
    step=1, tokens=1, loss=1.0, train_loss=1.0, train_seconds=1.0, time=0.0, metrics={}
)
LOW = KilledForMemoryError(error_msg="the node was running low on memory")
STUDY = """
study: failing
objective: {name: language, context: 16}
budgets: [8k]
count: non_embedding
tokens: 4k
space: {depth: [1, 6], n_heads: 2}
trials: 6
"""


def test_three_trials_lost_alike_end_the_search_unless_another_has_reported() -> None:
    def worker_died(number: int) -> RayActorError:
        return RayActorError(error_msg=f"The actor died.\nProcess {number} has crashed.")

    def lose(failures: WorkerFailures, trial: str) -> None:
        for number in range(4):
            failures.end_of(trial, worker_died(number))

    failures = WorkerFailures({"CPU": 1.0})
    for trial in "ab":
        lose(failures, trial)
        failures.reported("c")
    lose(failures, "d")
    lose(failures, "e")
    with pytest.raises(
        AllWorkersDieError, match=r"all 12 so far died for one reason: Process 3 has crash"
    ):
        lose(failures, "f")


def test_a_worker_that_the_kernel_killed_for_memory_is_resumed_in_micro_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kills = [3]
    monkeypatch.setattr(worker_failures, "kernel_kills", lambda: kills[0])
    failures, death = WorkerFailures({"CPU": 1.0}), RayActorError(error_msg="The actor died.")
    assert failures.end_of("a", death) is None
    assert not failures.out_of_memory, "the kernel killed none"
    for _ in range(2):
        kills[0] += 1
        assert failures.end_of("a", death) is None
    assert failures.out_of_memory == {"a"}
    failures.reported("a")
    kills[0] += 1
    reason = "its worker died 4 times: the kernel killed it for lack of memory"
    assert failures.end_of("a", death) == (Outcome.OUT_OF_MEMORY, reason)


def gpu_fault() -> RayActorError:
    """The end of a trial whose GPU has failed, as Ray passes it on."""
    error = RayActorError(error_msg="ray::TrialActor.train() (pid=7, ip=10.0.0.1)\nCUDA error")
    error.cause = GpuFaultError("CUDA error: unspecified launch failure")  # type: ignore[attr-defined]
    return error


def test_a_fault_of_a_shared_gpu_counts_against_no_trial_and_the_second_leaves_each_alone() -> None:
    failures = WorkerFailures({"CPU": 1.0, "GPU": 0.125})
    for _ in range(2):
        assert not failures.alone
        assert [failures.end_of(trial, gpu_fault()) for trial in "abcdefgh"] == [None] * 8
    assert failures.alone == failures.restricted == set("abcdefgh")
    failures.reported("a")
    ends = [failures.end_of("b", gpu_fault()) for _ in range(4)]
    assert ends == [None] * 3 + [(Outcome.FAILED, "its worker died 4 times: CUDA error")]


def test_a_fault_of_a_whole_gpu_is_a_death_like_others() -> None:
    failures = WorkerFailures({"CPU": 1.0, "GPU": 1.0})
    assert [failures.end_of("a", gpu_fault()) for _ in range(3)] == [None] * 3
    assert failures.end_of("a", gpu_fault()) is not None
    assert not failures.alone


def test_workers_that_can_not_start_on_one_node_end_no_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = [
        {"NodeID": host, "NodeManagerAddress": host, "Resources": {"CPU": 4.0}, "Alive": True}
        for host in ("10.0.0.1", "10.0.0.2")
    ]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)

    def not_started(host: str) -> RayActorError:
        where = f"ray::TrialActor.__init__() (pid=7, ip={host}, actor_id=ab)"
        return RayActorError(error_msg=f"{where}\nImportError: x", actor_init_failed=True)

    failures = WorkerFailures({"CPU": 1.0})
    for trial in "abcdefgh":
        assert failures.end_of(trial, not_started("10.0.0.1")) is None
        assert failures.excluded_nodes(trial) == ("10.0.0.1",)
    with pytest.raises(
        AllWorkersDieError, match="all 9 so far died for one reason: ImportError: x"
    ):
        failures.end_of("a", not_started("10.0.0.2"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock: a list of one number, which a test sets."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


CANCELLED = RayActorError(error_msg="The actor never ran.")


@pytest.fixture
def draining(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Nodes that Ray drains, while each death that a test tells of is a cancelled start."""
    nodes: dict[str, int] = {}
    death = ActorDeath("Ray cancelled it.", never_started=True)
    monkeypatch.setattr(worker_failures, "death_of_actor", lambda _: death)
    monkeypatch.setattr(worker_failures, "draining_nodes", lambda: nodes)
    return nodes


def test_a_start_that_ray_cancels_is_no_death_and_is_tried_again_after_growing_pauses(
    draining: dict[str, int], clock: list[float]
) -> None:
    failures = WorkerFailures({"CPU": 1.0})
    pauses = []
    for _ in range(10):
        for trial in "abcdef":
            assert failures.end_of(trial, CANCELLED) is None
        began = clock[0]
        while failures.pauses:
            clock[0] += 0.25
        pauses.append(clock[0] - began)
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30]
    draining["a node"] = 0
    assert failures.end_of("a", CANCELLED) is None, "Ray starts others once the node is gone"
    draining.clear()
    clock[0] += 31
    with pytest.raises(AllWorkersDieError, match=r"cancelled every start .*: Ray cancelled it\."):
        failures.end_of("a", CANCELLED)
    failures.reported("b")
    assert failures.end_of("a", CANCELLED) is None


def test_no_trial_is_suggested_during_the_pause_after_a_cancelled_start_and_then_the_same(
    tmp_path: Path, draining: dict[str, int], clock: list[float]
) -> None:
    ray_s = Adapters(new_search(tmp_path, STUDY, 256))
    for _ in range(8):
        ray_s.lose(CANCELLED)
        assert ray_s.searcher.suggest("1") is None
        clock[0] += 31
        assert ray_s.suggest() == ray_s.assignment


def test_workers_that_die_of_different_reasons_end_no_search() -> None:
    failures = WorkerFailures({"CPU": 1.0})
    for trial in "abcdef":
        for number in range(4):
            error = RayActorError(error_msg=f"The actor died.\nCrash {'xyz'[number % 3]}")
            failures.end_of(trial, error)


@dataclass
class Lost:
    """A trial whose worker died, as Ray shows it to a scheduler."""

    config: dict[str, Assignment]
    temporary_state: SimpleNamespace


class Adapters:
    """The adapters given to Ray, and a trial that Ray has started."""

    def __init__(self, search: Scheduler) -> None:
        failures = WorkerFailures({"CPU": 1.0})
        shared = SharedFailures(search.folder, search.records)
        equal = EqualFailures(lambda: {"here"})
        self.interrupt = Interrupt()
        self.searcher = SearcherAdapter(search, failures, shared, equal, self.interrupt)
        self.scheduler = SchedulerAdapter(search, failures, shared, equal, Interrupt())
        self.assignment = self.suggest()

    def suggest(self) -> Assignment:
        suggested = self.searcher.suggest("1")
        assert suggested
        assignment: Assignment = suggested["assignment"]
        return assignment

    def lose(self, error: Exception) -> None:
        lost: Any = Lost({"assignment": self.assignment}, SimpleNamespace(fathom_error=error))
        self.scheduler.on_trial_error(None, lost)


def test_an_error_at_the_end_of_a_trial_which_tune_would_only_print_ends_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = new_search(tmp_path, STUDY, 256)
    ray_s, error = Adapters(search), RuntimeError("what nobody has thought of")

    def fail(*_: object) -> bool:
        raise error

    monkeypatch.setattr(search, "report", fail)
    finished = Report(points=(POINT,), outcome=Outcome.FINISHED)
    result = {"trial": ray_s.assignment.spec.trial, "report": finished}
    ray_s.searcher.on_trial_complete("1", result)

    assert ray_s.interrupt.error is error
    finished_searching: Any = Searcher.FINISHED
    assert ray_s.searcher.suggest("1") == finished_searching


@pytest.mark.parametrize("died", ["node", "worker"])
def test_a_trial_may_lose_any_number_of_nodes_and_three_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, died: str
) -> None:
    search = new_search(tmp_path, STUDY, 256)
    ray_s = Adapters(search)
    death = ActorDeath(with_node=died == "node")
    monkeypatch.setattr(worker_failures, "death_of_actor", lambda _: death)
    error = RayActorError(error_msg=f"The actor died because its {died} has died.")
    for _ in range(3):
        ray_s.lose(error)
        assert ray_s.suggest() == ray_s.assignment, "it is the next to start"
    ray_s.lose(error)
    if died == "node":
        assert ray_s.suggest() == ray_s.assignment
        return
    (record,) = search.records
    assert record.outcome is Outcome.FAILED
    assert record.reason == "its worker died 4 times: The actor died because its worker has died."


def died_on(host: str) -> RayActorError:
    return RayActorError(error_msg=f"The actor died.\n\tip: {host}\nIts worker has died.")


def test_a_trial_avoids_nodes_where_its_workers_died_if_others_can_run_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def node(number: int, gpus: int, *, alive: bool = True) -> dict[str, Any]:
        address = f"10.0.0.{number}"
        resources = {"CPU": 4.0, "GPU": float(gpus)}
        return {
            "NodeID": f"n{number}", "NodeManagerAddress": address, "Resources": resources,
            "Alive": alive,
        }  # fmt: skip

    nodes = [node(1, 0), node(2, 1), node(3, 1), node(4, 1, alive=False)]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    failures = WorkerFailures({"CPU": 1.0, "GPU": 1.0})
    assert failures.excluded_nodes("a") == ()
    assert failures.end_of("a", died_on("10.0.0.2")) is None
    assert failures.excluded_nodes("a") == ("n2",)
    assert failures.restricted == {"a"}
    assert failures.excluded_nodes("b") == ()
    assert failures.end_of("a", died_on("10.0.0.3")) is None
    assert not failures.restricted
    assert (
        failures.excluded_nodes("a") == ()
    )  # neither the head, which has no GPU, nor the dead one
    assert all_nodes_but(("n2", "n3")) == {"ray.io/node-id": "!in(n2,n3)"}
    assert all_nodes_but(()) == {}


def test_a_trial_too_large_for_the_memory_resumes_once_with_less_and_is_then_out_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "machine_memory", lambda: 1.0)
    search = new_search(tmp_path, STUDY, 256)
    ray_s = Adapters(search)
    ray_s.lose(LOW)
    assert ray_s.suggest() == replace(ray_s.assignment, out_of_memory=True)
    ray_s.lose(LOW)
    (record,) = search.records
    assert record.outcome is Outcome.OUT_OF_MEMORY
    assert record.reason == "its worker was killed twice: the node was running low on memory"


def of_the_machine() -> RayActorError:
    """The end of a trial that found no memory left, as Ray passes it on."""
    error = RayActorError(error_msg="a task has failed")
    error.cause = MachineMemoryError("can't allocate memory")  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize("error", [LOW, of_the_machine()], ids=["killed", "refused"])
def test_a_trial_that_fits_ends_no_search_for_lack_of_memory_but_has_it_pause(
    tmp_path: Path, error: RayActorError
) -> None:
    search = new_search(tmp_path, STUDY, 256)
    ray_s = Adapters(search)
    for _ in range(4):
        assert not ray_s.scheduler._interrupt.requested or error is LOW
        ray_s.lose(error)
        assert ray_s.suggest().spec == ray_s.assignment.spec, "it is the next to start"
    paused = ray_s.scheduler._interrupt.error
    assert isinstance(paused, OSError)
    assert paused.errno == errno.ENOMEM
    assert f"go on with: {search.folder.resume_command}" in str(paused.strerror)
    assert not search.records


def test_workers_killed_at_once_each_count_as_killed_for_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kills = [0]
    monkeypatch.setattr(worker_failures, "kernel_kills", lambda: kills[0])
    failures, command = WorkerFailures({"CPU": 1.0}), RayActorError(error_msg="a task has failed")
    command.cause = WorkerLostError("the command was killed by signal 9")  # type: ignore[attr-defined]
    kills[0] = 2
    for trial, death in (("a", RayActorError(error_msg="The actor died.")), ("b", command)):
        assert failures.end_of(trial, death) is None
    assert failures.out_of_memory == {"a", "b"}
    assert failures.end_of("c", RayActorError(error_msg="The actor died.")) is None
    assert "c" not in failures.out_of_memory


def horizon_missed() -> Exception:
    """The error of a trial whose command never evaluates at the horizon, as Ray passes it on."""
    error = RuntimeError("a task has failed")
    error.cause = HorizonError("the command evaluates every 500 tokens")  # type: ignore[attr-defined]
    return error


def test_a_horizon_that_is_never_evaluated_ends_the_search_at_the_first_trial(
    tmp_path: Path,
) -> None:
    search = new_search(tmp_path, STUDY, 256)
    ray_s = Adapters(search)
    with pytest.raises(HorizonError, match="every 500 tokens"):
        ray_s.lose(horizon_missed())
    assert not search.records


def test_once_a_trial_of_the_size_has_finished_it_fails_that_trial_alone(tmp_path: Path) -> None:
    search = new_search(tmp_path, STUDY, 256)
    ray_s = Adapters(search)
    finished = Report(points=(POINT,), outcome=Outcome.FINISHED)
    search.report(ray_s.assignment.spec.trial, finished)
    ray_s.assignment = ray_s.suggest()
    ray_s.lose(horizon_missed())
    assert [record.outcome for record in search.records] == [Outcome.FINISHED, Outcome.FAILED]


def test_three_equal_failures_after_losses_end_the_search_once_no_trial_runs(
    tmp_path: Path,
) -> None:
    search = new_search(tmp_path, STUDY, 256)
    ray_s = Adapters(search)
    running = [ray_s.assignment, *(ray_s.suggest() for _ in range(3))]
    for number, assignment in enumerate(running):
        report = Report(points=(POINT,), outcome=Outcome.FAILED, reason=f"no space at {number}")
        ray_s.searcher.on_trial_complete("1", {"trial": assignment.spec.trial, "report": report})
        if number == 2:
            assert ray_s.searcher.suggest("1") is None, "the fourth trial may show otherwise"
    with pytest.raises(AllTrialsFailError, match="the last 4 failed for one reason"):
        ray_s.searcher.suggest("1")
    assert len(search.records) == 4


def failed(reason: str) -> Report:
    return Report(points=(), outcome=Outcome.FAILED, reason=reason)


@pytest.fixture
def shared(tmp_path: Path) -> SharedFailures:
    folder = RunFolder(tmp_path)
    folder.create()
    return SharedFailures(folder, ())


def test_three_that_fail_alike_end_the_search_once_no_other_runs(shared: SharedFailures) -> None:
    for number, trial in enumerate("abc"):
        assert not shared.many
        assert shared.holds(trial, failed(f"exit status 1: no module named x (process {number})"))
    assert shared.many
    shared.check("abcd")
    with pytest.raises(
        AllTrialsFailError, match=r"all 3 so far failed for one reason: .*process 0"
    ) as raised:
        shared.check("abc")
    assert "\n" not in str(raised.value)
    assert not shared.released()


@pytest.mark.parametrize("other", [Report(points=(POINT,)), failed("another reason")])
def test_a_loss_or_another_reason_lets_the_failures_stand(
    shared: SharedFailures, other: Report
) -> None:
    first = failed("no GPU")
    assert shared.holds("a", first)
    assert not shared.holds("b", other)
    assert shared.released() == {"a": first}
    for trial in "cde":
        assert not shared.holds(trial, failed("no GPU")), "from then on failures are recorded"
    shared.check(())


def test_what_says_nothing_of_other_trials_is_passed_on(shared: SharedFailures) -> None:
    assert shared.holds("a", failed("no GPU"))
    for report in (Report(points=(), saved=True), Report(points=(), outcome=Outcome.OUT_OF_MEMORY)):
        assert not shared.holds("b", report)
        assert not shared.released()
    assert shared.held == {"a"}


def test_a_failed_start_leaves_no_state_to_resume_from(
    shared: SharedFailures, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path)
    (folder.checkpoint("a").with_suffix("")).mkdir()
    log = folder.checkpoint("a").with_suffix(".log")
    log.write_text("Traceback\n", encoding="utf-8")
    shared.holds("a", failed("exit status 1"))
    with pytest.raises(AllTrialsFailError, match=r"a\.log has all it printed"):
        shared.check("a")
    assert [path.name for path in log.parent.glob("a*")] == ["a.log"]
