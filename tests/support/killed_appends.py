"""A search in this process that is killed at a line which it appends to one of its files."""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fathom.search.json_lines import append_line
from fathom.search.scheduling import scheduler
from fathom.search.scheduling.optuna import optuna_studies


class SearchKilled(BaseException):
    """The end of a search by a kill, which no handler of errors may see."""


@contextmanager
def killed_at(number: int, rng: random.Random) -> Iterator[None]:
    """Context in which a search is killed at the n-th line that it appends, to records, journal or
    Optuna's file; raises `SearchKilled` there.

    Of that line none, some or all bytes are written. Nothing waits for the disk, since a kill takes
    nothing that the system has.
    """
    left = number

    def append(path: Path, write: Callable[[], None]) -> None:
        nonlocal left
        before = path.stat().st_size if path.exists() else 0
        write()
        left -= 1
        if left == 0:
            after = path.stat().st_size
            os.truncate(path, rng.choice((before, rng.randint(before, after), after)))
            raise SearchKilled

    def append_own(path: Path, line: dict[str, Any], **options: bool) -> None:
        append(path, lambda: append_line(path, line, **options))

    class KilledFile(optuna_studies.UnsyncedFile):
        def append_logs(self, logs: list[dict[str, Any]]) -> None:
            append(self._place, lambda: super(KilledFile, self).append_logs(logs))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler, "append_line", append_own)
        patch.setattr(optuna_studies, "UnsyncedFile", KilledFile)
        patch.setattr(os, "fsync", lambda _: None)
        yield
