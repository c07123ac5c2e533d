"""Starts the process that mirrors a run folder into MLflow, and sends it the answers.

That process is `follower.py`. It reads the files that the search writes anyway, so it costs the
search nothing. Whatever happens to the process, the search goes on, and missing entries are written
when the study is next run or reported.
"""

import logging
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Self

from fathom.search.conclusion.conclude import Conclusion
from fathom.search.formatting import shell_command
from fathom.search.records import TrialRecord
from fathom.search.signals import endings_blocked
from fathom.search.study.hardware.memory import kernel_kills
from fathom.search.study.store_uri import TrackingError, check_form, is_new_file, sqlite_path
from fathom.search.tracking.stores.artifacts import strange_artifacts
from fathom.search.tracking.stores.made_here import is_stamped
from fathom.search.tracking.stores.messages import (
    CLOSE_SECONDS,
    GOES_ON,
    Close,
    DataSet,
    TrackedStudy,
)

log = logging.getLogger(__name__)

QUIET_SECONDS = 20.0
"""Most seconds to wait for the first loss of a trial before the follower starts, if the store is
known to be usable: until then there is little to write, and the machine is busy starting
workers."""
START_SECONDS = 300.0
"""Most seconds to wait until the follower has loaded MLflow, which takes a minute on a busy
machine."""
GRACE_SECONDS = 30.0
"""Most seconds without a message from the follower while it writes the last items."""


class Tracker:
    """Mirrors one study into MLflow through a separate process; as a context manager, it closes
    itself at the end.

    If the store may be another person's and is not trusted, it writes nothing and says why.

    Raises:
        TrackingError: when the address is malformed or its SQLite file cannot be used; for what
            only MLflow can tell, see `confirm`.
    """

    def __init__(self, study: TrackedStudy) -> None:
        self._must_be_checked = self._closing = False
        # Asked first: what a stranger's database has beside it may harm as soon as it is opened.
        problem = "" if study.trusted else strange_artifacts(study.uri, study.study)
        self._ended = bool(problem)
        if problem:
            log.warning("nothing is written to MLflow: %s", problem)
            return
        check_form(study.uri)
        path = sqlite_path(study.uri)
        known = is_new_file(study.uri) or (path is not None and is_stamped(path))
        self._must_be_checked = not known
        self._folder = study.folder
        self._environment = dict(os.environ)  # as it is now, with what the store may ask for
        self._checked: Future[TrackingError | None] = Future()
        self._missing: Future[int] = Future()
        self._link, self._far_end = Pipe()
        self._starting = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._heard = 0.0
        self._killed_before = kernel_kills()
        self._send(study)
        self._timer = threading.Timer(QUIET_SECONDS, self._start)
        self._timer.daemon = True
        if known and study.searching:
            self._timer.start()
        else:
            self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, KeyboardInterrupt):
            self.leave()
        self.close()

    def confirm(self) -> None:
        """Waits until MLflow confirms that it can use the address.

        A new file, or one that this MLflow has used before, needs no answer.

        Raises:
            TrackingError: when MLflow cannot use it.
        """
        if self._must_be_checked and (refusal := self._checked.result()):
            raise refusal

    def trial(self, record: TrialRecord) -> None:
        """Starts the follower once a trial has a loss, unless it runs already."""
        if record.curve:
            self._start()

    def data(self, data: DataSet) -> None:
        """Sends the description of the data set to the follower."""
        self._send(data)

    def conclude(self, conclusion: Conclusion) -> None:
        """Sends the answers to the follower, which reads everything else from the run folder."""
        self._start()
        self._send(replace(conclusion, records=()))

    def leave(self) -> None:
        """Lets the follower write what is left and end every run, without waiting for it."""
        if not self._ended:
            self._hang_up(CLOSE_SECONDS)
            self._ended = True

    def close(self, timeout_seconds: float = CLOSE_SECONDS) -> int:
        """Has the follower write what is left and end every run; returns how many items could not
        be written.

        Does nothing if this method or `leave` was called before.
        """
        if self._ended:
            return 0
        self._hang_up(timeout_seconds)
        started = wait([self._checked], START_SECONDS).done
        self._heard = time.monotonic()
        while started and time.monotonic() < self._heard + GRACE_SECONDS:
            if wait([self._missing], GRACE_SECONDS).done:
                break
        missing = self._missing.result() if self._missing.done() else 1
        self._link.close()
        if self._process:
            self._process.kill()  # SIGTERM is blocked in it
            self._process.wait()
        self._ended = True
        return missing

    def _hang_up(self, seconds: float) -> None:
        self._start()
        self._closing = True
        self._send(Close(seconds))

    def _send(self, message: TrackedStudy | DataSet | Conclusion | Close) -> None:
        if self._ended:
            return
        with suppress(OSError):  # the other process is gone, as the listener says
            self._link.send(message)

    def _start(self) -> None:
        if self._ended:
            return
        with self._starting:
            if self._process is None:
                self._timer.cancel()
                self._process = _start(self._far_end, self._environment)
                threading.Thread(target=self._listen, name="mlflow", daemon=True).start()

    def _listen(self) -> None:
        """Reads the follower's messages: whether the store is usable, lines to print, and the
        number of items left."""
        try:
            self._checked.set_result(refusal := self._link.recv())
            if refusal and not self._must_be_checked:
                log.warning("nothing is written to MLflow: %s", refusal)
            while isinstance(message := self._link.recv(), str):
                self._heard = time.monotonic()
                if message != GOES_ON:
                    log.warning("%s", message)
            self._missing.set_result(message)
        except (EOFError, OSError):
            if not self._checked.done():
                self._checked.set_result(None)
            self._missing.set_result(1)
            if not (self._checked.result() or self._closing):
                killed = kernel_kills() > self._killed_before
                log.warning(
                    "the process that writes to MLflow has ended%s; the search goes on, and "
                    "`%s` writes what is missing",
                    ", as the kernel killed a process for lack of memory" if killed else "",
                    shell_command("fathom", "report", self._folder),
                )


def _start(link: Connection, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    """Starts the follower's process; from then on, that process alone holds its end of the link.

    The process has a session of its own, so that neither Ctrl-C nor a SIGTERM or SIGHUP to the
    whole job ends it before the search has sent its findings.
    """
    with link, endings_blocked():
        return subprocess.Popen(
            # Without -P a file `random.py` in the working folder would be run by it.
            [
                sys.executable,
                "-P",
                "-m",
                "fathom.search.tracking.writing.follower",
                str(link.fileno()),
            ],
            pass_fds=(link.fileno(),),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            # It outlives the search: `fathom run 2>&1 | tee log` would wait for it.
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
