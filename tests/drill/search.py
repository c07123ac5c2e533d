"""A search on the cluster: its command on the head, and its run folder, which all hosts share."""

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fathom.search.json_lines import read_lines
from fathom.search.records import TrialRecord
from fathom.search.run_folder import RunFolder, read_records
from tests.drill.cluster import Cluster
from tests.drill.hosts import FOLDER

STUDY = Path(__file__).with_name("study.yaml")
TRIALS = 12
"""Trials of the study: six depths explored, three of them confirmed with two seeds."""
LIMIT_SECONDS = 1200.0


@dataclass(slots=True)
class Search:
    """A study of the drill, under a name of its own."""

    cluster: Cluster
    name: str
    _command: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    @property
    def study(self) -> str:
        """Name of the study in its file, in MLflow, and as a folder."""
        return f"drill-{self.name}"

    @property
    def folder(self) -> RunFolder:
        """Run folder, seen from outside."""
        return RunFolder(FOLDER / "runs" / self.study)

    @property
    def log(self) -> Path:
        """File with the output of its command."""
        return FOLDER / f"{self.study}.log"

    @property
    def ended(self) -> list[TrialRecord]:
        """Trials that have ended."""
        return read_records(self.folder.records)

    @property
    def under_way(self) -> set[str]:
        """Trials that have begun and not ended."""
        started = {
            line["trial"] for line in read_lines(self.folder.journal) if line["event"] == "started"
        }
        return started - {record.spec.trial for record in self.ended}

    def start(self) -> None:
        """Run the user's command, to start or to resume."""
        file = f"{self.study}.yaml"
        text = STUDY.read_text(encoding="utf-8").replace("study: drill", f"study: {self.study}")
        (self.cluster.head.home / "fathom" / file).write_text(text, encoding="utf-8")
        command = f"cd fathom && fathom run {file}"
        self._command = self.cluster.execute(command, self.log)

    def wait_for(self, what: Callable[[], bool]) -> None:
        """Wait until the condition `what` holds.

        Raises:
            RuntimeError: when the command ends before, or it takes too long.
        """
        end = time.monotonic() + LIMIT_SECONDS
        while not what():
            if self._command is not None and self._command.poll() is not None:
                raise RuntimeError(f"the search ended too early:\n{self.last_words()}")
            if time.monotonic() > end:
                raise RuntimeError(f"not there after {LIMIT_SECONDS:g} s:\n{self.last_words()}")
            time.sleep(0.5)

    def finish(self) -> int | None:
        """The exit status of the command once it ends; None when it had to be ended."""
        assert self._command is not None
        try:
            return self._command.wait(LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def kill(self) -> None:
        """kill -9 of the driver."""
        self.cluster.head.run("pkill -9 -f '^[^ ]*python[^ ]* [^ ]*/fathom run'")
        self.hang_up()

    def hang_up(self) -> None:
        """Wait until the connection notices that its other end is gone, or end it."""
        if self._command is not None:
            try:
                self._command.wait(30)  # the connection ends with its command
            except subprocess.TimeoutExpired:
                self._command.kill()
                self._command.wait()

    def last_words(self) -> str:
        """The end of what it printed."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-12:])
