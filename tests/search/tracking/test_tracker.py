"""MLflow mirrors a study: complete, once, findable, and never in the way of the search."""

import json
import logging
import math
import shutil
import signal
import socket
import sqlite3
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from werkzeug.serving import BaseWSGIServer, make_server

from fathom.models.shape import Count, Shape
from fathom.objectives.registry import prepare
from fathom.search.analysis.interim import SoFar
from fathom.search.analysis.law import Law
from fathom.search.analysis.law_fit import POWER
from fathom.search.analysis.optimum import DepthLoss, Optimum
from fathom.search.analysis.verdict import Verdict
from fathom.search.conclusion import Conclusion
from fathom.search.records import CurvePoint, Outcome, Stage, TrialRecord, TrialSpec
from fathom.search.report.answer_log import Trail
from fathom.search.report.text import summary_table
from fathom.search.scheduling.audit import RungAudit
from fathom.search.study.config import parse
from fathom.search.study.store_uri import TrackingError
from fathom.search.tracking import metrics as numbers
from fathom.search.tracking import pages, store
from fathom.search.tracking.dataset import data_set
from fathom.search.tracking.messages import DataSet
from fathom.search.tracking.runs import WRITTEN_TAG, StudyRuns
from fathom.search.tracking.schema_stamp import is_stamped
from fathom.search.tracking.tracker import Tracker
from fathom.search.tracking.ui import open_ui
from fathom.search.tracking.writer import Writer, study_key

with warnings.catch_warnings():
    # MLflow uses what SQLAlchemy 2.1 and Starlette call deprecated.
    warnings.simplefilter("ignore")
    from mlflow.server import app, fastapi_app
    from mlflow.server.constants import (
        ARTIFACT_ROOT_ENV_VAR,
        ARTIFACTS_DESTINATION_ENV_VAR,
        BACKEND_STORE_URI_ENV_VAR,
        SERVE_ARTIFACTS_ENV_VAR,
    )

assert fastapi_app  # imported here because MLflow's application imports it at a request

STARTED = 1_700_000_000.0
SHAPE = Shape(depth=4, d_model=64, d_ff=256, n_heads=4, head_dim=16, vocab_size=256, context=64)
SPEC = TrialSpec(
    trial="1M-explore-000",
    study="demo",
    stage=Stage.EXPLORE,
    budget=1_000_000,
    count=Count.TOTAL,
    horizon_tokens=20_000_000,
    shape=SHAPE,
    seed=0,
    learning_rate=0.004,
    rate_scale=1.0,
    prunable=True,
)
CONFIG = "study: demo\nbudgets: [1M]\n"


def curve(points: int, *, begin: float = STARTED) -> tuple[CurvePoint, ...]:
    return tuple(
        CurvePoint(
            step=10 * i,
            tokens=1000 * i,
            loss=2.0 + 1 / i,
            train_loss=1.9 + 1 / i,
            train_seconds=0.5 * i,
            time=begin + i,
            metrics={"bits_per_byte": 3.0 + 1 / i},
        )
        for i in range(1, points + 1)
    )


def trial(
    number: int = 0,
    *,
    outcome: Outcome | None = Outcome.FINISHED,
    points: int = 5,
    budget: int = 1_000_000,
    reason: str = "",
) -> TrialRecord:
    return TrialRecord(
        spec=replace(SPEC, trial=f"{budget}-explore-{number:03d}", budget=budget, seed=number),
        outcome=outcome,
        reason=reason,
        curve=curve(points),
        rungs={},
        started=STARTED,
        ended=STARTED + 60 if outcome else None,
        setup_seconds=0.1,
        peak_memory_bytes=None,
    )


def optimum(depth: int | None = 6, *, budget: int = 1_000_000) -> Optimum:
    return Optimum(
        budget=budget,
        count=Count.TOTAL,
        tokens=20_000_000,
        optimal_depth=depth,
        interval=(depth - 1, depth + 2) if depth else None,
        plateau=(depth,) if depth else (),
        verdict=Verdict.IDENTIFIED if depth else Verdict.INSUFFICIENT,
        reason="The interval is narrower than the range that was tested.",
        loss=1.5 if depth else None,
        shape=SHAPE if depth else None,
        curve_minimum=None,
        curve_minimum_interval=None,
        power=None,
        parabola=None,
        family_disagreement=None,
        share_without_minimum=None,
        depths=(DepthLoss(depth=4, loss=1.51, standard_error=0.002, trials=3),),
        noise=0.004,
        params_slope=-0.2,
        best_ff_ratio=4.0,
        trials={outcome.value: 1 for outcome in Outcome},
    )


