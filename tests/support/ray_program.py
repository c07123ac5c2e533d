"""The program `ray`, and a folder for the clusters that it starts."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

RAY = Path(sys.executable).with_name("ray")


@contextmanager
def ray_folder() -> Iterator[str]:
    """A new folder for RAY_TMPDIR; at the end all processes that have it there are killed."""
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # paths of sockets must be short
    try:
        yield folder
    finally:
        # `ray stop` would end every other Ray of this machine too.
        for process in psutil.process_iter(["environ"]):
            if (process.info["environ"] or {}).get("RAY_TMPDIR") == folder:
                process.kill()
        shutil.rmtree(folder)
