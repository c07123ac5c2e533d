"""Parts of Ray Tune and Ray Train that Fathom replaces, for lack of public names; seen in 2.60."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ray.air.execution._internal.event_manager import RayEventManager
from ray.exceptions import OutOfMemoryError, RayActorError
from ray.train.v2._internal.callbacks.placement_group_callback import (
    PlacementGroupCleanerCallback as PlacementGroupCleanerCallback,
)
from ray.tune import TuneError
from ray.tune.experiment import Trial

from fathom.search.cluster.ray_internals import replaced


class KilledForMemoryError(RayActorError):
    """The death of a worker whose node was running out of memory."""


@contextmanager
def memory_kills_as_deaths() -> Iterator[None]:
    """Context in which Tune treats a worker killed by Ray's memory monitor like one that died.

    Otherwise Tune, which only expects a `RayActorError`, would end the whole search.
    """
    track = RayEventManager.track_future

    def translating(self: Any, future: Any, on_result: Any = None, on_error: Any = None) -> None:
        track(self, future, on_result, on_error and (lambda error: on_error(_translated(error))))

    with replaced(RayEventManager, "track_future", translating):
        yield


@contextmanager
def errors_kept_in_memory() -> Iterator[None]:
    """Context in which Tune keeps the errors of trials only in memory, where `error_of` finds them,
    and in no file.

    Other users of the machine may be able to write in Tune's folder: they could make this process
    write to a link of theirs, or unpickle a file of theirs.
    """

    def keep(self: Any, exc: BaseException | None = None) -> None:
        self.temporary_state.fathom_error = exc
        self.run_metadata.num_failures += 1  # more than none, so that Tune restarts no trial
        self.run_metadata.invalidate_cache()

    with replaced(Trial, "handle_error", keep):
        yield


def error_of(trial: Trial) -> BaseException:
    """Returns the last error of a trial, as kept by `errors_kept_in_memory`."""
    error: BaseException | None = getattr(trial.temporary_state, "fathom_error", None)
    return error or TuneError("unknown")


def _translated(error: Exception) -> Exception:
    if isinstance(error, OutOfMemoryError):
        return KilledForMemoryError(error_msg=str(error).partition("\n")[0])
    return error