LAW = Law(
    name=POWER,
    a=-3.0,
    b=0.4,
    covariance=((1.0, 0.0), (0.0, 1.0)),
    degrees_of_freedom=1,
    params_range=(300_000, 3_000_000),
    leave_one_out_error=0.1,
)
STUDY = parse(f"{CONFIG}objective: {{name: language, corpus: stdlib}}\n")


def concluded(*optima: Optimum, **found: Any) -> Conclusion:
    return Conclusion(config=STUDY, optima=optima, **found)


@dataclass(frozen=True)
class Place:
    """A store of a test's own, and a run folder."""

    uri: str
    folder: Path

    def tracker(self, *, study: str = "demo", folder: Path | None = None) -> Writer:
        return Writer(uri=self.uri, study=study, folder=folder or self.folder, config_text=CONFIG)

    def runs(self, study: str = "demo") -> list[Run]:
        client = MlflowClient(self.uri)
        experiment = client.get_experiment_by_name(study)
        assert experiment is not None
        return list(client.search_runs([experiment.experiment_id], order_by=["start_time"]))

    def find(self, name: str) -> Run:
        (run,) = (run for run in self.runs() if run.info.run_name == name)
        return run

    def tokens(self, run: Run, metric: str = "loss") -> list[int]:
        history = MlflowClient(self.uri).get_metric_history(run.info.run_id, metric)
        return [point.step for point in history]

    def everything(self) -> object:
        """All that a store holds, but for what says when it was written."""
        return sorted(
            (
                run.info.run_name,
                run.info.status,
                sorted(run.data.params.items()),
                sorted(run.data.tags.items()),
                [(key, value, self.tokens(run, key)) for key, value in run.data.metrics.items()],
            )
            for run in self.runs()
        )


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh database; making one takes MLflow seconds."""
    path = tmp_path_factory.mktemp("template") / "mlflow.db"
    store.settle()
    store.connect(f"sqlite:///{path}")
    return path


@pytest.fixture
def place(template: Path, tmp_path: Path) -> Place:
    shutil.copy(template, tmp_path / "mlflow.db")
    return Place(f"sqlite:///{tmp_path}/mlflow.db", tmp_path / "runs" / "demo")


class Server:
    """MLflow's own web application on a port of its own; can be stopped and started again."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._running: BaseWSGIServer | None = None

    def start(self) -> None:
        if self._running is not None:
            return
        self._running = make_server("127.0.0.1", self.port, app, threaded=True)
        threading.Thread(target=self._running.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        if self._running is not None:
            self._running.shutdown()
            self._running.server_close()
            self._running = None


@pytest.fixture(scope="module")
def application(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """MLflow keeps the first store that its application opens, so there is one for all tests."""
    folder = tmp_path_factory.mktemp("server")
    shutil.copy(template, folder / "mlflow.db")
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(BACKEND_STORE_URI_ENV_VAR, f"sqlite:///{folder}/mlflow.db")
        patch.setenv(ARTIFACT_ROOT_ENV_VAR, "mlflow-artifacts:/")
        patch.setenv(ARTIFACTS_DESTINATION_ENV_VAR, str(folder / "artifacts"))
        patch.setenv(SERVE_ARTIFACTS_ENV_VAR, "true")
        running = Server()
        yield running
        running.stop()


@pytest.fixture
def remote(application: Server, tmp_path: Path) -> Iterator[Place]:
    yield Place(f"http://127.0.0.1:{application.port}", tmp_path / "runs" / "demo")
    application.stop()


def test_trials_nest_in_budgets_and_budgets_in_the_study(place: Place) -> None:
    tracker = place.tracker()
    tracker.trial(trial(0))
    tracker.trial(trial(1, budget=300_000))
    assert tracker.close() == 0

    parent = {run.info.run_id: run.data.tags.get("mlflow.parentRunId") for run in place.runs()}
    study = place.find("demo").info.run_id
    small, large = place.find("300k").info.run_id, place.find("1M").info.run_id
    assert parent[study] is None
    assert parent[small] == parent[large] == study
    assert parent[place.find("1M · depth 4 · d_model 64 · seed 0").info.run_id] == large
    assert parent[place.find("300k · depth 4 · d_model 64 · seed 1").info.run_id] == small


def test_a_trial_is_recorded_by_tokens_with_its_shape_and_its_end(place: Place) -> None:
    tracker = place.tracker()
    tracker.trial(trial())
    tracker.close()

    run = place.find("1M · depth 4 · d_model 64 · seed 0")
    assert run.info.status == "FINISHED"
    assert run.info.end_time - run.info.start_time == 60_000
    assert run.data.params.items() >= {"depth": "4", "d_ff": "256", "budget": "1000000"}.items()
    assert run.data.params["params_total"] == str(SHAPE.params_total)
    assert run.data.tags.items() >= {"outcome": "finished", "stage": "explore"}.items()
    for metric in ("loss", "train_loss", "bits_per_byte"):
        assert place.tokens(run, metric) == [1000, 2000, 3000, 4000, 5000]
    assert run.data.metrics["final_loss"] == run.data.metrics["loss"] == 2.2


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Outcome.STOPPED, "KILLED"),
        (Outcome.DIVERGED, "FAILED"),
        (Outcome.OUT_OF_MEMORY, "FAILED"),
        (Outcome.FAILED, "FAILED"),
    ],
)
def test_a_trial_that_did_not_finish_says_how_and_why(
    place: Place, outcome: Outcome, status: str
) -> None:
    tracker = place.tracker()
    tracker.trial(trial(outcome=outcome, reason="because"))
    tracker.close()

    run = place.find("1M · depth 4 · d_model 64 · seed 0")
    assert run.info.status == status
    assert run.data.tags.items() >= {"outcome": outcome.value, "reason": "because"}.items()
    assert "final_loss" not in run.data.metrics


