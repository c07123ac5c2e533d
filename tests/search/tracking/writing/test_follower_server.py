"""A tracking server that is down, silent or refuses costs a search nothing and misses nothing."""

import logging
import shutil
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient
from werkzeug.serving import BaseWSGIServer, make_server

from fathom.search.records import Outcome
from fathom.search.tracking.writing import follower as module
from tests.support.ports import free_port
from tests.support.tracked import (
    TRIAL_RUN,
    UNANSWERED_SECONDS,
    Place,
    answers,
    trial,
    write_down,
    write_end,
)
from tests.support.waiting import wait_until

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


class MlflowServer:
    """MLflow's own web application on a port of its own; can be stopped and started again."""

    def __init__(self) -> None:
        self.port = free_port()
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
def application(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    """MLflow keeps the first store that its application opens, so there is one for all tests."""
    folder = tmp_path_factory.mktemp("server")
    shutil.copy(template, folder / "mlflow.db")
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(BACKEND_STORE_URI_ENV_VAR, f"sqlite:///{folder}/mlflow.db")
        patch.setenv(ARTIFACT_ROOT_ENV_VAR, "mlflow-artifacts:/")
        patch.setenv(ARTIFACTS_DESTINATION_ENV_VAR, str(folder / "artifacts"))
        patch.setenv(SERVE_ARTIFACTS_ENV_VAR, "true")
        running = MlflowServer()
        yield running
        running.stop()


@pytest.fixture
def server(application: MlflowServer) -> Iterator[MlflowServer]:
    """The server, not started yet."""
    yield application
    application.stop()


@pytest.fixture
def remote(server: MlflowServer, tmp_path: Path) -> Place:
    return Place(f"http://127.0.0.1:{server.port}", tmp_path / "runs" / "demo")


def test_a_server_that_stops_and_returns_misses_nothing_and_gets_nothing_twice(
    remote: Place, server: MlflowServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GATHER_SECONDS", 0.05)
    write_down(remote.folder, trial(0, outcome=None, points=2))
    follower = remote.follower()
    wait_until(lambda: any("does not answer" in line for line in remote.said))
    server.start()
    write_down(remote.folder, trial(1))
    wait_until(lambda: any("answers again" in line for line in remote.said))
    server.stop()
    write_down(remote.folder, trial(2))
    wait_until(lambda: len(remote.said) == 3)
    server.start()
    write_end(remote.folder, trial(0))
    follower.put(answers())
    wait_until(lambda: len(remote.said) == 4)
    assert follower.close() == 0

    runs = {run.info.run_name: run for run in remote.runs()}
    assert len(runs) == len(remote.runs()) == 5
    assert remote.statuses() == {"FINISHED"}
    for seed in range(3):
        run = runs[f"1M · depth 4 · d_model 64 · seed {seed}"]
        assert remote.tokens(run) == [1000, 2000, 3000, 4000, 5000]


def test_entries_missed_by_a_server_are_written_by_the_next_run(
    remote: Place, server: MlflowServer
) -> None:
    write_down(remote.folder, *map(trial, range(10)))
    begin = time.monotonic()
    # Ten trials and the study file.
    assert remote.mirror(study="late") == 11
    assert time.monotonic() - begin < UNANSWERED_SECONDS
    assert "does not answer" in remote.said[0]
    assert "lacks 11 items of this study" in remote.said[1]

    server.start()
    assert remote.mirror(study="late") == 0
    assert len(remote.runs("late")) == 12


def test_a_server_that_never_replies_is_given_up_in_time(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = Place(f"http://127.0.0.1:{silent.getsockname()[1]}", tmp_path)
        write_down(tmp_path, *map(trial, range(10)))
        follower = place.follower()
        begin = time.monotonic()
        assert follower.close(timeout_seconds=0.5) == 11
        assert time.monotonic() - begin < UNANSWERED_SECONDS


def test_a_trial_that_mlflow_refuses_does_not_hold_up_the_others(place: Place) -> None:
    write_down(place.folder, trial(0))
    assert place.mirror() == 0
    changed = trial(0, outcome=Outcome.FAILED)
    write_down(
        place.folder, replace(changed, spec=replace(changed.spec, learning_rate=0.5)), trial(1)
    )

    assert place.mirror() == 1
    assert "MLflow refuses 1000000-explore-000" in place.said[0]
    assert place.find(TRIAL_RUN.replace("seed 0", "seed 1")).info.status == "FINISHED"


def test_credentials_are_neither_printed_nor_stored(remote: Place, server: MlflowServer) -> None:
    remote.folder.mkdir(parents=True)
    secret = replace(remote, uri=remote.uri.replace("://", "://someone:hunter2@"))
    text = f"study: secret\ntracking: {{uri: '{secret.uri}'}}\n"
    for _ in range(2):  # down, then up
        secret.follower("secret", text).close()
        server.start()

    assert secret.said
    assert "hunter2" not in "".join(secret.said)
    client = MlflowClient(remote.uri)
    (run,) = remote.runs("secret")
    kept = Path(client.download_artifacts(run.info.run_id, "config.yaml")).read_text()
    assert kept == text.replace("someone:hunter2", "***")
