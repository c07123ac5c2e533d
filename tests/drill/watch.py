"""A run's checkpoints while it runs, and those from which trials resumed."""

import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from fathom.search.json_lines import read_lines
from fathom.search.run_folder import RunFolder

POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Restart:
    """A trial that resumed from a checkpoint."""

    trial: str
    step: int
    """Step of the checkpoint."""
    reached: int
    """Step of the last evaluation that it had reported before."""

    @property
    def repeated(self) -> int:
        """Steps trained once more, as far as the journal knows."""
        return max(0, self.reached - self.step)


class Watch:
    """A run's checkpoints: when they are written, and when a worker reads one.

    Linux updates a file's access time at the first read after a write (`relatime`), which shows
    that a worker read it; this class reads without updating it.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.steps: defaultdict[str, list[int]] = defaultdict(list)
        """Trial -> steps of its checkpoints, in the order in which they were written."""
        self.restarts: list[Restart] = []
        self._read: set[tuple[int, int]] = set()
        self._at: dict[tuple[int, int], int] = {}

    def look(self) -> None:
        """Record the checkpoints that were written or read since the last call."""
        for path in (self.folder.state / "checkpoints").glob("*.pt"):
            trial = path.name.partition(".")[0]
            try:
                found = path.stat()
                version = found.st_ino, found.st_mtime_ns
                if version not in self._at:
                    self._at[version] = _step(path)
                    self.steps[trial].append(self._at[version])
            except (OSError, RuntimeError, EOFError):
                continue  # replaced or removed meanwhile
            if found.st_atime_ns > found.st_ctime_ns and version not in self._read:
                self._read.add(version)
                self.restarts.append(Restart(trial, self._at[version], self._reached(trial)))

    def _reached(self, trial: str) -> int:
        journal = read_lines(self.folder.journal)
        reports = [line for line in journal if line["event"] == "report" and line["trial"] == trial]
        return max((point["step"] for line in reports for point in line["points"]), default=0)


@contextmanager
def watched(folder: RunFolder) -> Iterator[Watch]:
    """Context that watches a run's checkpoints from a thread of its own."""
    watch, over = Watch(folder), threading.Event()

    def keep_looking() -> None:
        while not over.wait(POLL_SECONDS):
            watch.look()

    aside = threading.Thread(target=keep_looking, daemon=True)
    aside.start()
    try:
        yield watch
    finally:
        over.set()
        aside.join()


def _step(path: Path) -> int:
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOATIME)) as file:
        points = torch.load(file, map_location="cpu", weights_only=True)["points"]
    step: int = points[-1]["step"]
    return step
