"""A real search on a real Ray: `search/cluster/tune.py`, with trials that train, fail and die."""

import errno
import math
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import optuna
import pytest
import ray
import torch
from ray import cloudpickle
from ray.air.execution._internal.event_manager import RayEventManager
from ray.exceptions import OutOfMemoryError, RayActorError
from torch import Tensor

from fathom.objectives.contract import Batch, Model
from fathom.search.cluster.alike_failures import AlikeFailures, AllTrialsFailError
from fathom.search.cluster.interrupt import Interrupt
from fathom.search.cluster.ray_session import all_nodes_but, join_cluster, start_ray
from fathom.search.cluster.tune import SchedulerAdapter, SearcherAdapter, run_trials
from fathom.search.cluster.worker import StorageError
from fathom.search.cluster.worker_failures import (
    AllWorkersDieError,
    WorkerFailures,
    memory_kills_as_deaths,
)
from fathom.search.records import CurvePoint, Outcome, Stage, TrialRecord
from fathom.search.run_folder import RunFolder, append_line, read_lines, read_records
from fathom.search.scheduling.optuna_studies import open_file
from fathom.search.scheduling.scheduler import Listener, Scheduler
from fathom.search.study.keys.config import StudyConfig, parse
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.shapes import feasible_shapes
from fathom.search.tracking.messages import TrackedStudy
from fathom.search.tracking.tracker import Tracker
from fathom.search.training.assignment import Assignment
from fathom.search.training.device import DeviceError, granted_device
from fathom.search.training.trial import RunningTrial
from tests.support.in_process import search_in_process

with warnings.catch_warnings():
    # MLflow uses what SQLAlchemy 2.1 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from mlflow import MlflowClient


STUDY = """
study: real
objective: {name: language, context: 16}
budgets: [8k, 12k]
count: non_embedding
tokens: 4k
space: {depth: [1, 6], n_heads: 2}
trials: 6
confirm: {depths: 3, seeds: 1, rates: [1]}
train: {batch_size: 4, evaluations: 4, learning_rate: 1e-3}
resources: {gpus_per_trial: 0}
"""


ONE_AT_A_TIME = STUDY.replace("[8k, 12k]", "[8k]").replace(
    "gpus_per_trial: 0", "gpus_per_trial: 0, max_concurrent_trials: 1"
)
"""A study of one budget on one worker, of which the start is what takes most."""


@dataclass(frozen=True)
class Cycle:
    """Tokens that count upwards; goes wrong on purpose for some depths."""

    ids: np.ndarray
    nan_from_depth: int = 99
    raises_at_depth: int = 99
    dies_once: str = ""
    """A file whose absence kills the worker once, after the first rung."""
    vocab_size: int = 256
    context: int = 16
    chance_loss: float = math.log(256)

    def to(self, device: torch.device) -> Self:
        return self

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        generator = torch.Generator().manual_seed(seed + step)
        start = torch.randint(0, len(self.ids) - 17, (batch_size, 1), generator=generator)
        window = torch.from_numpy(self.ids.copy())[start + torch.arange(17)]
        return Batch(window[:, :-1], window[:, 1:])

    def loss(self, model: Model, batch: Batch) -> Tensor:
        depth = len(model.blocks)  # type: ignore[attr-defined]
        if depth == self.raises_at_depth:
            raise RuntimeError("a kernel that this depth can't run")
        logits = model(batch.inputs)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten())
        return loss * math.nan if depth >= self.nan_from_depth else loss

    def evaluate(self, model: Model) -> dict[str, float]:
        with torch.no_grad():
            loss = self.loss(model, self.batch(seed=10**6, step=0, batch_size=8))
        return {"loss": float(loss)}

    def final_metrics(self, model: Model) -> dict[str, float]:
        return {}


def cycle(**wrong: object) -> Cycle:
    return Cycle(np.arange(4096) % 256, **wrong)  # type: ignore[arg-type]


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    yield
    ray.shutdown()


def scheduler(path: Path, text: str = STUDY, *listeners: Listener) -> Scheduler:
    config: StudyConfig = parse(text)
    folder = RunFolder(path)
    folder.create()
    spaces = {budget: feasible_shapes(config, budget, 256) for budget in expand_budgets(config)}
    return Scheduler(config, spaces, folder, listeners)


