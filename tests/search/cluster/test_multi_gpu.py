"""Trials on two GPUs each, by Ray Train: gloo on the CPU, with GPUs that only Ray believes in."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import ray
import torch.distributed
from ray.train import WorkerGroupError

from fathom.objectives.contract import Batch
from fathom.search.cluster.multi_gpu import backend, data_parallel_reports, root_cause
from fathom.search.cluster.tune import run_trials
from fathom.search.records import Outcome, Report
from fathom.search.run_folder import read_records
from fathom.search.study.file.study_file import parse
from fathom.search.study.keys.groups import ResourcesConfig
from fathom.search.training.assignment import Assignment
from fathom.search.training.device import CPU_AS_GPU
from fathom.search.training.trial import RunningTrial, WorkerLostError, catch_failures, run_trial
from tests.support.in_process import search_in_process
from tests.support.ray_folder import ray_with_gpus
from tests.support.searches import new_search
from tests.support.toy import CPU, Successor
from tests.support.waiting import wait_until

# Ray Train's own, of Ray Data, which nobody uses here.
pytestmark = pytest.mark.filterwarnings("ignore:`use_.*` is deprecated")

TEXT = """
study: multi-gpu
objective: {name: language, context: 6}
budgets: [2k]
count: non_embedding
tokens: 1200
tolerance: 0.05
space: {depth: [1, 3], n_heads: 2}
sampler: ladder
confirm: {depths: 1, seeds: 1, rates: [1]}
train: {batch_size: 8, evaluations: 4, learning_rate: 1e-4}
resources: {gpus_per_trial: 2, cpus_per_trial: 0.5, max_concurrent_trials: 1}
"""
"""A study whose trials take so few and short steps that their losses stay far above zero. There the
order of additions, in which two processes differ from one, changes the last digits of a loss alone;
near zero, the differences grow with every step.
"""
TOLERANCE = 1e-5
"""Largest relative difference of such losses; that of one process in micro-batches is 2e-7."""
FAR_FROM_ZERO = 0.1
CONFIG = parse(TEXT)
STOPPING = parse(TEXT.replace("sampler: ladder", "stopping: {first_rung: 0.25}"))
ON_ONE = ResourcesConfig(gpus_per_trial=0, max_concurrent_trials=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailsOnce(Successor):
    """The second process goes wrong at a step, until a file says that it has."""

    how: str
    note: Path
    at_step: int = 15

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        if step == self.at_step and torch.distributed.get_rank() == 1 and not self.note.exists():
            self.note.touch()
            if self.how == "dies":
                os._exit(1)
            raise MemoryError("no more")
        return Successor.batch(self, seed=seed, step=step, batch_size=batch_size)


@pytest.fixture(scope="module")
def _ray() -> Iterator[None]:
    with ray_with_gpus(2):
        yield


def assignment(folder: Path) -> Assignment:
    search = new_search(folder, STOPPING, 8)
    spec = search.next_trial()
    assert spec is not None
    return Assignment(
        STOPPING, search.budgets[2000].budget, spec, str(search.folder.checkpoint(spec.trial))
    )


def alone(folder: Path) -> list[Report]:
    return list(RunningTrial(assignment(folder), Successor(), CPU).reports())


def losses(report: Report) -> list[float]:
    return [point.loss for point in report.points]


@pytest.mark.drill
@pytest.mark.usefixtures("_ray")
def test_a_trial_with_a_lost_process_resumes_to_the_same_end(
    tmp_path: Path,
) -> None:
    given = assignment(tmp_path / "several")
    objective = ray.put(FailsOnce(how="dies", note=tmp_path / "died"))
    with pytest.raises(WorkerLostError):
        list(
            catch_failures(run_trial(lambda parts: data_parallel_reports(given, objective, parts)))
        )
    reports = list(data_parallel_reports(given, objective))
    expected = alone(tmp_path / "alone")
    assert reports[-1].outcome is Outcome.FINISHED
    assert losses(reports[-1]) == pytest.approx(losses(expected[-1]), rel=TOLERANCE)
    assert [point.tokens for point in reports[-1].points] == [
        point.tokens for point in expected[-1].points
    ]
    assert reports[0].points[-1].step > 1  # from the checkpoint of its rung


@pytest.mark.siege
@pytest.mark.usefixtures("_ray")
def test_one_process_without_memory_makes_all_train_in_micro_batches(tmp_path: Path) -> None:
    given = assignment(tmp_path / "several")
    objective = ray.put(FailsOnce(how="memory", note=tmp_path / "full"))
    reports = list(
        catch_failures(run_trial(lambda parts: data_parallel_reports(given, objective, parts)))
    )
    assert reports[-1].outcome is Outcome.FINISHED
    assert "micro-batches" in reports[-1].reason
    expected = alone(tmp_path / "alone")
    assert losses(reports[-1]) == pytest.approx(losses(expected[-1]), rel=TOLERANCE)


@pytest.mark.siege
@pytest.mark.usefixtures("_ray")
def test_a_trial_that_is_stopped_at_a_rung_leaves_a_checkpoint_and_no_process(
    tmp_path: Path,
) -> None:
    given = assignment(tmp_path)
    reports = data_parallel_reports(given, ray.put(Successor()))
    rung = next(report for report in reports if report.rung)
    reports.close()  # type: ignore[attr-defined]
    wait_until(lambda: ray.available_resources().get("GPU") == 2, "its workers hold their GPUs")
    again = RunningTrial(given, Successor(), CPU).reports()
    assert next(again).points == rung.points


@pytest.mark.drill
@pytest.mark.usefixtures("_ray")
def test_a_search_on_two_gpus_a_trial_has_the_records_of_one_on_none(tmp_path: Path) -> None:
    several = new_search(tmp_path / "several", CONFIG, 8)
    run_trials(several, Successor())
    single = new_search(tmp_path / "single", CONFIG.model_copy(update={"resources": ON_ONE}), 8)
    search_in_process(single, Successor())
    ours, theirs = (read_records(run.folder.records) for run in (several, single))
    assert [record.spec for record in ours] == [record.spec for record in theirs]
    assert len(ours) == 4
    for record, other in zip(ours, theirs, strict=True):
        assert record.outcome is Outcome.FINISHED
        assert record.loss is not None
        assert record.loss > FAR_FROM_ZERO, "else the tolerance would have no reason"
        assert record.loss == pytest.approx(other.loss, rel=TOLERANCE)


def failure(**failures: Exception) -> WorkerGroupError:
    return WorkerGroupError("failed", dict(enumerate(failures.values())))


def test_workers_with_gpus_reduce_by_nccl_wherever_the_trial_was_placed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ray Train takes NCCL for workers with GPUs unless it is told otherwise."""
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: False)  # as on a CPU's
    monkeypatch.delenv(CPU_AS_GPU, raising=False)
    assert backend() is None
    monkeypatch.setenv(CPU_AS_GPU, "1")
    assert backend() == "gloo"


def test_the_error_of_a_trial_is_that_of_its_first_failing_process() -> None:
    peer = torch.distributed.DistBackendError("connection closed")
    kernel, memory = ValueError("a kernel"), torch.OutOfMemoryError("CUDA out of memory")
    assert root_cause(failure(one=peer, two=kernel)) is kernel
    assert root_cause(failure(one=kernel, two=memory)) is memory
    assert isinstance(root_cause(failure(one=peer, two=peer)), WorkerLostError)
    assert isinstance(
        root_cause(failure(one=ray.exceptions.RayActorError(), two=kernel)), WorkerLostError
    )
    assert isinstance(root_cause(failure(one=ray.exceptions.OutOfMemoryError("x"))), MemoryError)
    assert isinstance(root_cause(RuntimeError("the controller")), WorkerLostError)
