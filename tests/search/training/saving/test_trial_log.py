"""When a trial is saved: by the clock at any step; and what one that is killed then resumes to."""

import errno
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pytest
import torch

from fathom.objectives.contract import Batch
from fathom.search.records import Outcome, Report
from fathom.search.run_folder import ENDING
from fathom.search.study.file.study_file import parse
from fathom.search.study.hardware.disk import checkpoint_bytes
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import evaluation_steps
from fathom.search.training.layer_metrics import SEED as DIAGNOSTICS_SEED
from fathom.search.training.saving import trial_log
from fathom.search.training.saving.checkpoint import DiskFullError
from fathom.search.training.saving.trial_log import ReportSchedule
from fathom.search.training.state import Measurement
from fathom.search.training.trial import RunningTrial
from tests.support.toy import CPU, Overfitted, Successor
from tests.support.training import SHAPE, assignment, checkpoint

STUDY = """
study: toy
objective: {name: language, context: 6}
budgets: [4k]
tokens: 2400
train: {batch_size: 4, evaluations: 10, learning_rate: 1e-2, diagnostics: true, OTHERS}
stopping: {first_rung: 0.2, eta: 2, median_of: 3}
model: {parametrization: {base_width: 16, base_head_dim: 8}}
"""
CONFIG = parse(STUDY.replace("OTHERS", ""))
NO_RUNGS = STUDY.replace("stopping: {first_rung: 0.2, eta: 2, median_of: 3}", "sampler: ladder")
TRAININGS = {
    "adamw": CONFIG,
    "muon": parse(STUDY.replace("OTHERS", "optimizer: muon")),
    "best weights": parse(NO_RUNGS.replace("OTHERS", "patience: 3, cooldown: 0")),
}
CLOCKED = ("flop_utilisation", "generation_seconds", "compile_seconds")
"""Metrics that depend on the clock."""


class KilledError(BaseException):
    """The worker is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed(Overfitted):
    """A worker that is killed at the beginning of a step."""

    at_step: int = -1

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        if step == self.at_step and seed != DIAGNOSTICS_SEED:
            raise KilledError
        return Successor.batch(self, seed=seed, step=step, batch_size=batch_size)


def trial(folder: Path, config: StudyConfig = CONFIG, *, killed_at: int = -1) -> RunningTrial:
    return RunningTrial(assignment(folder, config), Killed(at_step=killed_at), CPU)


def step_of(path: Path) -> int:
    step: int = torch.load(path, weights_only=True)["training"]["step"]
    return step


def answer(report: Report) -> object:
    """Everything that a trial has measured, without what depends on the clock."""
    points = [
        (point.step, point.loss, point.train_loss, {**point.metrics, **dict.fromkeys(CLOCKED, 0.0)})
        for point in report.points
    ]
    return points, report.layers, report.outcome, report.reason


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock says at every step that it is time to save, and the disk is fast."""

    def is_saving(log: trial_log.TrialLog) -> bool:
        log.finish_saving()
        return False

    monkeypatch.setattr(trial_log, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(trial_log.TrialLog, "is_saving", is_saving)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("training", TRAININGS)
@pytest.mark.drill
def test_a_trial_killed_at_any_step_repeats_no_other_and_ends_with_the_same_numbers(
    tmp_path: Path, training: str
) -> None:
    config = TRAININGS[training]
    *_, expected = trial(tmp_path / "whole", config).reports()
    assert expected.outcome is Outcome.FINISHED
    evaluations = evaluation_steps(config, assignment(tmp_path).budget)
    last = expected.points[-1].step
    between = [step for step in range(1, last) if step not in evaluations]
    assert len(between) > 30
    for step in between[::9]:
        folder = tmp_path / f"{step}"
        with pytest.raises(KilledError):
            list(trial(folder, config, killed_at=step).reports())
        assert step_of(checkpoint(folder)) == step
        *_, resumed = trial(folder, config).reports()
        assert answer(resumed) == answer(expected), step


def test_the_best_weights_decide_in_that_test(tmp_path: Path) -> None:
    *_, last = trial(tmp_path, TRAININGS["best weights"]).reports()
    assert "restored the weights of step" in last.reason


def test_between_two_saves_a_trial_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(KilledError):
        list(trial(tmp_path, TRAININGS["best weights"], killed_at=19).reports())
    assert not checkpoint(tmp_path).exists()


@pytest.mark.usefixtures("always")
def test_a_report_says_whether_its_state_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_log, "REPORT_SECONDS", 0.0)
    for report in trial(tmp_path).reports():
        assert report.saved == (report.rung is not None)
        if report.saved:
            assert step_of(checkpoint(tmp_path)) == report.points[-1].step
    assert next(trial(tmp_path).reports()).saved, "it was resumed from there"


