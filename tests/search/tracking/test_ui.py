"""`fathom ui`: MLflow's page, served on this machine until it is ended."""

import signal
import socket
from pathlib import Path
from urllib.request import urlopen

import pytest

from fathom.search.study.store_uri import TrackingError
from fathom.search.tracking.ui import open_ui, terminated_as_interrupted
from tests.support.tracked import CONFIG, Place


def test_the_page_is_served_on_loopback_until_ended(place: Place) -> None:
    place.writer().write_study(CONFIG)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    said: list[str] = []

    def look_and_end(text: str) -> None:
        said.append(text)
        if len(said) == 1:
            with urlopen(f"http://127.0.0.1:{port}/", timeout=10) as page:
                assert b"MLflow" in page.read()
            signal.raise_signal(signal.SIGTERM)

    open_ui(place.uri, port=port, say=look_and_end)

    address = f"http://127.0.0.1:{port}/#/experiments/1/runs?workflowType=machine_learning"
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
            open_ui(place.uri, port=port)
    with pytest.raises(ValueError, match="run a study first"):
        open_ui(f"sqlite:///{tmp_path}/none.db")
