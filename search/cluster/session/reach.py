"""Asks whether the head of a Ray cluster answers at an address; Ray itself would wait minutes for
it. Takes a tenth of a second to import."""

import asyncio
import logging
import time
from typing import Any

import grpc
from ray._private.grpc_utils import init_grpc_channel
from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc

from fathom.search.cluster.session.address import is_reachable

log = logging.getLogger(__name__)

SIGN_SECONDS = 12.0
"""Most seconds to wait for the first sign of a head, counted from before the connection."""
ANSWER_SECONDS = 600.0
"""Most seconds to wait for the answer of a head that has given a sign."""


class RefusedError(ConnectionError):
    """A head of Ray answers and refuses this process."""


class NoHeadError(ConnectionError):
    """No head of Ray answers at an address."""


class NobodyError(NoHeadError):
    """Nothing listens at an address."""


def wait_for_head(address: str) -> None:
    """Waits until a head of Ray answers at an address, however slowly.

    Raises:
        RefusedError: when the head refuses the token of this process, or its lack of one.
        NobodyError: when nothing listens there.
        NoHeadError: when what listens is no head, or gives no sign of one.
    """
    deadline = time.monotonic() + SIGN_SECONDS
    if not is_reachable(address):
        raise NobodyError("nobody answers there")
    if "://" in address or ":" not in address:
        return  # of Ray's client, or a word: Ray says what is wrong with it
    try:
        asyncio.run(_wait(address, deadline))
    except grpc.RpcError as error:
        code = error.code()
        if code in {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}:
            raise RefusedError(error.details()) from None
        if code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNIMPLEMENTED}:
            raise NoHeadError("the program there is not a head of Ray") from None
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            raise NoHeadError(f"no answer came in {ANSWER_SECONDS:.0f} s") from None


async def _wait(address: str, deadline: float) -> None:
    """Waits for the answer to a harmless question: the id of the cluster."""
    messages: Any = gcs_service_pb2
    async with init_grpc_channel(address, asynchronous=True) as channel:
        node_info = gcs_service_pb2_grpc.NodeInfoGcsServiceStub(channel)
        call: Any = node_info.GetClusterId(messages.GetClusterIdRequest(), timeout=ANSWER_SECONDS)
        answer = asyncio.ensure_future(call)
        await asyncio.wait([answer], timeout=max(0.0, deadline - time.monotonic()))
        if not answer.done():
            if channel.get_state() is not grpc.ChannelConnectivity.READY:
                raise NoHeadError(f"no head of Ray answered there in {SIGN_SECONDS:.0f} s")
            log.warning("The Ray cluster at %s answers slowly; waiting for it", address)
        await answer
