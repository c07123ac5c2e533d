"""`fathom ui`: the reports of a folder of runs, fresh while searches run."""

import fcntl
import shutil
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET, create_connection
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from fathom.search.commands import live_report
from fathom.search.commands.live_report import live_reports, serve
from fathom.search.run_folder import RunFolder
from fathom.search.study.file.study_file import dump
from fathom.search.study.store_uri import TrackingError
from fathom.search.tracking.stores.key import REFUSAL, Key
from tests.support.browser import browser
from tests.support.dry_run import Simulation, scheduler, study
from tests.support.reporting import visible
from tests.support.waiting import wait_until

KEY = Key()


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """The run folder of a search that was interrupted."""
    search = scheduler(study(), tmp_path / "runs" / "one")
    Simulation(search).run(events=60)
    folder = search.folder
    folder.state.mkdir(exist_ok=True)
    folder.config.write_text(dump(search.config))
    return folder


@pytest.fixture
def address(run: RunFolder) -> Iterator[str]:
    """Where its report is served, without the key."""
    page = "http://127.0.0.1:5000/#/experiments/1"
    folder = run.path.parent
    with live_reports(folder, port=0, key=KEY, study_page=lambda _: page) as served:
        yield f"{served.removesuffix(KEY.query)}{KEY.secret}/"


def read(address: str) -> str:
    with urlopen(address, timeout=60) as answer:
        return str(answer.read().decode())


