"""A real search on a real Ray: `search/cluster/tune.py`, with trials that train, fail and die."""

import errno
import gc
import math
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import optuna
import pytest
import ray
import torch
from torch import Tensor

from fathom.objectives.contract import Batch, Model
from fathom.search.cluster.interrupt import Interrupt
from fathom.search.cluster.tune import run_trials
from fathom.search.cluster.worker import StorageError
from fathom.search.cluster.worker_failures import AllTrialsFailError, AllWorkersDieError
from fathom.search.json_lines import append_line, read_lines
from fathom.search.records import CurvePoint, Outcome, Stage, TrialRecord
from fathom.search.run_folder import RunFolder, read_records
from fathom.search.scheduling.optuna.optuna_studies import open_file
from fathom.search.scheduling.scheduler import Listener, Scheduler
from fathom.search.study.keys.config import StudyConfig
from fathom.search.tracking.stores.messages import TrackedStudy
from fathom.search.tracking.writing.tracker import Tracker
from fathom.search.training.assignment import Assignment
from fathom.search.training.device import DeviceError, granted_device
from fathom.search.training.trial import RunningTrial
from tests.support.in_process import search_in_process
from tests.support.searches import new_search

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
    return new_search(path, text, 256, *listeners)


@pytest.mark.drill
def test_a_search_runs_to_its_end_and_optuna_has_its_results(tmp_path: Path) -> None:
    copies: list[int] = []

    def count_studies(record: TrialRecord) -> None:
        if record.outcome:
            copies.append(sum(type(each) is StudyConfig for each in gc.get_objects()))

    search = scheduler(tmp_path, STUDY, count_studies)
    run_trials(search, cycle(nan_from_depth=5, raises_at_depth=4))
    assert search.done
    assert max(copies) <= copies[0] + 1, "the driver keeps the study once, not for each trial"
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


def never_stopped(search: Scheduler, record: TrialRecord, aside: Path) -> list[CurvePoint]:
    """The curve of the same trial, trained here from its beginning to its end."""
    budget = search.budgets[record.spec.budget].budget
    assignment = Assignment(search.config, budget, record.spec, str(aside / "fresh.pt"))
    (aside / "fresh.pt").unlink(missing_ok=True)
    *_, last = RunningTrial(assignment, cycle(), torch.device("cpu")).reports()
    return list(last.points)


def losses(curve: Sequence[CurvePoint]) -> list[tuple[int, float, float]]:
    return [(point.step, point.loss, point.train_loss) for point in curve]


NONE_STOPPED = STUDY.replace("[8k, 12k]", "[8k]") + (
    "stopping: {first_rung: 0.25, eta: 2, always_finish: 0.999}\n"
)


@pytest.mark.drill
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


@pytest.mark.drill
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


@pytest.mark.drill
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


@pytest.mark.drill
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


@pytest.mark.drill
def test_a_gpu_that_pytorch_cannot_use_ends_the_search_with_the_reason(tmp_path: Path) -> None:
    search = scheduler(tmp_path, ONE_AT_A_TIME)
    with pytest.raises(DeviceError, match=r"a trial that was granted a GPU must train on it"):
        run_trials(search, Unusable(np.arange(4096) % 256))
    assert not search.records, "no trial failed of it"


@pytest.mark.drill
def test_a_full_disk_pauses_the_search_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = scheduler(tmp_path, ONE_AT_A_TIME)

    def full(*_: object) -> bool:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(search, "report", full)
    interrupt = Interrupt()
    run_trials(search, cycle(), interrupt=interrupt)
    assert isinstance(interrupt.error, OSError)
    assert interrupt.error.errno == errno.ENOSPC
    monkeypatch.undo()
    again = scheduler(tmp_path, ONE_AT_A_TIME)
    search_in_process(again, cycle())
    assert Outcome.FAILED not in {r.outcome for r in again.records}


class Unplaceable(Cycle):
    """Data that no worker can put on its device."""

    def to(self, device: torch.device) -> Self:
        raise RuntimeError(f"no kernel for process {os.getpid()}")


@pytest.mark.drill
def test_workers_that_all_die_alike_end_the_search_with_the_reason_and_no_trial_fails_of_it(
    tmp_path: Path,
) -> None:
    search = scheduler(tmp_path, ONE_AT_A_TIME)
    with pytest.raises(
        AllWorkersDieError, match=r"test_tune\.py, line \d+: RuntimeError: no kernel .* again"
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


@pytest.mark.drill
def test_trials_that_all_fail_alike_end_the_search_and_run_again_once_that_is_mended(
    tmp_path: Path,
) -> None:
    mended = tmp_path / "mended"
    broken = Broken(np.arange(4096) % 256, dies_once=str(mended))
    search = scheduler(tmp_path, ONE_AT_A_TIME)
    with pytest.raises(
        AllTrialsFailError, match=r"all [34] so far failed for one reason: .*column 0"
    ):
        run_trials(search, broken)
    assert not search.records
    assert len(search.live) <= 4, "not all trials were tried"
    mended.touch()
    again = scheduler(tmp_path, ONE_AT_A_TIME)
    search_in_process(again, broken)
    records = read_records(search.folder.records)
    assert {r.outcome for r in records} <= {Outcome.FINISHED, Outcome.STOPPED}
    assert {*search.live} <= {r.spec.trial for r in records}
