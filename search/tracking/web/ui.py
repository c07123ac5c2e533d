"""Serves MLflow's web page of the runs' store to whoever opens the printed address."""

import asyncio
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
from typing import IO, cast

import h11
from mlflow.exceptions import MlflowException
from uvicorn.protocols.http.h11_impl import H11Protocol

from fathom.search.signals import handled, interrupt
from fathom.search.study.store_uri import (
    TrackingError,
    first_line,
    is_server,
    without_credentials,
)
from fathom.search.tracking.stores import store
from fathom.search.tracking.stores.key import KEY_VARIABLE, Key
from fathom.search.tracking.writing.pages import MODE
from fathom.search.tracking.writing.study_runs import STUDY_TAG
from fathom.search.tracking.writing.views import list_address

HOST = "127.0.0.1"
STOP_SECONDS = 10.0
"""Seconds that the server has to end by itself."""
PATIENCE = ("--uvicorn-opts", "--http fathom.search.tracking.web.ui:ShortPatience")
"""Options by which the server closes connections that send no request."""
REQUEST_SECONDS = 10.0
"""Seconds within which a connection must have sent the head of a request."""
MOST_CONNECTIONS = 256
"""Most connections at a time; for a further one, the connection that has waited longest for its
request is closed."""
SERVER_SETTINGS = {
    # Nine more processes, for services that no study uses.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    # Its own processes would run a `random.py` of the working folder.
    "PYTHONSAFEPATH": "1",
}
"""Environment of the server."""


def open_ui(uri: str, *, key: Key, port: int = 5000, say: Callable[[str], None] = print) -> None:
    """Serves the page on this machine until Ctrl-C, SIGTERM or SIGHUP, and prints the addresses of
    the studies; for a tracking server, which serves its own page, only prints.

    Raises:
        TrackingError: when the address cannot be used, the port is taken, or the server does not
            start.
    """
    store.settle()
    store.check(uri)
    if is_server(uri):
        say("\n".join(_addresses(uri, page_address(uri, port, key))))
        return
    _check_port(port)
    opening = _addresses(uri, page_address(uri, port, key))
    with (
        terminated_as_interrupted(),
        tempfile.TemporaryFile() as output,
        _start(uri, port, key, output) as server,
    ):
        try:
            _await_ready(server, port, output)
            say("\n".join([*opening[:-1], f"{opening[-1]} (Ctrl-C ends it)"]))
            server.wait()
        except KeyboardInterrupt:
            say("Stopped.")
        finally:
            _stop(server)


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Context in which SIGTERM and SIGHUP raise KeyboardInterrupt, so that the server is ended as
    well."""
    with handled(interrupt):
        yield


def page_address(uri: str, port: int, key: Key) -> str:
    """Returns the address of MLflow's page: the tracking server's, or one on this machine."""
    if is_server(uri):
        return without_credentials(uri).rstrip("/") + "/"
    return f"http://{HOST}:{port}/{key.query}"


def _addresses(uri: str, page: str) -> list[str]:
    """Returns one line for each study with its name and address, the latest first, then a line for
    all studies together."""
    studies = [f"{name}: {address}" for name, address in study_addresses(uri, page).items()]
    return [*studies, f"all of MLflow: {page}#/{MODE}"]


def study_addresses(uri: str, page: str) -> dict[str, str]:
    """Returns the address of every study in MLflow's page at `page`, by name of the study, the
    latest first.

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
        experiment.name: f"{page}{list_address(experiment.experiment_id)}"
        for experiment in found
        if STUDY_TAG in experiment.tags
    }


def _start(uri: str, port: int, key: Key, output: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "mlflow", "server", "--workers", "1"]
    # Not on the command line, where every user of the machine could read a password in it.
    secrets = {"MLFLOW_BACKEND_STORE_URI": uri, KEY_VARIABLE: key.secret}
    return subprocess.Popen(
        [*command, "--app-name", "fathom", "--host", HOST, "--port", str(port), *PATIENCE],
        env=os.environ | SERVER_SETTINGS | secrets,
        stdout=output,
        stderr=subprocess.STDOUT,
        # A group of its own, so that all its processes end together.
        start_new_session=True,
    )


def _await_ready(server: subprocess.Popen[bytes], port: int, output: IO[bytes]) -> None:
    while server.poll() is None:
        connection = HTTPConnection(HOST, port, timeout=5)
        with closing(connection), suppress(OSError, HTTPException):
            connection.request("GET", "/health")
            connection.getresponse()  # any answer: it has no key to show
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


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise TrackingError(
                f"`fathom ui` needs a free port, got {HOST}:{port} ({error.strerror}); "
                "choose another with --port"
            ) from None


class ShortPatience(H11Protocol):
    """A connection that is closed if it sends no request in time."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts to wait for a request."""
        super().connection_made(cast(asyncio.Transport, transport))
        self.since = self.loop.time()
        self._end = self.loop.call_later(REQUEST_SECONDS, self._close_idle, None)
        others = [cast(ShortPatience, each) for each in self.connections]
        if len(others) > MOST_CONNECTIONS and (idle := [each for each in others if each.is_idle]):
            min(idle, key=lambda each: each.since).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops waiting for a request."""
        self._end.cancel()
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        """True while the head of a request is missing."""
        return self.conn.their_state is h11.IDLE

    def _close_idle(self, before: object) -> None:
        """Closes the connection if it has begun no request after the one `before`."""
        if self.is_idle and self.cycle is before:
            self.transport.abort()
            return
        self._end = self.loop.call_later(REQUEST_SECONDS, self._close_idle, self.cycle)
