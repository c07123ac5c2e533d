"""`fathom ui`: MLflow's page, served on this machine until it is ended."""

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from fathom.search.study.store_uri import TrackingError
from fathom.search.tracking.stores.artifacts import strange_store
from fathom.search.tracking.stores.key import REFUSAL, Key
from fathom.search.tracking.web import ui
from fathom.search.tracking.web.ui import open_ui, terminated_as_interrupted
from tests.support.ports import free_port
from tests.support.tracked import CONFIG, Place


def status(address: str, headers: dict[str, str]) -> tuple[int, str]:
    """Status and text of an answer."""
    try:
        with urlopen(Request(address, headers=headers), timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_the_page_is_served_on_loopback_to_who_has_the_key_until_ended(place: Place) -> None:
    key = Key()
    place.writer().write_study(CONFIG)
    port = free_port()
    said: list[str] = []

    def look_and_end(text: str) -> None:
        said.append(text)
        if len(said) == 1:
            base = f"http://127.0.0.1:{port}"
            assert status(f"{base}/", {}) == (403, REFUSAL)
            assert status(f"{base}/{Key().secret}/", {}) == (403, REFUSAL)
            for change in ("ajax-api/3.0/mlflow/assistant/config", "api/2.0/mlflow/runs/delete"):
                assert status(f"{base}/{change}", {})[0] == 403, "anyone could run commands"
            entered, _ = status(f"{base}/{key.query}", {})
            assert entered == 200
            shown, page = status(f"{base}/{key.secret}/", {})
            assert shown == 200
            assert "MLflow" in page
            assert status(f"{base}/", {"Authorization": f"Bearer {key.secret}"})[0] == 200
            signal.raise_signal(signal.SIGTERM)

    open_ui(place.uri, key=key, port=port, say=look_and_end)

    assert strange_store(place.uri) == "", "the server changes no table"
    shown = "#/experiments/1/runs?workflowType=machine_learning"
    address = f"http://127.0.0.1:{port}/{key.query}{shown}"
    assert f"demo: {address}" in said[0]
    assert said[1:] == ["Stopped."]
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port))


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_and_signals_end_the_page_alike(end: signal.Signals) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), terminated_as_interrupted():
        signal.raise_signal(end)
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_page_names_a_taken_port(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(TrackingError, match=f"needs a free port, got 127.0.0.1:{port}"):
            open_ui(place.uri, key=Key(), port=port)


async def refuse(_scope: object, _receive: object, send: Callable[..., Awaitable[None]]) -> None:
    """An application that refuses everybody."""
    await send({"type": "http.response.start", "status": 403, "headers": []})
    await send({"type": "http.response.body", "body": REFUSAL.encode()})


async def closed_after(content: bytes) -> bytes:
    """The answer to what a client sends that then keeps its connection, until it is closed."""
    loop = asyncio.get_running_loop()
    config = Config(refuse, log_level="critical")
    server = await loop.create_server(
        lambda: ui.ShortPatience(config, ServerState(), {}), "127.0.0.1", 0
    )
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(content)
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        return answer


@pytest.mark.parametrize("after", [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"])
@pytest.mark.parametrize("half", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: 127"])
def test_half_a_request_has_an_end(
    monkeypatch: pytest.MonkeyPatch, after: bytes, half: bytes
) -> None:
    monkeypatch.setattr(ui, "REQUEST_SECONDS", 0.2)
    answer = asyncio.run(closed_after(after + half))
    assert answer.count(REFUSAL.encode()) == bool(after)
    assert b"cookie" not in answer.lower()


def test_of_too_many_connections_the_oldest_without_a_request_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ui, "MOST_CONNECTIONS", 3)
    state = ServerState()
    config = Config(refuse, log_level="critical")

    async def open_many() -> list[bool]:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: ui.ShortPatience(config, state, {}), "127.0.0.1", 0
        )
        async with server:
            place = server.sockets[0].getsockname()
            clients = [await asyncio.open_connection(*place) for _ in range(5)]
            for reader, _ in clients[:2]:
                with suppress(ConnectionError):
                    assert await asyncio.wait_for(reader.read(), 60) == b""
            for _, writer in clients:
                writer.close()
            return [reader.at_eof() for reader, _ in clients[2:]]

    assert not any(asyncio.run(open_many()))
