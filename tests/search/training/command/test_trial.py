"""A trial that a command trains: its reports, pauses and failures."""

import json
import math
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fathom.search.record_json import to_json
from fathom.search.records import Outcome, Report
from fathom.search.run_folder import ENDING
from fathom.search.study.file.study_file import parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.space.shapes import feasible_shapes
from fathom.search.training.assignment import Assignment, standalone_spec
from fathom.search.training.command import trial
from fathom.search.training.command.trial import CommandTrial, folder_of
from fathom.search.training.trial import HorizonError, MachineMemoryError, WorkerLostError
from tests.support import trainer
from tests.support.training import SHAPE, record_of

TOKENS_PER_STEP = 4 * 32


def study(
    *more: str, every: int = 10, others: str = "", program: tuple[str, ...] = (trainer.__file__,)
) -> StudyConfig:
    words = [sys.executable, *program]
    words += [f"--{name}={{{name}}}" for name in ("depth", "steps", "folder", "resume", "seed")]
    words += ["--width={d_model}", f"--every={every}", *more]
    return parse(
        f"""
study: mine
objective: {{name: external, vocabulary: 256, context: 32}}
budgets: [20k]
tokens: {100 * TOKENS_PER_STEP}
stopping: {{first_rung: 0.25, eta: 2}}
train: {{command: {json.dumps(words)}, batch_size: 4, {others}}}
"""
    )


def trial_of(config: StudyConfig, folder: Path) -> CommandTrial:
    folder.mkdir(exist_ok=True)
    [budget] = expand_budgets(config)
    shape = feasible_shapes(config, budget, 256)[0]
    spec = standalone_spec("mine", config, budget, shape)
    assignment = Assignment(config, budget, spec, str(folder / "mine.pt"))
    return CommandTrial(assignment, gpus=0, chance_loss=math.log(256))


def last_of(reports: Iterator[Report]) -> Report:
    return list(reports)[-1]


def test_a_whole_training_reports_its_rungs_and_its_end(tmp_path: Path) -> None:
    *before, last = trial_of(study(), tmp_path).reports()
    rungs = [report.rung[0] for report in before if report.rung]
    assert rungs == [25 * TOKENS_PER_STEP, 50 * TOKENS_PER_STEP]
    assert last.outcome is Outcome.FINISHED
    assert last.points[-1].tokens == 100 * TOKENS_PER_STEP
    assert last.points[-1].metrics == {"half": 0.5}
    assert last.points[-1].loss < last.points[0].loss


def test_the_loss_at_a_rung_lies_on_a_line_between_the_evaluations_around_it(
    tmp_path: Path,
) -> None:
    report = next(report for report in trial_of(study(), tmp_path).reports() if report.rung)
    before, at = report.points[-2:]
    after = next(r for r in trial_of(study(), tmp_path / "b").reports() if r.outcome).points[3]
    assert (before.tokens, at.tokens) == (20 * TOKENS_PER_STEP, 25 * TOKENS_PER_STEP)
    share = math.log(25 / 20) / math.log(30 / 20)
    expected = before.loss + share * (after.loss - before.loss)
    assert at.loss == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("more", [(), ("--end=no",), ("--end=no", "--saves=no", "--pause=0.02")])
@pytest.mark.parametrize("every", [8, 70])
def test_a_command_that_never_evaluates_at_the_horizon_is_told_the_nearest_multiple(
    every: int, more: tuple[str, ...], tmp_path: Path
) -> None:
    reports = trial_of(study("--last=no", *more, every=every), tmp_path).reports()
    last, nearest = 100 // every * every * TOKENS_PER_STEP, {8: 96, 70: 70}[every] * TOKENS_PER_STEP
    with pytest.raises(HorizonError) as error:
        list(reports)
    assert f"evaluates every {every * TOKENS_PER_STEP:,} tokens" in str(error.value)
    assert f"came at {last:,} of 12,800 tokens" in str(error.value)
    assert f"set `tokens: {nearest}`" in str(error.value)


