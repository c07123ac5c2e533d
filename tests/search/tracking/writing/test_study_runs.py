"""The runs of a study in MLflow: `search/tracking/writing/study_runs.py`."""

import json
import math
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from fathom.search.records import Outcome
from fathom.search.report.live.answer_log import AnswerSeries
from fathom.search.report.words.text import summary_table
from fathom.search.scheduling.audit import RungAudit
from fathom.search.study.store_uri import TrackingError
from fathom.search.tracking.stores.artifacts import check_artifacts
from fathom.search.tracking.stores.messages import TrackedStudy
from fathom.search.tracking.writing import pages, study_runs
from fathom.search.tracking.writing.tracked_run import WRITTEN_TAG
from fathom.search.tracking.writing.views import ANSWERS, TAG
from tests.support.tracked import (
    CONFIG,
    LAW,
    SHAPE,
    STARTED,
    TRIAL_RUN,
    Place,
    answers,
    interim,
    optimum,
    trial,
)
from tests.support.waiting import wait_until


def test_trials_nest_in_budgets_and_budgets_in_the_study(place: Place) -> None:
    writer = place.writer()
    writer.write_trial(trial(0))
    writer.write_trial(trial(1, budget=300_000))

    parent = {run.info.run_id: run.data.tags.get("mlflow.parentRunId") for run in place.runs()}
    study = place.find("demo").info.run_id
    small, large = place.find("300k").info.run_id, place.find("1M").info.run_id
    assert parent[study] is None
    assert parent[small] == parent[large] == study
    assert parent[place.find(TRIAL_RUN).info.run_id] == large
    assert parent[place.find("300k · depth 4 · d_model 64 · seed 1").info.run_id] == small


def test_a_trial_is_recorded_by_tokens_with_its_shape_and_its_end(place: Place) -> None:
    place.writer().write_trial(trial())

    run = place.find()
    assert run.info.status == "FINISHED"
    assert run.info.end_time - run.info.start_time == 60_000
    assert run.data.params.items() >= {"depth": "4", "d_ff": "256", "budget": "1000000"}.items()
    assert run.data.params["params_total"] == str(SHAPE.params_total)
    assert run.data.tags.items() >= {"outcome": "finished", "stage": "explore"}.items()
    for metric in ("loss", "train_loss", "bits_per_byte"):
        assert place.tokens(run, metric) == [1000, 2000, 3000, 4000, 5000]
    assert run.data.metrics["final_loss"] == run.data.metrics["loss"] == 2.2


def test_a_report_into_a_new_store_gives_the_search_its_own_duration(place: Place) -> None:
    writer = study_runs.StudyRuns(replace(place.study(), began=STARTED))
    writer.write_conclusion(answers())
    writer.write_trial(trial())
    writer.end(concluded=True)
    assert {run.info.start_time for run in place.runs()} == {round(STARTED * 1000)}
    assert {run.info.end_time - run.info.start_time for run in place.runs()} == {60_000}


def test_an_unfinished_trial_has_its_outcome_and_reason(place: Place) -> None:
    statuses = {
        Outcome.STOPPED: "KILLED",
        Outcome.DIVERGED: "FAILED",
        Outcome.OUT_OF_MEMORY: "FAILED",
        Outcome.FAILED: "FAILED",
    }
    writer = place.writer()
    for number, outcome in enumerate(statuses):
        writer.write_trial(trial(number, outcome=outcome, reason="because"))
    for number, (outcome, status) in enumerate(statuses.items()):
        run = place.find(TRIAL_RUN.replace("seed 0", f"seed {number}"))
        assert run.info.status == status
        assert run.data.tags.items() >= {"outcome": outcome.value, "reason": "because"}.items()
        assert "final_loss" not in run.data.metrics