def test_no_page_is_offered_before_there_are_runs(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(TrackingError, match="run a study first, or use --runs"):
        serve(tmp_path, f"sqlite:///{tmp_path}/mlflow.db", port=0, trust=False, say=said.append)
    assert not said


def test_the_report_is_served_with_a_link_to_its_study(address: str) -> None:
    page = read(address)

    assert "The search is not running." in visible(page)
    assert 'href="http://127.0.0.1:5000/#/experiments/1"' in page
    assert "connect-src 'self'" in page
    assert "default-src 'none'" in page


def test_the_report_follows_the_records_and_says_that_the_search_runs(
    address: str, run: RunFolder
) -> None:
    place = f"{address}{run.path.name}/"
    before, page = read(f"{place}stamp"), read(place)
    assert f'data-stamp="{before}"' in page
    assert read(f"{place}stamp") == before, "nothing has changed"

    lines = run.records.read_text().splitlines(keepends=True)
    run.records.write_text("".join(lines[:-1]))
    with (run.state / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert read(f"{place}stamp") != before
        assert f"The search is running: {len(lines) - 1} trials ended" in visible(read(place))
    assert "The search is running" not in visible(read(place))


def status_of(host: str, path: str, name: str) -> tuple[int, int]:
    """Status and number of further lines of the answer to a request for a host of this name."""
    with closing(HTTPConnection(host, timeout=60)) as connection:
        connection.request("GET", f"/{KEY.secret}{path}", headers={"Host": name})
        answer = connection.getresponse()
        return answer.status, answer.read().count(b"\n")


def test_only_runs_are_served_and_only_to_this_machine(address: str, run: RunFolder) -> None:
    host = urlsplit(address).netloc
    name_of_run = run.path.name
    for path, name in (
        (f"/../{name_of_run}/", host),
        (f"/{name_of_run}/config.yaml/", host),
        ("/%2e%2e/", host),
        (f"/{name_of_run}/", "elsewhere.example:5001"),
    ):
        assert status_of(host, path, name) == (404, 0), path
    run.records.write_text("{}\n")
    assert status_of(host, f"/{name_of_run}/", host) == (500, 0), "a damaged run is a line"
    assert read(f"{address}{name_of_run}/stamp")
    shutil.copytree(run.path, run.path.with_name("second"))
    (run.path / "best.yaml").write_text(
        "best: [{budget: 20000, optimal_depth: 2, verdict: plateau}]\nstudy: {study: one}\n"
    )
    (run.path / "card.png").write_bytes(b"\x89PNG")
    listed = read(address)
    words = visible(listed)
    assert listed.count("<article") == 2, "several runs are listed"
    assert words.count("The search is not running.") == 1
    assert words.count("The search has ended.") == 1
    assert "20k: depth 2 plateau" in words
    assert "No answer yet." in words
    assert listed.count("data:image/png;base64,iVBORw==") == 1


@pytest.mark.parametrize(
    "shown", [{}, {"Cookie": f"fathom-key={Key().secret}"}, {"Authorization": "Bearer \xe9"}]
)
def test_a_report_is_shown_to_nobody_without_the_key(address: str, shown: dict[str, str]) -> None:
    front = address.removesuffix(f"{KEY.secret}/")
    other = Key()
    for place in ("", "one/", "one/stamp", "nothing/", other.query, other.secret, KEY.secret):
        with pytest.raises(HTTPError, match="403") as refused:
            urlopen(Request(f"{front}{place}", headers=shown), timeout=60)
        assert REFUSAL in refused.value.read().decode()
        refused.value.close()


def test_half_requests_hold_few_threads_and_hinder_nobody(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_report, "REQUEST_SECONDS", 0.5)
    place = urlsplit(address)
    before = threading.active_count()
    halves = [create_connection((place.hostname, place.port), 60) for _ in range(200)]
    for half in halves:
        half.sendall(b"GET / HT")
    assert threading.active_count() <= before + live_report.MOST_CONNECTIONS
    assert visible(read(address))
    for half in halves:
        with suppress(ConnectionError):
            assert half.recv(1) == b""
        half.close()
    wait_until(lambda: threading.active_count() <= before)


def test_a_browser_that_is_gone_is_passed_over(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = urlsplit(address)
    with create_connection((place.hostname, place.port), 60) as gone:
        gone.sendall(f"GET {place.path}one/ HTTP/1.0\r\nHost: {place.netloc}\r\n\r\n".encode())
        gone.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    assert visible(read(address))
    assert capsys.readouterr().err == ""


def test_the_key_is_in_no_header_that_a_browser_keeps(address: str) -> None:
    entrance = address.removesuffix(f"{KEY.secret}/") + KEY.query
    for place in (entrance, address, f"{address}one/"):
        with urlopen(place, timeout=60) as answer:
            assert KEY.secret not in str(answer.headers)
            assert answer.headers["Referrer-Policy"] == "same-origin"


@pytest.mark.drill
@pytest.mark.siege
@pytest.mark.browser
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_page_on_another_port_gets_nothing_of_the_key(
    address: str, tmp_path: Path, host: str
) -> None:
    received: list[str] = []

    class Listener(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.append(f"{self.path} {self.headers}")
            self.send_response(200)
            self.end_headers()
            place = urlsplit(address)._replace(path="/one/stamp").geturl()
            asked = f"fetch('{place}', {{credentials: 'include', mode: 'no-cors'}})"
            self.wfile.write(f"<title>there</title><script>{asked}</script>".encode())

    with ThreadingHTTPServer(("127.0.0.1", 0), Listener) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        theirs = f"http://{host}:{other.server_port}/"
        with browser(tmp_path / "profile") as chromium:
            chromium.open(f"{address.removesuffix(f'{KEY.secret}/')}{KEY.query}")
            chromium.wait_for("document.querySelector('.live')?.dataset.stamp")
            chromium.ask(f"location.href = '{theirs}followed'")
            chromium.wait_for("document.title === 'there'")
            chromium.open(f"{theirs}typed")
            chromium.wait_for("document.title === 'there' && location.pathname === '/typed'")
        other.shutdown()
        thread.join()
    assert {"/followed", "/typed"} <= {each.partition(" ")[0] for each in received}
    assert not [each for each in received if KEY.secret in each or "ookie" in each]


@pytest.mark.drill
@pytest.mark.browser
def test_an_open_page_follows_the_search_and_keeps_what_was_unfolded(
    address: str, run: RunFolder, tmp_path: Path
) -> None:
    lines = run.records.read_text().splitlines(keepends=True)
    run.records.write_text("".join(lines[: len(lines) // 2]))
    with browser(tmp_path / "profile") as chromium:
        chromium.open(f"{address.removesuffix(f'{KEY.secret}/')}{KEY.query}")
        stamp = "document.querySelector('.live')?.dataset.stamp"
        before = chromium.wait_for(stamp)
        chromium.ask("document.querySelector('details.budget').open = true")

        run.records.write_text("".join(lines))

        chromium.wait_for(f"({stamp} ?? {before!r}) !== {before!r}")
        assert chromium.wait_for("!!document.querySelector('details.budget[open]')")
        assert chromium.errors == []
