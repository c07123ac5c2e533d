"""A folder for a Ray cluster that only the test that starts it knows."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@contextmanager
def own_ray_folder() -> Iterator[Path]:
    """Ray keeps its files in a new folder meanwhile: a search that another test starts would join a
    cluster in the usual one, and end with it."""
    with (
        TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder,  # sockets: short path
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("RAY_TMPDIR", folder)
        yield Path(folder)