def test_a_diverged_trial_keeps_its_curve_up_to_the_last_number(place: Place) -> None:
    record = trial(outcome=Outcome.DIVERGED)
    *finite, ahead, last = record.curve
    ahead, last = replace(ahead, loss=math.inf), replace(last, loss=math.nan, train_loss=math.nan)
    place.writer().write_trial(replace(record, curve=(*finite, ahead, last)))

    run = place.find()
    assert place.tokens(run) == [1000, 2000, 3000]
    assert place.tokens(run, "train_loss") == [1000, 2000, 3000, 4000]
    assert run.data.tags[WRITTEN_TAG] == "5000"


def test_layer_metrics_are_a_curve_over_layers_written_once(place: Place) -> None:
    layers = {"rank_ratio": (0.9, 0.7, 0.5), "gradient_norm": tuple(range(1, 901))}
    for _ in range(2):
        place.writer().write_trial(replace(trial(), layers=layers))
    run = place.find()
    assert place.tokens(run, "per_layer_rank_ratio") == [1, 2, 3]
    assert run.data.metrics["per_layer_rank_ratio"] == 0.5
    assert place.tokens(run, "per_layer_gradient_norm") == list(range(1, 901))


@pytest.mark.parametrize(("points", "metrics"), [(300, 0), (20, 60)])
def test_a_curve_is_written_whole_in_requests_that_mlflow_takes(
    place: Place, points: int, metrics: int
) -> None:
    more = {f"exact_match/gen/case_{number}": 0.5 for number in range(metrics)}
    record = trial(points=points)
    curve = tuple(replace(point, metrics=more) for point in record.curve)
    place.writer().write_trial(replace(record, curve=curve))

    run = place.find()
    for metric in ("loss", *list(more)[-1:]):
        assert place.tokens(run, metric) == [1000 * i for i in range(1, points + 1)]
    assert run.data.tags[WRITTEN_TAG] == f"{points}000"


def test_a_stopped_trial_that_is_resumed_runs_again(place: Place) -> None:
    place.writer().write_trial(trial(outcome=Outcome.STOPPED, points=2))
    before = place.find()
    assert before.info.status == "KILLED"
    writer = place.writer()
    writer.write_trial(trial(outcome=None, points=2))
    assert (place.find().info.status, place.find().data.tags["outcome"]) == ("RUNNING", "running")
    writer.write_trial(trial(points=5))
    run = place.find()
    assert (run.info.run_id, run.info.status) == (before.info.run_id, "FINISHED")
    assert place.tokens(run) == [1000, 2000, 3000, 4000, 5000]
    assert run.data.tags["outcome"] == "finished"
    assert "final_loss" in run.data.metrics


def test_a_budget_has_its_interim_answers_as_curves_over_the_tokens_of_its_search(
    place: Place,
) -> None:
    first = (interim(100), interim(200, low=2, high=9))
    place.writer().write_answers(AnswerSeries(1_000_000, first))
    before = place.everything()
    place.writer().write_answers(AnswerSeries(1_000_000, first))
    assert place.everything() == before, "written again it is not repeated"

    last = interim(300, low=3, high=6, lowest_loss=2.1)
    place.writer().write_answers(AnswerSeries(1_000_000, (*first, last)))
    run = place.find("1M")
    assert (run.data.tags["interval"], run.data.tags["verdict"]) == ("3-6", "so far")
    assert place.tokens(run, "interim_optimal_depth") == [100, 200, 300]
    assert place.tokens(run, "interim_interval_low") == [200, 300], (
        "what is not known is not written"
    )
    assert run.data.metrics["interim_interval_high"] == 6
    assert run.data.metrics["lowest_loss"] == 2.1
    assert run.data.metrics["interim_trials_finished"] == 1