def test_a_search_runs_to_its_end_and_optuna_has_its_results(tmp_path: Path) -> None:
    search = scheduler(tmp_path)
    run_trials(search, cycle(nan_from_depth=5, raises_at_depth=4))
    assert search.done
    records = read_records(search.folder.records)
    stages = Counter((r.spec.budget, r.spec.stage) for r in records)
    assert stages[8_000, Stage.EXPLORE] == stages[12_000, Stage.EXPLORE] == 6
    assert stages.total() <= 2 * (6 + 3), "no more than planned"
    by_outcome = {outcome: [r for r in records if r.outcome is outcome] for outcome in Outcome}
    assert by_outcome[Outcome.FINISHED]
    for record in by_outcome[Outcome.FINISHED]:
        assert record.tokens == record.spec.horizon_tokens
        assert [p.step for p in record.curve] == sorted({p.step for p in record.curve})
    assert all(r.spec.shape.depth >= 5 for r in by_outcome[Outcome.DIVERGED])
    assert all(r.spec.shape.depth == 4 for r in by_outcome[Outcome.FAILED])
    assert all("can't run" in r.reason for r in by_outcome[Outcome.FAILED])

    storage = open_file(search.folder.optuna)
    assert set(optuna.get_all_study_names(storage)) == {"real/8k", "real/12k"}
    for name in ("real/8k", "real/12k"):
        study = optuna.load_study(study_name=name, storage=storage)
        for trial in study.get_trials():
            outcome = Outcome(trial.user_attrs["outcome"])
            assert (
                trial.state.name
                == {
                    Outcome.FINISHED: "COMPLETE",
                    Outcome.STOPPED: "PRUNED",
                    Outcome.DIVERGED: "PRUNED",
                    Outcome.FAILED: "FAIL",
                }[outcome]
            )
            assert trial.value is None or math.isfinite(trial.value)
        assert Outcome(study.best_trial.user_attrs["outcome"]) is Outcome.FINISHED


def test_a_ray_that_another_search_has_started_is_not_joined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a Ray ends with the other search and would end the trials of this one."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    start_ray(parse(STUDY).resources, "again")
    assert join_cluster() is None


def never_stopped(search: Scheduler, record: TrialRecord, aside: Path) -> list[CurvePoint]:
    """The curve of the same trial, trained here from its beginning to its end."""
    own = search.budgets[record.spec.budget].budget
    assignment = Assignment(search.config, own, record.spec, str(aside / "fresh.pt"))
    (aside / "fresh.pt").unlink(missing_ok=True)
    *_, last = RunningTrial(assignment, cycle(), torch.device("cpu")).reports()
    return list(last.points)


def losses(curve: Sequence[CurvePoint]) -> list[tuple[int, float, float]]:
    return [(point.step, point.loss, point.train_loss) for point in curve]


NONE_STOPPED = STUDY.replace("[8k, 12k]", "[8k]") + (
    "stopping: {first_rung: 0.25, eta: 2, always_finish: 0.999}\n"
)


def test_a_worker_that_dies_is_started_again_from_its_checkpoint(tmp_path: Path) -> None:
    """With any number of running trials, each has every loss of a training that never stopped."""
    marker = tmp_path / "died"

    @dataclass(frozen=True)
    class DiesOnce(Cycle):
        def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
            if step == 50 and not os.path.exists(self.dies_once):
                open(self.dies_once, "w").close()
                os._exit(1)
            return super().batch(seed=seed, step=step, batch_size=batch_size)

    search = scheduler(tmp_path / "run", NONE_STOPPED)
    run_trials(search, DiesOnce(np.arange(4096) % 256, dies_once=str(marker)))
    assert marker.exists()
    assert search.done
    for record in read_records(search.folder.records):
        assert losses(record.curve) == losses(never_stopped(search, record, tmp_path))
    rungs = Counter(
        (line["trial"], line["rung"][0])
        for line in read_lines(search.folder.journal)
        if line["event"] == "report" and line["rung"]
    )
    assert sorted(rungs.values())[-2:] == [1, 2], "one trial was resumed, from its last rung"


STOPPING = ONE_AT_A_TIME + (
    "sampler: random\nstopping: {first_rung: 0.25, eta: 2, always_finish: 0}\n"
)


def test_a_stopped_trial_resumes_from_its_checkpoint_as_if_never_stopped(
    tmp_path: Path,
) -> None:
    first = scheduler(tmp_path, STOPPING)
    search_in_process(first, cycle())
    ends = len(list(read_lines(first.folder.records)))
    stopped = [r for r in first.records if r.outcome is Outcome.STOPPED]
    checkpoints = [first.folder.checkpoint(r.spec.trial) for r in stopped]
    assert len(stopped) > 1
    assert all(path.exists() for path in checkpoints)
    checkpoints[0].unlink()  # this one starts anew
    horizon = stopped[0].spec.horizon_tokens
    append_line(first.folder.journal, {"event": "extend", "budget": 8_000, "first_rung": horizon})

    search = scheduler(tmp_path, STOPPING)
    run_trials(search, cycle())
    assert search.done
    records = {r.spec.trial: r for r in read_records(search.folder.records)}
    for before in stopped:
        after = records[before.spec.trial]
        assert after.outcome is Outcome.FINISHED
        assert after.curve[: len(before.curve)] == before.curve
        assert losses(after.curve) == losses(never_stopped(search, before, tmp_path))
    ends += len(stopped) + len(records) - len(first.records)
    assert len(list(read_lines(search.folder.records))) == ends, "a line for each end"
    assert not any(path.exists() for path in checkpoints)


