"""What Fathom replaces inside Ray Tune and Ray Train, for lack of public names; seen in 2.60."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ray.air.execution._internal.event_manager import RayEventManager
from ray.exceptions import OutOfMemoryError, RayActorError
from ray.train.v2._internal.callbacks.placement_group_callback import (
    PlacementGroupCleanerCallback as PlacementGroupCleanerCallback,
)

from fathom.search.cluster.ray_internals import replaced


class KilledForMemoryError(RayActorError):
    """The death of a worker whose node was running out of memory."""


@contextmanager
def memory_kills_as_deaths() -> Iterator[None]:
    """Context in which Tune takes a worker killed by the memory monitor for one that died.

    Tune would end the whole search otherwise: it expects a `RayActorError` only.
    """
    track = RayEventManager.track_future

    def translating(self: Any, future: Any, on_result: Any = None, on_error: Any = None) -> None:
        track(self, future, on_result, on_error and (lambda error: on_error(_translated(error))))

    with replaced(RayEventManager, "track_future", translating):
        yield


def _translated(error: Exception) -> Exception:
    if isinstance(error, OutOfMemoryError):
        return KilledForMemoryError(error_msg=str(error).partition("\n")[0])
    return error
