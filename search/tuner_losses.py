"""Workers that die under a trial, and what that means for it.

Ray could start them again by itself. Its Tune 2.60 fails a trial for good whose worker died idle,
though, before the trial came to it; and it ends the whole search when Ray's memory monitor has
killed a worker, since that error is none of the `RayActorError`s that it expects.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ray.air.execution._internal.event_manager import RayEventManager
from ray.exceptions import OutOfMemoryError, RayActorError

from search.records import Outcome

MAX_DEATHS = 4
"""Workers that a trial may lose, one after the other."""
NODE_DIED = "node has died"
"""In Ray's words for a worker that was lost with its node: that is nothing the trial has done."""


class KilledForMemoryError(RayActorError):
    """The death of a worker whose node was running out of memory."""


class Losses:
    """What the trials of a search have lost so far."""

    def __init__(self) -> None:
        self._deaths: Counter[str] = Counter()
        self.short_of_memory: set[str] = set()
        """Trials that go on with less."""

    def end_of(self, trial: str, error: BaseException) -> tuple[Outcome, str] | None:
        """How a trial ends by this loss, and why; None when another worker is to go on with it."""
        reason = str(error).strip().splitlines()[-1]
        if isinstance(error, KilledForMemoryError):
            if trial in self.short_of_memory:
                return Outcome.OUT_OF_MEMORY, f"its worker was killed twice: {reason}"
            self.short_of_memory.add(trial)
            return None
        self._deaths[trial] += NODE_DIED not in str(error)
        if self._deaths[trial] < MAX_DEATHS:
            return None
        return Outcome.FAILED, f"its worker died {MAX_DEATHS} times: {reason}"


@contextmanager
def memory_kills_as_deaths() -> Iterator[None]:
    """Let Tune take a worker that the memory monitor has killed for one that has died."""
    manager: Any = RayEventManager
    track = manager.track_future

    def translating(self: Any, future: Any, on_result: Any = None, on_error: Any = None) -> None:
        track(self, future, on_result, on_error and (lambda error: on_error(_translated(error))))

    manager.track_future = translating
    try:
        yield
    finally:
        manager.track_future = track


def _translated(error: Exception) -> Exception:
    if isinstance(error, OutOfMemoryError):
        return KilledForMemoryError(error_msg=str(error).partition("\n")[0])
    return error
