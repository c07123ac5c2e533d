"""`fathom run` in a process of its own, which a test interrupts or kills."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from fathom.search.run_folder import RunFolder
from tests.support.places import ROOT
from tests.support.waiting import LONGEST_SECONDS, wait_until

COMMAND = ("run", "study.yaml", "--runs", "runs")


class SearchProcess:
    """`fathom run study.yaml --runs runs` in a folder that has the study."""

    def __init__(self, place: Path, study: str) -> None:
        """`study` is the name of the study."""
        self.folder = RunFolder(place / "runs" / study)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fathom", *COMMAND],
            cwd=place,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a group of its own, to which a terminal's Ctrl-C would go
        )
        self.children: list[psutil.Process] = []

    def wait_until(self, happened: Callable[[], object]) -> None:
        """Waits until something has happened while the search goes on."""

        def goes_on() -> bool:
            assert self.process.poll() is None, f"it ended before: {self.process.communicate()}"
            return bool(happened())

        wait_until(goes_on, "the search did not come so far")
        self.children = psutil.Process(self.process.pid).children(recursive=True)

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to the search and all processes that it had at the last wait."""
        self.process.send_signal(number)
        for child in self.children:
            with suppress(psutil.NoSuchProcess):
                child.send_signal(number)

    def send_interrupt(self) -> None:
        """Ctrl-C, which every process of the group gets."""
        os.killpg(self.process.pid, signal.SIGINT)

    def wait_until_ending(self) -> None:
        """Waits until the search has heard that it is to end, or has ended."""
        wait_until(
            lambda: self.folder.ending.exists() or self.process.poll() is not None,
            "the search did not hear that it is to end",
        )

    def end(self) -> tuple[int, str, str]:
        """Waits for the end; returns exit status, output and errors."""
        try:
            out, err = self.process.communicate(timeout=LONGEST_SECONDS)
        finally:
            self.process.kill()
        return self.process.returncode, out, err

    def finish(self) -> None:
        """Waits for the end of a search that nothing disturbs."""
        status, out, err = self.end()
        assert status == 0, out + err
        assert "Traceback" not in out + err