def test_a_paused_trial_resumes_in_the_same_search_and_stays_one_run_of_mlflow(
    tmp_path: Path,
) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    tracked = TrackedStudy(uri=uri, study="real", folder=tmp_path, config_text=STOPPING)
    tracker = Tracker(tracked)
    search = scheduler(tmp_path, STOPPING, tracker.trial)
    run_trials(search, cycle())
    assert search.done
    assert tracker.close() == 0

    ends = Counter(line["trial"] for line in read_lines(search.folder.records))
    again = [r for r in search.records if ends[r.spec.trial] > 1]
    assert again
    for record in again:
        whole = losses(never_stopped(search, record, tmp_path))
        assert losses(record.curve) == whole[: len(record.curve)]

    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("real")
    assert experiment
    runs = client.search_runs([experiment.experiment_id])
    by_trial = {run.data.tags["trial"]: run for run in runs if "trial" in run.data.tags}
    assert len([run for run in runs if "trial" in run.data.tags]) == len(by_trial) == len(ends)
    assert "RUNNING" not in {run.info.status for run in runs}
    for record in search.records:
        assert record.outcome
        run = by_trial[record.spec.trial]
        assert run.data.tags["outcome"] == record.outcome.value
        history = client.get_metric_history(run.info.run_id, "loss")
        assert [(m.step, m.value) for m in history] == [(p.tokens, p.loss) for p in record.curve]


def test_a_node_that_does_not_see_the_checkpoints_ends_the_search_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = scheduler(tmp_path, ONE_AT_A_TIME)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("what another folder's marker holds")
    monkeypatch.setattr(RunFolder, "marker", property(lambda self: elsewhere), raising=False)
    with pytest.raises(StorageError, match=r"every node must see .*checkpoints, and .* does not"):
        run_trials(search, cycle())
    assert not search.records, "no trial failed of it"


@dataclass(frozen=True)
class Unusable(Cycle):
    """A task whose device can't be used."""

    def to(self, device: torch.device) -> Self:
        granted_device(gpus=1)
        return self


def test_a_gpu_that_pytorch_cannot_use_ends_the_search_with_the_reason(tmp_path: Path) -> None:
    search = scheduler(tmp_path, ONE_AT_A_TIME)
    with pytest.raises(DeviceError, match=r"a trial that was granted a GPU must train on it"):
        run_trials(search, Unusable(np.arange(4096) % 256))
    assert not search.records, "no trial failed of it"


def test_a_full_disk_pauses_the_search_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = scheduler(tmp_path, ONE_AT_A_TIME)

    def full(*_: object) -> bool:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(search, "report", full)
    interrupt = Interrupt()
    run_trials(search, cycle(), interrupt=interrupt)
    assert interrupt.error
    assert interrupt.error.errno == errno.ENOSPC
    monkeypatch.undo()
    again = scheduler(tmp_path, ONE_AT_A_TIME)
    search_in_process(again, cycle())
    assert Outcome.FAILED not in {r.outcome for r in again.records}


class Unplaceable(Cycle):
    """Data that no worker can put on its device."""

    def to(self, device: torch.device) -> Self:
        raise RuntimeError(f"no kernel for process {os.getpid()}")


def test_workers_that_all_die_alike_end_the_search_with_the_reason_and_no_trial_fails_of_it(
    tmp_path: Path,
) -> None:
    search = scheduler(tmp_path, ONE_AT_A_TIME)
    with pytest.raises(
        AllWorkersDieError, match=r"test_tune\.py, line \d+: RuntimeError: no kernel .* goes on"
    ):
        run_trials(search, Unplaceable(np.arange(4096) % 256))
    assert not search.records
    assert {*scheduler(tmp_path, ONE_AT_A_TIME).live} == {*search.live}, (
        "a search that resumes takes them up"
    )


class Broken(Cycle):
    """Data that fail in every trial until a file is there."""

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        if not Path(self.dies_once).exists():
            raise RuntimeError(f"column {step} is missing")
        return super().batch(seed=seed, step=step, batch_size=batch_size)