def test_the_audit_is_on_the_run_of_the_budget_as_text_and_numbers(place: Place) -> None:
    fair = RungAudit(
        rung=5000, horizon=20_000, finished=9, rank_correlation=0.8, depth_bias=0.1,
        place_of_best=1, pairs=20, audit_trials=2, audit_trials_pruned=1, regret=0.0, noise=0.004,
        stopped=3, stopped_depths=(2,), cut_depths=(), later=5000,
    )  # fmt: skip
    failed = replace(fair, rank_correlation=0.1, regret=None, later=None)
    unknown = replace(fair, rank_correlation=None)
    for audits, word in (
        ((fair,), "trusted"),
        ((fair, unknown), "unknown"),
        ((failed,), "failed"),
    ):
        place.writer().write_conclusion(answers(audits={1_000_000: audits}))
        budget = place.find("1M → depth 6")
        assert budget.data.tags["stopping"] == word
        assert all(audit.sentence in budget.data.tags[pages.NOTE] for audit in audits)
    metrics = budget.data.metrics
    assert (metrics["rung_5000_rank_correlation"], metrics["rung_5000_depth_bias"]) == (0.1, 0.1)
    assert (metrics["rung_5000_regret"], metrics["rung_5000_audit_trials_pruned"]) == (0.0, 1.0)
    assert "`stopping.enabled: false`" in budget.data.tags[pages.NOTE]


def test_the_answer_is_in_the_descriptions_with_its_files(place: Place) -> None:
    figure, best = place.folder / "figures" / "loss_depth.png", place.folder / "best.yaml"
    figure.parent.mkdir(parents=True)
    figure.write_bytes(b"picture")
    best.write_text("depth: 6\n")
    (place.folder / "card.md").write_text("# the card\n")
    (place.folder / "card.png").write_bytes(b"its picture")
    place.writer().write_conclusion(answers(laws=(LAW,)))

    client = MlflowClient(place.uri)
    study, budget = place.find("demo"), place.find("1M → depth 6")
    note = study.data.tags[pages.NOTE]
    assert "20M tokens, total count: depth 6 [5-8], " in note
    assert summary_table([optimum()]) in note
    assert "depth: 6" in note
    assert f"get-artifact?path=figures/loss_depth.png&run_uuid={study.info.run_id}" in note
    files = {file.path for file in client.list_artifacts(study.info.run_id)}
    assert files == {"best.yaml", "card.md", "card.png", "optima.md", "figures"}
    kept = client.download_artifacts(study.info.run_id, "card.md")
    assert Path(kept).read_text() == "# the card\n"
    assert f"[card.md](#/experiments/{study.info.experiment_id}/runs/" in note
    metrics = {
        "optimal_depth": 6,
        "interval_low": 5,
        "interval_high": 8,
        "loss": 1.5,
        "d_model": 64,
    }
    assert budget.data.metrics.items() >= metrics.items()
    assert budget.data.tags["verdict"] == "identified"
    experiment = client.get_experiment(study.info.experiment_id)
    assert experiment.tags[pages.NOTE].startswith("1M → depth 6 (5-8): [")
    assert experiment.tags["mlflow.experimentKind"] == "custom_model_development"


def test_the_list_of_budgets_is_there_from_the_start(place: Place) -> None:
    writer = place.writer()
    writer.write_study("tokens: 20M")
    experiment = MlflowClient(place.uri).get_experiment_by_name("demo")
    assert experiment
    shown = json.loads(experiment.tags[TAG + ANSWERS])["selectedColumns"]
    assert shown[0] == "tags.`best_depth`"
    assert writer.machine_run.id != writer.study_run.id, "whose metrics are the answers"


def test_a_new_answer_replaces_the_old_one(place: Place) -> None:
    for depth in (None, 4, 6):
        place.writer().write_conclusion(answers(optimum(depth)))

    study, budget = place.runs()
    assert budget.info.run_name == "1M → depth 6"
    assert budget.data.metrics["optimal_depth"] == 6
    assert budget.data.tags["interval"] == "5-8"
    assert study.data.tags["best_depth"] == "1M: 6"
    place.writer().write_answers(AnswerSeries(1_000_000, (interim(100, low=2, high=9),)))
    assert place.find("1M → depth 6").data.tags["verdict"] == "identified", "no interim one does"


def test_a_study_that_is_concluded_again_ends_when_its_last_trial_did(place: Place) -> None:
    writer = place.writer()
    writer.write_trial(trial())
    writer.write_conclusion(answers())
    writer.end(concluded=True)
    assert {run.info.end_time for run in place.runs()} == {round((STARTED + 60) * 1000)}


