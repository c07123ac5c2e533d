"""Searches whose trainings spend seconds: steps are measured once, and frozen in the run folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from fathom.objectives.contract import Objective
from fathom.search import pipeline
from fathom.search.cluster.step_times import measured_steps, timed_tasks
from fathom.search.conclusion.conclude import conclude
from fathom.search.records import Outcome
from fathom.search.report.text import seconds_text
from fathom.search.run_folder import RunFolder, RunFolderError
from fathom.search.study.file.errors import PlanError
from fathom.search.study.hardware.machine import processor
from fathom.search.study.hardware.step_times import MeasuredSteps, frozen_steps
from fathom.search.study.keys.config import StudyConfig, load
from fathom.search.study.own_records import read_records
from fathom.search.study.planning.plan import BudgetPlan
from tests.support.alone import Stop, run_alone

STUDY = """
study: timed
objective: {name: "tests.support.counted:Counted", context: 6, steps: STEPS}
budgets: [4k]
train_seconds: 1
space: {depth: [1, 3], n_heads: 2}
trials: 3
confirm: {depths: 2, seeds: 1, rates: [1]}
stopping: {first_rung: 0.25, eta: 2}
train: {batch_size: 4, evaluations: 4, diagnostics: false}
resources: {gpus_per_trial: 0}
"""
DEVICE = f"{processor()}, 1 thread"
LOOKS = 60
"""Looks of trials for an interrupt after which a search is cut off, in its first trial."""
STEP_SECONDS = 0.01
"""Seconds of a step, whatever its shape, as workers tell them."""


@dataclass
class Workers:
    """Workers in this process, which tell the seconds of a step without measuring."""

    device: str = DEVICE
    step_seconds: float = STEP_SECONDS
    measured: int = 0
    """How often steps were measured."""
    asked: int = 0
    """How often a worker was asked for its device."""

    def measure(
        self, config: StudyConfig, plans: Sequence[BudgetPlan], objective: Objective
    ) -> MeasuredSteps:
        """Tells the seconds of a step of each shape."""
        self.measured += 1
        return measured_steps(plans, [self.device], [[self.step_seconds] * len(timed_tasks(plans))])

    def tell(self, config: StudyConfig, objective: Objective) -> str:
        """Tells the device."""
        self.asked += 1
        return self.device


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    there = Workers()
    monkeypatch.setattr(pipeline, "measure_steps", there.measure)
    monkeypatch.setattr(pipeline, "device_of_worker", there.tell)
    return there


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "timed.yaml"
    path.write_text(STUDY.replace("STEPS", str(tmp_path / "steps")))
    return path


def cut_off(study: Path) -> RunFolder:
    """The run folder of a search that was interrupted in its first trial."""
    with pytest.raises(KeyboardInterrupt):
        run_alone(study, study.parent / "runs", Stop(LOOKS))
    return RunFolder(study.parent / "runs" / "timed")


def test_trials_have_the_steps_that_their_seconds_pay_for(study: Path, workers: Workers) -> None:
    folder = run_alone(study, study.parent / "runs")
    config = load(study)
    assert (workers.measured, workers.asked) == (1, 0), "it was asked when it measured"
    records = read_records(folder, config)
    assert {record.spec.horizon_tokens for record in records} == {100 * 4 * 6}
    finished = [record for record in records if record.outcome is Outcome.FINISHED]
    assert {record.curve[-1].step for record in finished} == {100}
    said = seconds_text(conclude(records, config))
    assert said.startswith(f"1 s of training steps on {processor()}; ")


def test_a_search_that_resumes_keeps_the_times_of_its_first_start(
    study: Path, workers: Workers
) -> None:
    before = frozen_steps(cut_off(study), load(study))
    workers.step_seconds *= 3
    folder = run_alone(study, study.parent / "runs")
    assert (workers.measured, workers.asked) == (1, 1)
    assert frozen_steps(folder, load(study)) == before
    records = read_records(folder, load(study))
    assert {record.spec.horizon_tokens for record in records} == {100 * 4 * 6}


def test_a_search_resumed_on_another_device_is_refused_in_one_line(
    study: Path, workers: Workers
) -> None:
    folder = cut_off(study)
    journal = folder.journal.read_bytes()
    workers.device = "another core, 1 thread"
    with pytest.raises(RunFolderError, match=r"measured on .*another core.*resume it there") as it:
        run_alone(study, study.parent / "runs")
    assert "\n" not in str(it.value)
    assert folder.journal.read_bytes() == journal


def test_a_search_that_is_done_is_concluded_again_on_any_device(
    study: Path, workers: Workers
) -> None:
    run_alone(study, study.parent / "runs")
    workers.device = "another core, 1 thread"
    run_alone(study, study.parent / "runs")
    assert workers.asked == 0


def test_too_few_seconds_by_the_measured_steps_are_refused_before_the_first_trial(
    study: Path, workers: Workers
) -> None:
    workers.step_seconds = 0.1
    with pytest.raises(PlanError, match=r"`train_seconds` must pay for 20 steps"):
        run_alone(study, study.parent / "runs")
    folder = RunFolder(study.parent / "runs" / "timed")
    assert not folder.step_times.exists(), "the next start measures anew"
    assert not folder.began
