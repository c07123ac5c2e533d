"""Serves the reports of all runs in a folder, on this machine alone, and up to date while searches
run."""

import sys
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import SHUT_RDWR, socket
from typing import Any
from urllib.parse import quote, unquote

from fathom.objectives.files.reading import open_regular
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.conclusion.conclude import Conclusion, conclude_run
from fathom.search.export.best import kept_answers
from fathom.search.report.pages.card import PICTURE
from fathom.search.report.pages.page import ListedRun, Live, index_page, page
from fathom.search.report.pages.writer import make_charts
from fathom.search.report.words.latency import kept_latency
from fathom.search.report.words.text import counted
from fathom.search.run_folder import RunFolder, is_in_use
from fathom.search.scheduling.journal import read_run
from fathom.search.study.runs import runs_of
from fathom.search.study.store_uri import TrackingError, is_server, sqlite_path
from fathom.search.tracking.stores.artifacts import strange_store
from fathom.search.tracking.stores.key import REFUSAL, UNSEEN, Key
from fathom.search.tracking.web.ui import (
    HOST,
    open_ui,
    page_address,
    study_addresses,
    terminated_as_interrupted,
)
from fathom.search.tracking.writing.publishing import study_result

REQUEST_SECONDS = 10.0
"""Seconds within which a browser must have sent its request, and also read the answer."""
MOST_CONNECTIONS = 64
"""Most browsers at a time; for a further one, the browser that has waited longest for its request
is dropped."""
MOST_PICTURE_BYTES = 1_000_000
"""Most bytes of a run's picture on the page of all runs; the picture of a card has some 130 kB."""
StudyPage = Callable[[str], str]
"""Function that returns the address of a study in MLflow; empty if the study is not there."""


def serve(
    runs: Path, uri: str, *, port: int, trust: bool, say: Callable[[str], None] = print
) -> None:
    """Serves the reports and MLflow's page until Ctrl-C, SIGTERM or SIGHUP, and passes their
    addresses to `say`; without `trust`, a store of MLflow has a page only if it was made here.

    Raises:
        TrackingError: when there are no runs yet, or MLflow's page can't be served.
    """
    path = sqlite_path(uri)
    if path and not path.exists():
        raise TrackingError(f"`fathom ui` has no runs at {path}; run a study first, or use --runs")
    key, strange = Key(), "" if trust else strange_store(uri)
    page = page_address(uri, port, key)

    def study_page(study: str) -> str:
        with suppress(TrackingError):
            if strange:
                return ""
            return study_addresses(uri, page).get(study, "")
        return ""

    with live_reports(runs, port=port + 1, key=key, study_page=study_page) as address:
        if strange:
            say(f"reports: {address}\nMLflow's page is not served: {strange}")
        else:
            say(f"reports: {address}\nMLflow's pages take some seconds to start")
            open_ui(uri, key=key, port=port, say=say)
        if strange or is_server(uri):
            with terminated_as_interrupted(), suppress(KeyboardInterrupt):
                threading.Event().wait()


