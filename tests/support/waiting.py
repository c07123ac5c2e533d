"""Waits for what another process brings about."""

import time
from collections.abc import Callable

LONGEST_SECONDS = 300.0
"""Longest wait: ten times what anything here takes on an idle machine."""


def wait_until(
    happened: Callable[[], object], otherwise: str = "in vain", seconds: float = LONGEST_SECONDS
) -> None:
    """Waits until something has happened, and fails with these words if it has not in time."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, f"{otherwise}, after {seconds:g} s"
        time.sleep(0.05)
