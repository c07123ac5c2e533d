"""Batched trials: each reports and saves what it would alone."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from fathom.objectives.contract import Batch
from fathom.search.records import Outcome, Report, Stage, TrialSpec
from fathom.search.training.assignment import Assignment
from fathom.search.training.batched_trials import BatchedTrials, Reports, run_batched
from fathom.search.training.replicated_loop import ReplicaTraining
from fathom.search.training.trial import RunningTrial, WorkerLostError
from tests.support.toy import CPU, Successors
from tests.support.training import BUDGET, CONFIG, EVALUATIONS, RUNGS, SPEC

NOISE = 1e-4
CONFIRMING = replace(SPEC, stage=Stage.CONFIRM, prunable=False)
SPECS = (
    replace(CONFIRMING, trial="4k-confirm-000", seed=1000),
    replace(CONFIRMING, trial="4k-confirm-001", seed=1000, learning_rate=2e-2, rate_scale=2.0),
    replace(CONFIRMING, trial="4k-confirm-002", seed=1001),
)
WILD = replace(CONFIRMING, trial="4k-confirm-003", learning_rate=1e25)


def assignments(folder: Path, specs: Sequence[TrialSpec] = SPECS) -> list[Assignment]:
    folder.mkdir(exist_ok=True)
    return [Assignment(CONFIG, BUDGET, spec, str(folder / f"{spec.trial}.pt")) for spec in specs]


def batched(folder: Path, specs: Sequence[TrialSpec] = SPECS) -> BatchedTrials:
    return BatchedTrials(assignments(folder, specs), Successors(), CPU)


def alone(assignment: Assignment) -> list[Report]:
    return list(RunningTrial(assignment, Successors(), CPU).reports())


def reports_of(trial: str, reported: Sequence[Reports]) -> list[Report]:
    return [report for reports in reported for name, report in reports if name == trial]


def assert_near(one: Report, other: Report) -> None:
    """Checks that two curves are equal up to floating-point noise and the clock."""
    assert [point.step for point in one.points] == [point.step for point in other.points]
    for point, expected in zip(one.points, other.points, strict=True):
        assert point.loss == pytest.approx(expected.loss, abs=NOISE)
        assert point.train_loss == pytest.approx(expected.train_loss, abs=NOISE)


def test_each_reports_what_it_would_alone(tmp_path: Path) -> None:
    reported = list(batched(tmp_path / "batched").reports())
    for one in assignments(tmp_path / "alone"):
        ours, theirs = reports_of(one.spec.trial, reported), alone(one)
        assert [report.outcome for report in ours] == [report.outcome for report in theirs]
        assert_near(ours[-1], theirs[-1])
        for report, expected in zip(ours, theirs, strict=True):
            assert bool(report.rung) == bool(expected.rung)
            if report.rung and expected.rung:
                assert report.rung == pytest.approx(expected.rung, abs=NOISE)
        assert ours[-1].outcome is Outcome.FINISHED
        assert ours[-1].reason == "trained to the horizon, in one model of 3 trials"


def test_each_has_the_layer_metrics_it_would_have_alone(tmp_path: Path) -> None:
    *_, last = batched(tmp_path / "batched").reports()
    for one in assignments(tmp_path / "alone"):
        (ours,), theirs = reports_of(one.spec.trial, [last]), alone(one)[-1]
        assert ours.layers.keys() == theirs.layers.keys()
        for name, values in theirs.layers.items():
            assert ours.layers[name] == pytest.approx(values, rel=0.01, abs=1e-3), name
        for point, expected in zip(ours.points, theirs.points, strict=True):
            assert point.metrics.keys() == expected.metrics.keys()


def test_the_time_of_a_worker_is_shared_between_its_trials(tmp_path: Path) -> None:
    *_, last = batched(tmp_path).reports()
    rates = {report.points[-1].train_seconds for _, report in last}
    assert len(rates) == 1
    assert all(report.setup_seconds > 0 for _, report in last)
    assert all(report.peak_memory_bytes is None for _, report in last)


def test_a_diverged_trial_ends_without_effect_on_the_others(tmp_path: Path) -> None:
    specs = (SPECS[0], WILD, SPECS[2])
    reported = list(batched(tmp_path / "batched", specs).reports())
    wild = reports_of(WILD.trial, reported)
    assert [report.outcome for report in wild[:-1]] == [None] * (len(wild) - 1)
    assert wild[-1].outcome is Outcome.DIVERGED
    assert "not finite" in wild[-1].reason
    assert wild[-1].points[-1].step == EVALUATIONS[0], "it is reported at once"
    for one in assignments(tmp_path / "alone", (SPECS[0], SPECS[2])):
        assert_near(reports_of(one.spec.trial, reported)[-1], alone(one)[-1])


def test_when_all_have_diverged_nothing_more_is_reported(tmp_path: Path) -> None:
    specs = (WILD, replace(WILD, trial="4k-confirm-004", seed=1))
    reported = list(batched(tmp_path, specs).reports())
    assert all(report.outcome is Outcome.DIVERGED for _, report in reported[-1])
    assert len(reported[-1]) == 2


@pytest.mark.parametrize("rung", range(len(RUNGS)))
def test_a_trial_whose_batch_is_killed_is_resumed_alone_from_its_own_checkpoint(
    tmp_path: Path, rung: int
) -> None:
    killed = batched(tmp_path / "killed").reports()
    at_rungs = (reports for reports in killed if reports[0][1].rung)
    *_, last = itertools.islice(at_rungs, rung + 1)
    for one in assignments(tmp_path / "killed"):
        ours, theirs = alone(one), alone(replace(one, checkpoint=str(tmp_path / "whole.pt")))
        (tmp_path / "whole.pt").unlink()
        (before,) = reports_of(one.spec.trial, [last])
        assert ours[0].points == before.points, "not from the beginning"
        assert ours[0].rung == before.rung
        assert_near(ours[-1], theirs[-1])


@pytest.mark.parametrize("asked_at", [3, 60])
def test_all_save_their_state_at_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked_at: int
) -> None:
    running = batched(tmp_path / "ended")
    training: ReplicaTraining = running._training
    monkeypatch.setattr(running._schedule, "interrupted", lambda: training.step >= asked_at)
    last = next(reports for reports in running.reports() if training.step >= asked_at)
    assert training.step == asked_at
    assert [name for name, _ in last] == [spec.trial for spec in sorted_by_rate()]
    assert all(report.outcome is None for _, report in last)
    for one in assignments(tmp_path / "ended"):
        ours, theirs = alone(one), alone(replace(one, checkpoint=str(tmp_path / "whole.pt")))
        (tmp_path / "whole.pt").unlink()
        assert_near(ours[-1], theirs[-1])


def test_batched_trials_resume_from_their_saved_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = batched(tmp_path / "asked")
    monkeypatch.setattr(running._schedule, "interrupted", lambda: running._training.step == 60)
    *_, last = running.reports()
    *_, calm = batched(tmp_path / "calm").reports()
    for (_, ours), (_, theirs) in zip(last, calm, strict=True):
        assert [point.loss for point in ours.points] == [point.loss for point in theirs.points]


def sorted_by_rate() -> list[TrialSpec]:
    return sorted(SPECS, key=lambda spec: spec.learning_rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing(Successors):
    """An objective that raises an error at a step of batched trials."""

    error: Exception

    def batches(self, *, seeds: Sequence[int], step: int, batch_size: int) -> Batch:
        if step == 50:
            raise self.error
        return Successors.batches(self, seeds=seeds, step=step, batch_size=batch_size)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (torch.OutOfMemoryError("CUDA out of memory.\nTried"), "OutOfMemoryError: CUDA out of.*"),
        (RuntimeError("a kernel that can't run"), "RuntimeError: a kernel that can't run"),
    ],
)
def test_an_error_ends_the_batched_model_and_not_its_trials(
    tmp_path: Path, error: Exception, reason: str
) -> None:
    with pytest.raises(WorkerLostError, match=rf"^{reason}$"):
        list(run_batched(assignments(tmp_path), Failing(error=error), CPU))
    for one in assignments(tmp_path):
        first = next(RunningTrial(one, Successors(), CPU).reports())
        assert first.points[-1].step == RUNGS[1], "each has its last checkpoint"