def full_disk(state: object, file: BinaryIO) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_trial_without_room_for_its_state_ends_with_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, expected = trial(tmp_path / "whole").reports()
    reports = trial(tmp_path / "full").reports()
    at_rung = next(report for report in reports if report.rung)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", full_disk)
        with pytest.raises(DiskFullError):
            list(reports)
    assert step_of(checkpoint(tmp_path / "full")) == at_rung.points[-1].step
    *_, resumed = trial(tmp_path / "full").reports()
    assert answer(resumed) == answer(expected)


def test_the_clock_counts_from_the_end_of_the_last_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    schedule = ReportSchedule(assignment(tmp_path, CONFIG))

    def save_at(seconds: float, *, saving: bool = False) -> bool:
        now[0] = 100.0 + seconds
        return schedule.look(7, saving=saving).save

    assert [save_at(299), save_at(300), save_at(301)] == [False, True, False]
    assert [save_at(700, saving=True), save_at(999), save_at(1000)] == [False, False, True]
    assert schedule.due(20) == (True, True), "a rung"
    assert [save_at(1299), save_at(1300)] == [False, True]


def test_several_ranks_look_every_few_seconds_and_one_at_every_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    single, several = (ReportSchedule(assignment(tmp_path, CONFIG), ranks) for ranks in (1, 4))
    looks = [0]
    while looks[-1] < 100:  # 0.25 s a step
        step = looks[-1]
        now[0] = 0.25 * step
        assert single.look(step, saving=False).next_step == step + 1
        looks.append(several.look(step, saving=False).next_step)
    assert looks[:5] == [0, 1, 9, 17, 25]


@pytest.mark.parametrize("training", TRAININGS)
def test_a_checkpoint_is_no_larger_than_planned(tmp_path: Path, training: str) -> None:
    running = trial(tmp_path, TRAININGS[training])
    list(running.reports())
    running.save()
    planned = checkpoint_bytes(SHAPE, best_weights=training == "best weights")
    assert 0.2 * planned < checkpoint(tmp_path).stat().st_size <= planned


def test_an_interrupt_is_seen_after_the_step_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_log, "INTERRUPT_POLL_SECONDS", 0.0)
    reports = trial(tmp_path).reports()
    first = next(reports)
    (tmp_path / ENDING).touch()
    assert next(reports).saved
    assert step_of(checkpoint(tmp_path)) == first.points[-1].step + 1


def test_a_trial_resumed_before_its_report_keeps_its_layer_metrics(tmp_path: Path) -> None:
    layers: dict[str, tuple[float, ...]] = {"gradient_norm": (0.5, 0.25)}
    log = trial_log.TrialLog(assignment(tmp_path, CONFIG), CPU)
    log.add(Measurement(step=1, loss=1.0, train_loss=1.0, train_seconds=0.1, layers=layers))
    log.save({"step": 1})
    log.finish_saving()
    resumed = trial_log.TrialLog(assignment(tmp_path, CONFIG), CPU)
    resumed.restore(dict)
    assert resumed.report(1).layers == layers
    resumed.forget()
    assert not resumed.report(None).layers