def test_an_interval_within_a_percent_of_the_horizon_finishes(tmp_path: Path) -> None:
    last = last_of(trial_of(study("--last=no", every=11), tmp_path).reports())
    assert last.outcome is Outcome.FINISHED


def test_a_paused_trial_goes_on_and_ends_as_one_that_was_not(tmp_path: Path) -> None:
    config = study("--pause=0.05", every=5)
    whole = last_of(trial_of(config, tmp_path / "whole").reports())
    for _ in range(2):  # paused at each rung
        reports = trial_of(config, tmp_path / "paused").reports()
        rung = [report for report in reports if report.rung][:1]
        assert rung
        reports.close()  # type: ignore[attr-defined]
    paused = last_of(trial_of(config, tmp_path / "paused").reports())
    assert [(p.tokens, p.loss) for p in paused.points] == [(p.tokens, p.loss) for p in whole.points]


def test_a_pause_ends_the_command_which_then_resumes_from_its_checkpoint(tmp_path: Path) -> None:
    config = study("--pause=0.2")
    reports = trial_of(config, tmp_path).reports()
    next(report for report in reports if report.rung)
    reports.close()  # type: ignore[attr-defined]
    step = int((folder_of(tmp_path / "mine.pt") / "state").read_text(encoding="ascii"))
    assert 20 <= step < 100, "it saved where it stood"
    assert last_of(trial_of(config, tmp_path).reports()).outcome is Outcome.FINISHED
    log = (tmp_path / "mine.log").read_text(encoding="utf-8")
    assert f"a log begins at step {step}" in log


def test_an_interrupt_of_the_search_ends_the_command_and_is_reported_as_saved(
    tmp_path: Path,
) -> None:
    reports = trial_of(study("--pause=0.2"), tmp_path).reports()
    next(report for report in reports if report.rung)
    (tmp_path / ENDING).touch()
    last = list(reports)[-1]
    assert (last.outcome, last.saved) == (None, True)
    assert (folder_of(tmp_path / "mine.pt") / "state").exists()


@pytest.mark.parametrize(
    ("how", "outcome", "reason"),
    [
        ("crash", Outcome.FAILED, "exit status 1: the data are gone"),
        ("memory", Outcome.OUT_OF_MEMORY, "CUDA out of memory"),
        ("early", Outcome.FAILED, "ended at 6,400 of 12,800 tokens"),
        ("nan", Outcome.DIVERGED, "the held-out loss is nan after 6,528 tokens"),
        ("garbage", Outcome.FAILED, "`loss` must be a number, got 'low'"),
        ("size", Outcome.FAILED, "more than 10% off the budget of 20k"),
        ("silence", Outcome.FAILED, "printed nothing for 2 s"),
        ("hung", Outcome.FAILED, "printed nothing for 2 s"),
    ],
)
def test_each_failure_is_an_outcome_with_its_reason(
    tmp_path: Path, how: str, outcome: Outcome, reason: str
) -> None:
    began = time.monotonic()
    last = last_of(trial_of(study(f"--fail={how}", others="silence: 2"), tmp_path).reports())
    assert last.outcome is outcome
    assert reason in last.reason
    assert time.monotonic() - began < trial.SAVE_SECONDS / 2, "it has nothing to save"


def test_a_first_loss_that_is_a_perplexity_is_asked_about(tmp_path: Path) -> None:
    last = last_of(trial_of(study("--fail=perplexity", every=1000), tmp_path).reports())
    assert last.outcome is Outcome.DIVERGED
    assert "is 200 after 6,528 tokens" in last.reason
    assert "if it is a perplexity, print its logarithm" in last.reason


def test_a_command_without_json_is_told_the_form_and_its_last_line(tmp_path: Path) -> None:
    plain = study(program=("-c", "print('step 100 val_loss 3.21')"))
    last = last_of(trial_of(plain, tmp_path).reports())
    assert "'step 100 val_loss 3.21'" in last.reason
    assert "`train.parser`" in last.reason
    form = re.search(r"such as (\{[^}]*\})", last.reason)
    assert form, "the form that is asked for is one that is read"
    mended = study(program=("-c", f"print({form[1]!r})"))
    assert last_of(trial_of(mended, tmp_path / "mended").reports()).outcome is Outcome.FINISHED


