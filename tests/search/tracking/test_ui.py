"""`fathom ui`: MLflow's page, served on this machine until it is ended."""

import signal
import socket
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from fathom.search.study.store_uri import TrackingError
from fathom.search.tracking.key import REFUSAL, Key
from fathom.search.tracking.ui import open_ui, terminated_as_interrupted
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
            for change in ("ajax-api/3.0/mlflow/assistant/config", "api/2.0/mlflow/runs/delete"):
                assert status(f"{base}/{change}", {})[0] == 403, "anyone could run commands"
            entered, _ = status(f"{base}/{key.query}", {})
            assert entered == 200
            shown, page = status(f"{base}/", {"Cookie": key.cookie.partition(";")[0]})
            assert shown == 200
            assert "MLflow" in page
            assert status(f"{base}/", {"Authorization": f"Bearer {key.secret}"})[0] == 200
            signal.raise_signal(signal.SIGTERM)

    open_ui(place.uri, key=key, port=port, say=look_and_end)

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


def test_the_page_names_a_taken_port_and_a_missing_store(place: Place, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(TrackingError, match=f"needs a free port, got 127.0.0.1:{port}"):
            open_ui(place.uri, key=Key(), port=port)
    with pytest.raises(ValueError, match="run a study first"):
        open_ui(f"sqlite:///{tmp_path}/none.db", key=Key())
