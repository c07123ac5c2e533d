"""Whether a head of Ray answers, or something else: `search/cluster/session/reach.py`."""

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import grpc
import psutil
import pytest
from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc

from fathom.search.cluster.session import reach
from fathom.search.cluster.session.ray_session import NotJoinedError, join_cluster
from tests.support.waiting import wait_until


class Head(gcs_service_pb2_grpc.NodeInfoGcsServiceServicer):
    """A head that answers once it is told to, or refuses all."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.answers, self._refuses = threading.Event(), refuses

    def GetClusterId(self, request: object, context: grpc.ServicerContext) -> object:
        if self._refuses:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "InvalidAuthToken: it is missing")
        self.answers.wait(60)
        messages: Any = gcs_service_pb2
        return messages.GetClusterIdReply()


@contextmanager
def served(head: Head | None) -> Iterator[str]:
    """The address of a gRPC server, which without a head knows no question."""
    server = grpc.server(ThreadPoolExecutor(2))
    if head:
        gcs_service_pb2_grpc.add_NodeInfoGcsServiceServicer_to_server(head, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@contextmanager
def listener(answer: bytes) -> Iterator[str]:
    """The address of a server that sends these bytes, or nothing, to whoever connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept = list[socket.socket]()

        def serve() -> None:
            with suppress(OSError):  # the end of the test
                while True:
                    kept.append(server.accept()[0])
                    if answer:
                        kept[-1].sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for connection in kept:
            connection.close()


def test_a_head_that_answers_is_one() -> None:
    head = Head()
    head.answers.set()
    with served(head) as address:
        reach.wait_for_head(address)


def test_a_head_that_answers_slowly_is_waited_for_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reach, "SIGN_SECONDS", 1.0)
    head = Head()
    with served(head) as address:
        threading.Timer(3.0, head.answers.set).start()
        reach.wait_for_head(address)
    assert caplog.messages == [f"The Ray cluster at {address} answers slowly; waiting for it"]


def test_a_refused_token_is_said_at_once() -> None:
    head = Head(refuses=True)
    with served(head) as address, pytest.raises(reach.RefusedError, match="InvalidAuthToken"):
        reach.wait_for_head(address)


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (lambda: listener(b""), "no head of Ray answered there in 1 s"),
        (lambda: listener(b"HTTP/1.1 200 OK\r\n\r\n"), "the program there is not a head of Ray"),
        (lambda: served(None), "the program there is not a head of Ray"),
    ],
    ids=["silent", "of HTTP", "of gRPC"],
)
def test_what_is_no_head_is_refused(
    place: Callable[[], AbstractContextManager[str]], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reach, "SIGN_SECONDS", 1.0)
    with place() as address, pytest.raises(reach.NoHeadError, match=reason):
        reach.wait_for_head(address)


def test_the_connection_ends_with_the_answer() -> None:
    head = Head()
    head.answers.set()

    def connected() -> bool:
        connections = psutil.Process().net_connections("tcp")
        return any(
            c.raddr and c.raddr.port == port and c.status == "ESTABLISHED" for c in connections
        )

    with served(head) as address:
        port = int(address.rpartition(":")[2])
        reach.wait_for_head(address)
        wait_until(lambda: not connected(), "the connection stayed", 30)


def test_a_listener_that_does_not_answer_ends_joining_with_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reach, "SIGN_SECONDS", 1.0)
    with listener(b"") as address:
        monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(NotJoinedError) as refused:
            join_cluster()
    (line,) = str(refused.value).splitlines()
    assert line == (
        f"the Ray cluster at {address}, from RAY_ADDRESS, can't be joined: no head of Ray "
        "answered there in 1 s; start it (`ray up`, `ray start`), or set RAY_ADDRESS=local to use "
        "this machine alone"
    )