def test_a_diverged_trial_keeps_its_curve_up_to_the_last_number(place: Place) -> None:
    record = trial(outcome=Outcome.DIVERGED)
    *finite, ahead, last = record.curve
    ahead, last = replace(ahead, loss=math.inf), replace(last, loss=math.nan, train_loss=math.nan)
    tracker = place.tracker()
    tracker.trial(replace(record, curve=(*finite, ahead, last)))
    assert tracker.close() == 0

    run = place.find("1M · depth 4 · d_model 64 · seed 0")
    assert place.tokens(run) == [1000, 2000, 3000]
    assert place.tokens(run, "train_loss") == [1000, 2000, 3000, 4000]
    assert run.data.tags[WRITTEN_TAG] == "5000"


def test_what_layers_do_is_a_curve_over_layers_written_once(place: Place) -> None:
    layers = {"rank_ratio": (0.9, 0.7, 0.5), "gradient_norm": tuple(range(1, 901))}
    for _ in range(2):
        tracker = place.tracker()
        tracker.trial(replace(trial(), layers=layers))
        assert tracker.close() == 0
    run = place.find("1M · depth 4 · d_model 64 · seed 0")
    assert place.tokens(run, "per_layer_rank_ratio") == [1, 2, 3]
    assert run.data.metrics["per_layer_rank_ratio"] == 0.5
    assert place.tokens(run, "per_layer_gradient_norm") == list(range(1, 901))


def test_a_long_curve_is_written_whole_in_several_requests(place: Place) -> None:
    tracker = place.tracker()
    tracker.trial(trial(points=300))
    tracker.close()

    run = place.find("1M · depth 4 · d_model 64 · seed 0")
    assert place.tokens(run) == [1000 * i for i in range(1, 301)]
    assert run.data.tags[WRITTEN_TAG] == "300000"


def test_points_of_many_metrics_are_written_whole_in_requests_that_mlflow_takes(
    place: Place,
) -> None:
    categories = {f"exact_match/gen/case_{number}": 0.5 for number in range(60)}
    record = trial(points=20)
    tracker = place.tracker()
    tracker.trial(
        replace(record, curve=tuple(replace(point, metrics=categories) for point in record.curve))
    )
    tracker.close()

    run = place.find("1M · depth 4 · d_model 64 · seed 0")
    for metric in ("loss", "exact_match/gen/case_59"):
        assert place.tokens(run, metric) == [1000 * i for i in range(1, 21)]


