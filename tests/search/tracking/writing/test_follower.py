"""The follower mirrors a run folder: complete, once, and found again over restarts."""

import shutil
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from fathom.search.json_lines import append_line
from fathom.search.record_json import to_json
from fathom.search.records import Outcome, TrialRecord
from fathom.search.report.live.answer_log import AnswerSeries
from fathom.search.run_folder import RunFolder
from fathom.search.tracking.stores.messages import DataSet
from fathom.search.tracking.writing import follower as follower_module
from fathom.search.tracking.writing.follower import Follower, RunTail
from fathom.search.tracking.writing.study_runs import StudyRuns
from tests.support.dry_run import Simulation, scheduler, study
from tests.support.tracked import (
    LAW,
    STARTED,
    Place,
    answers,
    curve,
    interim,
    optimum,
    trial,
    write_down,
    write_end,
)
from tests.support.waiting import wait_until


def test_its_process_does_not_import_torch_which_would_double_its_memory() -> None:
    follower = "fathom.search.tracking.writing.follower"
    code = f"import {follower}, sys; print({{'torch', 'ray'}} & sys.modules.keys())"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"


def test_mirroring_a_folder_again_changes_nothing(place: Place) -> None:
    write_down(place.folder, *map(trial, range(3)))
    append_line(RunFolder(place.folder).answers, asdict(interim(100)))
    assert place.mirror(answers(laws=(LAW,))) == 0
    once = place.everything()
    assert place.statuses() == {"FINISHED"}

    assert place.mirror(answers(laws=(LAW,))) == 0
    assert place.everything() == once


def test_trials_that_are_all_written_are_not_compared_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_down(place.folder, *map(trial, range(3)))
    assert place.mirror(answers()) == 0
    once = place.everything()

    compared: list[TrialRecord] = []
    monkeypatch.setattr(StudyRuns, "write_trial", lambda _, record: compared.append(record))
    assert place.mirror(answers()) == 0
    assert (compared, place.everything()) == ([], once)

    write_down(place.folder, trial(3))
    assert place.mirror(answers()) == 0
    assert len(compared) == 4


def test_a_store_from_before_the_last_report_is_written_whole_again(place: Place) -> None:
    write_down(place.folder, *map(trial, range(3)))
    assert place.mirror(answers()) == 0
    client, gone = MlflowClient(place.uri), place.find()
    study = place.find("demo")
    client.delete_run(gone.info.run_id)
    client.set_tag(study.info.run_id, "fathom.files_written", "1 2 3")
    assert place.mirror(answers()) == 0
    assert place.find().info.run_id != gone.info.run_id


def test_a_study_whose_runs_were_deleted_is_written_whole_again(place: Place) -> None:
    write_down(place.folder, *map(trial, range(3)))
    assert place.mirror(answers()) == 0
    once = {run.info.run_id: run.info.run_name for run in place.runs()}
    for run in once:
        MlflowClient(place.uri).delete_run(run)
    assert place.mirror(answers()) == 0
    again = {run.info.run_id: run.info.run_name for run in place.runs()}
    assert not once.keys() & again.keys()
    assert sorted(filter(None, again.values())) == sorted(filter(None, once.values()))


def test_a_resumed_trial_continues_its_run_without_repeating_a_point(place: Place) -> None:
    write_down(place.folder, trial(outcome=None, points=3))
    assert place.mirror() == 0
    interrupted = place.find()
    assert (interrupted.info.status, interrupted.data.tags["outcome"]) == ("KILLED", "interrupted")
    assert place.find("demo").info.status == "KILLED"
    assert place.mirror() == 0
    assert place.find().info.end_time == interrupted.info.end_time, "without news it is unchanged"

    # Evaluated again from the checkpoint on, at another time.
    again = replace(trial(), curve=curve(1) + curve(5, begin=STARTED + 500)[1:])
    write_end(place.folder, again)
    assert place.mirror(answers()) == 0

    run = place.find()
    assert run.info.run_id == interrupted.info.run_id
    assert place.tokens(run) == [1000, 2000, 3000, 4000, 5000]
    assert run.data.tags["outcome"] == "finished"
    assert place.statuses() == {"FINISHED"}


