import dataclasses
import gc
import gzip
import hashlib
import shutil
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fathom.objectives.files import fetching
from fathom.objectives.files.download import (
    CACHE_VARIABLE,
    MIRROR_VARIABLE,
    Download,
    cache_folder,
    mirror_folder,
    read_download,
)
from tests.support.objectives import refused

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
CONTENT = b"".join(b"line %d of a text worth resuming\n" % line for line in range(4000))


@dataclass
class Site:
    """A real server with one file, that can be told to misbehave."""

    content: bytes = CONTENT
    break_after: int | None = None
    """Bytes of the body after which the connection closes."""
    missing: bool = False
    asked: int = 0
    """Number of requests."""
    port: int = 0

    @property
    def published(self) -> Download:
        return Download(
            url=f"http://127.0.0.1:{self.port}/text",
            sha256=hashlib.sha256(CONTENT).hexdigest(),
            path="folder/text.txt",
        )


class Handler(BaseHTTPRequestHandler):
    def __init__(self, site: Site, *connection: object) -> None:
        self.site = site
        super().__init__(*connection)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self.site.asked += 1
        if self.site.missing:
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.site.content)))
        self.end_headers()
        self.wfile.write(self.site.content[: self.site.break_after])
        return None

    def log_message(self, *_: object) -> None:
        """Silent."""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    site = Site()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, site)) as server:
        site.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield site
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _no_sockets_left() -> Iterator[None]:
    """Closes what pooch leaves open where a download breaks off, before another test begins."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def _cache(_own_cache_and_no_mirror: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))


@pytest.fixture
def mirrored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file's path in a mirror that lacks it."""
    monkeypatch.setenv(MIRROR_VARIABLE, str(tmp_path / "mirror"))
    (tmp_path / "mirror" / "folder").mkdir(parents=True)
    return tmp_path / "mirror" / "folder" / "text.txt"


def written(file: Path, content: bytes) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)


def files_in(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def test_a_file_is_downloaded_once_and_then_read_from_the_cache(site: Site, tmp_path: Path) -> None:
    for _ in range(3):
        assert read_download(site.published) == CONTENT
    assert site.asked == 1
    assert files_in(tmp_path) == ["folder/text.txt"]
    assert (tmp_path / "folder" / "text.txt").stat().st_mode & 0o777 == 0o644


def test_a_download_that_breaks_off_leaves_nothing_and_is_one_line(
    site: Site, tmp_path: Path
) -> None:
    site.break_after = 50_000
    with refused("broken", "run again, or set FATHOM_MIRROR to a folder with folder/text.txt"):
        read_download(site.published)
    assert files_in(tmp_path) == []
    site.break_after = None
    assert read_download(site.published) == CONTENT


def test_a_server_that_does_not_answer_is_given_up(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"http://127.0.0.1:{silent.getsockname()[1]}/text"
        with refused(place, "timed out", "FATHOM_MIRROR"):
            read_download(dataclasses.replace(site.published, url=place))


def test_a_proxy_of_the_environment_is_used(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{site.port}")
    published = dataclasses.replace(site.published, url="http://published.invalid/text")
    assert read_download(published) == CONTENT


def test_a_missing_page_or_an_unwritable_cache_is_one_line(site: Site, tmp_path: Path) -> None:
    site.missing = True
    with refused("404 Client Error: Not Found"):
        read_download(site.published)
    shutil.rmtree(tmp_path / "folder", ignore_errors=True)
    (tmp_path / "folder").write_text("a file where the folder should be")
    with refused("folder"):
        read_download(site.published)


def test_a_wrong_checksum_leaves_no_file_and_names_both_sums(site: Site, tmp_path: Path) -> None:
    site.content = CONTENT.replace(b"line 7 ", b"line 8 ")
    sums = (site.published.sha256, hashlib.sha256(site.content).hexdigest())
    with refused(site.published.url, *sums, "FATHOM_MIRROR"):
        read_download(site.published)
    assert files_in(tmp_path) == []


def test_a_damaged_cached_file_is_refused_and_to_be_deleted(site: Site, tmp_path: Path) -> None:
    read_download(site.published)
    written(tmp_path / "folder" / "text.txt", CONTENT[:-1])
    with refused("text.txt must be", "; delete it"):
        read_download(site.published)


def test_without_a_network_the_line_says_why_and_what_to_do(site: Site) -> None:
    with refused("Connection refused", "set FATHOM_MIRROR to a folder with folder/text.txt"):
        read_download(dataclasses.replace(site.published, url="http://127.0.0.1:1/text"))


@pytest.mark.parametrize("gzipped", [False, True])
def test_mirrors_replace_networks(
    site: Site, tmp_path: Path, mirrored: Path, gzipped: bool
) -> None:
    file = mirrored.with_name("text.txt.gz" if gzipped else "text.txt")
    file.write_bytes(gzip.compress(CONTENT) if gzipped else CONTENT)
    assert read_download(site.published) == CONTENT
    assert site.asked == 0
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("other.txt", CONTENT, ("must hold folder/text.txt",)),
        ("text.txt", b"something else", ("sha256 of", "text.txt must be", "replace it")),
        ("text.txt.gz", b"\x1f\x8bno gzip at all", ("a whole .gz, ", "; replace")),
        ("text.txt.gz", gzip.compress(CONTENT, mtime=0)[:-200], ("a whole .gz, ", "; replace")),
    ],
)
def test_what_a_mirror_holds_is_checked_and_never_downloaded(
    site: Site, mirrored: Path, name: str, content: bytes, words: tuple[str, ...]
) -> None:
    mirrored.with_name(name).write_bytes(content)
    with refused(*words):
        read_download(site.published)
    assert site.asked == 0


def test_folders_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FATHOM_CACHE", "/somewhere")
    assert cache_folder() == Path("/somewhere")
    monkeypatch.setenv("FATHOM_CACHE", "")
    assert cache_folder() == Path.home() / ".cache" / "fathom"
    assert mirror_folder() is None
    monkeypatch.setenv("FATHOM_MIRROR", "~/mirror")
    assert mirror_folder() == Path.home() / "mirror"