def test_writing_everything_again_changes_nothing(place: Place) -> None:
    def write() -> None:
        tracker = place.tracker()
        for number in range(3):
            tracker.trial(trial(number))
        tracker.conclude(concluded(optimum(), laws=(LAW,)))
        assert tracker.close() == 0

    write()
    once = place.everything()
    write()

    assert place.everything() == once


def test_a_resumed_trial_goes_on_in_its_run_without_repeating_a_point(place: Place) -> None:
    before, after = place.tracker(), trial()
    before.trial(trial(outcome=None, points=3))
    assert before.close() == 0
    name = "1M · depth 4 · d_model 64 · seed 0"
    interrupted = place.find(name)
    assert (interrupted.info.status, interrupted.data.tags["outcome"]) == ("KILLED", "interrupted")
    assert place.find("demo").info.status == "KILLED"

    resumed = place.tracker()
    # Evaluated again from the checkpoint on, at another time.
    resumed.trial(replace(after, curve=curve(1) + curve(5, begin=STARTED + 500)[1:]))
    resumed.conclude(concluded(optimum()))
    assert resumed.close() == 0

    run = place.find(name)
    assert run.info.run_id == interrupted.info.run_id
    assert place.tokens(run) == [1000, 2000, 3000, 4000, 5000]
    assert run.data.tags["outcome"] == "finished"
    assert {run.info.status for run in place.runs()} == {"FINISHED"}


def test_a_stopped_trial_that_is_taken_up_again_goes_on_in_its_run(place: Place) -> None:
    first = place.tracker()
    first.trial(trial(outcome=Outcome.STOPPED, points=2))
    first.conclude(concluded(optimum()))
    assert first.close() == 0
    name = "1M · depth 4 · d_model 64 · seed 0"
    before = place.find(name)
    assert before.info.status == "KILLED"

    store.settle()
    key, client = study_key(place.folder), store.connect(place.uri)
    runs = StudyRuns(client, study="demo", key=key, folder=place.folder, artifacts=None)
    runs.write_trial(trial(outcome=None, points=3))
    assert (place.find(name).info.status, place.find(name).data.tags["outcome"]) == (
        "RUNNING",
        "running",
    )
    runs.write_trial(trial(points=5))

    second = place.tracker()
    second.conclude(concluded(optimum()))
    assert second.close() == 0
    run = place.find(name)
    assert run.info.run_id == before.info.run_id
    assert place.tokens(run) == [1000, 2000, 3000, 4000, 5000]
    assert (run.info.status, run.data.tags["outcome"]) == ("FINISHED", "finished")
    assert "final_loss" in run.data.metrics
    assert {run.info.status for run in place.runs()} == {"FINISHED"}


def test_the_audit_of_the_stopping_stands_on_the_budget_in_words_and_numbers(place: Place) -> None:
    fair = RungAudit(
        rung=5000, horizon=20_000, finished=9, agreement=0.8, depth_lean=0.1, place_of_best=1,
        pairs=20, exempt=2, spared=1, regret=0.0, noise=0.004, stopped=3, stopped_depths=(2,),
        cut_depths=(), later=5000,
    )  # fmt: skip
    failed = replace(fair, agreement=0.1, regret=None, later=None)
    unknown = replace(fair, agreement=None)
    for audits, word in (([fair], "trusted"), ([fair, unknown], "unknown"), ([failed], "failed")):
        tracker = place.tracker()
        tracker.conclude(concluded(optimum(), audits={1_000_000: tuple(audits)}))
        assert tracker.close() == 0
        budget = place.find("1M → depth 6")
        assert budget.data.tags["stopping"] == word
        assert all(audit.sentence in budget.data.tags[pages.NOTE] for audit in audits)
    metrics = budget.data.metrics
    assert (metrics["rung_5000_agreement"], metrics["rung_5000_depth_lean"]) == (0.1, 0.1)
    assert (metrics["rung_5000_regret"], metrics["rung_5000_spared"]) == (0.0, 1.0)
    assert "`stopping.enabled: false`" in budget.data.tags[pages.NOTE]