def test_a_fresh_start_of_a_study_is_a_second_run_of_the_same_experiment(place: Place) -> None:
    for folder in ("first", "second"):
        start = replace(place, folder=place.folder / folder)
        write_down(start.folder, trial())
        assert start.mirror() == 0

    assert [run.info.run_name for run in place.runs()].count("demo") == 2
    assert len(place.runs()) == 6


def test_runs_left_open_by_a_killed_process_are_ended_by_the_next(place: Place) -> None:
    place.writer().write_trial(trial(outcome=None))
    assert place.statuses() == {"RUNNING"}

    assert place.mirror() == 0

    assert place.statuses() == {"KILLED"}
    assert len(place.runs()) == 3


def slow_down(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Makes each item take so many seconds more to be written."""

    def slow(*item: Any) -> None:
        time.sleep(seconds)
        send(*item)

    send = follower_module._send
    monkeypatch.setattr(follower_module, "_send", slow)


@pytest.mark.drill
def test_a_slow_store_is_waited_for_while_it_takes_one_item_after_the_other(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_down(monkeypatch, seconds=1.3)
    write_down(place.folder, *map(trial, range(13)))
    assert place.follower().close(timeout_seconds=16.0) == 0
    assert len(place.runs()) == 15


def test_what_is_left_is_said_while_many_trials_are_written(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_down(monkeypatch, seconds=0.4)
    monkeypatch.setattr(follower_module, "TELL_SECONDS", 0.5)
    write_down(place.folder, *map(trial, range(5)))
    assert place.follower().close() == 0
    assert any(line.startswith("writing to MLflow at sqlite:") for line in place.said)
    assert all(line.endswith(" left") for line in place.said)


def test_a_file_that_is_slow_to_open_is_waited_for(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*arguments: Any) -> Any:
        time.sleep(5)
        return runs_of(*arguments)

    runs_of = StudyRuns
    monkeypatch.setattr("fathom.search.tracking.writing.follower.StudyRuns", slow)
    write_down(place.folder, trial())
    assert place.follower().close(timeout_seconds=4.0) == 0


def test_the_run_of_a_study_has_its_settings_and_its_data(place: Place) -> None:
    text = "study: demo\nbudgets: [1M]\ntokens: 20k\ntrain: {batch_size: 8}\ntracking: {uri: x}\n"
    data = DataSet(name="corpus.txt", digest="0123", source_type="local", source="{}", profile="{}")
    for _ in range(2):
        follower = place.follower(text=text)
        follower.put(data)
        assert follower.close() == 0
    run = place.find("demo")
    assert run.data.params == {"tokens": "20k", "train.batch_size": "8"}
    assert run.inputs is not None
    (used,) = run.inputs.dataset_inputs
    assert (used.dataset.name, used.dataset.digest) == ("corpus.txt", "0123")
    assert [(tag.key, tag.value) for tag in used.tags] == [("mlflow.data.context", "training")]


def test_a_changed_setting_of_a_resumed_study_is_no_error(place: Place) -> None:
    for batch in (8, 16):
        text = f"study: demo\nbudgets: [1M]\ntrain: {{batch_size: {batch}}}\n"
        assert place.follower(text=text).close() == 0
    assert place.find("demo").data.params == {"train.batch_size": "8"}


def test_the_run_of_a_study_has_the_answers_by_budget(place: Place) -> None:
    for depth in (6, 6, 7):
        assert place.mirror(answers(optimum(4, budget=300_000), optimum(depth))) == 0
    history = MlflowClient(place.uri).get_metric_history(
        place.find("demo").info.run_id, "optimal_depth"
    )
    assert [(metric.step, metric.value) for metric in history] == [
        (300_000, 4.0),
        (1_000_000, 6.0),
        (1_000_000, 7.0),
    ]


def resumed(record: TrialRecord) -> dict[str, object]:
    return {"event": "resumed", **to_json(replace(record, outcome=None, ended=None, reason=""))}


def test_each_change_is_returned_once(tmp_path: Path) -> None:
    tail = RunTail(RunFolder(tmp_path))
    assert tail.changes() == {}
    write_down(tmp_path, trial(0, outcome=None, points=2))
    assert tail.changes() == {"1000000-explore-000": trial(0, outcome=None, points=2)}
    assert tail.changes() == {}
    write_end(tmp_path, trial(0))
    write_down(tmp_path, trial(1))
    assert tail.changes() == {"1000000-explore-000": trial(0), "1000000-explore-001": trial(1)}
    assert tail.changes() == {}


def test_a_trial_is_running_if_it_has_started_more_often_than_it_has_ended(
    tmp_path: Path,
) -> None:
    folder, stopped = RunFolder(tmp_path), trial(outcome=Outcome.STOPPED, points=2)
    name = stopped.spec.trial
    write_down(tmp_path, stopped)
    tail = RunTail(folder)
    assert tail.changes() == {name: stopped}
    append_line(folder.journal, resumed(stopped))
    assert tail.changes() == {name: replace(stopped, outcome=None, ended=None)}
    write_end(tmp_path, trial())
    assert tail.changes() == {name: trial()}
    assert RunTail(folder).changes() == {name: trial()}


def test_the_end_of_an_attempt_that_is_read_after_the_next_one_began_is_passed_over(
    tmp_path: Path,
) -> None:
    folder, stopped = RunFolder(tmp_path), trial(outcome=Outcome.STOPPED, points=2)
    write_down(tmp_path, replace(stopped, outcome=None, ended=None))
    tail = RunTail(folder)
    append_line(folder.journal, resumed(stopped))
    (running,) = tail.changes().values()
    assert isinstance(running, TrialRecord)
    assert running.outcome is None
    write_end(tmp_path, stopped)
    assert tail.changes() == {}


def test_a_line_counts_when_it_is_whole_and_a_damaged_one_never(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    write_down(tmp_path, trial())
    whole = folder.records.read_bytes()
    tail = RunTail(folder)
    folder.records.write_bytes(b"")
    tail.changes()
    for written in (whole[:-20], whole[:-1]):  # in the middle; all but the line's end
        folder.records.write_bytes(written)
        changes = tail.changes()
    assert changes == {trial().spec.trial: trial()}
    with folder.records.open("ab") as file:
        file.write(b"\n{}\nno json\n")
    assert tail.changes() == {}
    write_down(tmp_path, trial(1))
    assert tail.changes() == {trial(1).spec.trial: trial(1)}


def test_the_answers_of_a_budget_are_returned_from_the_first_on(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.state.mkdir()
    tail = RunTail(folder)
    found = [interim(100), interim(200)]
    for number, answer in enumerate(found, start=1):
        append_line(folder.answers, asdict(answer))
        assert tail.changes() == {
            "the answers of 1000000": AnswerSeries(1_000_000, tuple(found[:number]))
        }


def test_the_files_hold_the_state_of_the_search_at_every_moment(tmp_path: Path) -> None:
    search = scheduler(study(), tmp_path)
    simulation, tail = Simulation(search), RunTail(search.folder)
    seen: dict[str, object] = {}
    for _ in range(12):
        simulation.run(events=25)
        seen |= tail.changes()
        held = {**search.live, **{record.spec.trial: record for record in search.records}}
        # The rung at which a trial stands is written with its end.
        assert {name: without_rungs(record) for name, record in held.items()} == {
            name: without_rungs(record) for name, record in seen.items()
        }


def without_rungs(record: object) -> TrialRecord:
    assert isinstance(record, TrialRecord)
    return replace(record, rungs={})


def test_a_run_folder_that_was_deleted_is_not_made_again(place: Place) -> None:
    write_down(place.folder, trial())
    follower = place.follower()
    wait_until((place.folder / "state" / "tracking-key").exists)
    shutil.rmtree(place.folder.parent)
    assert follower.close() == 0
    assert not place.folder.parent.exists()
    assert place.said == [], "the search itself says it"


def test_a_folder_that_is_deleted_before_mlflow_is_there_is_not_made_again(place: Place) -> None:
    """MLflow takes seconds to import."""
    store = place.folder.parent / "mlflow.db"
    early = replace(place, uri=f"sqlite:///{store}")
    shutil.rmtree(place.folder.parent)
    follower = Follower(early.study(searching=True), early.said.append)
    assert follower.close() == 0
    assert not store.parent.exists()