@contextmanager
def live_reports(runs: Path, *, port: int, key: Key, study_page: StudyPage) -> Iterator[str]:
    """Serves the reports in a thread; yields their address, at any free port if `port` is taken."""
    handler = partial(_Handler, _Reports(runs, study_page), key)
    try:
        server = _Server((HOST, port), handler)
    except (OSError, OverflowError):
        server = _Server((HOST, 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}/{key.query}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class _Reports:
    """The pages of the runs in a folder; a page is kept until its run changes."""

    runs: Path
    study_page: StudyPage

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._pages: dict[str, tuple[str, str]] = {}

    def names(self) -> list[str]:
        """Names of the run folders, those of single horizons included, the last changed first."""
        return list(self._paths())

    def _paths(self) -> dict[str, Path]:
        """Name -> path of each run folder, the last changed first."""
        several = (self.runs.glob("*"), self.runs.glob("*/*"))
        configs = (RunFolder(path).config for paths in several for path in paths)
        found = [config for config in configs if config.is_file()]
        found.sort(key=lambda config: config.stat().st_mtime, reverse=True)
        return {config.parent.name: config.parent for config in found}

    def stamp(self, name: str) -> str:
        """A text that changes whenever the report of a run would change."""
        return self._stamp(self._paths()[name])

    def _stamp(self, path: Path) -> str:
        folder = RunFolder(path)
        if parts := [each for each in path.glob("*/config.yaml") if each.is_file()]:
            return "-".join(self._stamp(part.parent) for part in sorted(parts))
        paths = (folder.records, folder.config, folder.latency)
        files = [path.stat() for path in paths if path.exists()]
        written = [f"{file.st_size}.{file.st_mtime_ns}" for file in files]
        return "-".join([*written, "running" if is_in_use(folder) else "ended"])

    def page(self, name: str) -> str:
        """The report of a run, made from its present files."""
        with self._lock:
            stamp = self.stamp(name)
            if self._pages.get(name, ("", ""))[0] != stamp:
                self._pages[name] = stamp, self._page(name, stamp)
            return self._pages[name][1]

    def index(self) -> str:
        """The page of all runs, each with its state, and with answers and picture from its last
        report."""
        return index_page([_listed(name, RunFolder(path)) for name, path in self._paths().items()])

    def _page(self, name: str, stamp: str) -> str:
        path = self._paths()[name]
        run, *others = runs_of(path)
        if others:
            return study_result(path).page("../{}/")
        folder, config = run.folder, run.config
        running = is_in_use(folder)
        past = read_run(folder, config)
        conclusion = conclude_run(folder, config, past)
        state = "The search is not running." if conclusion.unfinished else "The search has ended."
        if running:
            conclusion = _under_way(conclusion)
            training = counted(len(past.running.records), "trial")
            ended = counted(len(conclusion.records), "trial")
            state = f"The search is running: {ended} ended, {training} training."
        live = Live(stamp=stamp, state=state, study_page=self.study_page(config.study))
        latencies = kept_latency(conclusion, folder)
        return page(conclusion, make_charts(conclusion, latencies), live, latencies)


def _listed(name: str, folder: RunFolder) -> ListedRun:
    picture = b""
    with suppress(OSError), open_regular(folder.path / PICTURE) as file:
        picture = file.read(MOST_PICTURE_BYTES)
    answers = kept_answers(folder.best)
    open_yet = not answers or any(kind == Kind.UNFINISHED for *_, kind in answers)
    state = "is running" if is_in_use(folder) else "is not running" if open_yet else "has ended"
    return ListedRun(
        name=name,
        state=f"The search {state}.",
        answers=answers,
        picture=b64encode(picture).decode(),
    )


def _under_way(conclusion: Conclusion) -> Conclusion:
    """The conclusion of a search that still runs, without the advice to resume it."""
    optima = tuple(
        replace(optimum, verdict=replace(optimum.verdict, remedy=None))
        if optimum.budget in conclusion.unfinished
        else optimum
        for optimum in conclusion.optima
    )
    return replace(conclusion, optima=optima, unfinished=())


class _Server(ThreadingHTTPServer):
    """Serves a limited number of browsers at a time, and drops any that sends or reads too
    slowly."""

    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, *args: Any) -> None:
        self.waiting = dict[socket, float]()
        """Connections whose request has not arrived yet, each with the time since when it has been
        awaited."""
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answers a request in a new thread; if no thread is free, first ends the connection that
        has waited longest for its request."""
        if not self._free.acquire(blocking=False):
            self._end(next(iter(self.waiting), request))
            if not self._free.acquire(timeout=1):
                self.shutdown_request(request)
                return
        request.settimeout(REQUEST_SECONDS)
        self.waiting[request] = time.monotonic()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answers a request, in the thread that was started for it."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.waiting.pop(request, None)
            self._free.release()

    def service_actions(self) -> None:
        """Ends connections whose request is overdue; called twice a second."""
        begun = time.monotonic() - REQUEST_SECONDS
        for request in [request for request, since in [*self.waiting.items()] if since < begun]:
            self._end(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores the error of a browser that has gone away."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def _end(self, request: socket) -> None:
        self.waiting.pop(request, None)
        with suppress(OSError):
            request.shutdown(SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """Answers requests of a browser on this machine: for the list of runs, a report, or a report's
    stamp."""

    server: _Server

    def __init__(self, reports: _Reports, key: Key, *args: Any) -> None:
        self.reports, self.key = reports, key  # first: the base class answers the request at once
        super().__init__(*args)

    def do_GET(self) -> None:
        """Answers a request, if it has the key."""
        self.server.waiting.pop(self.connection, None)
        path, _, query = self.path.partition("?")
        behind = self.key.path_behind(path)
        if behind is not None:
            self._show(behind)
        elif self.key.is_in(query):
            self._send(200, self.key.entrance)
        else:
            self._send(403, REFUSAL)

    def _show(self, path: str) -> None:
        host = self.headers.get("Host", "").rpartition(":")[0]
        name, _, rest = unquote(path).strip("/").partition("/")
        names = self.reports.names()
        # Another host's name would be a page elsewhere that points at this machine.
        if host not in (HOST, "localhost") or (name and name not in names):
            self._send(404, "there is no such run")
        elif not name and len(names) != 1:
            self._send(200, self.reports.index())
        elif not name or not (rest or path.endswith("/")):
            self._redirect(f"/{self.key.secret}/{quote(name or names[0])}/")
        elif rest not in ("", "stamp"):
            self._send(404, "only the report of a run is served here")
        else:
            content = self.reports.stamp if rest == "stamp" else self.reports.page
            try:
                self._send(200, content(name))
            except (ValueError, OSError) as error:
                self._send(500, escape(str(error)))

    def _send(self, status: int, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        for name, value in UNSEEN.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _redirect(self, place: str) -> None:
        self.send_response(302)
        self.send_header("Location", place)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing, so that the terminal keeps showing the addresses."""