def test_what_a_killed_process_left_running_is_ended_by_the_next(place: Place) -> None:
    store.settle()
    killed = StudyRuns(
        store.connect(place.uri),
        study="demo",
        key=study_key(place.folder),
        folder=place.folder,
        artifacts=str(place.folder / "mlartifacts"),
    )
    killed.write_trial(trial(outcome=None))
    assert {run.info.status for run in place.runs()} == {"RUNNING"}

    place.tracker().close()

    assert {run.info.status for run in place.runs()} == {"KILLED"}
    assert len(place.runs()) == 3


def test_a_fresh_start_of_a_study_is_a_second_run_of_the_same_experiment(place: Place) -> None:
    for folder in ("first", "second"):
        tracker = place.tracker(folder=place.folder / folder)
        tracker.trial(trial())
        assert tracker.close() == 0

    assert [run.info.run_name for run in place.runs()].count("demo") == 2
    assert len(place.runs()) == 6


def test_the_answer_stands_in_the_descriptions_and_the_files_beside_it(place: Place) -> None:
    figure, best = place.folder / "figures" / "loss_depth.png", place.folder / "best.yaml"
    figure.parent.mkdir(parents=True)
    figure.write_bytes(b"picture")
    best.write_text("depth: 6\n")
    tracker = place.tracker()
    tracker.trial(trial())
    tracker.conclude(concluded(optimum(), laws=(LAW,)))
    assert tracker.close() == 0

    client = MlflowClient(place.uri)
    study, budget = place.find("demo"), place.find("1M → depth 6")
    note = study.data.tags[pages.NOTE]
    assert "best depth 6 (identified, 95 % interval 5-8), after 20M tokens" in note
    assert summary_table([optimum()]) in note
    assert "depth: 6" in note
    assert f"get-artifact?path=figures/loss_depth.png&run_uuid={study.info.run_id}" in note
    files = {file.path for file in client.list_artifacts(study.info.run_id)}
    assert files == {"config.yaml", "best.yaml", "optima.md", "figures"}
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


def test_a_new_answer_replaces_the_old_one(place: Place) -> None:
    for depth in (None, 4, 6):
        tracker = place.tracker()
        tracker.conclude(concluded(optimum(depth)))
        assert tracker.close() == 0

    study, budget = place.runs()
    assert budget.info.run_name == "1M → depth 6"
    assert budget.data.metrics["optimal_depth"] == 6
    assert budget.data.tags["interval"] == "5-8"
    assert study.data.tags["optimal_depth"] == "1M: 6"


def test_a_description_keeps_whole_sections_only() -> None:
    note = pages.fitted(["a" * 50, "b" * 60, "", "c" * 40], limit=100)

    assert note == "a" * 50 + "\n\n" + "c" * 40


def many_optima(budgets: int) -> list[Optimum]:
    return [optimum(budget=1_000_000 * (n + 1)) for n in range(budgets)]


def test_mlflow_takes_the_answers_of_many_budgets(place: Place) -> None:
    tracker = place.tracker()
    tracker.conclude(concluded(*many_optima(150), laws=(LAW,)))
    assert tracker.close() == 0


@pytest.mark.parametrize("budgets", [150, 900])
def test_a_study_of_many_budgets_has_a_description_that_mlflow_takes(budgets: int) -> None:
    note = pages.experiment_note(many_optima(budgets), "#/runs/one", "1")
    assert len(note) <= pages.EXPERIMENT_NOTE_CHARACTERS
    assert "[table, figures and YAML](#/runs/one" in note