def test_trials_that_all_fail_alike_end_the_search_and_run_again_once_that_is_mended(
    tmp_path: Path,
) -> None:
    mended = tmp_path / "mended"
    broken = Broken(np.arange(4096) % 256, dies_once=str(mended))
    search = scheduler(tmp_path, ONE_AT_A_TIME)
    with pytest.raises(AllTrialsFailError, match=r"all [34] so far failed alike: .*column 0"):
        run_trials(search, broken)
    assert not search.records
    assert len(search.live) <= 4, "not all trials were tried"
    mended.touch()
    again = scheduler(tmp_path, ONE_AT_A_TIME)
    search_in_process(again, broken)
    records = read_records(search.folder.records)
    assert {r.outcome for r in records} <= {Outcome.FINISHED, Outcome.STOPPED}
    assert {*search.live} <= {r.spec.trial for r in records}


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
    with pytest.raises(AllWorkersDieError, match=r"all 12 so far died alike: Process 3 has crash"):
        lose(failures, "f")


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
        return RayActorError(error_msg=f"It raised in its creation task, {where}\nImportError: x")

    failures = WorkerFailures({"CPU": 1.0})
    for trial in "abcdefgh":
        assert failures.end_of(trial, not_started("10.0.0.1")) is None
        assert failures.excluded_nodes(trial) == ("10.0.0.1",)
    with pytest.raises(AllWorkersDieError, match="all 9 so far died alike: ImportError: x"):
        failures.end_of("a", not_started("10.0.0.2"))


def test_workers_that_ray_does_not_start_are_held_against_none_while_it_drains_a_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    never = RayActorError(
        error_msg="The actor never ran - it was cancelled before it started running."
    )
    draining = {"a node": 0}
    monkeypatch.setattr(ray._private.state.state, "get_draining_nodes", lambda: draining)
    failures = WorkerFailures({"CPU": 1.0})
    for trial in "abcdef" * 4:
        assert failures.end_of(trial, never) is None
    draining.clear()
    for _ in range(3):
        assert failures.end_of("a", never) is None
    assert failures.end_of("a", never) is not None


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
    pickled_error_file: str


class Adapters:
    """The adapters given to Ray, and a trial that Ray has started."""

    def __init__(self, search: Scheduler, aside: Path) -> None:
        failures = WorkerFailures({"CPU": 1.0})
        alike = AlikeFailures(search.folder, search.records)
        self.searcher = SearcherAdapter(search, failures, alike, Interrupt())
        self.scheduler = SchedulerAdapter(search, failures, alike, Interrupt(), lambda: None)
        self.path = aside / "error.pkl"
        self.assignment = self.suggest()

    def suggest(self) -> Assignment:
        suggested = self.searcher.suggest("1")
        assert suggested
        assignment: Assignment = suggested["assignment"]
        return assignment

    def lose(self, error: Exception) -> None:
        self.path.write_bytes(cloudpickle.dumps(error))
        lost: Any = Lost({"assignment": self.assignment}, str(self.path))
        self.scheduler.on_trial_error(None, lost)


@pytest.mark.parametrize("died", ["node", "worker"])
def test_a_trial_may_lose_any_number_of_nodes_and_three_workers(tmp_path: Path, died: str) -> None:
    search = scheduler(tmp_path, STUDY.replace("[8k, 12k]", "[8k]"))
    ray_s = Adapters(search, tmp_path)
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


def as_tune_hears_of(error: Exception) -> Exception:
    """Tune's reading of a future that raises an error."""
    heard: list[Exception] = []
    manager = RayEventManager()
    future: Any = "of a worker"
    manager.track_future(future, on_error=heard.append)
    (_, on_error) = manager._tracked_futures[future]
    assert on_error
    on_error(error)
    return heard[0]


def test_tune_treats_a_worker_killed_for_memory_as_a_death() -> None:
    killed = OutOfMemoryError("1 worker(s) were killed due to the node running low\non memory")
    assert as_tune_hears_of(killed) is killed, "on which Tune's manager of actors raises"
    with memory_kills_as_deaths():
        heard = as_tune_hears_of(killed)
        other = RayActorError(error_msg="of something else")
        assert as_tune_hears_of(other) is other
    assert isinstance(heard, RayActorError)
    assert str(heard) == "1 worker(s) were killed due to the node running low"


def test_a_trial_killed_for_memory_resumes_once_with_less_and_is_then_out_of_memory(
    tmp_path: Path,
) -> None:
    search = scheduler(tmp_path, STUDY.replace("[8k, 12k]", "[8k]"))
    ray_s = Adapters(search, tmp_path)
    with memory_kills_as_deaths():
        killed = as_tune_hears_of(OutOfMemoryError("the node was running low on memory\nmore"))
    ray_s.lose(killed)
    assert ray_s.suggest() == replace(ray_s.assignment, out_of_memory=True)
    ray_s.lose(killed)
    (record,) = search.records
    assert record.outcome is Outcome.OUT_OF_MEMORY
    assert record.reason == "its worker was killed twice: the node was running low on memory"