def test_a_command_that_is_killed_is_a_lost_worker_and_resumed(tmp_path: Path) -> None:
    with pytest.raises(WorkerLostError, match="killed by signal 9"):
        list(trial_of(study("--fail=killed"), tmp_path).reports())


def test_a_command_whose_shell_says_that_it_was_killed_is_resumed_too(tmp_path: Path) -> None:
    config = study("--fail=killed")
    shell = ("sh", "-c", '"$@"; exit $?', "sh", *(config.train.command or ()))
    train = config.train.model_copy(update={"command": shell})
    with pytest.raises(WorkerLostError, match="killed by signal 9"):
        list(trial_of(config.model_copy(update={"train": train}), tmp_path).reports())


def test_a_command_that_finds_no_memory_left_on_the_machine_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "is_short_of_memory", lambda: True)
    with pytest.raises(MachineMemoryError):
        list(trial_of(study("--fail=memory"), tmp_path).reports())


def test_a_command_that_goes_on_beyond_the_horizon_is_ended_there(tmp_path: Path) -> None:
    config = study()
    command = [word.replace("{steps}", "100000") for word in config.train.command or ()]
    train = config.train.model_copy(update={"command": tuple(command)})
    last = last_of(trial_of(config.model_copy(update={"train": train}), tmp_path).reports())
    assert last.outcome is Outcome.FINISHED
    assert last.points[-1].tokens == 100 * TOKENS_PER_STEP


def test_a_command_that_never_evaluates_near_the_horizon_says_so(tmp_path: Path) -> None:
    last = last_of(trial_of(study(every=1000, others="silence: 2"), tmp_path).reports())
    assert last.outcome is Outcome.FINISHED, "its last step is evaluated"
    config = study(every=70)
    command = [word.replace("{steps}", "90") for word in config.train.command or ()]
    train = config.train.model_copy(update={"command": tuple(command)})
    config = config.model_copy(update={"train": train})
    last = last_of(trial_of(config, tmp_path / "b").reports())
    assert last.outcome is Outcome.FAILED
    assert "must print a loss at the horizon" in last.reason


def test_what_a_command_printed_without_a_reader_is_read_at_the_next_start(tmp_path: Path) -> None:
    config = study()
    whole = last_of(trial_of(config, tmp_path).reports())
    (tmp_path / "mine.jsonl").unlink()  # as if its worker had been killed before it read a line
    again = last_of(trial_of(config, tmp_path).reports())
    assert again.outcome is Outcome.FINISHED
    assert [(p.tokens, p.loss) for p in again.points] == [(p.tokens, p.loss) for p in whole.points]
    log = (tmp_path / "mine.log").read_text(encoding="utf-8")
    assert log.count("a log begins") == 1, "a training that has ended is not started again"
    spec = standalone_spec("mine", config, expand_budgets(config)[0], SHAPE)
    record = record_of(spec, again)
    assert record.tokens_per_second is None, "how fast it was is not known"
    assert to_json(record)["step_seconds"] is None


def test_a_divergence_that_was_printed_without_a_reader_is_one_at_the_next_start(
    tmp_path: Path,
) -> None:
    tmp_path.joinpath("mine.log").write_text('{"step": 50, "loss": NaN}\n', encoding="utf-8")
    last = last_of(trial_of(study(), tmp_path).reports())
    assert last.outcome is Outcome.DIVERGED
    assert last.points == ()


def test_each_placeholder_is_filled_and_a_trial_without_a_gpu_sees_none(tmp_path: Path) -> None:
    started = trial_of(study(), tmp_path)
    words = started.command()
    assert not [word for word in words if "{" in word]
    assert f"--folder={folder_of(tmp_path / 'mine.pt')}" in words
    assert started._environment()["CUDA_VISIBLE_DEVICES"] == ""
