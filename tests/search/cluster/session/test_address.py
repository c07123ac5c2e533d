"""Which cluster's address is believed: `search/cluster/session/address.py`."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fathom.search.cluster.session import address
from fathom.search.cluster.session.address import named_cluster

STRANGER = 65534
"""Number of another user, on most systems `nobody`."""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a `ray start` of this user."""
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    path = tmp_path / "ray" / "ray_current_cluster"
    path.parent.mkdir()
    path.write_text("192.0.2.1:6379\n")
    return path


@pytest.fixture
def listener() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def as_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets this process look like one of another user, who is not root."""
    mine = os.getuid()
    monkeypatch.setattr("os.getuid", lambda: STRANGER)
    if mine == 0:  # root is believed, so that files and sockets of root are not another's
        monkeypatch.setattr(address, "BELIEVED", set())


def test_the_file_of_an_own_ray_start_is_believed(file: Path) -> None:
    found = named_cluster()
    assert (found.address, found.source, found.doubt) == ("192.0.2.1:6379", str(file), "")


def test_a_file_of_another_user_is_not_believed(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_another(monkeypatch)
    found = named_cluster()
    assert found.address is None
    assert found.doubt.startswith("it belongs to ")


def test_a_file_that_everybody_can_write_to_is_not_believed(file: Path) -> None:
    file.chmod(0o666)
    assert named_cluster().doubt == "others can write to it"


def test_a_link_to_another_file_of_this_user_is_not_believed(file: Path, tmp_path: Path) -> None:
    file.rename(tmp_path / "other")
    file.symlink_to(tmp_path / "other")
    assert named_cluster().doubt == "it is a link"


def test_a_pipe_in_its_place_is_not_waited_for(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)
    assert "not a regular file" in named_cluster().doubt


def test_an_own_file_is_believed_as_long_as_nobody_else_listens_there(
    file: Path, listener: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `ray start` that is gone leaves its file, and its port to everybody."""
    file.write_text(listener)
    assert named_cluster().address == listener
    owner = address._listeners(listener)
    assert owner == {os.getuid()}
    monkeypatch.setattr(address, "_listeners", lambda _: {STRANGER})
    found = named_cluster()
    assert found.address is None
    assert f"the program at {listener}, which it names, belongs to" in found.doubt


def test_ray_address_is_believed_and_auto_means_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "192.0.2.2:6379")
    assert named_cluster().address == "192.0.2.2:6379"
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    assert named_cluster().address == "192.0.2.1:6379"
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert named_cluster().address is None
