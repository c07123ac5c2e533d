"""The follower mirrors a run folder: complete, once, and found again over restarts."""

from dataclasses import asdict, replace

from mlflow import MlflowClient

from fathom.search.records import Outcome
from fathom.search.run_folder import RunFolder, append_line
from fathom.search.tracking.dataset import DataSet
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


def test_mirroring_a_folder_again_changes_nothing(place: Place) -> None:
    write_down(place.folder, *map(trial, range(3)))
    append_line(RunFolder(place.folder).answers, asdict(interim(100)))
    assert place.mirror(answers(laws=(LAW,))) == 0
    once = place.everything()
    assert place.statuses() == {"FINISHED"}

    assert place.mirror(answers(laws=(LAW,))) == 0
    assert place.everything() == once


def test_a_resumed_trial_continues_its_run_without_repeating_a_point(place: Place) -> None:
    write_down(place.folder, trial(outcome=None, points=3))
    assert place.mirror() == 0
    interrupted = place.find()
    assert (interrupted.info.status, interrupted.data.tags["outcome"]) == ("KILLED", "interrupted")
    assert place.find("demo").info.status == "KILLED"

    # Evaluated again from the checkpoint on, at another time.
    again = replace(trial(), curve=curve(1) + curve(5, begin=STARTED + 500)[1:])
    write_end(place.folder, again)
    assert place.mirror(answers()) == 0

    run = place.find()
    assert run.info.run_id == interrupted.info.run_id
    assert place.tokens(run) == [1000, 2000, 3000, 4000, 5000]
    assert run.data.tags["outcome"] == "finished"
    assert place.statuses() == {"FINISHED"}


def test_an_interrupted_trial_without_news_is_unchanged(place: Place) -> None:
    write_down(place.folder, trial(outcome=None, points=3))
    assert place.mirror() == 0
    before = place.find().info.end_time
    assert place.mirror() == 0
    assert place.find().info.end_time == before


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


def test_a_resumed_trial_that_was_stopped_continues_its_run(place: Place) -> None:
    write_down(place.folder, trial(outcome=Outcome.STOPPED, points=2))
    assert place.mirror(answers()) == 0
    before = place.find()
    assert before.info.status == "KILLED"

    write_down(place.folder, trial(points=5))
    assert place.mirror(answers()) == 0
    run = place.find()
    assert run.info.run_id == before.info.run_id
    assert place.tokens(run) == [1000, 2000, 3000, 4000, 5000]
    assert (run.info.status, run.data.tags["outcome"]) == ("FINISHED", "finished")
    assert "final_loss" in run.data.metrics
    assert place.statuses() == {"FINISHED"}


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
