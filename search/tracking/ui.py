"""Serves MLflow's web page of the store that the runs used, to this machine only."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from typing import IO

from mlflow.exceptions import MlflowException

from fathom.search.signals import handled, interrupt
from fathom.search.study.store_uri import (
    TrackingError,
    first_line,
    sqlite_path,
    without_credentials,
)
from fathom.search.tracking import store
from fathom.search.tracking.pages import MODE
from fathom.search.tracking.study_runs import STUDY_TAG
from fathom.search.tracking.views import list_address

STOP_SECONDS = 10.0
"""Time that the server gets to end by itself."""
SERVER_SETTINGS = {
    # Nine more processes, for services that no study uses.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    # Its own processes would run a `random.py` of the working folder.
    "PYTHONSAFEPATH": "1",
}
"""Environment of the server."""


def open_ui(
    uri: str, *, host: str = "127.0.0.1", port: int = 5000, say: Callable[[str], None] = print
) -> None:
    """Serves the page until Ctrl-C, SIGTERM or SIGHUP, saying where studies are; a server has its
    own.

    Raises:
        TrackingError: when the address cannot be used, there is no store yet, the port is taken, or
            the server does not start.
    """
    store.settle()
    store.check(uri)
    if uri.startswith(("http:", "https:")):
        base = without_credentials(uri).rstrip("/")
        say("\n".join([*_study_pages(uri, base), f"all of MLflow: {base}/#/{MODE}"]))
        return
    path, base = sqlite_path(uri), f"http://{host}:{port}"
    if path is not None and not path.exists():
        raise TrackingError(f"`fathom ui` found no runs at {path}; run a study first")
    _check_port(host, port)
    opening = [*_study_pages(uri, base), f"all of MLflow: {base}/#/{MODE} (Ctrl-C ends it)"]
    with (
        terminated_as_interrupted(),
        tempfile.TemporaryFile() as output,
        _start(uri, host, port, output) as server,
    ):
        try:
            _await_ready(server, host, port, output)
            say("\n".join(opening))
            server.wait()
        except KeyboardInterrupt:
            say("Stopped.")
        finally:
            _stop(server)


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Raises KeyboardInterrupt at a SIGTERM or SIGHUP, which would not reach the server alone."""
    with handled(interrupt):
        yield


def _study_pages(uri: str, base: str) -> list[str]:
    """Returns a line with name and address of every study, the latest first."""
    return [f"{name}: {address}" for name, address in study_addresses(uri, base).items()]


def study_addresses(uri: str, base: str) -> dict[str, str]:
    """Returns name -> address of every study in MLflow's page at `base`, the latest first.

    Raises:
        TrackingError: when the store does not answer.
    """
    try:
        found = store.connect(uri).search_experiments(order_by=["last_update_time DESC"])
    except MlflowException as error:
        raise TrackingError(
            f"`fathom ui` needs a store that answers, got {without_credentials(uri)} "
            f"({first_line(error)}); start it or change `tracking.uri`"
        ) from None
    return {
        experiment.name: f"{base}/{list_address(experiment.experiment_id)}"
        for experiment in found
        if STUDY_TAG in experiment.tags
    }


def _start(uri: str, host: str, port: int, output: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "mlflow", "ui", "--workers", "1"]
    return subprocess.Popen(
        [*command, "--host", host, "--port", str(port)],
        # Not on the command line, where every user of the machine could read a password in it.
        env=os.environ | SERVER_SETTINGS | {"MLFLOW_BACKEND_STORE_URI": uri},
        stdout=output,
        stderr=subprocess.STDOUT,
        # A group of its own, so that all its processes end together.
        start_new_session=True,
    )


def _await_ready(server: subprocess.Popen[bytes], host: str, port: int, output: IO[bytes]) -> None:
    while server.poll() is None:
        connection = HTTPConnection(host, port, timeout=5)
        with closing(connection), suppress(OSError, HTTPException):
            connection.request("GET", "/health")
            connection.getresponse()
            return
        time.sleep(0.2)
    output.seek(0)
    last = output.read().decode(errors="replace").strip().rpartition("\n")[2]
    raise TrackingError(f"MLflow's server ended by itself: {without_credentials(last)}")


def _stop(server: subprocess.Popen[bytes]) -> None:
    if server.poll() is not None:
        return
    os.killpg(server.pid, signal.SIGTERM)
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)


def _check_port(host: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise TrackingError(
                f"`fathom ui` needs a free port, got {host}:{port} ({error.strerror}); "
                "choose another with --port"
            ) from None
