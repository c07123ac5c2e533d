"""The next step's data, read while the device works on the step before."""

from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class ReadAhead(Generic[T]):
    """Makes what a step needs in a thread of its own, and what the next one needs beforehand."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._next: tuple[Hashable, int, Future[T]] | None = None

    def take(self, key: Hashable, step: int, make: Callable[[int], T]) -> T:
        """The value of `make` for a step; that of the next step is begun meanwhile.

        The key names all but the step that `make` depends on.
        """
        if self._next is not None and self._next[:2] == (key, step):
            future = self._next[2]
        else:
            future = self._pool.submit(make, step)
        self._next = (key, step + 1, self._pool.submit(make, step + 1))
        return future.result()