def test_a_budget_that_was_done_before_an_interrupt_ends_as_finished(place: Place) -> None:
    writer = place.writer()
    writer.write_trial(trial())
    writer.end(concluded=False)
    assert place.find("1M").info.status == "KILLED"
    later = replace(trial(budget=2_000_000), ended=STARTED + 900)
    writer = place.writer()
    for record in (trial(), later):
        writer.write_trial(record)
    writer.write_conclusion(answers(optimum(), optimum(budget=2_000_000)))
    writer.end(concluded=True)
    found = [place.find(f"{size} → depth 6").info for size in ("1M", "2M")]
    assert [run.status for run in found] == ["FINISHED", "FINISHED"]
    assert [run.end_time - run.start_time for run in found] == [60_000, 900_000]


def test_an_interrupted_study_says_so_until_it_is_resumed(place: Place) -> None:
    def said() -> set[str]:
        experiment = MlflowClient(place.uri).get_experiment_by_name("demo")
        assert experiment
        return {place.find("demo").data.tags[pages.NOTE], experiment.tags[pages.NOTE]}

    place.writer().write_study(CONFIG)
    assert said() == {pages.UNDER_WAY}
    writer = place.writer()
    writer.write_trial(trial(outcome=None))
    writer.end(concluded=False)
    assert said() == {pages.BROKEN_OFF}
    ends = {run.info.run_name: run.info.end_time for run in place.runs()}
    assert ends["demo"] == round((STARTED + 5) * 1000), (
        "of its last evaluation: none is trained now"
    )
    place.writer().write_study(CONFIG)
    assert said() == {pages.UNDER_WAY}
    place.writer().write_conclusion(answers())
    writer = place.writer()
    writer.write_study(CONFIG)
    writer.end(concluded=False)
    assert not said() & {pages.UNDER_WAY, pages.BROKEN_OFF}, "it has an answer"


def test_mlflow_takes_the_answers_of_many_budgets(place: Place) -> None:
    many = [optimum(budget=1_000_000 * (n + 1)) for n in range(150)]
    place.writer().write_summary(answers(*many, laws=(LAW,)))
    assert len(place.tokens(place.find("demo"), "optimal_depth")) == 150


def moved(place: Place, victim: Path) -> None:
    """Makes the artifacts of all runs go to another folder, as another program may at any time."""
    with closing(sqlite3.connect(place.uri.removeprefix("sqlite:///"))) as database, database:
        database.execute("UPDATE runs SET artifact_uri = ?", (victim.as_uri(),))


def test_artifacts_are_not_written_to_an_address_that_has_changed_since_the_last(
    place: Place, tmp_path: Path
) -> None:
    victim = tmp_path.parent / f"{tmp_path.name}-victim"
    writer = place.writer()
    writer.write_study(CONFIG)
    moved(place, victim)
    with pytest.raises(TrackingError, match="artifacts must lie in"):
        writer.write_study(CONFIG)
    with pytest.raises(TrackingError, match="artifacts must lie in"):
        writer.write_summary(answers())
    assert not victim.exists()


def test_what_was_checked_is_what_is_written_to(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path.parent / f"{tmp_path.name}-victim"

    def check_then_move(study: TrackedStudy, address: str) -> None:
        check_artifacts(study, address)
        moved(place, victim)

    monkeypatch.setattr(study_runs, "check_artifacts", check_then_move)
    place.writer().write_study(CONFIG)
    assert not victim.exists()
    assert len(list(tmp_path.glob("mlartifacts/demo/*/artifacts/config.yaml"))) == 1


def test_a_follower_whose_store_is_changed_says_so_once_and_ends(
    place: Place, tmp_path: Path
) -> None:
    follower = place.follower()
    wait_until(lambda: list(tmp_path.glob("mlartifacts/demo/*/artifacts/config.yaml")))
    moved(place, tmp_path.parent / f"{tmp_path.name}-victim")
    follower.put(answers())
    assert follower.close() == 0
    (said,) = place.said
    assert "nothing more is written to MLflow" in said
    assert "--trust" in said