def test_a_server_that_stops_and_returns_misses_nothing_and_gets_nothing_twice(
    remote: Place, application: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fathom.search.tracking.writer.GATHER_SECONDS", 0.05)
    tracker = remote.tracker()
    tracker.trial(trial(0, outcome=None, points=2))
    time.sleep(0.3)
    application.start()
    tracker.trial(trial(1))
    wait_until(lambda: not tracker._waiting)
    application.stop()
    tracker.trial(trial(0))
    tracker.trial(trial(2))
    time.sleep(0.3)
    application.start()
    tracker.conclude(concluded(optimum(), laws=(LAW,)))
    wait_until(lambda: not tracker._waiting)
    assert tracker.close() == 0

    runs = {run.info.run_name: run for run in remote.runs()}
    assert len(runs) == len(remote.runs()) == 5
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    for seed in range(3):
        run = runs[f"1M · depth 4 · d_model 64 · seed {seed}"]
        assert remote.tokens(run) == [1000, 2000, 3000, 4000, 5000]


def test_a_server_that_is_down_costs_the_search_nothing_and_is_written_later(
    remote: Place, application: Server, caplog: pytest.LogCaptureFixture
) -> None:
    tracker = remote.tracker(study="late")
    slowest = longest_call(tracker, calls=1000)
    assert slowest < 0.05
    begin = time.monotonic()
    # Ten trials and the study file.
    assert tracker.close() == 11
    assert time.monotonic() - begin < 5
    assert "does not answer" in caplog.text
    assert "lacks 11 items of this study" in caplog.text

    application.start()
    again = remote.tracker(study="late")
    for number in range(10):
        again.trial(trial(number))
    assert again.close() == 0
    assert len(remote.runs("late")) == 12


def test_a_server_that_never_replies_is_given_up_in_time(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        tracker = Place(uri, tmp_path).tracker()
        assert longest_call(tracker, calls=100) < 0.05
        begin = time.monotonic()
        assert tracker.close(timeout_seconds=0.5) == 11
        assert time.monotonic() - begin < 1.5


def test_a_trial_that_mlflow_refuses_does_not_hold_up_the_others(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    first = place.tracker()
    first.trial(trial(0))
    first.close()
    second = place.tracker()
    changed = trial(0, outcome=Outcome.FAILED)
    second.trial(replace(changed, spec=replace(changed.spec, learning_rate=0.5)))
    second.trial(trial(1))

    assert second.close() == 1
    assert "MLflow refuses 1000000-explore-000" in caplog.text
    assert place.find("1M · depth 4 · d_model 64 · seed 1").info.status == "FINISHED"


def test_credentials_are_neither_logged_nor_stored(
    remote: Place, application: Server, caplog: pytest.LogCaptureFixture
) -> None:
    secret = remote.uri.replace("://", "://someone:hunter2@")
    text = f"study: secret\ntracking: {{uri: '{secret}'}}\n"
    for _ in range(2):  # down, then up
        tracker = Writer(uri=secret, study="secret", folder=remote.folder, config_text=text)
        tracker.close()
        application.start()

    assert "hunter2" not in caplog.text
    client = MlflowClient(remote.uri)
    (run,) = remote.runs("secret")
    kept = Path(client.download_artifacts(run.info.run_id, "config.yaml")).read_text()
    assert kept == text.replace("someone:hunter2", "***")


@pytest.mark.parametrize(
    "uri",
    [
        "nonsense://somewhere",
        "http://",
        "http://host:port",
        "sqlite://",
        "sqlite:///{here}",
        "sqlite:///{here}/text.db",
        "sqlite:///{here}/text.db/under/mlflow.db",
        "ftp://someone:hunter2@host",
        "postgresql+nodriver://someone:hunter2@host/runs",
    ],
)
def test_an_unusable_address_is_refused_at_once_in_one_line(uri: str, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("This is no database, and long enough to be looked at." * 20)

    with pytest.raises(ValueError, match=r"`tracking\.uri` must be an address") as refusal:
        Place(uri.format(here=tmp_path), tmp_path / "runs").tracker()

    assert "\n" not in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


def test_a_database_of_another_mlflow_is_refused_with_its_remedy(place: Place) -> None:
    with sqlite3.connect(place.uri.removeprefix("sqlite:///")) as database:
        database.execute("UPDATE alembic_version SET version_num = 'other'")
    database.close()

    with pytest.raises(ValueError, match="mlflow db upgrade"):
        place.tracker()


def test_a_new_database_appears_whole_and_without_an_empty_experiment(
    template: Path, place: Place
) -> None:
    assert [file.name for file in template.parent.iterdir()] == [template.name]
    assert MlflowClient(f"sqlite:///{template}").search_experiments() == []


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_the_page_is_served_on_loopback_until_ended(place: Place, end: signal.Signals) -> None:
    tracker = place.tracker()
    tracker.close()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    said: list[str] = []

    def look_and_end(text: str) -> None:
        said.append(text)
        if len(said) == 1:
            with urlopen(f"http://127.0.0.1:{port}/", timeout=10) as page:
                assert b"MLflow" in page.read()
            signal.raise_signal(end)

    open_ui(place.uri, port=port, say=look_and_end)

    address = f"http://127.0.0.1:{port}/#/experiments/1/runs?workflowType=machine_learning"
    assert f"demo: {address}" in said[0]
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port))


def test_the_page_names_a_taken_port_and_a_missing_store(place: Place, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"needs a free port, got 127.0.0.1:{port}"):
            open_ui(place.uri, port=port)
    with pytest.raises(ValueError, match="run a study first"):
        open_ui(f"sqlite:///{tmp_path}/none.db")


def longest_call(tracker: Writer, *, calls: int) -> float:
    """Longest of many calls, ten trials in turn."""
    records = [trial(number) for number in range(10)]
    times = [time.perf_counter()]
    for call in range(calls):
        tracker.trial(records[call % 10])
        times.append(time.perf_counter())
    return max(after - before for before, after in pairwise(times))


def wait_until(condition: object, seconds: float = 10.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def test_the_driver_reaches_mlflow_through_a_process_of_its_own(place: Place) -> None:
    with tracking(place) as tracker:
        tracker.confirm()
        for number in range(3):
            tracker.trial(trial(number))
        tracker.conclude(concluded(optimum(), laws=(LAW,)))
        assert tracker.close() == 0
    assert {run.info.status for run in place.runs()} == {"FINISHED"}
    assert place.tokens(place.find("1M · depth 4 · d_model 64 · seed 1"))[-1] == 5000


def test_a_search_outlives_the_process_that_writes_to_mlflow(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    with tracking(place) as tracker:
        tracker.trial(trial())
        wait_until(lambda: tracker._process is not None)
        assert tracker._process is not None
        tracker._process.kill()
        wait_until(lambda: "has ended; the search goes on" in caplog.text)
        tracker.trial(trial())
        assert tracker.close() > 0
    with tracking(place) as again:
        again.trial(trial())
        assert again.close() == 0


def test_a_store_that_this_mlflow_has_used_is_known_without_asking_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(place.uri.removeprefix("sqlite:///"))
    assert is_stamped(path)
    with tracking(place) as tracker:
        tracker.confirm()
        assert tracker._process is None
    monkeypatch.setattr("fathom.search.tracking.schema_stamp.version", lambda name: "another")
    assert not is_stamped(path)
    store.check(place.uri)
    assert is_stamped(path)


def test_a_known_store_that_has_gone_bad_costs_a_warning(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    with tracking(place) as tracker:
        with sqlite3.connect(place.uri.removeprefix("sqlite:///")) as database:
            database.execute("UPDATE alembic_version SET version_num = 'other'")
        database.close()
        tracker.trial(trial())
        wait_until(lambda: "nothing is written to MLflow" in caplog.text)
        assert tracker.close() > 0


def test_what_only_mlflow_can_refuse_is_refused_before_the_first_trial(tmp_path: Path) -> None:
    uri = "postgresql+nodriver://someone:hunter2@host/runs"
    with tracking(Place(uri, tmp_path / "runs")) as tracker:
        with pytest.raises(TrackingError, match="Can't load plugin") as refusal:
            tracker.confirm()
        assert "hunter2" not in str(refusal.value)


def test_a_malformed_address_is_refused_without_mlflow(tmp_path: Path) -> None:
    with pytest.raises(TrackingError, match="it names no host"):
        Tracker(uri="http://", study="demo", folder=tmp_path, config_text=CONFIG)


@contextmanager
def tracking(place: Place) -> Iterator[Tracker]:
    """A tracker whose process ends with the test."""
    tracker = Tracker(uri=place.uri, study="demo", folder=place.folder, config_text=CONFIG)
    try:
        yield tracker
    finally:
        tracker.close(0.0)


def answer(tokens: int, **changes: object) -> SoFar:
    found = SoFar(
        budget=1_000_000,
        tokens=tokens,
        time=STARTED + tokens,
        depth=4,
        low=None,
        high=None,
        loss=2.5,
        trials={"finished": 1, "running": 2},
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def test_a_budget_has_its_answers_so_far_as_curves_over_the_tokens_of_its_search(
    place: Place,
) -> None:
    first = (answer(100), answer(200, low=2, high=9))
    tracker = place.tracker()
    tracker.trail(Trail(1_000_000, first))
    assert tracker.close() == 0
    before = place.everything()
    tracker = place.tracker()
    tracker.trail(Trail(1_000_000, first))
    assert tracker.close() == 0
    assert place.everything() == before, "written again it is not repeated"

    tracker = place.tracker()
    tracker.trail(Trail(1_000_000, (*first, answer(300, low=3, high=6, loss=2.1))))
    assert tracker.close() == 0
    run = place.find("1M")
    assert place.tokens(run, "best_depth_so_far") == [100, 200, 300]
    assert place.tokens(run, "best_depth_low") == [200, 300], "what is not known is not written"
    assert run.data.metrics["best_depth_high"] == 6
    assert run.data.metrics["best_loss_so_far"] == 2.1
    assert run.data.metrics["trials_finished_so_far"] == 1


def test_the_run_of_a_study_has_its_settings_its_data_and_what_the_machine_did(
    place: Place,
) -> None:
    text = "study: demo\nbudgets: [1M]\ntokens: 20k\ntrain: {batch_size: 8}\ntracking: {uri: x}\n"
    data = DataSet(name="corpus.txt", digest="0123", source_type="local", source="{}", profile="{}")
    for _ in range(2):
        tracker = Writer(
            uri=place.uri, study="demo", folder=place.folder, config_text=text, watch=True
        )
        tracker.data(data)
        assert tracker.close() == 0
    run = place.find("demo")
    assert run.data.params == {"tokens": "20k", "train.batch_size": "8"}
    assert run.inputs is not None
    (used,) = run.inputs.dataset_inputs
    assert (used.dataset.name, used.dataset.digest) == ("corpus.txt", "0123")
    assert [(tag.key, tag.value) for tag in used.tags] == [("mlflow.data.context", "training")]


def test_a_changed_setting_of_a_resumed_study_is_no_error(place: Place) -> None:
    for batch in (8, 16):
        text = f"study: demo\nbudgets: [1M]\ntrain: {{batch_size: {batch}}}\n"
        tracker = Writer(uri=place.uri, study="demo", folder=place.folder, config_text=text)
        assert tracker.close() == 0
    assert place.find("demo").data.params == {"train.batch_size": "8"}


def test_on_the_run_of_a_study_the_answers_stand_by_budget(place: Place) -> None:
    for depth in (6, 6, 7):
        tracker = place.tracker()
        tracker.conclude(concluded(optimum(4, budget=300_000), optimum(depth)))
        assert tracker.close() == 0
    history = MlflowClient(place.uri).get_metric_history(
        place.find("demo").info.run_id, "optimal_depth"
    )
    assert [(one.step, one.value) for one in history] == [
        (300_000, 4.0),
        (1_000_000, 6.0),
        (1_000_000, 7.0),
    ]


def test_the_loss_stands_before_what_explains_it() -> None:
    seen = replace(curve(1)[0], metrics={"rank_ratio": 0.5, "bits_per_byte": 3.0})
    names = [name for name, _ in numbers.point_metrics(seen)]
    names += [numbers.layer_name("rank_ratio")]
    assert sorted(names) == [
        *("bits_per_byte", "loss", "model_rank_ratio", "per_layer_rank_ratio", "train_loss")
    ]
    assert not [name for name in names if "/" in name], "a section of its own would stand above"


def test_a_data_set_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    def described(text: str, **settings: object) -> DataSet:
        path = tmp_path / "corpus.txt"
        path.write_text(text * 500)
        config = parse(
            "study: demo\nbudgets: [8k]\n"
            f"objective: {{name: language, corpus: {path}, context: 32, eval_tokens: 64}}\n"
        )
        objective = prepare("language", config.objective.settings() | settings)
        return data_set(config, objective)

    one, again, other = described("one text. "), described("one text. "), described("another. ")
    assert one == again
    assert one.digest != other.digest
    assert one.name.endswith("corpus.txt")
    assert one.source_type == "local"
    assert json.loads(one.profile) == {
        "vocab_size": 256,
        "train_tokens": 4500,
        "validation_tokens": 500,
    }
